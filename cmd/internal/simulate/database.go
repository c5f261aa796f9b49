package simulate

import (
	"math"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
)

// database is what runs in it. It has a clock of its own that goes as fast as statements
// get on, and stands still when it is frozen.
type database struct {
	heap   []*request // by finish
	clock  float64    // ns of work
	seen   int64      // when the clock was right
	rate   float64
	speed  float64 // by events
	frozen int     // events
	away   int     // events in which logins fail
}

// advance brings the clock up to date.
func (d *database) advance(now int64) {
	d.clock += d.rate * float64(now-d.seen)
	d.seen = now
}

// pace works out how fast statements get on.
func (x *world) pace() {
	d := &x.db
	d.rate = d.speed
	if d.frozen > 0 {
		d.rate = 0
		return
	}
	if cores := x.Database.Cores; cores > 0 && len(d.heap) > cores {
		cpu := x.Database.CPU
		if cpu <= 0 || cpu > 1 {
			cpu = 1
		}
		d.rate /= 1 - cpu + cpu*float64(len(d.heap))/float64(cores)
	}
}

// begin starts a statement that takes so many ns at full speed.
func (d *database) begin(x *world, r *request, takes float64) {
	d.advance(x.now)
	r.finish = d.clock + takes
	d.heap = append(d.heap, r)
	r.at = len(d.heap)
	d.up(r.at - 1)
	x.pace()
}

// next is when the first statement ends.
func (d *database) next(now int64) int64 {
	if len(d.heap) == 0 || d.rate == 0 {
		return never
	}
	rest := (d.heap[0].finish - d.clock) / d.rate
	return max(d.seen+int64(math.Ceil(rest)), now)
}

// take removes the statement that ends now.
func (d *database) take(now int64) *request {
	d.advance(now)
	r := d.heap[0]
	d.drop(r)
	return r
}

// hasten makes r end after so many ns of work, and reports whether it takes longer.
func (d *database) hasten(now int64, r *request, ns float64) (cut bool) {
	d.advance(now)
	if cut = r.finish > d.clock+ns; cut {
		r.finish = d.clock + ns
		d.up(r.at - 1)
	}
	return cut
}

func (d *database) drop(r *request) {
	i, last := r.at-1, len(d.heap)-1
	d.swap(i, last)
	d.heap[last] = nil
	d.heap = d.heap[:last]
	r.at = 0
	if i < last {
		d.up(d.down(i))
	}
}

func (d *database) swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.heap[i].at, d.heap[j].at = i+1, j+1
}

func (d *database) up(i int) {
	for i > 0 && d.heap[i].finish < d.heap[(i-1)/2].finish {
		d.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (d *database) down(i int) int {
	for {
		c := 2*i + 1
		if c >= len(d.heap) {
			return i
		}
		if c+1 < len(d.heap) && d.heap[c+1].finish < d.heap[c].finish {
			c++
		}
		if d.heap[c].finish >= d.heap[i].finish {
			return i
		}
		d.swap(i, c)
		i = c
	}
}

// happen begins or ends an event.
func (x *world) happen(e *Event, begins bool) {
	d, by := &x.db, -1
	if begins {
		by = 1
	}
	d.advance(x.now)
	switch e.Kind {
	case Freeze:
		d.frozen += by
	case Slow:
		if begins {
			d.speed *= e.Speed
		} else {
			d.speed /= e.Speed
		}
	case NoLogin:
		d.away += by
	case Restart:
		d.away += by
		if begins {
			x.crash()
		}
	}
	x.pace()
	x.dirty = true
}

// crash ends all connections.
func (x *world) crash() {
	for len(x.db.heap) > 0 {
		r := x.db.heap[0]
		x.db.drop(r)
		x.lost(r)
	}
	for _, sv := range x.set.Servers(nil) {
		if sv.State() == pool.Idle || sv.State() == pool.Closing {
			x.set.Gone(x.now, sv)
		}
	}
}

// carryOut starts a login or the end of a connection.
func (x *world) carryOut(a pool.Action) {
	it := item{act: actDialled, id: int(a.Server.ID), at: x.now + int64(x.Database.Connect)}
	switch {
	case a.Kind == pool.Close:
		it.act, it.at = actGone, x.now+int64(x.Database.Close)
	case x.db.away > 0:
		it.at = x.now + refusedLogin
	}
	x.later.put(it)
}

// refusedLogin is how long it takes until a database that is away says so.
const refusedLogin = 1e6

// dialled ends a login.
func (x *world) dialled(sv *pool.Server) {
	ok := x.db.away == 0
	if x.set.Dialed(x.now, sv, ok, false) {
		x.out = x.gate.Supplied(x.now, sv.Key, x.out)
		x.deliver()
	}
	x.result.Logins++
	if !ok {
		x.result.FailedLogins++
	}
	x.dirty = true
}

// policyOf is the order of r's queue.
func (x *world) policyOf(r *request) admission.Policy {
	if int(r.w.Workload) < len(x.Plan.Workloads) {
		return x.Plan.Workloads[r.w.Workload].Policy
	}
	return admission.Guard
}
