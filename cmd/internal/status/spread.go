package status

import (
	"math"
	"time"

	"github.com/pgweir/pgweir/admission"
)

// spread is the waits of one sample.
type spread struct {
	n       uint64
	buckets [admission.WaitBuckets]uint64
	limits  [admission.WaitBuckets]float64 // s, the longest max_wait of those in a bucket
}

// add adds the waits between two states of a distribution, that of a workload which allows
// so long a wait.
func (s *spread) add(now, before *admission.Waits, limit time.Duration) {
	for i := range now.Buckets {
		if now.Buckets[i] > before.Buckets[i] {
			s.buckets[i] += now.Buckets[i] - before.Buckets[i]
			s.n += now.Buckets[i] - before.Buckets[i]
			s.limits[i] = max(s.limits[i], seconds(limit))
		}
	}
}

// quantile is the wait, in seconds, that the part q of all did not exceed: interpolated
// between the bounds of its bucket, which are a factor of two apart. The bucket that max_wait
// lies in ends there, or the figure would be one that nobody may have waited. nil if nobody
// waited.
func (s *spread) quantile(q float64) *float64 {
	if s.n == 0 {
		return nil
	}
	rank := q * float64(s.n)
	var below, high float64
	for i, n := range s.buckets {
		if n == 0 {
			continue
		}
		var low float64
		low, high = bucketBounds(i)
		if low < s.limits[i] {
			high = min(high, s.limits[i])
		}
		if below+float64(n) >= rank {
			return new(low + (high-low)*max(0, rank-below)/float64(n))
		}
		below += float64(n)
	}
	return &high // by rounding
}

// bucketBounds are the bounds of bucket i of admission.Waits in seconds.
func bucketBounds(i int) (low, high float64) {
	if i == 0 {
		return 0, 1e-6
	}
	return math.Ldexp(1e-6, i-1), math.Ldexp(1e-6, i)
}
