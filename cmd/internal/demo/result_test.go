package demo

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

func TestNewResult(t *testing.T) {
	first := &pgconn.PgError{Severity: "ERROR", Code: "53300", Message: "pgweir: no"}
	other := errors.New("cut")
	list := schedule(15 * time.Second)
	one := func(due, took time.Duration, what bench.Outcome) bench.Record {
		return bench.Record{Due: due, Sent: due, Took: took, Whole: took, Outcome: what, Last: true, Attempt: 1}
	}
	r := newResult(policies()[guarded], list, &bench.Result{
		Load: load(list), Causes: []bench.Cause{{}}, Refusal: first, Failure: other,
		Counts: bench.Counts{Lost: 2, Unable: 1, Left: 2}, Most: bench.Servers{Open: 6, Executed: 4},
		Records: []bench.Record{
			one(0, time.Millisecond, bench.Served),
			one(4*time.Second, 2*time.Millisecond, bench.Refused),
			one(4*time.Second, 3*time.Millisecond, bench.Refused),
			one(4*time.Second, time.Second, bench.GaveUp),
			one(12*time.Second, 5*time.Millisecond, bench.Failed),
			one(12*time.Second, 6*time.Millisecond, bench.Unsent),
		},
	})
	want := []part{
		{served: bench.Times{time.Millisecond}},
		{refused: bench.Times{2 * time.Millisecond, 3 * time.Millisecond}, gaveUp: 1},
		{failed: 2},
	}
	for i := range want {
		want[i].stretch = list[i]
	}
	if diff := cmp.Diff(want, r.phases, cmp.AllowUnexported(part{}, stretch{}, phase{})); diff != "" {
		t.Error(diff)
	}
	if r.refusal != first || r.failure != other || r.lost != 3 || r.reopened != 2 || r.wasted() != 3 || r.failed() != 2 || r.servers != 6 {
		t.Errorf("%+v", r)
	}
	if p := r.phases[overload]; p.asked() != 3 || p.rate(p.asked()) != 0.375 {
		t.Errorf("%d asked, %g/s", p.asked(), p.rate(p.asked()))
	}
	r.executed = 0 // a count that lags behind
	if r.wasted() != 0 {
		t.Error("less than nothing was wasted")
	}
}

func TestRecovery(t *testing.T) {
	list := schedule(15 * time.Second)
	begin := list[goodDay].length + list[overload].length
	quick, slow := nap, 4*nap
	// Ten arrivals in each window after the overload, as f has them.
	visits := func(f func(window, i int) (time.Duration, bench.Outcome)) []bench.Record {
		all := []bench.Record{{Due: begin - 1, Took: slow, Outcome: bench.GaveUp}}
		for window := range int(list[after].length / judged) {
			for i := range 10 {
				took, what := f(window, i)
				all = append(all, bench.Record{Due: begin + time.Duration(window)*judged + time.Duration(i), Took: took, Outcome: what})
			}
		}
		return all
	}
	since := func(n int) func(window, i int) (time.Duration, bench.Outcome) {
		return func(window, i int) (time.Duration, bench.Outcome) {
			if window < n {
				return slow, bench.Served
			}
			return quick, bench.Served
		}
	}
	for name, c := range map[string]struct {
		f    func(window, i int) (time.Duration, bench.Outcome)
		want time.Duration
		ok   bool
	}{
		"at once":                  {since(0), 0, true},
		"later":                    {since(6), 6 * judged, true},
		"never":                    {since(1000), 0, false},
		"only for the last window": {since(int(list[after].length/judged) - 1), 0, false},
		"refusals are not normal": {func(window, i int) (time.Duration, bench.Outcome) {
			if window < 3 && i < 2 {
				return quick, bench.Refused
			}
			return quick, bench.Served
		}, 3 * judged, true},
		"one in ten is": {func(_, i int) (time.Duration, bench.Outcome) {
			if i == 0 {
				return quick, bench.Refused
			}
			return quick, bench.Served
		}, 0, true},
		"one good window is chance": {func(window, _ int) (time.Duration, bench.Outcome) {
			if window == 1 || window >= 4 {
				return quick, bench.Served
			}
			return time.Second, bench.GaveUp
		}, 4 * judged, true},
		"half may be slow": {func(_, i int) (time.Duration, bench.Outcome) {
			if i < 5 {
				return slow, bench.Served
			}
			return quick, bench.Served
		}, 0, true},
	} {
		if got, ok := recovery(visits(c.f), list); got != c.want || ok != c.ok {
			t.Errorf("%s: %v %v, want %v %v", name, got, ok, c.want, c.ok)
		}
	}
	if _, ok := recovery(nil, list); ok {
		t.Error("recovered without anybody")
	}
}
