package admission

// dispatch refuses who has to go or is too old, then grants what is free as long as
// somebody can use it. While there are more of those than it refuses at once nobody is
// granted.
func (g *Gate) dispatch(now int64, out []Verdict) []Verdict {
	g.tick(now)
	g.stand(now)
	if g.behind = false; g.budgetAt != now {
		g.budget, g.budgetAt = mostEvicted, now
	}
	if g.leaving || len(g.owed) > 0 {
		out = g.turnOut(now, out)
		g.behind = g.leaving
	}
	if g.waiting > 0 {
		g.look(now)
		out = g.tooLate(now, g.expire(now, out))
		g.behind = g.behind || g.budget == 0
		g.favour(now)
	}
	for g.waiting > 0 && !g.behind {
		w, t := g.pick()
		if w == nil {
			break
		}
		if g.hopeless(now, w, w.needs) {
			out = append(out, g.evict(now, w, Deadline))
			continue
		}
		grant, ok := uint32(0), true
		if w.Want != Slot {
			grant, ok = g.supply.Reserve(w.Key, now)
		}
		if !ok {
			g.drained(w.Key)
			g.favour(now) // a head may have looked served until now
			continue
		}
		g.pass(now, w, t)
		t = g.pay(w, t)
		f := w.flows[mainLine]
		g.remove(w)
		g.caughtUp(f)
		out = append(out, g.granted(now, w, grant, t))
		g.tell(now, w)
	}
	g.tellUsable(now)
	return out
}

// pick chooses who goes next among those whose keys may have a server, and on
// which permit.
func (g *Gate) pick() (w *Waiter, t Ticket) {
	next := g.best(g.side[slots])
	if g.side[slots].free() > 0 {
		if p := g.best(g.side[probes]); p != nil && (next == nil || p.first != next.head()) {
			return p.first, ticket(p.first, probes)
		}
	}
	kind := slots
	if next == nil {
		next, kind = g.best(g.side[extras]), extras
	}
	if s := g.best(g.side[sessions]); s != nil && (next == nil || s.first.seq < next.first.seq) {
		next, kind = s, sessions
	}
	if next == nil {
		return nil, t
	}
	w = next.head()
	return w, ticket(w, kind)
}

// ticket is what w gets on a permit of a kind.
func ticket(w *Waiter, kind int) Ticket {
	return Ticket{Workload: w.Workload, Want: w.Want, Lane: kind == probes, Extra: kind == extras}
}

// pass notes who is passed over because w is granted t.
func (g *Gate) pass(now int64, w *Waiter, t Ticket) {
	if g.waiting == 0 || t.Lane || t.Extra {
		return
	}
	l := g.loads[w.Workload].line(w)
	l.side.passOver(l, now)
	if w.Want != Slot {
		seq := w.seq
		if w.gate == nil { // a newcomer
			seq = never
		}
		g.side[slots+sessions-l.kind()].passOlder(seq, now)
	}
	f := w.flows[mainLine] // nil: a newcomer
	g.passOver(l, f, now)
	g.starve(now, l)
	if f != nil {
		f.rank.granted()
	}
	l.side.settle(l)
}

// starve notes that the oldest waiter of a line waits for a key that nobody was served of for
// long. Whatever the order: others of its kind go on, for their key has a server, and this one
// has none.
func (g *Gate) starve(now int64, l *line) {
	w := l.oldest()
	if w == nil || now-w.joined < starved {
		return
	}
	if f := w.flows[l.link]; f.parked && !(f.inPassed > 0 && f.starves) && now-g.keys[w.Key].grantedAt >= starved {
		if f.inPassed == 0 {
			f.pass(now, false)
		}
		f.starves = true
		l.late.put(f, true)
	}
}

// pay charges w for t where others wait for the same, and returns t with that.
func (g *Gate) pay(w *Waiter, t Ticket) Ticket {
	if w.Want == Session {
		return t
	}
	l := &g.loads[w.Workload].lines[slots]
	if l.policy != Guard {
		return t
	}
	if r := &l.ranks[w.class]; r.n > 0 {
		t.tenant, t.expected = g.book.pay(r, w), w.expected
	}
	return t
}

// settleTicket charges for the time that a ticket has held its slot what was not expected.
func (g *Gate) settleTicket(t Ticket, held int64) {
	if t.tenant == nil {
		return
	}
	g.book.paid(t.tenant, t.expected, held) // changes nothing of which a side's order is made
}

// favour gives up a server of another key for the head of a line, if it is
// time.
func (g *Gate) favour(now int64) {
	const tries = 8 // of those who were passed over; the rest has its turn later
	for _, s := range [...]*side{g.side[slots], g.side[sessions]} {
		for i := 0; i < min(len(s.late.items), tries); i++ {
			l := s.late.items[i]
			f := l.late.items[0]
			urgent := f.outdone && g.lowerIsNext(s, f)
			if f.moveAt(urgent) > now || g.hasMoved && now < g.moved+s.moveGap(f, urgent) {
				continue
			}
			if s == g.side[sessions] && !s.may(l) {
				continue // it could not use it before a session ends
			}
			if k := f.key; !f.slot && g.keys[k].dry && g.supply.Steal(k, now, urgent) {
				g.moved, g.hasMoved = now, true
				g.moves++
			}
		}
	}
}

// lowerIsNext reports whether a lower class than the flow's would be served now: a class does
// not keep its servers while a higher one has none.
func (g *Gate) lowerIsNext(s *side, f *flow) bool {
	next := g.best(s)
	return next != nil && next.rank.index > f.rank.index
}

// moveAt is when another key may give up a server for the flow.
func (f *flow) moveAt(urgent bool) int64 {
	if urgent {
		return f.passed
	}
	return f.passed + passOver
}

// moveGap is how soon after another move one may be made for the flow.
func (s *side) moveGap(f *flow, urgent bool) int64 {
	switch {
	case urgent:
		return moveUrgent
	case f.starves, !f.line.borrows && s.borrowed > 0:
		return moveOwn
	}
	return moveEvery
}

// favourAt is when a head may have another key's server: not before it was
// passed over for long enough, nor too soon after the last move.
func (g *Gate) favourAt() int64 {
	at := int64(never)
	for _, s := range [...]*side{g.side[slots], g.side[sessions]} {
		l, ok := s.late.top()
		if !ok {
			continue
		}
		f := l.late.items[0]
		due := f.moveAt(false)
		if g.hasMoved {
			due = max(due, g.moved+s.moveGap(f, false))
		}
		at = min(at, due)
	}
	return at
}

// granted accounts for a ticket to w, which is in no line any more.
func (g *Gate) granted(now int64, w *Waiter, grant uint32, t Ticket) Verdict {
	d := g.loads[t.Workload]
	l := d.line(w)
	if t.Extra {
		d.extra++
		g.side[extras].use(g.lanes[extras], 1)
	} else {
		l.side.use(l, 1)
	}
	if t.Lane {
		g.side[probes].use(g.lanes[probes], 1)
	}
	waited := now - w.arrived
	t.key, t.class = w.Key, w.class
	e := &g.keys[w.Key]
	e.grantedAt = now
	if w.Want != Session {
		e.running[w.class]++
	}
	g.movedAt = max(g.movedAt, now)
	d.stats.granted[w.Want]++
	d.stats.served.add(waited)
	if w.Want != Session {
		c := &d.stats.classes[w.Class.index()]
		c.granted++
		c.served.add(waited)
	}
	return Verdict{
		W: w, Outcome: Granted, Ticket: t, Grant: grant,
		Waited: waited, Queued: d.waiting(), Slots: d.part,
	}
}

// evict takes w out of the queue and refuses it.
func (g *Gate) evict(now int64, w *Waiter, r Reason) Verdict {
	if w.sub != nil {
		w.sub.tenant.refused++
	}
	g.remove(w)
	g.tell(now, w)
	return g.refusal(now, w, r)
}

// refusal accounts for a refusal of w, which is in no line.
func (g *Gate) refusal(now int64, w *Waiter, r Reason) Verdict {
	d := g.loads[w.Workload]
	waited := now - w.arrived
	d.stats.refused[r]++
	d.stats.turnedAway.add(waited)
	if w.Want != Session {
		c := &d.stats.classes[w.Class.index()]
		c.refused[r]++
		c.turnedAway.add(waited)
		g.inVain(now, w, r)
		switch rank := d.line(w).rankOf(w); {
		case r == Deadline && (waited > 0 || w.Deadline > now): // else it was too late when it came
			g.hurts(now, rank)
		case r == QueueAge && rank.on && rank.line.policy == Guard:
			rank.moved = now
		}
	}
	return Verdict{
		W: w, Outcome: Refused, Reason: r, Waited: waited,
		Queued: d.waiting(), Slots: d.part, RetryAfter: g.retryAfter(now, d, w),
	}
}

// retryAfter is the hint of Verdict.RetryAfter: the time for twice what waits, and for those
// who were refused lately, who will come back as well.
func (g *Gate) retryAfter(now int64, d *load, w *Waiter) int64 {
	const least, most, stall = 100e6, 5e9, 1e9
	work := max(d.drain.toDrain(2*float64(d.waiting())+d.refusals.count(now), d.atWork()), least)
	if g.stalled(now) {
		work = max(work, stall) // who comes back earlier meets the same
	}
	if w.Attempt > 1 {
		work *= float64(int(1) << min(w.Attempt-1, 6))
	}
	d.refusals.add(now)
	return int64(min(work, most) * (0.5 + g.rnd()))
}

// remove takes w out of where it waits without a turn.
func (g *Gate) remove(w *Waiter) {
	if w.halted {
		g.unhalt(w)
	} else {
		g.exit(w)
	}
	w.gate = nil
}

// usableTotal is how many servers more could be used now, over all keys.
func (g *Gate) usableTotal() int {
	return g.side[slots].usable() + g.side[sessions].usable() + g.side[extras].usable()
}

// usable is how many of those who wait for a server of k could use one now.
func (g *Gate) usable(k Key) (n int) {
	if int(k) >= len(g.keys) {
		return 0
	}
	for f := g.keys[k].flows; f != nil; f = f.next {
		if !f.slot && f.line != g.lanes[probes] {
			n += min(f.n, f.line.side.allows(f.line))
		}
	}
	return n
}

// tell passes on that the number of those changed who wait for a server of w's
// key.
func (g *Gate) tell(now int64, w *Waiter) {
	if w.Want == Slot {
		return
	}
	g.told = g.usableTotal()
	g.supply.Demand(w.Key, g.keys[w.Key].waiting, g.told, now)
}

// tellUsable passes on that the number of servers changed that could be used,
// if anybody waits: without waiters there is no demand that it could limit, and
// the next one brings the number along.
func (g *Gate) tellUsable(now int64) {
	if len(g.active) == 0 {
		return
	}
	if n := g.usableTotal(); n != g.told {
		g.told = n
		k := g.active[0]
		g.supply.Demand(k, g.keys[k].waiting, n, now)
	}
}
