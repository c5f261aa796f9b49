package costlimit

import "math"

const (
	// buckets is how many a histogram has, each ratio times as wide as the one before: from
	// shortest to about 80 s.
	buckets  = 64
	ratio    = 1.25
	shortest = 50e3 // ns; what is shorter counts as that
	// window is at how many samples all counts are halved, so that old ones fade.
	window = 256
)

// histogram counts times by their logarithm. The bucket of its median is known at any time:
// a sample moves it by a step at most, or by a walk over empty buckets.
type histogram struct {
	count [buckets]uint16
	total uint32
	mid   uint8  // the bucket of the median,
	below uint32 // and how many samples are in those below it
}

// perBucket turns a natural logarithm into a number of buckets.
var perBucket = 1 / math.Log(ratio)

// bucketOf returns the bucket of a time in ns.
func bucketOf(ns int64) int {
	if ns <= shortest {
		return 0
	}
	return min(int(math.Log(float64(ns)/shortest)*perBucket), buckets-1)
}

// middle returns the time in the middle of a bucket, in ns.
func middle(bucket uint8) int64 {
	return int64(shortest * math.Pow(ratio, float64(bucket)+0.5))
}

func (h *histogram) add(ns int64) {
	b := bucketOf(ns)
	h.count[b]++
	h.total++
	if b < int(h.mid) {
		h.below++
	}
	if h.total >= window {
		h.halve()
	}
	h.settle()
}

// settle moves the median to the bucket that has the middle sample.
func (h *histogram) settle() {
	half := h.total / 2
	for h.below > half {
		h.mid--
		h.below -= uint32(h.count[h.mid])
	}
	for h.below+uint32(h.count[h.mid]) <= half {
		h.below += uint32(h.count[h.mid])
		h.mid++
	}
}

// halve takes half of the weight from all samples.
func (h *histogram) halve() {
	h.total, h.below = 0, 0
	for i := range h.count {
		h.count[i] /= 2
		if i < int(h.mid) {
			h.below += uint32(h.count[i])
		}
		h.total += uint32(h.count[i])
	}
}

func (h *histogram) median() int64 { return middle(h.mid) }
