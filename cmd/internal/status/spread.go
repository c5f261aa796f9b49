package status

import (
	"math"

	"github.com/pgweir/pgweir/admission"
)

// spread is the waits of one sample.
type spread struct {
	buckets [admission.WaitBuckets]uint64
	n       uint64
}

// add adds the waits between two states of a distribution.
func (s *spread) add(now, before *admission.Waits) {
	for i := range now.Buckets {
		if now.Buckets[i] > before.Buckets[i] {
			s.buckets[i] += now.Buckets[i] - before.Buckets[i]
			s.n += now.Buckets[i] - before.Buckets[i]
		}
	}
}

// quantile is the wait, in seconds, that the part q of all did not exceed: interpolated
// between the bounds of its bucket, which are a factor of two apart. nil if nobody waited.
func (s *spread) quantile(q float64) *float64 {
	if s.n == 0 {
		return nil
	}
	rank := q * float64(s.n)
	var below float64
	for i, n := range s.buckets {
		if n == 0 {
			continue
		}
		if below+float64(n) >= rank {
			low, high := bucketBounds(i)
			return new(low + (high-low)*max(0, rank-below)/float64(n))
		}
		below += float64(n)
	}
	_, high := bucketBounds(len(s.buckets) - 1)
	return new(high)
}

// bucketBounds are the bounds of bucket i of admission.Waits in seconds.
func bucketBounds(i int) (low, high float64) {
	if i == 0 {
		return 0, 1e-6
	}
	return math.Ldexp(1e-6, i-1), math.Ldexp(1e-6, i)
}
