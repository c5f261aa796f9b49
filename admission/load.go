package admission

// load is what the gate knows of a workload.
type load struct {
	index uint16
	plan  Workload
	lines [sessions + 1]line // for slots and for sessions
	part  int                // of the slots, rounded, at least 1 if there are any

	probes   int           // of its waiters
	halted   heap[*Waiter] // of its waiters stand in no line, by arrival
	extra    int           // its transactions on Extra's slots
	pinned   int           // servers that its sessions keep by Pin
	drain    drainRate
	refusals lately
	stats    counters
	vain     vain
}

// line is where w waits.
func (d *load) line(w *Waiter) *line {
	if w.Want == Session {
		return &d.lines[sessions]
	}
	return &d.lines[slots]
}

// queued is how many stand in its lines, waiting is how many wait.
func (d *load) queued() int  { return d.lines[slots].n + d.lines[sessions].n }
func (d *load) waiting() int { return d.queued() + len(d.halted.items) }

// atWork is how many slots it gets on with: its part, or those that it has with what others
// lend it, if they are more.
func (d *load) atWork() int { return max(d.part, d.lines[slots].used) }

// maxWaiting is the queue's bound in force.
func (d *load) maxWaiting() int {
	if d.plan.MaxWaiting > 0 {
		return d.plan.MaxWaiting
	}
	floor := slotsAuto * max(d.part, 1)
	if !d.drain.known() {
		// After a start everybody comes at once; to refuse them on a guess would
		// break a good day, and max_wait bounds them all the same.
		return max(floor, maxAuto)
	}
	n := d.drain.within(d.plan.MaxWait, d.atWork())
	return max(floor, int(min(n, maxAuto)))
}

// full reports whether w's bound is reached. The reserved have one of their own: a queue
// that is full of others must not keep them from the slots that are kept for them.
func (g *Gate) full(w *Waiter) bool {
	d := g.loads[w.Workload]
	switch {
	case w.Probe:
		return g.probes >= g.plan.ProbeWaiting
	case w.Reserved && w.Want != Session && g.plan.Extra > 0:
		return g.lanes[extras].n >= g.plan.ProbeWaiting
	}
	n := d.queued() - d.probes
	if d.plan.Policy == Priority && w.Want != Session {
		each := priorityHigh
		if w.Class > Critical {
			each = priorityLow
		}
		if n >= each*max(d.part, 1) {
			return true
		}
	}
	return n >= d.maxWaiting()
}

// grow makes sure that there are n workloads.
func (g *Gate) grow(n int) {
	for len(g.loads) < n {
		d := &load{index: uint16(len(g.loads)), plan: Workload{}.withDefaults()}
		d.halted = heap[*Waiter]{less: func(a, b *Waiter) bool { return a.arrived < b.arrived }, place: func(w *Waiter) *int32 { return &w.inHalted }}
		for kind := range d.lines {
			id := uint64(len(g.loads)*len(d.lines) + kind + sides)
			d.lines[kind].set(g.side[kind], d, mainLine, id)
		}
		g.loads = append(g.loads, d)
		g.configure(len(g.loads) - 1)
	}
}

// configure brings one workload to the plan in force. One that the plan does
// not know any more keeps its limits and may only borrow.
func (g *Gate) configure(i int) {
	d := g.loads[i]
	if i < len(g.plan.Workloads) {
		d.plan = g.plan.Workloads[i]
	} else {
		d.plan.Share, d.plan.Lendable, d.plan.Borrow = 0, 1, 1
	}
	p := d.plan
	d.lines[slots].policy = p.Policy
	d.part = int(p.Share*float64(g.plan.Slots) + 0.5)
	if g.plan.Slots > 0 {
		d.part = max(d.part, 1)
	}
	for kind := range d.lines {
		l := &d.lines[kind]
		l.configure(g.side[kind].limit, p.Share, p.Lendable, p.Borrow, kind == sessions)
		g.side[kind].settle(l)
	}
}
