package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
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
Starts a temporary Postgres on a free port of 127.0.0.1 and sends it the same requests
twice, up to twice as many as fit: first through a queue without bounds, as poolers
have it by default, then guarded. It shows both second by second, and at the end side
by side: who was served in time, who was told to come back, who gave up.

With --serve the guarded pgweir and its Postgres stay up for your own psql. With
--load 2x as well, its console and its status page have something to show.

It needs the programs of a Postgres server (initdb, postgres), no running one, and
touches none that runs. Everything that it started ends with it.`,
		run: runDemo,
	}
}

// runDemo runs the demonstration until its end or ctx's.
func runDemo(ctx context.Context, e *env, args []string) int {
	o, code, ok := e.demoOptions(args)
	if !ok {
		return code
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

// demoOptions reads the arguments. It returns false with an exit code when there is
// nothing left to do.
func (e *env) demoOptions(args []string) (o demo.Options, code int, ok bool) {
	f := e.flags()
	f.IntVar(&o.Seconds, "seconds", 0, fmt.Sprintf("send the requests for this `number` of seconds each time, %d to %d (%d)",
		demo.MinSeconds, demo.MaxSeconds, demo.DefaultSeconds))
	short := f.Bool("short", false, fmt.Sprintf("for those in a hurry: --seconds %d", demo.ShortSeconds))
	f.BoolVar(&o.Serve, "serve", false, "stay up after that, until Ctrl-C")
	f.BoolVar(&o.NoLoad, "no-load", false, "with --serve: stay up at once, without the two runs")
	f.Func("load", "with --serve: keep this `multiple` of what fits coming, such as 0.6x or 2x", func(text string) (err error) {
		o.Load, err = demo.ParseLoad(text)
		return err
	})
	if _, code, ok := e.parse(f, args, 0); !ok {
		return o, code, false
	}
	switch {
	case *short && given(f, "seconds"):
		return o, e.misuse("--short and --seconds exclude each other"), false
	case (o.NoLoad || o.Load > 0) && !o.Serve:
		return o, e.misuse("--no-load and --load need --serve"), false
	case *short:
		o.Seconds = demo.ShortSeconds
	case !given(f, "seconds"):
		o.Seconds = demo.DefaultSeconds
	case o.Seconds < demo.MinSeconds || o.Seconds > demo.MaxSeconds:
		return o, e.misuse(fmt.Sprintf("--seconds must be %d to %d", demo.MinSeconds, demo.MaxSeconds)), false
	}
	o.Out = e.stdout
	o.Terminal = isTerminal(e.stdout) && e.getenv("TERM") != "dumb"
	o.Colors = o.Terminal && e.getenv("NO_COLOR") == ""
	o.Unicode = e.showsUnicode()
	return o, exitOK, true
}

// given reports whether a flag was on the command line.
func given(f *flag.FlagSet, name string) bool {
	found := false
	f.Visit(func(one *flag.Flag) { found = found || one.Name == name })
	return found
}

// showsUnicode reports whether the locale's characters are those of UTF-8: the first of its
// variables that is set says so.
func (e *env) showsUnicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToLower(e.getenv(name)); value != "" {
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
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
