package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/config/schema"
)

func checkCommand() command {
	return command{
		name:    "check",
		args:    "FILE",
		summary: "tell what is wrong with a configuration, or what it will do",
		detail: `
Reads the file as pgweir would, connects to nothing and changes nothing. A wrong file
is answered with all of its problems, each with its place and what to write instead,
and exit code 2. A right one is answered with the plan: listeners, budget, slots, the
parts of the workloads and their queues, with the sums behind each number, and exit
code 0.

What Postgres has to say about its limits is not asked here. The plan shows what
would follow from the numbers given as flags; without flags these are the defaults
of a fresh Postgres.`,
		run: check,
	}
}

// check prints problems or the plan.
func check(_ context.Context, e *env, args []string) int {
	f := e.flags()
	defaults := f.Bool("defaults", false, "print every key with its default and meaning, as a file to start from, and exit")
	reference := f.Bool("reference", false, "print the reference of all keys in Markdown, and exit")
	facts := config.Facts{}
	f.IntVar(&facts.MaxConnections, "max-connections", 100, "assume this `number` for Postgres's max_connections (100)")
	f.IntVar(&facts.SuperuserReserved, "superuser-reserved", 3, "assume this `number` for superuser_reserved_connections (3)")
	f.IntVar(&facts.ReservedConnections, "reserved", 0, "assume this `number` for reserved_connections (0)")
	f.IntVar(&facts.OtherBackends, "others", 0, "assume this `number` of connections that others hold (0)")
	f.IntVar(&facts.RoleLimit, "role-limit", -1, "assume this `number` for the role's CONNECTION LIMIT (-1, none)")
	rest, code, ok := e.parse(f, args, 1)
	switch {
	case !ok:
		return code
	case *defaults && *reference:
		return e.misuse("--defaults or --reference?")
	case *defaults && len(rest) > 0:
		return e.misuse("--defaults needs no file")
	case *reference && len(rest) > 0:
		return e.misuse("--reference needs no file")
	case *defaults:
		e.printf("%s", schema.Defaults())
		return exitOK
	case *reference:
		e.printf("%s", schema.Reference())
		return exitOK
	case len(rest) == 0:
		return e.misuse("which file? pgweir check --defaults prints one to start from")
	}
	c, problems := config.LoadEnv(rest[0], e.getenv)
	if len(problems) > 0 {
		e.problems(problems)
		return exitUsage
	}
	_, err := users(c.Auth)
	if err == nil {
		_, err = authSettings(c.Auth)
	}
	if err != nil {
		e.errorf("%v\n", err)
		return exitUsage
	}
	if _, err = frontTLS(&c.TLS); err != nil {
		e.errorf("%v\n", err)
		return exitUsage
	}
	e.printf("%s", planText(c, facts, fileWarnings(c, time.Now())))
	return exitOK
}

// problems prints why a configuration is refused.
func (e *env) problems(list []config.Problem) {
	for _, p := range list {
		e.errorf("%s\n\n", p.Detail())
	}
	e.errorf("%s\n", plural(len(list), "problem"))
}

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
