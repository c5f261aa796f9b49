package admission

import "math"

// Ramp is how many transactions may run after a stall or a failover: a database that comes
// back has cold caches and a crowd before it. It starts at a quarter, and takes half as much
// again in every second in which those who wait do not wait for long. The zero value is at
// the top: it limits nothing.
type Ramp struct {
	// Floor is the least limit; 0 or less = 1.
	Floor int

	part  float64 // of the slots that may be used at time at
	at    int64
	on    bool
	stand bool // those who wait, wait for too long: it does not rise
}

const (
	rampStart  = 0.25
	rampGrowth = 1.5 // per second
)

// Start begins at the bottom. now is in ns, as everywhere.
func (r *Ramp) Start(now int64) { r.part, r.at, r.on, r.stand = rampStart, now, true, false }

// Calm tells whether from now on the oldest waiter is younger than it should be: only then
// the limit rises.
func (r *Ramp) Calm(now int64, calm bool) {
	if !r.on || calm == !r.stand {
		return
	}
	r.part, r.at = r.now(now), now
	r.stand = !calm
}

// now is the part of the slots that may be used now.
func (r *Ramp) now(now int64) float64 {
	if r.stand {
		return r.part
	}
	return min(1, r.part*math.Pow(rampGrowth, float64(max(now-r.at, 0))/1e9))
}

// Limit returns how many of the slots may be used now: all of them when the ramp is at the
// top, else at least the floor, and never more than there are.
func (r *Ramp) Limit(now int64, slots int) int {
	if !r.on {
		return slots
	}
	part := r.now(now)
	if part >= 1 {
		r.on = false
		return slots
	}
	return min(slots, max(r.Floor, 1, int(part*float64(slots)+1e-9)))
}

// Next returns when Limit may be higher than now by time alone; math.MaxInt64 = not by
// that.
func (r *Ramp) Next(now int64, slots int) int64 {
	if !r.on || r.stand || slots <= 0 {
		return math.MaxInt64
	}
	part := min(1, float64(r.Limit(now, slots)+1)/float64(slots))
	due := r.at + int64(1e9*math.Log(part/r.part)/math.Log(rampGrowth)) + 1e3 // what floats lose
	return max(due, now+1e6)
}
