package admission

import "math"

const (
	// passOver is how long affinity may pass over the head of the line.
	passOver = 50e6
	// moveEvery is the shortest time between two servers given up by force.
	moveEvery = 500e6
	// maxAuto bounds the automatic queue length, slotsAuto times the slots is
	// its floor.
	maxAuto   = 1000
	slotsAuto = 4
	// never is the time that does not come.
	never = math.MaxInt64
)

// Gate is the admission to one upstream. It has no lock: the caller's mutex
// guards it together with its Supply. Times are the caller's monotonic
// nanoseconds and must not run backwards.
type Gate struct {
	due    int64 // when the next waiter is too old, as expire saw it
	plan   Plan
	supply Supply
	down   Downer // supply, if it knows
	rnd    func() float64

	queue Queue // everybody who waits
	lane  *fifo // the probes among them

	running  int  // tickets out
	inLane   int  // of these by the lane's privilege: 0 or 1
	draining bool // refuse everybody

	seq      uint64
	told     int // free slots that the supply was last told of
	moved    int64
	hasMoved bool // moved is the time of a move
	drain    drainRate
	stats    counters
}

// New returns a gate over s. rnd returns numbers in [0, 1) and spreads the
// retry hints; nil means no spread.
func New(p Plan, s Supply, rnd func() float64) *Gate {
	if rnd == nil {
		rnd = func() float64 { return 0.5 }
	}
	g := &Gate{plan: p.withDefaults(), supply: s, rnd: rnd, queue: newFIFO(mainLane), lane: newFIFO(probeLane)}
	g.down, _ = s.(Downer)
	return g
}

// Admit asks for a ticket for w. The verdict is Granted when a slot and an
// idle server of w's key are free and nobody of its key waits; else Queued, or
// Refused when the queue is full or the gate drains. It panics if w waits
// already.
func (g *Gate) Admit(now int64, w *Waiter) Verdict {
	if w.gate != nil {
		panic("admission: Admit of a waiter that waits already")
	}
	w.arrived, w.overtaken = now, false
	if g.draining {
		return g.refusal(now, w, Draining)
	}
	if g.queue.Len() > 0 {
		g.favour(now)
	}
	if v, ok := g.direct(now, w); ok {
		return v
	}
	if g.full(w) {
		return g.refusal(now, w, QueueFull)
	}
	g.seq++
	w.seq, w.gate = g.seq, g
	g.queue.Push(w)
	if w.Probe {
		g.lane.Push(w)
	}
	g.tell(now, w.Key)
	return Verdict{W: w, Outcome: Queued, Queued: g.queue.Len(), Slots: g.plan.Slots}
}

// direct grants w without queueing if it may go before all who wait: because
// nobody of its key does, or because it is a probe and the lane is free.
func (g *Gate) direct(now int64, w *Waiter) (v Verdict, ok bool) {
	if g.running >= g.plan.Slots {
		return v, false
	}
	lane := false
	if g.queue.Waiting(w.Key) > 0 {
		if !w.Probe || g.inLane > 0 || g.lane.Waiting(w.Key) > 0 {
			return v, false
		}
		lane = true
	}
	grant, ok := g.supply.Reserve(w.Key, now)
	if !ok {
		g.setReady(w.Key, false)
		return v, false
	}
	if !lane && g.queue.Len() > 0 {
		g.queue.Take(w, now)
	}
	v = g.granted(now, w, grant, lane)
	g.tellFree(now)
	return v, true
}

// Withdraw takes w out of the queue, because its client left or cancelled. It
// returns false if w does not wait here: its final verdict was made, and a
// grant among them is the caller's to end with Done.
func (g *Gate) Withdraw(now int64, w *Waiter) bool {
	if w.gate != g {
		return false
	}
	g.remove(w)
	g.stats.withdrawn++
	g.tell(now, w.Key)
	return true
}

// Done ends a ticket that held its slot for held ns, and grants the slot. Put
// the ticket's server back first and say Supplied, so that the order sees it.
// It panics if no such ticket is out.
func (g *Gate) Done(now int64, t Ticket, held int64, out []Verdict) []Verdict {
	if g.running == 0 || t.Lane && g.inLane == 0 {
		panic("admission: Done without a ticket")
	}
	if t.Lane {
		g.inLane--
	}
	g.running--
	g.drain.add(held)
	return g.dispatch(now, out)
}

// Supplied says that a server of k became idle.
func (g *Gate) Supplied(now int64, k Key, out []Verdict) []Verdict {
	g.setReady(k, true)
	return g.dispatch(now, out)
}

// Unsupplied says that no server of k can be opened for a reason that will not
// pass by itself (its role or database is refused). Its waiters are refused
// with NoServer.
func (g *Gate) Unsupplied(now int64, k Key, out []Verdict) []Verdict {
	for w := g.queue.First(k); w != nil; w = g.queue.First(k) {
		out = append(out, g.evict(now, w, NoServer))
	}
	g.tellFree(now)
	return out
}

// Fire does what is due at now: refuses those who waited for the maximum time
// and gives up a server for a head of the line that was passed over for too
// long. next is when it wants to be called again; math.MaxInt64 = not by time
// alone. Calling it at any other time does no harm.
func (g *Gate) Fire(now int64, out []Verdict) (next int64, _ []Verdict) {
	out = g.dispatch(now, out)
	if g.queue.Len() == 0 {
		return never, out
	}
	next = g.due
	if due := g.favourAt(g.queue.Head()); due > now {
		next = min(next, due)
	}
	return next, out
}

// Reconfigure puts p into force: more slots are granted at once, fewer take
// effect as tickets end, a shorter MaxWait refuses those who are over it. A
// lower MaxWaiting refuses newcomers only.
func (g *Gate) Reconfigure(now int64, p Plan, out []Verdict) []Verdict {
	g.plan = p.withDefaults()
	return g.dispatch(now, out)
}

// Drain refuses all who wait, and every later Admit, with Draining. Tickets
// that are out go on.
func (g *Gate) Drain(now int64, out []Verdict) []Verdict {
	g.draining = true
	for w := g.queue.Oldest(); w != nil; w = g.queue.Oldest() {
		out = append(out, g.evict(now, w, Draining))
	}
	return out
}

// Waiting is how many wait, probes included.
func (g *Gate) Waiting() int { return g.queue.Len() }

// maxWaiting is the queue's bound in force.
func (g *Gate) maxWaiting() int {
	if g.plan.Workloads[0].MaxWaiting > 0 {
		return g.plan.Workloads[0].MaxWaiting
	}
	floor := slotsAuto * max(g.plan.Slots, 1)
	if !g.drain.known() {
		// After a start everybody comes at once; to refuse them on a guess would
		// break a good day, and max_wait bounds them all the same.
		return max(floor, maxAuto)
	}
	n := g.drain.within(g.plan.Workloads[0].MaxWait, g.plan.Slots)
	return max(floor, int(min(n, maxAuto)))
}

// full reports whether w's bound is reached.
func (g *Gate) full(w *Waiter) bool {
	if w.Probe {
		return g.lane.Len() >= g.plan.ProbeWaiting
	}
	return g.queue.Len()-g.lane.Len() >= g.maxWaiting()
}
