package scenario

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
	"github.com/pgweir/pgweir/integration/pgtest"
)

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
	if !c.Met(2) || c.Met(2.1) || !(Check{Op: ">=", Bound: 3}).Met(3) || (Check{Op: "=", Bound: 0}).Met(1) || c.Met(math.NaN()) {
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
	return &Outcome{Target: Subject, Result: r, Extra: map[string]float64{"own-ms": 3}, by: 1}
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
		Published: map[string][]string{Subject: {"98", "49", "-"}},
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
	for v, want := range map[float64]string{98: "98/s", 98.26: "98.3/s", 0.0342: "0.034/s", 1012.4: "1012/s", 1.234: "1.23/s", 250: "250/s"} {
		if got := write(v, perSecond); got != want {
			t.Errorf("%v is written %s", v, got)
		}
	}
}

// oneMore is a request besides the load's.
func oneMore(ctx context.Context, s *Scene) error {
	conn, err := s.Connect(ctx, stage.Role, "next")
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT 1").ReadAll()
	s.Outcome.Note("next-ms", 1)
	return errors.Join(err, conn.Close(ctx))
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
		Plan: stage.Plan{Slots: 2, ByPolicy: map[string]string{"guard": `max_wait = "500ms"`}},
		Load: bench.Load{Phases: []bench.Phase{{Rate: 40, For: time.Second}}, Even: true, Streams: []bench.Stream{{
			Class: "critical", Share: 1, Patience: time.Second,
			Queries: []bench.Query{{Statements: []string{bench.Nap}, Work: bench.Work{Mean: 5 * time.Millisecond}}},
		}}},
		Columns: []string{"goodput", "seen"}, Samples: true,
		Events: []Event{{At: time.Second / 2, Name: "half of it", Do: oneMore}},
		Checks: []string{"served >= 1%", "seen = 1", "wasted <= 40", "next-ms >= 0ms"},
		After: func(_ context.Context, s *Scene) error {
			s.Outcome.Note("seen", min(1, float64(s.Seen.MostBusy(0, time.Minute))))
			if s.Seen.BusyTime(0, time.Minute) <= 0 || s.Front.Process() != nil && s.Seen.UsageAt(time.Minute).Memory <= 0 {
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
