package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestTimes(t *testing.T) {
	var none times
	if none.at(50) != 0 {
		t.Error("a percentile of nothing")
	}
	hundred := make(times, 0, 100)
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, c := range []struct{ percent, want int }{{0, 1}, {1, 1}, {50, 50}, {99, 99}, {100, 100}} {
		if got := hundred.at(c.percent); got != time.Duration(c.want) {
			t.Errorf("p%d is %d, want %d", c.percent, got, c.want)
		}
	}
	if got := (times{7, 3}).at(99); got != 7 {
		t.Errorf("p99 of two is %d", got)
	}
}

func refusal() *pgconn.PgError {
	return &pgconn.PgError{Severity: "ERROR", Code: "53300", Message: "pgweir: no"}
}

func TestJudge(t *testing.T) {
	cases := []struct {
		err    error
		goesOn bool
		want   outcome
	}{
		{nil, true, served},
		{refusal(), true, refused},
		{fmt.Errorf("wrapped: %w", refusal()), true, refused},
		{refusal(), false, failed}, // it took the session with it
		{&pgconn.PgError{Severity: "FATAL", Code: "53300", Message: "pgweir: no"}, false, failed},
		{&pgconn.PgError{Severity: "ERROR", Code: "53300", Message: "too many clients"}, true, failed}, // Postgres itself
		{os.ErrDeadlineExceeded, false, gaveUp},
		{fmt.Errorf("reading: %w", os.ErrDeadlineExceeded), false, gaveUp},
		{context.DeadlineExceeded, false, gaveUp}, // while connecting
		{io.EOF, false, failed},
	}
	for _, c := range cases {
		if got := judge(c.err, c.goesOn); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestTally(t *testing.T) {
	tally := &tally{}
	for range 7 {
		tally.arrive()
	}
	first := refusal()
	other := errors.New("cut")
	tally.add(arrival{0, goodDay}, time.Millisecond, nil, true)
	tally.add(arrival{1, overload}, 2*time.Millisecond, first, true)
	tally.add(arrival{2, overload}, 3*time.Millisecond, refusal(), true)
	tally.add(arrival{3, overload}, time.Second, os.ErrDeadlineExceeded, false)
	tally.add(arrival{12 * time.Second, after}, 5*time.Millisecond, other, false)
	tally.add(arrival{12 * time.Second, after}, 6*time.Millisecond, io.EOF, false)
	tally.opened(nil)
	tally.opened(nil)
	tally.opened(io.EOF)
	if got := tally.now(); got.waiting() != 1 || got.by != [outcomes]int{1, 2, 1, 2} {
		t.Errorf("%+v", got)
	}
	r := tally.result(policies()[guarded], schedule(15*time.Second))
	r.executed = 4
	want := []part{
		{served: times{time.Millisecond}},
		{refused: times{2 * time.Millisecond, 3 * time.Millisecond}, gaveUp: 1},
		{failed: 2},
	}
	for i := range want {
		want[i].stretch = schedule(15 * time.Second)[i]
	}
	if diff := cmp.Diff(want, r.phases, cmp.AllowUnexported(part{}, stretch{}, phase{})); diff != "" {
		t.Error(diff)
	}
	if r.refusal != first || r.failure != other || r.lost != 3 || r.reopened != 2 || r.wasted() != 3 || r.failed() != 2 {
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

func TestEndlessTallyForgets(t *testing.T) {
	tally := &tally{forgets: true}
	tally.add(arrival{}, 1, nil, true)
	if len(tally.visits) != 0 || tally.now().by[served] != 1 {
		t.Errorf("%+v", tally)
	}
}

func TestRecovery(t *testing.T) {
	list := schedule(15 * time.Second)
	begin := list[goodDay].length + list[overload].length
	quick, slow := nap, 4*nap
	// Ten arrivals in each window after the overload, as f has them.
	visits := func(f func(window, i int) (time.Duration, outcome)) []visit {
		all := []visit{{arrival{begin - 1, overload}, slow, gaveUp}}
		for window := range int(list[after].length / judged) {
			for i := range 10 {
				took, what := f(window, i)
				all = append(all, visit{arrival{begin + time.Duration(window)*judged + time.Duration(i), after}, took, what})
			}
		}
		return all
	}
	since := func(n int) func(window, i int) (time.Duration, outcome) {
		return func(window, i int) (time.Duration, outcome) {
			if window < n {
				return slow, served
			}
			return quick, served
		}
	}
	for name, c := range map[string]struct {
		f    func(window, i int) (time.Duration, outcome)
		want time.Duration
		ok   bool
	}{
		"at once":                  {since(0), 0, true},
		"later":                    {since(6), 6 * judged, true},
		"never":                    {since(1000), 0, false},
		"only for the last window": {since(int(list[after].length/judged) - 1), 0, false},
		"refusals are not normal": {func(window, i int) (time.Duration, outcome) {
			if window < 3 && i < 2 {
				return quick, refused
			}
			return quick, served
		}, 3 * judged, true},
		"one in ten is": {func(_, i int) (time.Duration, outcome) {
			if i == 0 {
				return quick, refused
			}
			return quick, served
		}, 0, true},
		"one good window is chance": {func(window, _ int) (time.Duration, outcome) {
			if window == 1 || window >= 4 {
				return quick, served
			}
			return time.Second, gaveUp
		}, 4 * judged, true},
		"half may be slow": {func(_, i int) (time.Duration, outcome) {
			if i < 5 {
				return slow, served
			}
			return quick, served
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
