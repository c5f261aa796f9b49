package scenario

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// Each scenario says what it is, has a load that can be sent, targets that exist and
// sentences that are understood.
func TestScenariosAreConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		if s.Name == "" || s.Title == "" || s.Shows == "" || s.Source == "" {
			t.Errorf("%s does not say what it is", s.Name)
		}
		if seen[s.Name] {
			t.Errorf("two scenarios are called %s", s.Name)
		}
		seen[s.Name] = true
		targets, err := stage.ParseTargets(s.Against)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if !slices.ContainsFunc(targets, func(o stage.Target) bool { return o.String() == subject }) {
			t.Errorf("%s is not about %s", s.Name, subject)
		}
	}
	for _, wanted := range []string{
		"E1", "E2", "E3", "E3i", "E3ii", "E4", "E5", "E9", "E10", "E11", "E14", "E15", "E16", "E17", "E18", "E19",
		"E21", "E23", "E24", "E25", "E26", "E27", "E28", "tenfold", "e1-lognormal",
	} {
		if list, err := Find(wanted); err != nil || len(list) == 0 {
			t.Errorf("%s: %v", wanted, err)
		}
	}
	if _, err := Find("E99"); err == nil {
		t.Error("E99 is found")
	}
}

func TestSentencesOfScenarios(t *testing.T) {
	for _, s := range All() {
		checks, err := s.checks()
		if err != nil {
			t.Error(err)
		}
		if len(checks) == 0 {
			t.Errorf("%s demands nothing", s.Name)
		}
		columns, err := s.columns()
		if err != nil {
			t.Error(err)
		}
		metrics := columns
		for _, c := range checks {
			metrics = append(metrics, c.Metric)
			again, err := ParseCheck(c.String())
			if err != nil || again != c {
				t.Errorf("%s: %v is read as %v, %v", s.Name, c, again, err)
			}
		}
		for _, m := range metrics {
			again, err := ParseMetric(m.String())
			if err != nil || again != m {
				t.Errorf("%s: %v is read as %v, %v", s.Name, m, again, err)
			}
			if m.Of != "" && !slices.ContainsFunc(s.Load.Streams, func(o bench.Stream) bool { return o.Title() == m.Of }) {
				t.Errorf("%s: %v: no such stream", s.Name, m)
			}
			if length := s.Load.Length(); m.To > length && length > 0 {
				t.Errorf("%s: %v: the load ends at %v", s.Name, m, length)
			}
			if _, known := metricUnits()[m.Name]; !known && s.After == nil && s.Instead == nil && s.Events == nil {
				t.Errorf("%s: nobody measures %v", s.Name, m)
			}
		}
		for target, row := range s.Published {
			if len(row) > len(columns) {
				t.Errorf("%s: %s has %d values for %d columns", s.Name, target, len(row), len(columns))
			}
			if o, err := stage.ParseTarget(target); err != nil || o.String() != target {
				t.Errorf("%s: %q is published, which is %v, %v", s.Name, target, o, err)
			}
		}
	}
}

func TestLoadsCanBeSent(t *testing.T) {
	for _, s := range All() {
		if s.Name == "E14" {
			continue // pgbench's
		}
		if err := s.Load.Check(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		short := s.scaled(0.5)
		if err := short.Load.Check(); err != nil {
			t.Errorf("%s, shortened: %v", s.Name, err)
		}
		if want := s.Load.Length() / 2; short.Load.Length() != want && s.Load.Length() != 2*short.Load.Length() {
			t.Errorf("%s of %v is shortened to %v", s.Name, s.Load.Length(), short.Load.Length())
		}
		for i, e := range s.Events {
			if e.At > s.Load.Length() {
				t.Errorf("%s: %s happens after the end", s.Name, e.Name)
			}
			if short.Events[i].At != e.At/2 || s.Events[i].At != e.At {
				t.Errorf("%s: %s", s.Name, e.Name)
			}
		}
		for _, one := range s.Load.Streams {
			roles := append([]string{"", stage.Role}, s.Stage.Roles...)
			databases := append([]string{"", stage.Database}, s.Stage.Databases...)
			if !slices.Contains(roles, one.User) || !slices.Contains(databases, one.Database) {
				t.Errorf("%s: %s is nobody on the stage", s.Name, one.Title())
			}
		}
	}
}

// Whatever policy it is run with, the files that a scenario writes for pgweir are valid.
func TestPlansAreValidFiles(t *testing.T) {
	for _, s := range All() {
		for i := range admission.Policies {
			text := s.Plan.Text(stage.Target{Kind: stage.Pgweir, Policy: admission.Policy(i)})
			path := filepath.Join(t.TempDir(), "pgweir.toml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, problems := config.LoadEnv(path, func(string) string { return "" }); len(problems) > 0 {
				t.Errorf("%s with %v: %v in\n%s", s.Name, admission.Policy(i), problems, text)
			}
		}
	}
}

func TestParseRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, text := range []string{
		"", "goodput", "goodput > 98/s", "goodput >= 98", "p99 <= 130", "p99 <= ms", "served >= 99", "Goodput >= 98/s",
		"goodput >= 98/s in 10-15", "goodput >= 98/s in 15s-10s", "goodput >= 98/s at 3s", "goodput >= 98/s of", "timeouts = NaN",
	} {
		if c, err := ParseCheck(text); !errors.Is(err, ErrSentence) {
			t.Errorf("%q is read as %v, %v", text, c, err)
		}
	}
	c, err := ParseCheck("refusal-p99 <= 2ms of critical by queue_wait in 10s-15s")
	want := Check{Metric{"refusal-p99", "critical", "queue_wait", 10 * time.Second, 15 * time.Second}, "<=", 2}
	if err != nil || c != want {
		t.Errorf("%+v, %v", c, err)
	}
	if !c.Met(2) || c.Met(2.1) || !(Check{Op: ">=", Bound: 3}).Met(3) || (Check{Op: "=", Bound: 0}).Met(1) || c.Met(nan()) {
		t.Error("Met is wrong")
	}
}

// outcome is a run of two streams: one was served for two seconds, the other refused.
func outcome() *Outcome {
	r := &bench.Result{
		Load: bench.Load{
			Phases:  []bench.Phase{{Rate: 10, For: 2 * time.Second}},
			Streams: []bench.Stream{{Name: "a", Share: 1}, {Name: "b", Share: 1}},
		},
		Took:   2 * time.Second,
		Causes: []bench.Cause{{}, {Code: "53300", Reason: "queue_wait"}},
		Counts: bench.Counts{Arrived: 20, Done: 10},
	}
	for i := range 10 {
		due := time.Duration(i) * 200 * time.Millisecond
		r.Records = append(r.Records,
			bench.Record{Due: due, Sent: due, Took: 50 * time.Millisecond, Whole: 50 * time.Millisecond, Last: true, Kept: true, Attempt: 1, Done: 1},
			bench.Record{Due: due, Sent: due, Took: time.Millisecond, Stream: 1, Cause: 1, Outcome: bench.Refused, Last: true, Kept: true, Attempt: 1})
	}
	return &Outcome{Target: subject, Result: r, Extra: map[string]float64{"own-ms": 3}, by: 1}
}

func TestValues(t *testing.T) {
	o := outcome()
	for text, want := range map[string]float64{
		"arrived": 20, "goodput": 5, "goodput in 0s-1s": 5, "served": 50, "served of a": 100, "served-count of b": 0,
		"p50": 50, "p99 of a": 50, "refused": 10, "refused by queue_wait": 10, "refused by rate": 0, "refused in 0s-1s": 5,
		"refused-share": 50, "refusal-p50": 1, "refusal-p99 by queue_wait": 1, "timeouts": 0, "attempts": 1, "reconnects": 0,
		"jain": 0.5, "own-ms": 3,
	} {
		m, err := ParseMetric(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := o.Value(m); !ok || got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s is %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"p50 of b", "refusal-p50 of a", "unheard-of", "wasted", "backends"} {
		m, err := ParseMetric(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := o.Value(m); ok {
			t.Errorf("%s is %v", text, got)
		}
	}
}

func TestReport(t *testing.T) {
	s := Scenario{
		Name: "X", Title: "a test", Columns: []string{"goodput", "p50 of a", "own-ms"}, Source: "a book",
		Published: map[string][]string{subject: {"98", "49", "-"}},
		Checks:    []string{"goodput >= 4/s", "p50 <= 10ms of a", "p99 <= 1ms of b"},
	}
	r := &Report{Scenario: s, Outcomes: []*Outcome{outcome()}}
	var b strings.Builder
	met, err := r.Print(&b)
	if err != nil || met {
		t.Error(met, err)
	}
	for _, want := range []string{"5!", "[98]", "50ms", "p50 ms", "own-ms", "a book", "MISSED", "ok"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	verdicts, err := r.Verdicts()
	if err != nil || len(verdicts) != 3 || !verdicts[0].OK || verdicts[1].OK || verdicts[2].OK {
		t.Errorf("%+v, %v", verdicts, err)
	}
}

func TestNumbers(t *testing.T) {
	if j := jain([]float64{1, 1, 1, 1}); j != 1 {
		t.Error(j)
	}
	if j := jain([]float64{4, 0, 0, 0}); j != 0.25 {
		t.Error(j)
	}
	middle, upper := ratio([]float64{2, 4, 8}, []float64{1, 2, 4})
	if middle < 1.999 || middle > 2.001 || upper < middle-1e-9 || upper > 2.001 {
		t.Error(middle, upper)
	}
	middle, upper = ratio([]float64{2, 4, 8, 4}, []float64{1, 2.2, 4, 2})
	if !(upper > middle) {
		t.Error(middle, upper)
	}
	for v, want := range map[float64]string{98: "98/s", 98.26: "98.3/s", 0.0342: "0.034/s", 1012.4: "1012/s", 1.234: "1.23/s", 250: "250/s"} {
		if got := write(v, perSecond); got != want {
			t.Errorf("%v is written %s", v, got)
		}
	}
}

// One scenario for a second, from the command's options to the verdicts.
func TestRunAgainstPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL")
	}
	program, err := pgtest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	s := Scenario{
		Name: "smoke", Title: "a little of everything", Source: "none",
		Plan:    stage.Plan{Slots: 2, ByPolicy: map[string]string{"guard": `max_wait = "500ms"`}},
		Load:    bench.Load{Phases: []bench.Phase{{Rate: 40, For: time.Second}}, Even: true, Streams: quarterCritical(bench.Work{Mean: 5 * time.Millisecond}, bench.Nap)},
		Columns: []string{"goodput", "seen"}, Samples: true,
		Events: []Event{{At: time.Second / 2, Name: "half of it", Do: nextRequest(0)}},
		Checks: []string{"served >= 1%", "seen = 1", "wasted <= 40", "next-ms >= 0ms"},
		After: func(_ context.Context, s *Scene) error {
			s.Outcome.note("seen", min(1, float64(s.samples.mostBusy(0, time.Minute))))
			if s.samples.busyTime(0, time.Minute) <= 0 || s.Front.Process() != nil && s.samples.usageAt(time.Minute).Memory <= 0 {
				t.Error("the samples are empty")
			}
			return nil
		},
	}
	var log strings.Builder
	r, err := Run(t.Context(), s, Options{Program: program, Against: stage.MustTargets("pgweir,postgres"), Out: &log})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	met, err := r.Print(&log)
	if err != nil || !met || len(r.Outcomes) != 2 || len(r.Results()) != 2 {
		t.Errorf("%v, %v\n%s", met, err, log.String())
	}
	if !strings.Contains(log.String(), "at 500ms: half of it") {
		t.Errorf("the event is missing:\n%s", log.String())
	}
}
