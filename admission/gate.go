package admission

import "math"

const (
	// passOver is how long affinity may pass over the head of a line.
	passOver = 50e6
	// starved is for how long nobody of a key was served when its waiters are passed over,
	// wherever they stand.
	starved = 200e6
	// moveEvery is the shortest time between two servers given up by force,
	// moveOwn where the head's line uses less than its part while others borrow, or where
	// nobody of its key was served for long, moveUrgent where a lower class went before it.
	moveEvery  = 100e6
	moveOwn    = 50e6
	moveUrgent = 25e6
	// maxAuto bounds the automatic queue length, slotsAuto times the slots is
	// its floor.
	maxAuto   = 1000
	slotsAuto = 4
	// mostEvicted is how many are refused at one moment, but for newcomers and those who make
	// room. Where thousands came at once, they are too old at once, or lose their servers at
	// once, and nobody else must wait until all have been told.
	mostEvicted = 128
	// never is the time that does not come.
	never = math.MaxInt64
)

// Gate is the admission to one upstream. It has no lock: the caller's mutex
// guards it together with its Supply. Times are the caller's monotonic
// nanoseconds and must not run backwards.
type Gate struct {
	plan    Plan
	supply  Supply
	down    Downer // supply, if it knows
	fails   Failer
	warm    Warmer
	changes Changer
	rnd     func() float64

	side  [sides]*side
	lanes [sides]*line // of probes and extras
	loads []*load      // by workload
	keys  []keyState   // by key

	flows  map[flowName]*flow // with waiters, by name
	unused *flow              // to be used again
	hot    []Key              // may have a server, and has parked flows
	active []Key              // somebody waits for a server

	byTime heap[*flow]   // by the time when the first waiter is too old; but see side.warm
	sheds  heap[*flow]   // under DryRun, by the time when the first waiter would be too old
	late   heap[*Waiter] // by the time when it is too late for their deadline
	stands heap[*rank]   // by the time when to look whether their queues stand
	book   book
	seen   uint64 // of changes

	watched []*load // with refusals that may turn out to have been in vain

	waiting  int // in lines,
	probes   int // of these probes
	halted   int // while their keys are paused
	pauseNew bool
	draining bool  // refuse whoever has not begun
	leaving  bool  // and not all of these have been told yet
	owed     []Key // have waiters who are to be refused as there will be no server for them
	budget   int   // how many more may be refused
	budgetAt int64 // at this moment
	behind   bool  // the last dispatch could not refuse all who had to be

	displaced []Verdict // by Admit, not fetched yet

	calmAt   int64 // until when clients come back
	movedAt  int64 // when a ticket was last granted or has ended
	now      int64 // the latest
	seq      uint64
	told     int // servers more that the supply was last told could be used
	moved    int64
	hasMoved bool // moved is the time of a move
	moves    uint64
	drain    drainRate

	ends  heap[*flow]   // of side.warm, by the time when the first waiter is refused in any case
	again heap[*Waiter] // whose waits go on with others, by the time when they are refused in any case
}

// New returns a gate over s. rnd returns numbers in [0, 1) and spreads the
// retry hints; nil means no spread.
func New(p Plan, s Supply, rnd func() float64) *Gate {
	if rnd == nil {
		rnd = func() float64 { return 0.5 }
	}
	g := &Gate{supply: s, rnd: rnd, flows: make(map[flowName]*flow), budget: mostEvicted}
	g.byTime = heap[*flow]{less: earlier, place: func(f *flow) *int32 { return &f.inTime }}
	g.ends = heap[*flow]{less: func(a, b *flow) bool { return a.end < b.end }, place: func(f *flow) *int32 { return &f.inEnds }}
	g.again = heap[*Waiter]{less: func(a, b *Waiter) bool { return a.end < b.end }, place: func(w *Waiter) *int32 { return &w.inAgain }}
	g.sheds = heap[*flow]{less: func(a, b *flow) bool { return a.shed < b.shed }, place: func(f *flow) *int32 { return &f.inShed }}
	g.late = heap[*Waiter]{less: func(a, b *Waiter) bool { return a.late < b.late }, place: func(w *Waiter) *int32 { return &w.inLate }}
	g.stands = heap[*rank]{less: func(a, b *rank) bool { return a.lookAt < b.lookAt }, place: func(r *rank) *int32 { return &r.inStands }}
	g.book.open()
	for i := range g.side {
		g.side[i] = newSide()
	}
	for _, i := range [...]int{probes, extras} {
		g.lanes[i] = newLine(g.side[i], nil, laneLine, uint64(i))
	}
	g.down, _ = s.(Downer)
	g.fails, _ = s.(Failer)
	g.warm, _ = s.(Warmer)
	g.changes, _ = s.(Changer)
	if a, ok := s.(Asker); ok {
		a.Ask(g.usable)
	}
	g.set(p)
	return g
}

func earlier(a, b *flow) bool { return a.due < b.due }

// set puts a plan into force.
func (g *Gate) set(p Plan) {
	g.plan = p.withDefaults()
	g.side[slots].limit = g.plan.Slots
	g.side[sessions].limit = g.plan.Connections
	g.side[probes].limit = 1
	g.side[extras].limit = g.plan.Extra
	for _, i := range [...]int{probes, extras} {
		g.lanes[i].configure(g.side[i].limit, 1, 0, 0, false)
		g.side[i].settle(g.lanes[i])
	}
	for i := range g.loads {
		g.configure(i)
	}
	g.grow(len(g.plan.Workloads))
	for _, s := range g.side {
		s.see()
	}
}

// Admit asks for a ticket for w. The verdict is Granted when w's workload may
// have one, an idle server of w's key is free if it needs one, and nobody waits
// who could have that server; else Queued, or Refused when the queue is full or
// the gate drains and w has not Begun. It panics if w waits already.
func (g *Gate) Admit(now int64, w *Waiter) Verdict {
	if w.gate != nil {
		panic("admission: Admit of a waiter that waits already")
	}
	g.tick(now)
	w.arrived, w.start = now, 0
	if w.again, w.goesOn = w.goesOn, false; !w.again {
		w.begins = 0
	}
	g.grow(int(w.Workload) + 1)
	if g.draining && !w.Begun {
		return g.refusal(now, w, Draining)
	}
	if w.Want == Transaction {
		g.side[sessions].leave = 1 // or the sessions could keep everything
		g.side[sessions].see()
	}
	if g.key(w.Key).paused {
		g.seq++
		w.seq, w.gate, w.would = g.seq, g, false
		g.judge(w)
		g.halt(w)
		return g.queued(w)
	}
	if g.waiting > 0 {
		g.look(now)
		g.favour(now)
		g.stand(now)
	}
	w.would = false
	g.judge(w)
	if g.hopeless(now, w, 1) {
		return g.refusal(now, w, Deadline)
	}
	if v, ok := g.direct(now, w); ok {
		return v
	}
	if g.lacking(w) {
		w.needs = 1 // as of those who find a server
	}
	if !kept(w) {
		g.loads[w.Workload].line(w).rankOf(w).begun++
	}
	if r := g.door(now, w); r != None {
		rank := g.loads[w.Workload].line(w).rankOf(w)
		rank.turned++
		g.book.refused(rank, w)
		return g.refusal(now, w, r)
	}
	g.seq++
	w.seq, w.gate, w.began = g.seq, g, g.underWay(now, w)
	g.enter(now, w)
	g.tell(now, w)
	if w.Want != Session && g.makeRoom(now, w) {
		return g.evict(now, w, Displaced)
	}
	return g.queued(w)
}

// Displaced appends the final verdicts on those whom Admit has refused since the last call,
// to make room. Call it after every Admit.
func (g *Gate) Displaced(out []Verdict) []Verdict {
	out = append(out, g.displaced...)
	clear(g.displaced)
	g.displaced = g.displaced[:0]
	return out
}

func (g *Gate) queued(w *Waiter) Verdict {
	d := g.loads[w.Workload]
	return Verdict{W: w, Outcome: Queued, Queued: d.waiting(), Slots: d.part}
}

// direct grants w without queueing if it may go before all who wait.
func (g *Gate) direct(now int64, w *Waiter) (v Verdict, ok bool) {
	t, ok := g.atOnce(w)
	if !ok {
		return v, false
	}
	grant := uint32(0)
	if w.Want != Slot {
		if grant, ok = g.supply.Reserve(w.Key, now); !ok {
			g.drained(w.Key)
			return v, false
		}
	}
	g.pass(now, w, t)
	t = g.pay(w, t)
	v = g.granted(now, w, grant, t)
	g.tellUsable(now)
	return v, true
}

// atOnce says which permit w may have at once: because nobody could use w's
// server in its place, or because it is one of a lane.
func (g *Gate) atOnce(w *Waiter) (t Ticket, ok bool) {
	t = Ticket{Workload: w.Workload, Want: w.Want}
	l := g.loads[w.Workload].line(w)
	if l.side.may(l) && (w.Want == Slot || !g.ahead(w.Key)) {
		return t, true
	}
	lane := g.lane(w)
	if lane == nil || lane.side.free() == 0 || lane == g.lanes[probes] && l.side.free() == 0 {
		return t, false
	}
	if g.flows[lane.flowName(w)] != nil {
		return t, false // its own kind waits
	}
	t.Lane, t.Extra = lane == g.lanes[probes], lane == g.lanes[extras]
	return t, true
}

// lane returns the lane in which w may stand beside its line; nil = none.
func (g *Gate) lane(w *Waiter) *line {
	switch {
	case w.Want == Session:
		return nil
	case w.Reserved:
		return g.lanes[extras]
	case w.Probe:
		return g.lanes[probes]
	}
	return nil
}

// Withdraw takes w out of the queue, because its client left or cancelled. It
// returns false if w does not wait here: its final verdict was made, and a
// grant among them is the caller's to end with Done or Release.
func (g *Gate) Withdraw(now int64, w *Waiter) bool {
	if w.gate != g {
		return false
	}
	g.tick(now)
	g.remove(w)
	d := g.loads[w.Workload]
	d.stats.withdrawn++
	if w.Want != Session {
		g.hurts(now, d.line(w).rankOf(w))
	}
	g.tell(now, w)
	return true
}

// Done ends a ticket that held its slot for held ns, and grants the slot. Put
// the ticket's server back first and say Returned, so that the order sees it.
// It panics if no such ticket is out.
func (g *Gate) Done(now int64, t Ticket, held int64, out []Verdict) []Verdict {
	if int(t.Workload) >= len(g.loads) {
		panic("admission: Done without a ticket")
	}
	g.tick(now)
	if g.stalled(now) {
		g.revive(now)
	}
	d := g.loads[t.Workload]
	l := &d.lines[slots]
	switch {
	case t.Want == Session:
		panic("admission: Done of a session")
	case t.Extra && d.extra > 0:
		d.extra--
		g.side[extras].use(g.lanes[extras], -1)
	case t.Extra || l.used == 0 || t.Lane && g.side[probes].used == 0:
		panic("admission: Done without a ticket")
	default:
		if t.Lane {
			g.side[probes].use(g.lanes[probes], -1)
		}
		l.side.use(l, -1)
	}
	if e := g.key(t.key); e.running[t.class] > 0 {
		e.running[t.class]--
	}
	d.drain.add(held)
	g.drain.add(held)
	g.movedAt = g.now
	g.settleTicket(t, held)
	return g.dispatch(now, out)
}

// Release ends a session of a workload: the server that it kept went back, or
// ended. Say Supplied first. It panics if the workload has no session.
func (g *Gate) Release(now int64, workload uint16, out []Verdict) []Verdict {
	if int(workload) >= len(g.loads) || g.loads[workload].lines[sessions].used == 0 {
		panic("admission: Release without a session")
	}
	g.tick(now)
	l := &g.loads[workload].lines[sessions]
	l.side.use(l, -1)
	return g.dispatch(now, out)
}

// Supplied says that a server of k became idle.
func (g *Gate) Supplied(now int64, k Key, out []Verdict) []Verdict {
	g.ready(k)
	return g.dispatch(now, out)
}

// Returned is Supplied for a server whose ticket ends with a Done that follows at once: that
// grants both the server and the slot.
func (g *Gate) Returned(k Key) { g.ready(k) }

// Unsupplied says that no server of k can be opened for a reason that will not
// pass by itself (its role or database is refused). Who waits for one is
// refused with NoServer, unless k is paused: some now, the others by Fire.
func (g *Gate) Unsupplied(now int64, k Key, out []Verdict) []Verdict {
	g.tick(now)
	if e := g.key(k); e.waiting > 0 {
		if e.refuse == 0 {
			g.owed = append(g.owed, k)
		}
		e.refuse = g.seq
	}
	return g.dispatch(now, out)
}

// Refuse accounts for a refusal that the caller has decided on, of w, which does not wait.
func (g *Gate) Refuse(now int64, w *Waiter, r Reason) Verdict {
	g.tick(now)
	w.goesOn = false
	return g.refusal(now, w, r)
}

// Fire does what is due at now: refuses those who waited for the maximum time, and those who
// are left of an Unsupplied or a Drain, a hundred of them and the others when it is called
// again,
// and gives up a server for a head of a line that was passed over for too long.
// next is when it wants to be called again; math.MaxInt64 = not by time alone.
// Calling it at any other time does no harm.
func (g *Gate) Fire(now int64, out []Verdict) (next int64, _ []Verdict) {
	out = g.dispatch(now, out)
	next = min(g.due(now), g.standAt())
	if w, ok := g.late.top(); ok {
		next = min(next, w.late+1)
	}
	if due := g.favourAt(); due > now {
		next = min(next, due)
	}
	if g.behind || next <= now { // a queue that came to stand just now may have made some too old
		next = now + 1
	}
	return next, out
}

// Reconfigure puts p into force: more slots are granted at once, fewer take
// effect as tickets end, a shorter MaxWait refuses those who are over it. A
// lower MaxWaiting refuses newcomers only.
func (g *Gate) Reconfigure(now int64, p Plan, out []Verdict) []Verdict {
	g.tick(now)
	g.look(now)
	moved := g.reorder(now, p)
	g.set(p)
	g.rejoin(now, moved)
	g.side[sessions].leave = 0 // until somebody wants a transaction again
	for w := range g.loads {
		if g.loads[w].lines[slots].n > 0 {
			g.side[sessions].leave = 1
		}
	}
	g.side[sessions].see()
	g.rebind()
	for k := range g.keys {
		for f := g.keys[k].flows; f != nil; f = f.next {
			if f.line.load != nil {
				g.schedule(f)
			}
		}
	}
	return g.dispatch(now, out)
}

// Drain refuses all who wait, and every later Admit, with Draining; those who have
// Begun excepted. Some are refused now, the others by Fire. Tickets that are out go on.
func (g *Gate) Drain(now int64, out []Verdict) []Verdict {
	g.draining, g.leaving = true, true
	return g.dispatch(now, out)
}

// Waiting is how many wait, probes and those of paused keys included.
func (g *Gate) Waiting() int { return g.waiting + g.halted }

// Bound is how many of a workload may wait, probes not counted: its MaxWaiting,
// or the automatic one in force.
func (g *Gate) Bound(workload uint16) int {
	if int(workload) >= len(g.loads) {
		return 0
	}
	return g.loads[workload].maxWaiting()
}
