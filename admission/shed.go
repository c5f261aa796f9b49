package admission

// Who is refused before its time, and why it is not somebody else.

const (
	// keepWork is how much work a rank keeps in its queue while it stands, keepLess when it has
	// stood for so long that it is no burst.
	keepWork = 100e6
	keepLess = 20e6
	// keepLeast is how many waiters it keeps in any case: with one alone slots fall idle.
	keepLeast = 2
	// headStart is by how much at most, in ns, work goes before other work that was begun later,
	// and for how long after a queue has begun to stand: of the pages that it had let in until
	// then all come to their ends, and those that have waited longest first.
	headStart = 2e9
	// mostExpected is the most that is believed about how long a slot is held.
	mostExpected = 3600e9
	// How many may wait under Priority for each slot.
	priorityLow, priorityHigh = 1, 8
)

// judge notes what w is taken for: its class, and how long it is expected to hold a slot.
func (g *Gate) judge(w *Waiter) {
	d := g.loads[w.Workload]
	w.class = int8(w.Class.index())
	if w.Probe {
		w.class = min(w.class, int8(Critical.index())) // a pool that does not get its answer opens new connections
	}
	w.expected = min(w.Expected, mostExpected)
	if w.expected <= 0 && d.drain.known() {
		w.expected = int64(d.drain.mean)
	}
	w.needs = w.expected
	l := d.line(w)
	if w.Attempt >= 2 && l.policy == Guard && l.ranks[w.class].on && w.class < Classes-1 {
		w.class++
	}
}

// hopeless reports whether w is refused because its answer would come too late even if it got
// a slot now that it held for no longer than expected.
func (g *Gate) hopeless(now int64, w *Waiter, expected int64) bool {
	if w.Deadline == 0 || w.Want == Session || now+expected <= w.Deadline {
		return false
	}
	switch g.loads[w.Workload].plan.Policy {
	case Guard:
		return !g.only(w, Deadline)
	case FIFODeadline, Bounded, LIFODeadline:
		return true
	}
	return false
}

// kept reports whether w comes first in its tenant's part and makes room for nobody.
func kept(w *Waiter) bool { return w.Continuing }

// underWay is since when w counts as begun among those that continue: work of before its queue
// stood goes first for a while, later they go by the order of arrival, so that who never ends
// does not keep the others from theirs.
func (g *Gate) underWay(now int64, w *Waiter) int64 {
	r := g.loads[w.Workload].line(w).rankOf(w)
	switch {
	case !w.Continuing || w.Since == 0, r.on && (w.Since >= r.began || now-r.began > headStart):
		return now
	}
	return max(w.Since, now-headStart)
}

// mayLose reports whether w may be displaced, or would be if the guard were enforced.
func mayLose(w *Waiter) bool { return !w.Continuing && !w.Probe && !w.Reserved && !w.would }

// privileged reports whether w has a lane with slots of its own, so that the queue before it
// says nothing about its wait.
func (g *Gate) privileged(w *Waiter) bool { return w.Probe || w.Reserved && g.plan.Extra > 0 }

// door says why w, which cannot be served at once, may not wait. It may have
// displaced somebody for w.
func (g *Gate) door(now int64, w *Waiter) Reason {
	d := g.loads[w.Workload]
	if d.plan.Policy == Guard && w.Want != Session && !d.plan.Patient && !g.privileged(w) {
		if r := g.predict(now, w); r != None && !g.only(w, r) {
			return r
		}
	}
	if !g.full(w) {
		return None
	}
	if d.guards() && w.Want != Session && !w.Probe && !w.would {
		l := d.line(w)
		for i := Classes - 1; i > int(w.class); i-- {
			switch v := l.ranks[i].victim(); {
			case v == nil:
			case g.only(v, Displaced):
				return QueueFull
			default:
				g.displace(now, v)
				return None
			}
		}
	}
	return QueueFull
}

// only counts what would have been refused if the guard were enforced, once for each waiter. It
// reports whether that is all. Who was counted waits on, but whoever comes is judged as if it
// did not: enforced, it would be gone.
func (g *Gate) only(w *Waiter, r Reason) bool {
	d := g.loads[w.Workload]
	if d.plan.Mode == Enforce {
		return false
	}
	if d.plan.Mode == DryRun && !w.would {
		d.stats.classes[w.Class.index()].would[r]++
		if w.sub != nil {
			w.sub.tenant.count(w, -1)
		}
		w.would = true
	}
	return true
}

// relive counts w, which waits, again if it does not count because of a mode that is over.
func (g *Gate) relive(w *Waiter) {
	if !w.would || g.loads[w.Workload].plan.Mode == DryRun {
		return
	}
	w.would = false
	if w.sub != nil {
		f := w.flows[mainLine]
		w.sub.tenant.count(w, 1)
		w.sub.seen, f.left = nil, f.first
	}
}

// predict says why w should not wait: for too long, or for an answer that comes too late.
func (g *Gate) predict(now int64, w *Waiter) Reason {
	d := g.loads[w.Workload]
	wait := g.predicted(w)
	switch {
	case w.Deadline != 0 && now+wait+w.needs > w.Deadline:
		return Deadline
	case wait == 0, wait+w.expected/2 <= d.maxWait(int(w.class)): // else chance decides, after a long wait
	case kept(w) && d.line(w).ranks[w.class].on: // it comes before those who are predicted for
	default:
		return QueueWait
	}
	return None
}

// predicted is how long w would wait, in ns: for the work above it, and for that of its
// class, as far as its role and its tenant have to wait for the others. While its queue
// stands the newest is first. It is 0 where only a server is missing.
func (g *Gate) predicted(w *Waiter) int64 {
	if g.lacking(w) {
		return 0
	}
	l := g.loads[w.Workload].line(w)
	work := 0.0
	for i := range int(w.class) {
		work += float64(l.ranks[i].work)
	}
	limit := float64(max(l.own, l.used, 1))
	if r := &l.ranks[w.class]; !r.on && w.Deadline == 0 && (work+float64(r.work))/limit <= float64(g.loads[w.Workload].maxWait(r.index)) {
		work += float64(r.work) // it does not matter that some of it comes later
	} else if !r.on {
		work += g.book.before(r, w)
	}
	return int64(min((work+float64(w.expected))/limit, never/4)) // the first slot is not free at once either
}

// lacking reports whether slots are free for a newcomer and all who wait in its line: only a
// server is missing. None is opened for those who are turned away, and without one nothing is
// learned that would let them in later: so what the work is expected to take says nothing.
func (g *Gate) lacking(w *Waiter) bool {
	l := g.loads[w.Workload].line(w)
	return l.n < l.side.allows(l)
}

// before is how much of the work of a rank is served before w, in ns, if all roles and tenants
// have their turns.
func (b *book) before(r *rank, w *Waiter) float64 {
	all, roles, expected := float64(r.work), float64(r.active), float64(w.expected)
	o := b.roles[roleName{r, w.Role}]
	if o == nil || o.waiting == 0 {
		return min(all, expected*(roles+1))
	}
	all = min(all, float64(o.work)*roles)
	t := b.tenants[tenantName{o, w.Tenant}]
	if t == nil || t.waiting == 0 {
		return min(all, expected*float64(o.active+1)*roles)
	}
	return min(all, float64(t.work)*float64(o.active)*roles)
}

// victim is who is displaced first: the oldest of the tenant that has most in the queue, of
// the role that has most. nil if there is nobody.
func (r *rank) victim() *Waiter {
	o, ok := r.fullest.top()
	if !ok {
		return nil
	}
	var v *Waiter
	for s := o.fullest.items[0].subs; s != nil; s = s.next {
		if s.flow.kept {
			continue
		}
		if w := s.loser(); w != nil && (v == nil || w.seq < v.seq) {
			v = w
		}
	}
	return v
}

// keeps is how many waiters that may be displaced the rank keeps while its queue stands. Those
// above it come first, and count.
func (r *rank) keeps(now int64) int {
	d := r.line.load
	work := float64(min(keepWork, d.maxWait(r.index)/2))
	if now-r.since >= settled {
		work = min(work, keepLess)
	}
	rate := d.drain.perSecond(d.atWork())
	n := max(keepLeast, int(ceil(rate*work/1e9)))
	for i := range r.index {
		n -= r.line.ranks[i].n
	}
	return max(n, 1)
}

// makeRoom displaces somebody for w, which has just come, from the lowest queue that stands,
// not above w's own. It reports whether that was w itself.
func (g *Gate) makeRoom(now int64, w *Waiter) bool {
	d := g.loads[w.Workload]
	l := d.line(w)
	if l.policy != Guard || d.plan.Patient || w.Probe || w.Reserved {
		return false
	}
	for i := Classes - 1; i >= max(int(w.class), CriticalPlus.index()+1); i-- {
		r := &l.ranks[i]
		if !r.on || r.fresh <= r.keeps(now) {
			continue
		}
		v := r.victim()
		if g.only(v, Displaced) {
			return false
		}
		r.moved = now
		if v == w {
			return true
		}
		g.displace(now, v)
		return false
	}
	return false
}

func (g *Gate) displace(now int64, v *Waiter) {
	g.displaced = append(g.displaced, g.evict(now, v, Displaced))
}

// tooLate refuses those whose answers would come too late even if they were served now.
func (g *Gate) tooLate(now int64, out []Verdict) []Verdict {
	for w, ok := g.late.top(); ok && w.late < now; w, ok = g.late.top() {
		if g.only(w, Deadline) {
			g.late.put(w, false)
			continue
		}
		if g.budget == 0 {
			break
		}
		g.budget--
		out = append(out, g.evict(now, w, Deadline))
	}
	return out
}

// stalled reports whether nothing has ended for long while all slots are busy.
func (g *Gate) stalled(now int64) bool {
	const least, gaps = 250e6, 23 // five times the gap that one in a hundred is longer than, if they are random
	s := g.side[slots]
	if s.limit == 0 || s.used < s.limit || !g.drain.known() {
		return false
	}
	return now-g.movedAt > max(least, int64(gaps*g.drain.mean)/int64(s.limit))
}

// revive ends a stall. Who waits in queues in which some have waited for as long as they may
// was held up for so long that the rest is a backlog: who comes now goes first, and takes
// their places.
func (g *Gate) revive(now int64) {
	for _, d := range g.loads {
		for i := range d.lines[slots].ranks {
			r := &d.lines[slots].ranks[i]
			if r.n == 0 || !r.stands() || now-g.movedAt < d.maxWait(i) {
				continue
			}
			r.hurt, r.pains, r.backlog = now, manyPains+r.n, true
			g.aged(now, r)
			r.backlog = false
		}
	}
}
