package sim

import (
	"flag"
	"testing"
)

var (
	seeds = flag.Int("seeds", 2000, "how many seeds the simulation runs")
	first = flag.Int64("seed", 1, "the first seed")
)

// TestSeeds runs the simulation. A failure prints its seed; run it alone with
// -seed=N -seeds=1.
func TestSeeds(t *testing.T) {
	var sum Result
	for seed := *first; seed < *first+int64(*seeds); seed++ {
		r, err := Run(seed)
		if err != nil {
			t.Fatalf("seed %d: %v\n%+v", seed, err, r)
		}
		sum.add(r)
	}
	t.Logf("%+v", sum)
}
