package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

func helpCommand() command {
	return command{
		name:    "help",
		args:    "[COMMAND]",
		summary: "this overview, or all about one command",
		run:     help,
	}
}

// help prints the overview or runs the named command with -h.
func help(ctx context.Context, e *env, args []string) int {
	rest, code, ok := e.parse(e.flags(), args, 1)
	if !ok {
		return code
	}
	list := commands()
	if len(rest) == 0 {
		overview(e.stdout)
		return exitOK
	}
	i := slices.IndexFunc(list, func(c command) bool { return c.name == rest[0] })
	if i < 0 {
		return unknownCommand(e.stderr, rest[0], list)
	}
	e.cmd = &list[i]
	return e.cmd.run(ctx, e, []string{"-h"})
}

// overview is the answer to somebody who has never seen the program.
func overview(w io.Writer) {
	var b strings.Builder
	b.WriteString(`pgweir stands between applications and Postgres. It keeps the number of server
connections within one budget, lets clients wait briefly and in order, and refuses
the rest at once while they stay connected.

usage: pgweir COMMAND [ARGUMENTS]

`)
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-9s %s\n", c.name, c.summary)
	}
	b.WriteString(`
pgweir help COMMAND tells more.
Exit codes: 0 all went well, 1 it failed while running, 2 wrong arguments or
configuration.
`)
	_, _ = io.WriteString(w, b.String())
}

// usage prints all about one command.
func usage(w io.Writer, c *command, f *flag.FlagSet) {
	var b strings.Builder
	hasFlags := false
	f.VisitAll(func(*flag.Flag) { hasFlags = true })
	b.WriteString("usage: pgweir " + c.name)
	if hasFlags {
		b.WriteString(" [FLAGS]")
	}
	if c.args != "" {
		b.WriteString(" " + c.args)
	}
	b.WriteString("\n\n" + strings.TrimSpace(strings.ToUpper(c.summary[:1])+c.summary[1:]) + ".\n")
	if c.detail != "" {
		b.WriteString("\n" + strings.TrimSpace(c.detail) + "\n")
	}
	if hasFlags {
		b.WriteString("\nflags:\n")
	}
	f.VisitAll(func(one *flag.Flag) {
		value, text := flag.UnquoteUsage(one)
		if value != "" {
			value = " " + value
		}
		fmt.Fprintf(&b, "  --%s%s\n      %s\n", one.Name, value, text)
	})
	_, _ = io.WriteString(w, b.String())
}
