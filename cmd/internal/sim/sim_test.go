package sim

import (
	"flag"
	"runtime"
	"sync"
	"testing"
)

var (
	seeds = flag.Int("seeds", 3000, "how many seeds the simulation runs")
	first = flag.Int64("seed", 1, "the first seed")
)

// TestSeeds runs the simulation, one world per seed. A failure prints its seed; run it alone
// with -seed=N -seeds=1. Traps 1, 2, 3, 4, 5, 43, 44, 45.
func TestSeeds(t *testing.T) {
	var (
		mu   sync.Mutex
		sum  Result
		work sync.WaitGroup
	)
	shards := int64(min(runtime.GOMAXPROCS(0), *seeds))
	for shard := range shards {
		work.Go(func() {
			var mine Result
			for seed := *first + shard; seed < *first+int64(*seeds) && !t.Failed(); seed += shards {
				r, err := Run(seed)
				if err != nil {
					t.Errorf("seed %d: %v\n%+v", seed, err, r)
					return
				}
				mine.add(r)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(mine)
		})
	}
	work.Wait()
	t.Logf("%d seeds: %+v", *seeds, sum)
}

// TestSameSeedSameWorld is what makes a failure's seed worth printing.
func TestSameSeedSameWorld(t *testing.T) {
	for seed := int64(1); seed <= 20; seed++ {
		a, errA := Run(seed)
		b, errB := Run(seed)
		if errA != nil || errB != nil || a != b {
			t.Fatalf("seed %d: %+v (%v) and %+v (%v)", seed, a, errA, b, errB)
		}
	}
}
