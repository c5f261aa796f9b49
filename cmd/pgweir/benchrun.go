package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"text/tabwriter"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/experiment"
	"github.com/pgweir/pgweir/cmd/internal/bench/report"
	"github.com/pgweir/pgweir/cmd/internal/bench/scenario"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// peersEnv is where the default of --peers-root comes from.
const peersEnv = "PEERS_ROOT"

// scenarioOptions are the arguments of `bench run`.
type scenarioOptions struct {
	scenario.Options
	json, html string
}

// as is the environment of another command.
func (e *env) as(c command) *env {
	other := *e
	other.cmd = &c
	return &other
}

// benchList is `pgweir bench list`, for its usage.
func benchList() command {
	return command{name: "bench list", summary: "list the experiments of `pgweir bench run`"}
}

// benchRun is `pgweir bench run`, for its usage.
func benchRun() command {
	return command{
		name: "bench run", args: "NAME...",
		summary: "play experiments against poolers, and compare with what was published",
		detail: `
Starts a temporary Postgres on a free port of 127.0.0.1, and one pooler after the other
in front of it, all with the same number of server connections; sends the same load
through each; and shows side by side what came of it, with what others have published
in brackets. Then it shows what the guard has to reach, and whether it did: exit code 1
if not. Everything that it started ends with it.

  pgweir bench run E1
  pgweir bench run E1 E4 --against pgweir:guard,pgweir:fifo,pgbouncer --html out.html

A target is pgweir with its default policy; pgweir:POLICY with another one (fifo,
fifo-gone, fifo-deadline, bounded, lifo, lifo-deadline, codel, priority); pgweir:off or
pgweir:dry_run; pgbouncer or odyssey as they are by default; pgbouncer:tuned as somebody
would set it up who knows the load; pgbouncer:query_wait_timeout=0.2 with any settings of
its own; postgres for the database with nothing between; or the URL of anything else,
which then needs what the experiment's statements use.`,
	}
}

// listBench lists the scenarios.
func listBench(e *env, args []string) int {
	f := e.flags()
	long := f.Bool("long", false, "also what each shows, and its targets")
	if _, code, ok := e.parse(f, args, 0); !ok {
		return code
	}
	t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	for _, s := range experiment.All() {
		fmt.Fprintf(t, "%s\t%s\n", s.Name, s.Title)
		if *long {
			_ = t.Flush() // columns begin anew below; a lost output is nobody's loss
			s.Describe(e.stdout)
		}
	}
	_ = t.Flush()
	return exitOK
}

// runScenarios runs scenarios and says whether the targets were met.
func runScenarios(ctx context.Context, e *env, args []string) int {
	var o scenarioOptions
	list, code, ok := o.parse(e, args)
	if !ok {
		return code
	}
	var err error
	if o.Program, err = os.Executable(); err != nil {
		e.errorf("pgweir bench: %v\n", err)
		return exitError
	}
	// A closed terminal would end this process before it can end the others.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	met, err := o.run(ctx, e, list)
	switch {
	case err == nil && met:
		return exitOK
	case err == nil:
		e.errorf("pgweir bench: a target was missed\n")
	case errors.Is(err, pgtest.ErrNoPostgres):
		e.errorf("pgweir bench: %v\n\nA load for a Postgres on another machine needs none here: pgweir bench --dsn URL\n", err)
	default:
		e.errorf("pgweir bench: %v\n", err)
	}
	return exitError
}

// parse reads the arguments: names of scenarios, with flags before, between and behind them.
// It returns false with an exit code when there is nothing left to do.
func (o *scenarioOptions) parse(e *env, args []string) (list []scenario.Scenario, code int, ok bool) {
	f := e.flags()
	f.Func("against", "run against these `targets`: pgweir, pgweir:POLICY, pgbouncer[:NAME=VALUE,...], odyssey, postgres, a URL", func(text string) error {
		more, err := stage.ParseTargets(text)
		o.Against = append(o.Against, more...)
		return err
	})
	f.Float64Var(&o.Scale, "scale", 1, "make the load longer or shorter by this `factor`; the targets stay what they are")
	f.StringVar(&o.PeersRoot, "peers-root", e.getenv(peersEnv), "a `directory` with a Debian tree that PgBouncer and Odyssey are run from by chroot ($"+peersEnv+"); else those in PATH")
	f.StringVar(&o.json, "json", "", "write the figures to this `FILE`")
	f.StringVar(&o.html, "html", "", "write a page with plots to this `FILE`")
	names, code, ok := e.parse(f, args, -1)
	if !ok {
		return nil, code, false
	}
	if len(names) == 0 {
		return nil, e.misuse("name a scenario; pgweir bench list has them"), false
	}
	if o.Scale < 0.01 || o.Scale > 100 {
		return nil, e.misuse("--scale must be 0.01 to 100"), false
	}
	for _, name := range names {
		found, err := experiment.Find(name)
		if err != nil {
			return nil, e.misuse(err.Error()), false
		}
		list = append(list, found...)
	}
	return list, exitOK, true
}

// run runs one scenario after the other, and writes the reports' files at the end of each.
func (o *scenarioOptions) run(ctx context.Context, e *env, list []scenario.Scenario) (met bool, err error) {
	met = true
	out := &oneAtATime{w: e.stdout}
	screen := e.benchScreen()
	screen.Out = out
	var results []*bench.Result
	var checks []bench.Check
	title := "pgweir bench"
	for _, s := range list {
		title += " " + s.Name
		fmt.Fprintf(out, "\n%s: %s\n", s.Name, s.Title)
		options := o.Options
		options.Out = out
		options.Live = func(l *bench.Load) (func(bench.Mark), func()) {
			live := report.NewLive(screen, l)
			return live.Look, live.End
		}
		r, runErr := scenario.Run(ctx, s, options)
		ok, err := r.Print(out)
		met = met && ok
		verdicts, verdictErr := r.Verdicts()
		results, checks = append(results, r.Results()...), append(checks, verdicts...)
		if err := errors.Join(runErr, err, verdictErr, writeBench(o.json, o.html, title, results, checks)); err != nil {
			return false, err
		}
	}
	return met, nil
}

// oneAtATime lets one writer after the other write: events are told while a line for each
// second is.
type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (o *oneAtATime) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
