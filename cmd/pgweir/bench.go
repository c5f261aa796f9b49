package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/report"
)

func benchCommand() command {
	return command{
		name:    "bench",
		summary: "send a load to any Postgres endpoint and measure what comes of it",
		detail: `
Sends requests when they are due, whatever became of those before: as users do, and
unlike pgbench, whose clients wait for a slow server and so hide that it is
overloaded. At the end it shows for each phase who was served and how fast, who was
refused and how soon, and who gave up.

  pgweir bench list                 experiments with everything they need
  pgweir bench run E1 --against pgweir:guard,pgweir:fifo,pgbouncer
  pgweir bench --dsn postgres://app@127.0.0.1:6432/shop \
      --load 80x5s,200x10s,80x10s --work 50ms --patience 1s --class critical=25%

Without --query a request is SELECT pg_sleep, which binds a server for --work and
costs no CPU; with --cpu it computes as long. In a query {seconds} and {loops} stand
for --work, {id} for a random number from 1 to 100,000, and {count} for the call that
counts executed statements.

With --direct, the URL of the same Postgres past the pooler, its connections are
counted; with --count, also what it executes for clients that have left: for that a
sequence is created there, and removed at the end.

--stream describes one kind of request and may be repeated; what it does not say is
as the other flags have it. Class, tenant and deadline are told in a trailing comment:

  --stream "name=pages share=80% class=critical tenants=20 deadline=true"
  --stream "name=export share=20% query='3x SELECT ...' page=4 protocol=prepared"
  --stream "name=cron clients=5 each=100 think=1s retry=3@100ms+hint"

Its keys: name share rate clients each think class tenant tenants by_name tell
deadline trace user password database application_name query work page pause go_on
protocol patience leave retry churn read_rate.`,
		run: runBench,
	}
}

// benchOptions are the arguments of a load.
type benchOptions struct {
	target  bench.Target
	load    bench.Load
	base    bench.Stream // of what the streams do not say
	classes []string     // NAME=SHARE
	streams []string
	queries []string
	work    bench.Work
	cpu     bool
	page    int
	count   bool
	json    string
	html    string
	settle  time.Duration
}

// benchFlags declares the arguments of a load.
func (o *benchOptions) benchFlags(f *flag.FlagSet) {
	s := &o.base
	f.StringVar(&o.target.URL, "dsn", "", "send the load to this `URL` ($DATABASE_URL)")
	f.StringVar(&o.target.Direct, "direct", "", "watch the same Postgres at this `URL`, past the pooler")
	f.BoolVar(&o.count, "count", false, "with --direct: count executed statements")
	f.StringVar(&o.target.Name, "name", "", "call the endpoint `NAME` in the report (its address)")
	f.Func("load", "arrivals per second and for how long: `RATExTIME,...`, such as 80x5s,200x10s", func(text string) (err error) {
		o.load.Phases, err = bench.ParsePhases(text)
		return err
	})
	f.BoolVar(&o.load.Even, "even", false, "space arrivals evenly instead of at random")
	f.Uint64Var(&o.load.Seed, "seed", 1, "a `number` for the random times: the same one gives the same run")
	f.DurationVar(&o.load.Window, "window", 0, "report windows of this `duration` instead of the phases")
	f.IntVar(&o.load.Sessions, "sessions", 0, "open a `number` of connections ahead (enough for all whose patience lasts)")
	f.IntVar(&o.load.MaxSessions, "max-sessions", 0, "never have more than this `number` of connections (2000)")
	f.Func("query", "send this `SQL`; several are mixed, with their weight before them: \"3x SELECT ...\"", func(text string) error {
		o.queries = append(o.queries, text)
		_, err := bench.ParseQuery(text)
		return err
	})
	o.work = bench.Work{Mean: 50 * time.Millisecond}
	f.Func("work", "how long a request binds a server: a `duration`, or lognormal:MEAN:SIGMA (50ms)", func(text string) (err error) {
		o.work, err = bench.ParseWork(text)
		return err
	})
	f.BoolVar(&o.cpu, "cpu", false, "compute for the time of --work instead of sleeping")
	f.IntVar(&o.page, "page", 1, "a request is this `number` of statements on one connection, up to the first refusal")
	f.DurationVar(&s.Patience, "patience", 0, "clients give up after this `duration` (never)")
	f.Func("leave", "`what` they do then: close, cancel, cancel-close, or walk, which keeps the connection open (close)", func(text string) (err error) {
		s.Leave, err = bench.ParseLeave(text)
		return err
	})
	f.BoolVar(&s.Deadline, "deadline", false, "clients tell their patience")
	f.Func("class", "a part of the requests has this class: `NAME=SHARE`, such as critical=25%; the rest has none", func(text string) error {
		o.classes = append(o.classes, text)
		return nil
	})
	f.Func("tenants", "requests come from this `number` of tenants evenly", func(text string) error { return s.ParseStream("tenants=" + text) })
	f.Func("tell", "`how` class, tenant and deadline are told: comment, set, startup or none (comment)", func(text string) (err error) {
		s.Tell, err = bench.ParseTell(text)
		return err
	})
	f.Func("protocol", "the `protocol` of queries: simple, extended or prepared (simple)", func(text string) (err error) {
		s.Protocol, err = bench.ParseProtocol(text)
		return err
	})
	f.Func("retry", "who was not served asks again: `N@PAUSE`, at most N times after a random time up to PAUSE, with +hint as long as the refusal says, with +doubling twice as long each time", func(text string) (err error) {
		s.Retry, err = bench.ParseRetry(text)
		return err
	})
	f.IntVar(&s.Churn, "churn", 0, "clients connect anew after this `number` of requests")
	f.IntVar(&s.ReadRate, "read-rate", 0, "clients read so many `bytes` per second")
	f.Func("stream", "one kind of request, in `KEY=VALUE ...` pairs", func(text string) error {
		o.streams = append(o.streams, text)
		return nil
	})
	f.DurationVar(&o.settle, "settle", 10*time.Second, "with --direct: wait up to this `duration` for work of clients that have left")
	f.StringVar(&o.json, "json", "", "write the figures to this `FILE`")
	f.StringVar(&o.html, "html", "", "write a page with plots to this `FILE`")
}

// runBench sends a load and shows the result.
func runBench(ctx context.Context, e *env, args []string) int {
	if len(args) > 0 {
		switch args[0] {
		case "list":
			return listBench(e.as(benchList()), args[1:])
		case "run":
			return runScenarios(ctx, e.as(benchRun()), args[1:])
		}
	}
	o := &benchOptions{}
	f := e.flags()
	o.benchFlags(f)
	if _, code, ok := e.parse(f, args, 0); !ok {
		return code
	}
	if err := o.complete(e.getenv); err != nil {
		return e.misuse(err.Error())
	}
	out := e.benchScreen()
	r, err := o.run(ctx, out)
	if err != nil {
		e.errorf("pgweir bench: %v\n", err)
		return exitError
	}
	results := []*bench.Result{r}
	out.Table(results)
	if err := writeBench(o.json, o.html, "pgweir bench", results, nil); err != nil {
		e.errorf("pgweir bench: %v\n", err)
		return exitError
	}
	return exitOK
}

// complete makes the load out of the arguments.
func (o *benchOptions) complete(getenv func(string) string) error {
	if o.target.URL == "" {
		o.target.URL = getenv("DATABASE_URL")
	}
	switch {
	case o.target.URL == "":
		return errors.New("--dsn or DATABASE_URL has to say where Postgres is")
	case o.count && o.target.Direct == "":
		return errors.New("--count needs --direct")
	}
	if o.count {
		o.target.Counter = "pgweir_bench_executed"
	}
	if o.target.Name == "" {
		o.target.Name = bench.Address(o.target.URL)
	}
	if err := o.setQueries(); err != nil {
		return err
	}
	if err := o.setStreams(); err != nil {
		return err
	}
	if len(o.load.Phases) == 0 && !o.endsByItself() {
		return errors.New("--load has to say how much, such as 100x10s")
	}
	return o.load.Check()
}

// endsByItself reports that all streams are of clients with a number of requests.
func (o *benchOptions) endsByItself() bool {
	for i := range o.load.Streams {
		if s := &o.load.Streams[i]; s.Clients == 0 || s.Each == 0 {
			return false
		}
	}
	return true
}

// setQueries are the queries of streams that have none of their own.
func (o *benchOptions) setQueries() error {
	texts := o.queries
	switch {
	case texts == nil && o.cpu:
		texts = []string{bench.Burn}
	case texts == nil:
		texts = []string{bench.Nap}
	case o.cpu:
		return errors.New("--cpu and --query exclude each other; a query can use {loops}")
	}
	for _, text := range texts {
		q, err := bench.ParseQuery(text)
		if err != nil {
			return err
		}
		q.Work, q.Repeat = o.work, o.page
		o.base.Queries = append(o.base.Queries, q)
	}
	return nil
}

// setStreams are the streams of --stream, or those of --class.
func (o *benchOptions) setStreams() error {
	if o.streams != nil {
		if o.classes != nil {
			return errors.New("--class and --stream exclude each other; a stream has a class")
		}
		for i, text := range o.streams {
			s := o.base
			s.Name = fmt.Sprintf("stream%d", i+1)
			if err := s.ParseStream(text); err != nil {
				return err
			}
			o.load.Streams = append(o.load.Streams, s)
		}
		return nil
	}
	left := 1.0
	for _, text := range o.classes {
		name, share, ok := strings.Cut(text, "=")
		s := o.base
		s.Class = name
		var err error
		if s.Share, err = bench.ParseShare(share); !ok || err != nil || s.Share <= 0 {
			return fmt.Errorf("--class %q: a class and its share, such as critical=25%%", text)
		}
		left -= s.Share
		o.load.Streams = append(o.load.Streams, s)
	}
	if left < -1e-9 {
		return errors.New("the classes are more than 100 %")
	}
	if rest := o.base; left > 1e-9 {
		rest.Share = left
		if o.classes != nil {
			rest.Name = "others"
		}
		o.load.Streams = append(o.load.Streams, rest)
	}
	return nil
}

// run sends the load while the screen shows it.
func (o *benchOptions) run(ctx context.Context, out *report.Screen) (r *bench.Result, err error) {
	if o.count {
		remove, err := o.target.MakeCounter(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, remove()) }()
	}
	live := report.NewLive(out, &o.load)
	defer live.End()
	return bench.Run(ctx, o.target, o.load, bench.Options{Look: live.Look, Settle: o.settle})
}

// benchScreen is where a load is shown.
func (e *env) benchScreen() *report.Screen {
	terminal := isTerminal(e.stdout) && e.getenv("TERM") != "dumb"
	return &report.Screen{
		Out: e.stdout, Rewrites: terminal, Colors: terminal && e.getenv("NO_COLOR") == "", Unicode: e.showsUnicode(),
	}
}

// writeBench writes the report's files; an empty name is none.
func writeBench(jsonFile, htmlFile, title string, results []*bench.Result, checks []bench.Check) error {
	d := report.NewDocument(title, results, checks)
	for _, one := range []struct {
		file  string
		write func(io.Writer) error
	}{{jsonFile, d.WriteJSON}, {htmlFile, d.WriteHTML}} {
		if one.file == "" {
			continue
		}
		f, err := os.Create(one.file)
		if err != nil {
			return err
		}
		if err := errors.Join(one.write(f), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", one.file, err)
		}
	}
	return nil
}
