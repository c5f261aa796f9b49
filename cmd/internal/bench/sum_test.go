package bench

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := Times(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 100).Draw(t, "x"))
		}), 1, 300).Draw(t, "times"))
		slices.Sort(list)
		p := float64(rapid.IntRange(1, 1000).Draw(t, "per mille")) / 10
		at := list.At(p)
		upTo, below := 0, 0
		for _, d := range list {
			if d <= at {
				upTo++
			}
			if d < at {
				below++
			}
		}
		// The least value that so many are not above.
		need := p / 100 * float64(len(list))
		if float64(upTo) < need-1e-6 || float64(below) >= need+1e-6 {
			t.Errorf("p%g of %v is %v", p, list, at)
		}
	})
	if (Times{}).At(50) != 0 || (Times{}).Max() != 0 || (Times{1, 2, 3}).Max() != 3 {
		t.Error("of none, or the longest")
	}
}

// anyResult is a result whose requests have one attempt or more.
func anyResult(t *rapid.T) *Result {
	r := &Result{
		Load: Load{Phases: []Phase{{Rate: 10, For: time.Second}, {Rate: 20, For: 2 * time.Second}}, Streams: []Stream{
			{Class: "critical", Share: 1, Tenants: []string{"a", "b"}, Queries: nap(0)},
			{Name: "rest", Class: "sheddable", Share: 1, Queries: nap(0)},
			{Name: "more", Class: "sheddable", Share: 1, Queries: nap(0)},
		}},
		Causes: []Cause{{}, {Code: "53300"}, {Reason: "patience"}},
	}
	for range rapid.IntRange(0, 40).Draw(t, "requests") {
		one := Record{Due: time.Duration(rapid.IntRange(0, 2999).Draw(t, "due")) * time.Millisecond, Stream: int32(rapid.IntRange(0, 2).Draw(t, "stream"))}
		if one.Stream == 0 {
			one.Tenant = int32(rapid.IntRange(0, 1).Draw(t, "tenant"))
		}
		attempts := rapid.IntRange(1, 3).Draw(t, "attempts")
		for n := 1; n <= attempts; n++ {
			one.Attempt, one.Last = uint8(n), n == attempts
			one.Sent = max(one.Sent+one.Took, one.Due)
			one.Took = time.Duration(rapid.IntRange(0, 100).Draw(t, "took")) * time.Millisecond
			one.Whole += one.Took
			one.Outcome, one.Cause, one.Kept, one.Done = Refused, 1, rapid.Bool().Draw(t, "kept"), int32(rapid.IntRange(0, 3).Draw(t, "done"))
			if one.Last && rapid.Bool().Draw(t, "served") {
				one.Outcome, one.Cause = Served, 0
			}
			r.Records = append(r.Records, one)
		}
	}
	return r
}

// Sums of parts are the sum of the whole, however it is divided.
func TestSumsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyResult(t)
		all := r.Sum(Filter{})
		cut := time.Duration(rapid.IntRange(1, 2999).Draw(t, "cut")) * time.Millisecond
		for name, parts := range map[string][]Filter{
			"time":   {{To: cut}, {From: cut}},
			"class":  {{Class: "critical"}, {Class: "sheddable"}},
			"stream": {{Stream: "critical"}, {Stream: "rest"}, {Stream: "more"}},
			"tenant": {{Tenant: "a"}, {Tenant: "b"}, {Class: "sheddable"}},
		} {
			var sum Sum
			for _, f := range parts {
				p := r.Sum(f)
				sum.Asked += p.Asked
				for o := range p.By {
					sum.By[o] += p.By[o]
				}
				sum.Retries += p.Retries
				sum.Lost += p.Lost
				sum.Done += p.Done
				sum.Broken += p.Broken
				sum.Took = append(sum.Took, p.Took...)
				sum.Told = append(sum.Told, p.Told...)
				sum.Last = max(sum.Last, p.Last)
			}
			slices.Sort(sum.Took)
			slices.Sort(sum.Told)
			sum.Length, sum.Why = all.Length, all.Why
			if diff := cmp.Diff(all, sum); diff != "" {
				t.Errorf("by %s: %s", name, diff)
			}
		}
		why := 0
		for _, w := range all.Why {
			why += w.N
		}
		served := all.By[Served]
		if all.Asked != served+all.By[Refused] || len(all.Took) != served || why != len(r.Records)-served || all.Retries != len(r.Records)-all.Asked {
			t.Errorf("%+v of %d records", all, len(r.Records))
		}
		if all.Length != 3*time.Second || math.Abs(all.Goodput()*3-float64(served)) > 1e-6 {
			t.Errorf("%g/s over %v", all.Goodput(), all.Length)
		}
	})
}

func TestWindows(t *testing.T) {
	l := Load{Phases: []Phase{{Rate: 80, For: 5 * time.Second}, {Name: "much", Rate: 200, For: 7 * time.Second}}}
	want := []Window{{"80/s", 0, 5 * time.Second}, {"much", 5 * time.Second, 12 * time.Second}}
	if diff := cmp.Diff(want, l.Windows()); diff != "" {
		t.Error(diff)
	}
	l.Window = 5 * time.Second
	want = []Window{{"80/s", 0, 5 * time.Second}, {"much", 5 * time.Second, 10 * time.Second}, {"much", 10 * time.Second, 12 * time.Second}}
	if diff := cmp.Diff(want, l.Windows()); diff != "" {
		t.Error(diff)
	}
}

func TestTallyBoundsCauses(t *testing.T) {
	tally := newTally(false)
	for i := range 3 * maxCauses {
		tally.add(Record{Last: true, Outcome: Failed, Attempt: 1}, Cause{Code: string(rune('A' + i))}, nil)
	}
	if len(tally.causes) > maxCauses+1 || len(tally.records) != 3*maxCauses || tally.now().By[Failed] != 3*maxCauses {
		t.Errorf("%d causes, %d records", len(tally.causes), len(tally.records))
	}
}

func TestSharesOfNothing(t *testing.T) {
	if s := (Sum{}); s.Share() != 1 || s.Goodput() != 0 {
		t.Error(s.Share(), s.Goodput())
	}
	if (&Result{Most: Servers{Executed: 9}}).Wasted() != 0 || (&Result{Counted: true, Most: Servers{Executed: 9}, Counts: Counts{Done: 4}}).Wasted() != 5 {
		t.Error("wasted")
	}
}
