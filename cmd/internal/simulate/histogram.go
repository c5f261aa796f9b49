package simulate

import (
	"math"
	"math/bits"
)

const (
	steps  = 128               // of a doubling: a step is less than 1 % wide
	octave = 7                 // log2(steps)
	depth  = 36 * steps        // up to 2^42 us
	unit   = 1000              // ns
	half   = 1.0 / (2 * steps) // of a step, relative
)

// histogram counts times. Its buckets are 1 us wide at first and then get wider with the
// time, so that a quantile is right to half a percent.
type histogram struct {
	counts []uint32 // nil until the first
	n      uint64
	sum    float64 // ns
	most   int64   // ns
}

func bucket(us uint64) int {
	if us < steps {
		return int(us)
	}
	shift := bits.Len64(us) - octave - 1
	return min((shift+1)*steps+int(us>>shift)-steps, depth-1)
}

func (h *histogram) add(ns int64) {
	if h.counts == nil {
		h.counts = make([]uint32, depth)
	}
	ns = max(ns, 0)
	h.counts[bucket(uint64(ns)/unit)]++
	h.n++
	h.sum += float64(ns)
	h.most = max(h.most, ns)
}

func (h *histogram) merge(o *histogram) {
	if o.counts == nil {
		return
	}
	if h.counts == nil {
		h.counts = make([]uint32, depth)
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.sum += o.sum
	h.most = max(h.most, o.most)
}

// quantile is the time in ms that q of all do not exceed; 0 without any.
func (h *histogram) quantile(q float64) float64 {
	if h.n == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(h.n)))
	rank = max(rank, 1)
	for i, n := range h.counts {
		if uint64(n) < rank {
			rank -= uint64(n)
			continue
		}
		return min(middle(i)*unit, float64(h.most)) / 1e6
	}
	return float64(h.most) / 1e6
}

// middle of a bucket, in us.
func middle(i int) float64 {
	if i < steps {
		return float64(i) + 0.5
	}
	shift := i/steps - 1
	low := float64(uint64(i%steps+steps) << shift)
	return low * (1 + half)
}

// mean in ms.
func (h *histogram) mean() float64 {
	if h.n == 0 {
		return 0
	}
	return h.sum / float64(h.n) / 1e6
}
