package simulate

import (
	"time"

	"github.com/pgweir/pgweir/admission"
)

// count is what became of the pages that were asked for in one window by one stream.
type count struct {
	arrived, served, timedOut, lost uint64
	refused                         [admission.Reasons]uint64 // for good, by the last refusal
	attempts, gaveUp                uint64
	refusals                        [admission.Reasons]uint64 // of attempts
	latency                         histogram                 // of the served, from the first wish on
	told                            histogram                 // of refusals, from the attempt on
	busy, wasted, broken            int64                     // ns of slots; for those who had left; for pages that failed later
	inVain                          uint64                    // statements brought to their end for those who had left
}

func (c *count) merge(o *count) {
	c.arrived += o.arrived
	c.served += o.served
	c.timedOut += o.timedOut
	c.lost += o.lost
	for r := range c.refused {
		c.refused[r] += o.refused[r]
		c.refusals[r] += o.refusals[r]
	}
	c.attempts += o.attempts
	c.gaveUp += o.gaveUp
	c.latency.merge(&o.latency)
	c.told.merge(&o.told)
	c.busy += o.busy
	c.wasted += o.wasted
	c.broken += o.broken
	c.inVain += o.inVain
}

// tenant is what became of one tenant's pages.
type tenant struct {
	arrived, served, refused, timedOut uint64
	busy                               int64 // ns of slots
}

// Result is what one run came to.
type Result struct {
	Seed uint64
	End  int64 // ns of virtual time until the last request ended

	MostWaiting, MostRunning int
	Logins, FailedLogins     uint64
	Moves                    uint64 // servers taken from one key for another
	// FalseRefusals is how many the gate itself holds for having been in vain, FalseOracle how
	// many a replay finds, if the scenario asks for it.
	FalseRefusals, FalseOracle uint64

	window   int64
	cells    [][]count  // by window and stream
	tenants  [][]tenant // by stream
	seconds  [][]uint32 // served, by stream and second
	finished []int64    // when the last client of a stream that asks again and again was done
}

func newResult(s *Scenario, seed uint64, length int64) *Result {
	r := &Result{Seed: seed, window: int64(s.Window)}
	if r.window <= 0 {
		r.window = int64(5 * time.Second)
	}
	windows := max(1, int((length+r.window-1)/r.window))
	for range windows {
		r.cells = append(r.cells, make([]count, len(s.Streams)))
	}
	for i := range s.Streams {
		r.tenants = append(r.tenants, make([]tenant, max(s.Streams[i].Tenants, 1)))
	}
	r.seconds = make([][]uint32, len(s.Streams))
	for i := range r.seconds {
		r.seconds[i] = make([]uint32, length/1e9+1)
	}
	r.finished = make([]int64, len(s.Streams))
	return r
}

// at is the cell of now; what comes after the load belongs to its last window.
func (r *Result) at(now int64, stream int) *count {
	return &r.cells[min(int(now/r.window), len(r.cells)-1)][stream]
}

// second notes that a page of the stream was served.
func (r *Result) second(now int64, stream int) {
	for int(now/1e9) >= len(r.seconds[stream]) {
		r.seconds[stream] = append(r.seconds[stream], 0)
	}
	r.seconds[stream][now/1e9]++
}

// close takes over what the gate has counted.
func (r *Result) close(g admission.Stats) {
	r.Moves = g.Moves
	for i := range g.Workloads {
		r.FalseRefusals += g.Workloads[i].FalseRefusals
	}
}

// sum adds up the cells of some windows and some streams.
func (r *Result) sum(from, to int, streams func(int) bool) *count {
	c := new(count)
	for w := from; w < to; w++ {
		for i := range r.cells[w] {
			if streams == nil || streams(i) {
				c.merge(&r.cells[w][i])
			}
		}
	}
	return c
}

// jain is how evenly the streams of some kind are served, second by second while all of them
// are at work: 1 is even, 1/n is all for one.
func (r *Result) jain(streams []int, from, to int64) float64 {
	total, n := 0.0, 0
	for at := from / 1e9; at < to/1e9; at++ {
		sum, squares := 0.0, 0.0
		for _, i := range streams {
			v := 0.0
			if int(at) < len(r.seconds[i]) {
				v = float64(r.seconds[i][at])
			}
			sum, squares = sum+v, squares+v*v
		}
		if squares > 0 {
			total += sum * sum / squares / float64(len(streams))
			n++
		}
	}
	if n == 0 {
		return 1
	}
	return total / float64(n)
}
