package admission

// A burst leaves a queue that is short again after a moment; a standing queue is one that
// has not been short for an interval. The signal is the age of the oldest waiter (as in
// CoDel it is time that counts, not length; but while the newest are served first, the delay
// of who was served last says nothing).
const (
	leastTarget   = 5e6
	leastInterval = 100e6
	mostInterval  = 1e9
	// codelWait is the longest wait while a queue under CoDel stands.
	codelWait = 60e6
	// How long a class serves the newest and displaces until it tries again to do without;
	// longer each time. It may be sooner if a stall was the cause, which is over.
	leastTrial, mostTrial = 20e9, 60e9
	stallTrial            = 2e9
	// manyPains is how many have to give up before it does so, for one may have pressed a key,
	// and of so many of those who wait one.
	manyPains, painShare = 3, 10
	// leastGrowth is by how many more waiters a queue has at least to get longer to grow.
	leastGrowth = 2
	// How many times running it has to. A step in which it got longer by twiceGrowth of what
	// was served counts twice: one more like that and it is no burst.
	fastSteps, pageSteps, slowSteps = 3, 4, 6
	twiceGrowth                     = 0.4
	// pagePart and pageMost are which parts of those who begin something stay, if pages make it
	// grow: not more than come, but for those who were on their way at the first look.
	pagePart, pageMost = 0.25, 1.25
	// shortWait is up to how many times the mean time of a slot a longest wait is so short that
	// no other order than that of arrival is of use.
	shortWait = 2
	// comeback is for how long after a standstill clients come back who begin anew all at once.
	comeback = 3e9
	// settled is how long a queue has stood when it is no burst beyond doubt.
	settled = 1e9
)

// standing is whether the queue of a rank stands.
type standing struct {
	on         bool
	since      int64 // when it began to, or had been before with a short break
	until      int64 // when it last ended to
	began      int64 // when it last changed
	hurt       int64 // when somebody last gave up,
	pains      int   // and how many did shortly one after the other
	backlog    bool  // nobody was served for longer than they may wait
	trial      int64 // how long to wait until it is seen whether it could do without
	turned     int   // how many were refused at the door
	begun      int   // how many came that went on with nothing
	growing    [3]growth
	calmAt     int64 // pages say nothing until then
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
		age := g.clock(now, w.flows[r.line.link]) - w.start
		if short = age <= target; short {
			r.shortUntil = max(r.shortUntil, now+target-age)
		}
	}
	at := r.shortUntil + interval
	switch {
	case r.on && short && now >= r.moved+interval:
		g.turnStanding(now, r, false)
	case r.on && r.tries(now):
		g.turnStanding(now, r, false)
		r.pains, r.trial, r.until = 0, min(2*r.trial, mostTrial), now-settled
	case r.on && short:
		at = r.moved + interval
	case !r.on && !short && at <= now && !g.overloaded(now, r, interval):
		at = now + interval/2
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

// overloaded reports whether a standing queue is one that more comes to than leaves, or whose
// clients do not wait for their turn. Pools that are larger than the slots always have a
// standing queue, and are well served in the order of arrival; to refuse some of them would
// help nobody.
func (g *Gate) overloaded(now int64, r *rank, interval int64) bool {
	switch d := r.line.load; {
	case r.line.policy != Guard:
		return true
	case float64(d.maxWait(r.index)) <= shortWait*d.drain.mean:
		return false // who waits hardly longer than it takes is told at the door who cannot
	}
	return now-settled < r.until || r.suffers(now) || g.grows(now, r, interval)
}

// still reports whether the queue stands because nothing is served now, be it that the
// database stalls or that servers are being opened. That it grows says nothing then.
func (g *Gate) still(now int64, r *rank) bool {
	f := r.head.flows[r.line.link]
	return g.stalled(now) || !f.slot && g.keys[f.key].mode != counting
}

// suffers reports whether clients of the rank go away before their turn, or would, more than a
// few of those who wait.
func (r *rank) suffers(now int64) bool {
	return r.pains >= max(manyPains, r.n/painShare) && now-settled < r.hurt
}

// growth looks whether a queue gets longer, in steps.
type growth struct {
	at    int64 // when it was last looked at,
	steps int   // and how many times running it had grown
	last  mark  // how it was then,
	first mark  // and before the first of these
}

// mark is how far a queue has come.
type mark struct {
	n     int // how many wait, or were turned away at the door
	begun int // how many have come with something new
}

func (r *rank) mark() mark { return mark{r.n + r.turned, r.begun} }

// start forgets what it has seen: nothing can be said of the step that ends at now.
func (w *growth) start(now int64, r *rank) {
	m := r.mark()
	*w = growth{at: now, last: m, first: m}
}

// pace is how a growth is told from the ups and downs of a queue that clients keep up who each
// wait for their answers: theirs does not grow for long, nor by clients that were not there.
type pace struct {
	intervals int64   // how long a step is
	part      float64 // by which part of what was served it has to get longer in each
	steps     int     // how many times running
	page      bool    // by those who begin something, of whom pagePart stay
}

// paces are those that are looked for: an overload, be it of single statements; pages of many,
// each of which keeps the queue longer by one for as long as it lasts; and a little too much.
func paces() [3]pace {
	return [...]pace{{1, 0.1, fastSteps, false}, {3, 0.02, pageSteps, true}, {5, 0.02, slowSteps, false}}
}

// look reports whether the queue of a rank has grown in several steps running, each time by at
// least part of what was served, or would have, had there been room.
func (w *growth) look(now, interval int64, r *rank, p pace) bool {
	dt, step := now-w.at, p.intervals*interval
	if dt > 4*step {
		w.start(now, r)
	}
	if dt < step {
		return w.grown(p)
	}
	d, m := r.line.load, r.mark()
	served := d.drain.perSecond(d.atWork()) * float64(dt) / 1e9
	least := max(leastGrowth, p.part*served)
	switch grown := float64(m.n - w.last.n); {
	case p.page && grown >= 0 && grown < least: // pages are few, in some steps hardly one comes
	case grown < least:
		w.start(now, r)
		return false
	case grown >= twiceGrowth*served && !p.page: // whose step is long enough for a start
		w.steps += 2
	default:
		w.steps++
	}
	w.at, w.last = now, m
	return w.grown(p)
}

// grown reports whether it has got longer often enough, and by whom it has to.
func (w *growth) grown(p pace) bool {
	more, begun := float64(w.last.n-w.first.n), float64(w.last.begun-w.first.begun)
	return w.steps >= p.steps && (!p.page || more <= pageMost*begun && more >= pagePart*begun)
}

// TakeOver says that clients come back all at once who were at another gate until a moment ago:
// for three seconds a queue that grows is taken for theirs, and for an overload only when they
// give up.
func (g *Gate) TakeOver(now int64) { g.calmAt = now + comeback }

// grows reports whether the queue grows at one of the paces. Clients that come back when the
// database does look like those who begin pages, and those who come back to pgweir, each of whom
// has to log in first, like an overload of any kind.
func (g *Gate) grows(now int64, r *rank, interval int64) (grows bool) {
	still := g.still(now, r)
	if still {
		r.calmAt = now + comeback
	}
	for i, p := range paces() {
		if still || now < g.calmAt || p.page && now < r.calmAt {
			r.growing[i].start(now, r)
		} else if r.growing[i].look(now, interval, r, p) {
			grows = true
		}
	}
	return grows
}

// tries reports whether it is time to see if all could be served in the order of arrival
// again. It may be the refusals that keep them coming.
func (r *rank) tries(now int64) bool {
	return r.line.policy == Guard && now >= r.began+r.trial
}

// hurts notes that a waiter of the rank has gone away, or its deadline is too near.
func (g *Gate) hurts(now int64, r *rank) {
	if !r.stands() || r.line.policy != Guard {
		return
	}
	if now-settled >= r.hurt {
		r.pains = 0
	}
	r.hurt = now
	r.pains++
	g.aged(now, r)
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
	if on && now-mostTrial >= r.until {
		r.trial = leastTrial
		if r.backlog {
			r.trial = stallTrial
		}
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

// longest is the longest wait of a flow by its plan, on its clock.
func (f *flow) longest() int64 {
	d := f.line.load
	if f.line == &d.lines[sessions] {
		return d.plan.SessionWait
	}
	most := d.maxWait(f.rank.index)
	if f.probe { // a pool that does not get its answer opens new connections
		most = max(most, defaultMaxWait)
	}
	return most
}

// limit is what is left of that while its queue stands.
func (f *flow) limit() int64 {
	d, r := f.line.load, f.rank
	switch {
	case f.probe || f.line == &d.lines[sessions]:
		return f.longest()
	case f.line.policy == CoDel && r.on:
		return min(d.plan.MaxWait, codelWait)
	}
	most := d.maxWait(r.index)
	if d.plan.Mode == Enforce && r.on {
		most = min(most, f.shedAt())
	}
	return most
}

// shedAt is the longest wait of a flow of a lower class whose queue stands, in the time of its
// clock, where the guard is enforced.
func (f *flow) shedAt() int64 {
	if f.rank.on && !f.kept && f.line.load.guards() && f.line.kind() == slots && ClassAt(f.rank.index) > Critical {
		if target, _, ok := f.rank.target(); ok {
			return max(3*target, int64(f.line.load.drain.mean)) // slots may come free all at once
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
