package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/simulate"
	"github.com/pgweir/pgweir/config"
)

func simulateCommand() command {
	return command{
		name:    "simulate",
		summary: "try a configuration with a load in virtual time, before production",
		detail: `
Plays a load against the admission that pgweir serve uses, in virtual time and with
models of clients and database, and says who would have been served, refused and when,
or have given up. It connects to nothing. A million requests take about a second.

  pgweir simulate --config pgweir.toml --load 80x5s,200x10s,80x10s \
    --stream app_name=web,role=app,share=75%,service=20ms,spread=lognormal:1,patience=1s \
    --stream app_name=cron,role=batch,share=25%,class=sheddable,service=200ms \
    --change default.max_wait=500ms

A load is requests per second x duration, one phase after the other. A stream is what
some clients do, with these properties:

  app_name, role, database  who they are; the configuration finds their workload
  class, tenant, tenants    what they say of themselves; tenants=100 is a hundred of them
  share=75%                 their part of the load, or
  rate=400/s                arrivals beside it, or
  clients=15,queries=5000,think=10ms
                            clients of which each asks again when it was answered
  service=50ms              how long a statement takes on average; several kinds are
                            service=8ms@80%+40ms@20%
  spread=fixed              how that varies: fixed, exp, lognormal:1 (its sigma)
  patience=1s               how long a client waits, and then
  leave=close               closes its connection, sends a cancel or just walks away
  deadline=patience         what it tells pgweir of that: none, patience or a duration
  expected=learned          what pgweir knows of the service time: none, median, mean,
                            upper (9 of 10), exact, or what it learns by itself
  statements=10,gap=1ms     pages of several statements; the first refusal ends a page
  retries=3,retry_within=100ms,retry=hint,attempt=told
                            what a client does that was refused or has given up
  sessions=newest           its pool hands out the connection used last; oldest, fresh

An event is freeze=5s..8s, slow=0.5:5s..8s, no_login=5s..8s or restart=5s..7s.`,
		run: runSimulate,
	}
}

// simulation is what the arguments say.
type simulation struct {
	in       simulate.Input
	files    [2]string // --config and --compare
	changes  map[string]string
	policies string
	preset   string
	seeds    int
	json     bool
	overhead time.Duration
	beside   string // a file of the bench
	bench    bool   // the preset has an experiment of the bench
}

// runSimulate plays what the arguments say and prints what became of it.
func runSimulate(ctx context.Context, e *env, args []string) int {
	s := &simulation{changes: map[string]string{}}
	f := e.flags()
	s.flags(f)
	presets := f.Bool("presets", false, "list the presets, and exit")
	if _, code, ok := e.parse(f, args, 0); !ok {
		return code
	}
	if *presets {
		for _, p := range simulate.Presets() {
			e.printf("%-12s %s\n", p.Name, p.About)
		}
		return exitOK
	}
	list, notes, focus, code := e.inputs(s, f)
	if code != exitOK {
		return code
	}
	return e.simulate(ctx, s, list, notes, focus)
}

// flags declares the flags.
func (s *simulation) flags(f *flag.FlagSet) {
	f.StringVar(&s.files[0], "config", "", "the configuration's `FILE`; without one, the defaults with --slots")
	f.StringVar(&s.files[1], "compare", "", "play another configuration's `FILE`, too, and print both")
	f.Func("change", "play it with one `KEY=VALUE` changed as well, as SET at the console; more make one change together", func(text string) error {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return fmt.Errorf("write key=value, such as max_wait=500ms")
		}
		s.changes[key] = value
		return nil
	})
	f.StringVar(&s.policies, "policies", "", "play the policies of this `LIST`, or all, instead of the configuration's queue")
	f.StringVar(&s.preset, "preset", "", "play the scenario of this `NAME`; --presets lists them")
	f.IntVar(&s.seeds, "seeds", 0, "play this `number` of seeds, and print means (1, or the preset's)")
	f.StringVar(&s.beside, "beside", "", "print what pgweir bench run --json has written to this `file` beside a preset that plays the same")
	f.DurationVar(&s.overhead, "overhead", 0, "`how long` a statement holds its slot beyond its own time, on average (0, or the preset's)")
	f.BoolVar(&s.json, "json", false, "print JSON")
	f.IntVar(&s.in.Slots, "slots", 0, "transactions at once, a `number`, instead of the configuration's")
	f.StringVar(&s.in.Load, "load", "", "requests per second and for how long: `RATExTIME,...`, such as 80x5s,200x10s")
	f.Func("stream", "what some clients do, as `KEY=VALUE,...`; may be given several times", add(&s.in.Streams))
	f.Func("event", "an `EVENT` that happens to the database, such as freeze=5s..8s; may be given several times", add(&s.in.Events))
	f.IntVar(&s.in.Facts.MaxConnections, "max-connections", 100, "assume this `number` for Postgres's max_connections, where the budget is auto (100)")
	f.IntVar(&s.in.Database.Cores, "cores", 0, "a `number`: more statements than that at once slow each other down (0, never)")
	f.DurationVar(&s.in.Database.Connect, "connect", simulate.DefaultConnect, "the `duration` of a login to the database (5ms)")
	f.DurationVar(&s.in.Window, "window", 0, "print figures for windows of this `duration` (5s)")
	f.BoolVar(&s.in.Even, "even", false, "let requests come at even distances, not at random times")
	f.BoolVar(&s.in.Oracle, "replay", false, "replay each refusal, to find those in vain")
}

// add is a flag that may be given several times.
func add(list *[]string) func(string) error {
	return func(text string) error {
		*list = append(*list, text)
		return nil
	}
}

// inputs are the scenarios to be played, with what to print before and which window to look at.
func (e *env) inputs(s *simulation, f *flag.FlagSet) (list []simulate.Named, notes []string, focus, code int) {
	switch {
	case s.seeds < 0 || s.seeds > 1000:
		return nil, nil, 0, e.misuse("--seeds must be 1 to 1000")
	case s.preset != "":
		return e.presetInputs(s, f)
	case s.beside != "":
		return nil, nil, 0, e.misuse("--beside needs a --preset that plays the same, such as E1")
	case s.overhead < 0:
		return nil, nil, 0, e.misuse("--overhead must not be negative")
	case s.in.Load == "":
		return nil, nil, 0, e.misuse("which load? Write --load 80x5s,200x10s, or choose one of --presets")
	}
	for i, file := range s.files {
		if i == 1 && file == "" {
			continue
		}
		c, code := e.simulated(file, s.in.Slots, nil)
		if code != exitOK {
			return nil, nil, 0, code
		}
		list = s.add(list, file, c)
		if i == 0 && len(s.changes) > 0 {
			if c, code = e.simulated(file, s.in.Slots, s.changes); code != exitOK {
				return nil, nil, 0, code
			}
			list = s.add(list, "changed", c)
		}
	}
	return list, nil, 0, exitOK
}

// add adds a configuration with each of the policies.
func (s *simulation) add(list []simulate.Named, name string, c *config.Config) []simulate.Named {
	if name == "" {
		name = "defaults"
	}
	in := s.in
	in.Config = c
	in.Facts.SuperuserReserved, in.Facts.RoleLimit = 3, -1
	in.Database.Overhead = s.overhead
	in.Database.Close, in.Database.Cancel = simulate.DefaultClose, simulate.DefaultCancel
	if s.policies == "" {
		return append(list, simulate.Named{Name: name, Input: in})
	}
	for _, policy := range s.names() {
		in.Policy = policy
		full := policy
		if s.files[1] != "" || len(s.changes) > 0 {
			full = name + ", " + policy
		}
		list = append(list, simulate.Named{Name: full, Input: in})
	}
	return list
}

// names are the policies to be played.
func (s *simulation) names() []string {
	if s.policies == "all" {
		return simulate.PolicyNames()
	}
	return strings.Split(s.policies, ",")
}

// presetInputs are the scenarios of a preset.
func (e *env) presetInputs(s *simulation, f *flag.FlagSet) (list []simulate.Named, notes []string, focus, code int) {
	for _, other := range []string{"config", "compare", "load", "stream", "event", "slots", "even", "window", "cores", "connect", "replay", "max-connections"} {
		if given(f, other) {
			return nil, nil, 0, e.misuse("--preset and --" + other + " exclude each other")
		}
	}
	p, ok := simulate.FindPreset(s.preset)
	if !ok {
		return nil, nil, 0, e.misuse(fmt.Sprintf("there is no preset %q; --presets lists them", s.preset))
	}
	policies := p.Policies()
	if s.policies != "" {
		policies = s.names()
	}
	list, err := p.Inputs(policies, s.changes)
	if err != nil {
		return nil, nil, 0, e.misuse(err.Error())
	}
	if s.seeds == 0 {
		s.seeds = p.Seeds
	}
	s.bench = p.Bench != ""
	if s.beside != "" && !s.bench {
		return nil, nil, 0, e.misuse("--beside: there is no experiment that plays preset " + p.Name)
	}
	if given(f, "overhead") {
		for i := range list {
			list[i].Database.Overhead = s.overhead
		}
	}
	if len(p.Published) > 0 {
		notes = append([]string{"published:"}, p.Published...)
	}
	return list, notes, p.Focus, exitOK
}

// simulated reads a configuration; without a file it is the default one.
func (e *env) simulated(file string, slots int, changes map[string]string) (*config.Config, int) {
	o := config.Options{Getenv: e.getenv, Set: changes}
	var c *config.Config
	var problems []config.Problem
	if file == "" {
		if slots == 0 {
			return nil, e.misuse("which configuration? Write --config pgweir.toml, or --slots for the default one")
		}
		c, problems = o.FromURL("postgres://app@localhost/postgres")
	} else {
		c, problems = o.Load(file)
	}
	if len(problems) > 0 {
		e.problems(problems)
		return nil, exitUsage
	}
	return c, exitOK
}

// simulate plays the scenarios and prints.
func (e *env) simulate(ctx context.Context, s *simulation, list []simulate.Named, notes []string, focus int) int {
	var names []string
	var reports []*simulate.Report
	begun := time.Now()
	requests := 0.0
	for _, one := range list {
		scenario, err := simulate.Build(one.Input)
		if err != nil {
			return e.misuse(err.Error())
		}
		r := simulate.Sweep(ctx, scenario, max(s.seeds, 1))
		if r == nil {
			e.errorf("pgweir simulate: ended early\n")
			return exitError
		}
		names, reports = append(names, one.Name), append(reports, r)
		requests += r.Requests
	}
	if s.json {
		return e.simulatedJSON(names, reports)
	}
	if code := e.printSimulated(s, names, reports, focus); code != exitOK {
		return code
	}
	for _, line := range notes {
		e.printf("%s\n", line)
	}
	e.errorf("%.0f requests in %.2f s\n", requests, time.Since(begun).Seconds())
	return exitOK
}

// printSimulated prints the reports for people.
func (e *env) printSimulated(s *simulation, names []string, reports []*simulate.Report, focus int) int {
	var err error
	switch {
	case s.beside != "":
		return e.printBeside(s, names, reports)
	case s.bench:
		err = simulate.WriteRows(e.stdout, rowsOf(names, reports))
	case len(reports) == 1:
		err = reports[0].Write(e.stdout)
	default:
		err = simulate.Compare(e.stdout, names, reports, focus)
	}
	if err != nil {
		return exitError // nobody reads it
	}
	return exitOK
}

// simulatedJSON prints the reports by name.
func (e *env) simulatedJSON(names []string, reports []*simulate.Report) int {
	type named struct {
		Name string `json:"name"`
		*simulate.Report
	}
	list := make([]named, len(names))
	for i := range names {
		list[i] = named{names[i], reports[i]}
	}
	out := json.NewEncoder(e.stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(list); err != nil {
		return exitError // nobody reads it
	}
	return exitOK
}
