package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAgendaNamesTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "sources")
		a := newAgenda(n)
		due := make([]int64, n)
		for i := range due {
			due[i] = never
		}
		for range rapid.IntRange(1, 50).Draw(t, "changes") {
			i, at := rapid.IntRange(0, n-1).Draw(t, "source"), rapid.Int64Range(0, 9).Draw(t, "at")
			if at == 9 {
				at = never
			}
			due[i] = at
			a.set(i, at)
			source, first := a.next()
			if want := slices.Min(due); first != want || want != never && source != slices.Index(due, want) {
				t.Fatalf("%v: %d at %d", due, source, first)
			}
		}
	})
}

func TestLaterKeepsTheOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var h later
	for i := range 1000 {
		h.put(item{at: rnd.Int64N(50), id: i})
	}
	last := item{at: -1, id: -1}
	for range 1000 {
		it := h.take()
		if it.at < last.at || it.at == last.at && it.id < last.id {
			t.Fatalf("%d of %d after %d of %d", it.id, it.at, last.id, last.at)
		}
		last = it
	}
	if h.first() != never {
		t.Fatal("something is left")
	}
}

func TestQuantilesAreRightToAPercent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	var h histogram
	var all []float64
	for range 20_000 {
		v := math.Exp(rnd.NormFloat64()*2) * 5e6
		h.add(int64(v))
		all = append(all, v/1e6)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		if got := h.quantile(q); math.Abs(got/want-1) > 0.01 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	var sum histogram
	sum.merge(&h)
	sum.merge(&histogram{})
	if sum.quantile(0.5) != h.quantile(0.5) || sum.mean() != h.mean() || sum.n != h.n {
		t.Error("merging changes something")
	}
}

func TestBucketsCoverEverything(t *testing.T) {
	last := -1
	for us := uint64(0); us < 1<<20; us++ {
		b := bucket(us)
		if b != last && b != last+1 {
			t.Fatalf("%d us is in bucket %d after %d", us, b, last)
		}
		last = b
		if m := middle(b); math.Abs(m-float64(us)) > 1+float64(us)/100 {
			t.Fatalf("%d us is in the bucket around %v", us, m)
		}
	}
	if bucket(math.MaxUint64) != depth-1 {
		t.Error("the longest time has no bucket")
	}
}
