package quota

import "math"

// Rule is one limit.
type Rule struct {
	Name string // known by it over Reconfigure
	// Keys says what the keys are, such as "role". A rule of the same name with other keys is
	// another rule.
	Keys string
	// ServerTime: costs are nanoseconds of a server, charged after the fact; else they are
	// statements.
	ServerTime bool
	// PerSecond is what flows back in a second: statements, or seconds of server-time. At
	// most 1e9; 0 or less = the smallest rate there is, about one in three days.
	PerSecond float64
	// Burst is what a full bucket holds, in statements or seconds of server-time. It is at
	// least one statement or 1 ms.
	Burst float64
}

// Bounds of a bucket, in ns: what there is room for in an int64 beside the time itself.
const (
	leastSpan = 1
	mostSpan  = 1 << 58
)

// limit is a rule in force. A bucket is one number, as in GCRA: the time at which it will be
// full. A statement moves it on by what one statement takes to flow back; what is further
// ahead than depth is debt.
type limit struct {
	Rule
	id    uint32
	unit  float64 // ns that one unit of cost takes to flow back
	depth int64   // ns that a whole bucket takes
	dead  bool    // the rule is in force no more

	keys    int
	evicted uint64
}

// set puts a rule into force.
func (r *limit) set(rule Rule) {
	r.Rule = rule
	perSecond := min(max(rule.PerSecond, 1e9/float64(int64(mostSpan))), 1e9)
	burst := rule.Burst
	if rule.ServerTime {
		r.unit = 1 / perSecond
		burst = max(burst, 1e-3) * 1e9 // in ns, as costs are
	} else {
		r.unit = 1e9 / perSecond
		burst = max(burst, 1)
	}
	r.depth = spanOf(burst * r.unit)
}

// spanOf makes a time of a number of ns: rounded up, so that a rate is never exceeded.
func spanOf(ns float64) int64 {
	return int64(min(max(math.Ceil(ns), leastSpan), mostSpan))
}

// span is how long a cost takes to flow back, in ns.
func (r *limit) span(cost int64) int64 {
	if cost <= 0 {
		return 0
	}
	return spanOf(float64(cost) * r.unit)
}

// wait is how long it takes until a bucket that is full at the given time has room for a
// cost; 0 = it has. A full bucket has room for whatever comes.
func (r *limit) wait(now, full, cost int64) int64 {
	return max(max(full, now)+min(r.span(cost), r.depth)-r.depth-now, 0)
}

// take is when the bucket will be full after the cost was taken from it.
func (r *limit) take(now, full, cost int64) int64 {
	return min(max(full, now)+r.span(cost), now+2*r.depth)
}

// move turns the state of a bucket of the rule r into one of the rule to, with as much taken
// from it.
func (r *limit) move(now, full int64, to *limit) int64 {
	if full <= now {
		return full
	}
	return now + min(spanOf(float64(full-now)/r.unit*to.unit), 2*to.depth)
}
