package costlimit

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestUnknownUntilEnoughSamples(t *testing.T) {
	e := New(10)
	if _, ok := e.Expected(1); ok {
		t.Error("an estimate without a sample")
	}
	for range enough - 1 {
		e.Observe(1, 5e6)
	}
	if _, ok := e.Expected(1); ok {
		t.Error("an estimate of too few samples")
	}
	e.Observe(1, 5e6)
	if p50, ok := e.Expected(1); !ok || math.Abs(float64(p50)/5e6-1) > 0.13 {
		t.Errorf("%d %v", p50, ok)
	}
	if mean, ok := e.Mean(1); !ok || mean != 5e6 {
		t.Errorf("mean %d %v", mean, ok)
	}
}

// The estimate is near the median, at most as far as the bucket next to it, whatever the order
// and the spread.
func TestExpectedIsTheMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(0, 120e9), enough, window-1).Draw(t, "samples")
		e := New(1)
		for _, s := range samples {
			e.Observe(7, s)
		}
		got, _ := e.Expected(7)
		slices.Sort(samples)
		median := samples[len(samples)/2]
		b := bucketOf(median)
		least, most := edge(b-1), 1.5*edge(b+2)
		if b <= 1 {
			least = 0
		}
		if b >= buckets-2 {
			most = 120e9 * 1.5
		}
		if float64(got) < least-1 || float64(got) > most+1 {
			t.Fatalf("%d, the median is %d, of %v", got, median, samples)
		}
	})
}

// However long it goes on, the counts that the median is kept by stay true.
func TestMedianStaysTrueOverHalvings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h histogram
		for range rapid.IntRange(1, 4).Draw(t, "phases") {
			about := rapid.Float64Range(1e4, 1e11).Draw(t, "about")
			for range rapid.IntRange(1, 3*window).Draw(t, "n") {
				h.add(int64(about * rapid.Float64Range(0.2, 5).Draw(t, "spread")))
			}
			var total, below uint32
			for i, n := range h.count {
				if i < int(h.mid) {
					below += uint32(n)
				}
				total += uint32(n)
			}
			if total != h.total || below != h.below || below > total/2 || below+uint32(h.count[h.mid]) <= total/2 {
				t.Fatalf("total %d of %d, below %d of %d at %d", h.total, total, h.below, below, h.mid)
			}
		}
	})
}

// What always takes the same is known much better than the buckets are wide, also on an edge
// of one.
func TestSteadyTimesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		about := rapid.Float64Range(1e6, 1e9).Draw(t, "about")
		if rapid.Bool().Draw(t, "edge") {
			about = edge(rapid.IntRange(10, 50).Draw(t, "bucket"))
		}
		e := New(1)
		for range rapid.IntRange(enough, 600).Draw(t, "n") {
			e.Observe(1, int64(about*rapid.Float64Range(0.995, 1.005).Draw(t, "jitter")))
		}
		if p50, _ := e.Expected(1); float64(p50) < 0.995*about || float64(p50) > 1.015*about {
			t.Fatalf("%d of about %.0f", p50, about)
		}
	})
}

func TestEstimateFollowsAChange(t *testing.T) {
	e := New(1)
	for range 5000 {
		e.Observe(1, 1e6)
	}
	n := 0
	for ; n < window; n++ {
		if p50, _ := e.Expected(1); p50 > 5e7 {
			break
		}
		e.Observe(1, 1e8)
	}
	if n == window {
		t.Error("the median did not follow within a window")
	}
	for range 100 {
		e.Observe(1, 1e8)
	}
	if mean, _ := e.Mean(1); mean < 9e7 {
		t.Errorf("the mean is still %d", mean)
	}
}

// One-time statements do not push out those that come again and again.
func TestOftenUsedStay(t *testing.T) {
	const limit = 100
	e := New(limit)
	for i := range uint64(50_000) {
		e.Observe(i%10, 1e6)
		e.Observe(1000+i, 1e6)
		if e.Len() > limit || len(e.at) != e.Len() {
			t.Fatalf("%d and %d known", e.Len(), len(e.at))
		}
	}
	for i := range uint64(10) {
		if _, ok := e.Expected(i); !ok {
			t.Errorf("%d was forgotten", i)
		}
	}
	if e.Evictions() == 0 {
		t.Error("nothing was forgotten")
	}
}

func TestKnownFingerprintsDoNotAllocate(t *testing.T) {
	e := New(0)
	e.Observe(1, 1e6)
	if n := testing.AllocsPerRun(1000, func() { e.Observe(1, 2e6); e.Expected(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserveAndExpected(b *testing.B) {
	e := New(0)
	for i := range uint64(20_000) {
		e.Observe(i, 1e6)
	}
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		i += 7919
		e.Observe(i%20_000, int64(1e6+i%1e6))
		e.Expected(i % 20_000)
	}
}
