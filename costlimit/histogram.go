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
	// nearDecay is the weight of a new sample beside the median.
	nearDecay = 1.0 / 16
)

// histogram counts times by their logarithm. The bucket of its median is known at any time:
// a sample moves it by a step at most, or by a walk over empty buckets.
type histogram struct {
	count [buckets]uint16
	total uint32
	mid   uint8  // the bucket of the median,
	below uint32 // and how many samples are in those below it
	// near is the mean of recent samples in the median's bucket and those next to it, spread
	// how far from it they are on average. What always takes the same is in one bucket or in
	// two, and known much better than these are wide.
	near, spread float64
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

// edge returns where a bucket begins, in ns.
func edge(bucket int) float64 { return shortest * math.Pow(ratio, float64(bucket)) }

// middle returns the time in the middle of a bucket, in ns.
func middle(bucket uint8) float64 {
	return shortest * math.Pow(ratio, float64(bucket)+0.5)
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
	before := h.mid
	h.settle()
	if h.mid != before {
		h.move()
	}
	h.approach(b, float64(ns))
}

// move begins anew with near and spread if they are not next to the median any more.
func (h *histogram) move() {
	low, high := h.nextTo()
	if h.near < edge(low) && low > 0 || h.near > edge(high+1) && high < buckets-1 {
		h.near, h.spread = middle(h.mid), 0
	}
}

// nextTo returns the first and the last of the median's bucket and those next to it.
func (h *histogram) nextTo() (low, high int) {
	return max(int(h.mid)-1, 0), min(int(h.mid)+1, buckets-1)
}

// approach takes a sample of bucket b into near and spread, if it is next to the median.
func (h *histogram) approach(b int, ns float64) {
	low, high := h.nextTo()
	if b < low || b > high {
		return
	}
	n := uint32(0)
	for i := low; i <= high; i++ {
		n += uint32(h.count[i])
	}
	weight := max(nearDecay, 1/float64(max(n, 1)))
	h.near += weight * (ns - h.near)
	h.spread += weight * (math.Abs(ns-h.near) - h.spread)
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

// median returns about that, and rather more than less: who is held to need less than they
// do are let in and come too late.
func (h *histogram) median() int64 { return int64(h.near + h.spread) }
