package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/pgweir/pgweir/config/values"
)

// Exit codes of every subcommand.
const (
	exitOK    = 0
	exitError = 1 // it started and failed
	exitUsage = 2 // wrong arguments or a wrong configuration: nothing was started
)

// command is one subcommand.
type command struct {
	name    string
	args    string // for the usage line, after the name and the flags
	summary string // one line, for the list
	signals bool   // it has its own way with signals; else SIGINT and SIGTERM end ctx
	detail  string // for `pgweir help NAME`; flags are listed below it
	run     func(ctx context.Context, e *env, args []string) int
}

// env is what a subcommand may touch of the process.
type env struct {
	stdout, stderr io.Writer
	getenv         func(string) string
	cmd            *command // the one that runs
}

// commands is the table of subcommands, in the order of the list.
func commands() []command {
	return []command{
		serveCommand(),
		checkCommand(),
		demoCommand(),
		benchCommand(),
		simulateCommand(),
		versionCommand(),
		helpCommand(),
	}
}

// run is the program: it finds the subcommand, runs it and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, getenv func(string) string) int {
	e := &env{stdout: stdout, stderr: stderr, getenv: getenv}
	if len(args) == 0 {
		overview(stderr)
		return exitUsage
	}
	name, args := args[0], args[1:]
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "-version", "--version":
		name = "version"
	}
	list := commands()
	i := slices.IndexFunc(list, func(c command) bool { return c.name == name })
	if i < 0 {
		return unknownCommand(stderr, name, list)
	}
	e.cmd = &list[i]
	if !e.cmd.signals {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
	}
	return e.cmd.run(ctx, e, args)
}

// unknownCommand answers to a name that is not in the table.
func unknownCommand(w io.Writer, name string, list []command) int {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.name
	}
	_, _ = fmt.Fprintf(w, "pgweir: %q is not a command", name)
	if near := values.Nearest(name, names); near != "" {
		_, _ = fmt.Fprintf(w, "; did you mean %q?", near)
	}
	_, _ = fmt.Fprintf(w, "\nThe commands are: %s. See pgweir help.\n", strings.Join(names, ", "))
	return exitUsage
}

// flags is the flag set of the running subcommand. Its errors and its help go to stderr.
func (e *env) flags() *flag.FlagSet {
	f := flag.NewFlagSet(e.cmd.name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // parse prints, in our words
	return f
}

// parse reads the arguments of a subcommand, flags before or after the others. It returns
// the others, and false with an exit code when there is nothing left to do.
func (e *env) parse(f *flag.FlagSet, args []string, most int) (rest []string, code int, ok bool) {
	for {
		if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
			usage(e.stdout, e.cmd, f)
			return nil, exitOK, false
		} else if err != nil {
			return nil, e.misuse(err.Error()), false
		}
		args = f.Args()
		if len(args) == 0 {
			return rest, exitOK, true
		}
		if len(rest) == most {
			return nil, e.misuse(fmt.Sprintf("unexpected argument %q", args[0])), false
		}
		rest, args = append(rest, args[0]), args[1:]
	}
}

// misuse reports wrong arguments.
func (e *env) misuse(message string) int {
	e.errorf("pgweir %s: %s\nSee pgweir help %s.\n", e.cmd.name, message, e.cmd.name)
	return exitUsage
}

// printf writes to standard output. Who closes it early does not want the rest.
func (e *env) printf(format string, args ...any) { _, _ = fmt.Fprintf(e.stdout, format, args...) }

// errorf writes to standard error.
func (e *env) errorf(format string, args ...any) { _, _ = fmt.Fprintf(e.stderr, format, args...) }
