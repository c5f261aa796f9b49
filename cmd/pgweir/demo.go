package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/cmd/internal/demo"
	"github.com/pgweir/pgweir/integration/pgtest"
)

func demoCommand() command {
	return command{
		name:    "demo",
		summary: "show pgweir at work with a temporary Postgres",
		detail: `
Starts a temporary Postgres and pgweir in front of it, on free ports of 127.0.0.1,
prints how to reach both, and drives a load through pgweir: first one that fits, then
twice what fits. At the end it tells what pgweir let in, what it refused and how fast.

It needs the programs of a Postgres server (initdb, postgres), no running one, and
touches none that runs. Everything that it started ends with it.`,
		run: runDemo,
	}
}

// runDemo runs the demonstration until its end or ctx's.
func runDemo(ctx context.Context, e *env, args []string) int {
	f := e.flags()
	o := demo.Options{Out: e.stdout, Terminal: isTerminal(e.stdout) && e.getenv("TERM") != "dumb"}
	f.IntVar(&o.Seconds, "seconds", demo.DefaultSeconds, fmt.Sprintf("drive the load for this `number` of seconds, %d to %d (%d)",
		demo.MinSeconds, demo.MaxSeconds, demo.DefaultSeconds))
	f.BoolVar(&o.Serve, "serve", false, "keep both servers up after the load, until Ctrl-C")
	if _, code, ok := e.parse(f, args, 0); !ok {
		return code
	}
	if o.Seconds < demo.MinSeconds || o.Seconds > demo.MaxSeconds {
		return e.misuse(fmt.Sprintf("--seconds must be %d to %d", demo.MinSeconds, demo.MaxSeconds))
	}
	var err error
	if o.Program, err = os.Executable(); err != nil {
		e.errorf("pgweir demo: %v\n", err)
		return exitError
	}
	// A closed terminal or a closed pipe would end this process before it can end the
	// others and remove their files.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	// The signal also comes from a connection whose peer is gone, which is no
	// reason to end: only a closed output is, and the write says so.
	signal.Ignore(syscall.SIGPIPE)
	o.Out = &untilClosed{o.Out, stop}
	return e.demoEnded(ctx, demo.Run(ctx, o))
}

// untilClosed calls stop when nobody reads its output any more.
type untilClosed struct {
	io.Writer
	stop func()
}

// Write implements io.Writer.
func (u *untilClosed) Write(p []byte) (int, error) {
	n, err := u.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		u.stop()
	}
	return n, err
}

// demoEnded reports an error of the demonstration, and gives the exit code.
func (e *env) demoEnded(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		e.errorf("pgweir demo: ended early: %v\n", err)
	case errors.Is(err, pgtest.ErrNoPostgres):
		e.errorf("pgweir demo: %v\n\nTo guard a Postgres on another machine you need none here: pgweir serve --upstream URL\n", err)
	default:
		e.errorf("pgweir demo: %v\n", err)
	}
	return exitError
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
