package bench

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyLoad is a load of a few seconds.
func anyLoad(t *rapid.T) Load {
	l := Load{Even: rapid.Bool().Draw(t, "even"), Seed: rapid.Uint64().Draw(t, "seed")}
	for range rapid.IntRange(1, 4).Draw(t, "phases") {
		l.Phases = append(l.Phases, Phase{
			Rate: float64(rapid.IntRange(0, 300).Draw(t, "rate")),
			For:  time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond,
		})
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "streams") {
		s := Stream{Name: string(rune('a' + i)), Queries: []Query{{Statements: []string{"SELECT 1"}, IDs: rapid.IntRange(0, 9).Draw(t, "ids")}}}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			s.Rate = float64(rapid.IntRange(1, 100).Draw(t, "own"))
		case 1:
			s.Clients, s.Each = 1, 1
		default:
			s.Share = rapid.Float64Range(0.01, 5).Draw(t, "share")
		}
		for n := range rapid.IntRange(0, 5).Draw(t, "tenants") {
			s.Tenants = append(s.Tenants, string(rune('A'+n)))
		}
		l.Streams = append(l.Streams, s)
	}
	if l.shares() == 0 {
		l.Streams[0] = Stream{Name: "a", Share: 1, Queries: l.Streams[0].Queries}
	}
	return l
}

// expected is how many arrivals of a stream are to be expected.
func (l *Load) expected(s *Stream) float64 {
	sum := 0.0
	for _, p := range l.Phases {
		switch {
		case s.Clients > 0:
		case s.Rate > 0:
			sum += s.Rate * p.For.Seconds()
		default:
			sum += p.Rate * p.For.Seconds() * s.Share / l.shares()
		}
	}
	return sum
}

func TestArrivalsKeepTheSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLoad(t)
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		all := slices.Collect(l.Arrivals())
		n := make([]float64, len(l.Streams))
		for i, a := range all {
			if a.Due < 0 || a.Due >= l.Length() || i > 0 && a.Due < all[i-1].Due {
				t.Fatalf("%d: due at %v of %v, after %v", i, a.Due, l.Length(), all[max(i-1, 0)].Due)
			}
			s := &l.Streams[a.Stream]
			ids := s.Queries[0].IDs
			if ids == 0 {
				ids = defaultIDs
			}
			if a.Tenant < 0 || a.Tenant >= max(1, len(s.Tenants)) || a.ID < 1 || a.ID > ids {
				t.Fatalf("%+v of %+v", a, s)
			}
			n[a.Stream]++
		}
		for i := range n {
			want := l.expected(&l.Streams[i])
			// Six sigma of chance; in turn, what phases and streams round away.
			off := 6*math.Sqrt(want) + 4
			if l.Even {
				off = float64(len(l.Phases) + len(l.Streams))
			}
			if math.Abs(n[i]-want) > off {
				t.Errorf("stream %d has %g arrivals, want about %g", i, n[i], want)
			}
		}
		if again := slices.Collect(l.Arrivals()); !slices.Equal(all, again) {
			t.Error("the same load has other arrivals")
		}
	})
}

func TestEvenArrivals(t *testing.T) {
	l := Load{Even: true, Phases: []Phase{{Rate: 10, For: time.Second}, {Rate: 4, For: time.Second}}, Streams: []Stream{
		{Name: "a", Share: 0.25, Queries: nap(0)}, {Name: "b", Share: 0.75, Tenants: []string{"x", "y"}, Queries: nap(0)},
	}}
	var due []time.Duration
	n := map[[2]int]int{}
	for a := range l.Arrivals() {
		due = append(due, a.Due)
		n[[2]int{a.Stream, a.Tenant}]++
	}
	if len(due) != 14 || due[1] != 100*time.Millisecond || due[10] != time.Second || due[11] != 1250*time.Millisecond {
		t.Errorf("%v", due)
	}
	if a, x, y := n[[2]int{0, 0}], n[[2]int{1, 0}], n[[2]int{1, 1}]; a < 3 || a > 4 || x-y > 1 || y-x > 1 {
		t.Errorf("%v", n)
	}
}

// In turn, no prefix strays from the weights.
func TestChooserInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 8).Draw(t, "weights")
		weights[0] += 0.1
		c := newChooser(weights, true, nil)
		n := make([]float64, len(weights))
		for k := 1; k <= 200; k++ {
			n[c.choose()]++
			for i, w := range weights {
				if off := n[i] - float64(k)*w/c.sum; math.Abs(off) > float64(len(weights)) {
					t.Fatalf("after %d choices %d is off by %g", k, i, off)
				}
			}
		}
	})
}

func TestWorkHasItsMean(t *testing.T) {
	random := (&Load{Seed: 7}).random(0)
	for _, w := range []Work{{50 * time.Millisecond, 0}, {50 * time.Millisecond, 0.5}, {50 * time.Millisecond, 1}} {
		sum, least := 0.0, time.Hour
		const n = 200_000
		for range n {
			d := w.draw(random)
			sum += float64(d)
			least = min(least, d)
		}
		if mean := sum / n; math.Abs(mean/float64(w.Mean)-1) > 0.02 || least < 0 {
			t.Errorf("%+v: a mean of %v", w, time.Duration(mean))
		}
	}
}

// A change of one stream leaves what the others do.
func TestStreamsDoNotDisturbEachOther(t *testing.T) {
	two := Load{Phases: []Phase{{Rate: 0, For: time.Second}}, Streams: []Stream{
		{Name: "a", Rate: 50, Queries: []Query{{Statements: []string{"x"}, Work: Work{time.Second, 1}}}},
		{Name: "b", Rate: 70, Queries: nap(0)},
	}}
	of := func(l Load) (list []Arrival) {
		for a := range l.Arrivals() {
			if a.Stream == 0 {
				list = append(list, a)
			}
		}
		return list
	}
	before := of(two)
	two.Streams = slices.Clone(two.Streams)
	two.Streams[1].Rate = 10
	if len(before) == 0 || !slices.Equal(before, of(two)) {
		t.Error("they do")
	}
}
