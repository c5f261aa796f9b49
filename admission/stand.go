package admission

// A burst leaves a queue that is short again after a moment; a standing queue is one that
// has not been short for an interval. The signal is the age of the oldest waiter (as in
// CoDel it is time that counts, not length; but while the newest are served first, the delay
// of who was served last says nothing).
const (
	leastTarget   = 5e6
	leastInterval = 100e6
	mostInterval  = 1e9
	// firstInterval is how many intervals it takes when no queue has stood for a while: what
	// twice the load leaves in 50 ms takes 125 more at 60 % of it.
	firstInterval = 3
	// codelWait is the longest wait while a queue under CoDel stands.
	codelWait = 60e6
	// How long a critical class serves the newest and displaces until it tries again to do
	// without; longer each time.
	leastTrial, mostTrial = 5e9, 60e9
	// settled is how long a queue has stood when it is no burst beyond doubt.
	settled = 1e9
)

// standing is whether the queue of a rank stands.
type standing struct {
	on         bool
	since      int64 // when it began to, or had been before with a short break
	until      int64 // when it last ended to
	began      int64 // when it last changed
	hurt       int64 // when somebody of a patient rank was last refused
	trial      int64 // for how long it is not seen whether it could be patient again
	shortUntil int64 // its oldest waiter was, or is, young until then
	moved      int64 // when somebody was last displaced
	lookAt     int64
}

// stands reports whether the policy of the rank looks at it.
func (r *rank) stands() bool {
	return r.line.policy == CoDel || r.line.policy == Guard && !r.line.load.plan.Patient
}

// target is up to which age of its oldest waiter the queue counts as short, interval for
// how long it must not have been, in ns. A queue that is to keep its slots busy needs a
// target of more than the time between two of them.
func (r *rank) target() (target, interval int64, ok bool) {
	if r.line.policy == CoDel {
		return 0, leastInterval, true
	}
	d := r.line.load
	if !d.drain.known() {
		return 0, 0, false
	}
	gap := int64(d.drain.mean) / int64(max(d.part, 1))
	most := max(d.maxWait(r.index)/2, leastTarget)
	return min(max(2*gap, leastTarget), most), min(max(10*gap, leastInterval), mostInterval), true
}

// aged notes the age of the oldest waiter, who may be another one than before.
func (g *Gate) aged(now int64, r *rank) {
	if !r.stands() {
		return
	}
	target, interval, ok := r.target()
	if !ok {
		return
	}
	short := true
	if r.head == nil {
		r.shortUntil = now
	}
	if w := r.head; w != nil {
		age := g.clock(now, w.links[r.line.link].flow) - w.start
		if short = age <= target; short {
			r.shortUntil = max(r.shortUntil, now+target-age)
		}
	}
	at := r.shortUntil + interval
	if !r.on && now-settled >= r.until {
		at += (firstInterval - 1) * interval
	}
	switch {
	case r.on && short && now >= r.moved+interval, r.on && r.tries(now):
		g.turnStanding(now, r, false)
	case r.on && short:
		at = r.moved + interval
	case !r.on && !short && at <= now && r.patient() && now-settled >= r.hurt:
		return // until somebody is refused: looked at again then
	case !r.on && !short && at <= now:
		g.turnStanding(now, r, true)
		return
	case r.on:
		return // until its oldest waiter is another one
	}
	if r.head != nil && r.inStands == 0 {
		r.lookAt = max(at, now+1)
		g.stands.put(r, true)
	}
}

// patient reports whether the rank's work rather waits, as long as it may, than be refused: the
// critical classes, as long as nobody of them is refused anyway. The clients of pools that are
// larger than the slots always have a standing queue, and are well served by its order of
// arrival.
func (r *rank) patient() bool { return r.line.policy == Guard && ClassAt(r.index) <= Critical }

// tries reports whether it is time to see if all of a patient rank could be served in the
// order of arrival again. It may be the refusals that keep them coming.
func (r *rank) tries(now int64) bool {
	if !r.patient() || now < r.began+r.trial {
		return false
	}
	r.hurt, r.trial = now-settled, min(2*r.trial, mostTrial)
	return true
}

// refuses notes a refusal of one of the rank for want of slots.
func (g *Gate) refuses(now int64, r *rank) {
	if r.stands() && r.patient() {
		if now-mostTrial >= r.hurt {
			r.trial = leastTrial
		}
		r.hurt = now
		g.aged(now, r)
	}
}

// stand looks at the queues that it is time to look at.
func (g *Gate) stand(now int64) {
	for r, ok := g.stands.top(); ok && r.lookAt <= now; r, ok = g.stands.top() {
		g.stands.put(r, false)
		g.aged(now, r)
	}
}

// standAt is when stand has to be called next.
func (g *Gate) standAt() int64 {
	if r, ok := g.stands.top(); ok {
		return r.lookAt
	}
	return never
}

// turnStanding changes whether a queue stands, and with it who is next and how long they
// may wait.
func (g *Gate) turnStanding(now int64, r *rank, on bool) {
	g.stands.put(r, false)
	for f := r.flows; f != nil; f = f.nextRank {
		f.lift()
	}
	if on && now-settled >= r.until {
		r.since = now
	}
	r.began = now
	if r.on = on; !on {
		r.until = now
	}
	for f := r.flows; f != nil; f = f.nextRank {
		f.place()
	}
	for f := r.flows; f != nil; f = f.nextRank {
		g.schedule(f)
	}
	r.line.side.settle(r.line)
}

// limit is the longest wait of a flow.
func (f *flow) limit() int64 {
	d, r := f.line.load, f.rank
	if f.line == &d.lines[sessions] {
		return d.plan.SessionWait
	}
	if f.line.policy == CoDel && r.on {
		return min(d.plan.MaxWait, codelWait)
	}
	most := d.maxWait(r.index)
	if d.plan.Mode == Enforce {
		most = min(most, f.shedAt())
	}
	return most
}

// shedAt is the longest wait of a flow of a lower class whose queue stands, in the time of its
// clock, where the guard is enforced.
func (f *flow) shedAt() int64 {
	if f.rank.on && !f.kept && f.line.load.guards() && f.line.kind() == slots && ClassAt(f.rank.index) > Critical {
		if target, _, ok := f.rank.target(); ok {
			return 3 * target
		}
	}
	return never
}

// maxWait is the longest wait of a class for a slot.
func (d *load) maxWait(index int) int64 {
	if d.plan.Policy == Guard && d.plan.ClassWait[index] > 0 {
		return d.plan.ClassWait[index]
	}
	return d.plan.MaxWait
}

// guards reports whether the guard refuses by more than MaxWait and MaxWaiting, if it is
// enforced.
func (d *load) guards() bool { return d.plan.Policy == Guard && !d.plan.Patient }
