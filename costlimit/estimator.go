package costlimit

import "math"

const (
	// maxFingerprints is how many are known at once where the caller says nothing.
	maxFingerprints = 20_000
	// decay is the weight of a new sample in the mean: that of an old one halves in 20.
	decay = 0.03406
	// enough is how many samples an estimate needs.
	enough = 3
)

// Estimator learns the slot time of statements by their fingerprints. It has no lock: its
// owner calls it.
type Estimator struct {
	limit     int
	at        map[uint64]int32 // index in costs
	costs     []cost
	hand      int // where the next victim is looked for
	evictions uint64
}

// cost is what is known of one fingerprint.
type cost struct {
	fingerprint uint64
	samples     uint64
	mean        float64 // ns, of recent samples
	times       histogram
	used        bool // since the hand came by
}

// New returns an Estimator that knows at most limit fingerprints; 0 or less = 20,000. It
// needs about 200 bytes for each of them, and takes them only when they come.
func New(limit int) *Estimator {
	if limit <= 0 {
		limit = maxFingerprints
	}
	return &Estimator{limit: limit, at: make(map[uint64]int32)}
}

// Observe adds a sample: a statement of this fingerprint has held its slot for ns. Negative
// times count as 0.
func (e *Estimator) Observe(fingerprint uint64, ns int64) {
	i, known := e.at[fingerprint]
	if !known {
		i = e.place()
		e.costs[i].fingerprint = fingerprint
		e.at[fingerprint] = i
	}
	e.costs[i].add(max(ns, 0))
}

// Expected returns how long a statement of this fingerprint will hold its slot, in ns: about
// the median of recent samples. It is their mean next to the median, and how far they are from
// that on average is added; what always takes the same is known exactly. ok is false while too little is known.
func (e *Estimator) Expected(fingerprint uint64) (p50 int64, ok bool) {
	i, known := e.at[fingerprint]
	if !known || e.costs[i].samples < enough {
		return 0, false
	}
	e.costs[i].used = true
	return e.costs[i].times.median(), true
}

// Mean returns the mean of recent samples in ns; ok is false while too little is known.
func (e *Estimator) Mean(fingerprint uint64) (ns int64, ok bool) {
	i, known := e.at[fingerprint]
	if !known || e.costs[i].samples < enough {
		return 0, false
	}
	return int64(e.costs[i].mean), true
}

// Len returns how many fingerprints are known.
func (e *Estimator) Len() int { return len(e.costs) }

// Evictions returns how many were forgotten to make room.
func (e *Estimator) Evictions() uint64 { return e.evictions }

// place returns an empty place: a new one, or that of a fingerprint that was not used since
// the hand came by last.
func (e *Estimator) place() int32 {
	if len(e.costs) < e.limit {
		e.costs = append(e.costs, cost{})
		return int32(len(e.costs) - 1)
	}
	for e.costs[e.hand].used {
		e.costs[e.hand].used = false
		e.hand = (e.hand + 1) % e.limit
	}
	i := e.hand
	e.hand = (i + 1) % e.limit
	delete(e.at, e.costs[i].fingerprint)
	e.costs[i] = cost{}
	e.evictions++
	return int32(i)
}

func (c *cost) add(ns int64) {
	c.used = c.samples > 0 // one that came only once is the first to go
	c.samples++
	weight := math.Max(decay, 1/float64(c.samples))
	c.mean += weight * (float64(ns) - c.mean)
	c.times.add(ns)
}
