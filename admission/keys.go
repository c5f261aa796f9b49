package admission

// keyState is what the gate knows of a key.
type keyState struct {
	flows   *flow // those with waiters
	waiting int   // how many wait for a server of it, the halted not counted
	parked  int   // flows that are not in their line's heap
	dry     bool  // known to have no idle server
	hot     int32 // index in Gate.hot + 1: may have a server, and has parked flows
	paused  bool
	active  int32 // index in Gate.active + 1, while somebody waits for a server

	grantedAt int64          // when somebody was last let in
	running   [Classes]int32 // tickets out, by class

	halted list   // who wait while it is paused
	refuse uint64 // who came up to here are to be refused: there will be no server; 0 = nobody

	mode  mode
	since int64 // when it got into its mode
}

// key returns k's state. The table grows with the keys ever seen and stays;
// pointers into it are good until the next call with a new key.
func (g *Gate) key(k Key) *keyState {
	for int(k) >= len(g.keys) {
		g.keys = append(g.keys, keyState{paused: g.pauseNew})
	}
	return &g.keys[k]
}

// flowName tells the flows apart.
type flowName struct {
	place uint64 // line, probe, class, kept, slot and key
	role  uint32 // where their order is by roles: several may share a key
}

// flowName is the name of the flow of a line to which w belongs.
func (l *line) flowName(w *Waiter) flowName {
	name := flowName{place: l.id<<37 | uint64(w.Key)}
	if w.Want == Slot {
		name.place |= 1 << 32
	}
	if w.Probe {
		name.place |= 1 << 36
	}
	if l.policy == Guard {
		name.role = w.Role
		name.place |= uint64(w.class) << 34
		if kept(w) {
			name.place |= 1 << 33
		}
	}
	return name
}

// mostCompared is how many flows of a key are looked at before the table is: there are seldom
// more, and the table costs as much as ten of them.
const mostCompared = 4

// flow returns the flow of l to which w belongs, new if nobody of it waits.
func (g *Gate) flow(now int64, l *line, w *Waiter) *flow {
	name := l.flowName(w)
	for f, n := g.key(w.Key).flows, 0; f != nil && n < mostCompared; f, n = f.next, n+1 {
		if f.name == name {
			return f
		}
	}
	if f := g.flows[name]; f != nil {
		return f
	}
	f := g.unused
	if f == nil {
		f = new(flow)
		f.subs = heap[*sub]{less: (*sub).cheaper, place: func(s *sub) *int32 { return &s.inFlow }}
	} else {
		g.unused = f.next
	}
	*f = flow{
		line: l, rank: l.rankOf(w), key: w.Key, slot: w.Want == Slot, probe: w.Probe, kept: l.policy == Guard && kept(w),
		name: name, subs: f.subs, parked: true, // until it has somebody to be in the heap for
	}
	g.flows[name] = f
	f.nextRank = f.rank.flows
	if f.nextRank != nil {
		f.nextRank.prevRank = f
	}
	f.rank.flows = f

	k := g.key(w.Key)
	f.next = k.flows
	if f.next != nil {
		f.next.prev = f
	}
	k.flows = f
	k.parked++
	if f.served() && k.active == 0 {
		g.activate(now, w.Key)
	}
	f.begin(now, 0)
	return f
}

// forget drops a flow in which nobody is left.
func (g *Gate) forget(f *flow) {
	k := g.key(f.key)
	if f.parked {
		k.parked--
	} else {
		f.line.ready--
	}
	f.lift()
	f.line.late.put(f, false)
	if f.prevRank == nil {
		f.rank.flows = f.nextRank
	} else {
		f.prevRank.nextRank = f.nextRank
	}
	if f.nextRank != nil {
		f.nextRank.prevRank = f.prevRank
	}
	g.byTime.put(f, false)
	g.ends.put(f, false)
	g.sheds.put(f, false)
	f.line.warm.put(f, false)
	delete(g.flows, f.name)
	if f.prev == nil {
		k.flows = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	}
	*f = flow{next: g.unused, subs: f.subs}
	g.unused = f
	if k.parked == 0 {
		g.cool(k)
	}
}

// enter puts w into its line, and into its lane.
func (g *Gate) enter(now int64, w *Waiter) {
	l := g.loads[w.Workload].line(w)
	w.joined = now
	g.relive(w)
	f := g.flow(now, l, w)
	w.start += g.clock(now, f)
	w.begins += now
	l.insert(w, f)
	if l.policy == Guard {
		g.book.join(f, w)
	}
	if f.served() {
		g.keys[w.Key].waiting++
	}
	if w.again {
		g.bind(w)
	}
	g.place(f)
	g.schedule(f)
	if f.rank.head == w {
		g.aged(now, f.rank)
	}
	if w.Deadline != 0 {
		g.watch(w)
	}
	if lane := g.lane(w); lane != nil {
		f := g.flow(now, lane, w)
		lane.insert(w, f)
		g.place(f)
	}
	g.waiting++
	if w.Probe {
		l.load.probes++
		g.probes++
	}
}

// place puts f into one of its rank's heaps, or to its place there.
func (g *Gate) place(f *flow) {
	k := &g.keys[f.key]
	if f.parked && (f.slot || !k.dry) {
		f.parked = false
		k.parked--
		f.line.ready++
		if k.parked == 0 {
			g.cool(k)
		}
	}
	f.stands = true
	f.place()
	f.line.side.settle(f.line)
}

// exit takes w out of its lines without a turn.
func (g *Gate) exit(w *Waiter) {
	if w.flows[laneLine] != nil {
		g.unlink(w, laneLine)
	}
	f := w.flows[mainLine]
	served := f.served()
	if w.Probe {
		f.line.load.probes--
		g.probes--
	}
	g.late.put(w, false)
	if w.again {
		g.again.put(w, false)
	}
	g.unlink(w, mainLine)
	if served {
		g.keys[w.Key].waiting--
		if g.keys[w.Key].waiting == 0 {
			g.deactivate(w.Key)
		}
	}
	g.waiting--
}

// unlink takes w out of one of its lines.
func (g *Gate) unlink(w *Waiter, which int) {
	f := w.flows[which]
	l, r := f.line, f.rank
	first, oldest := f.first == w, r.head == w
	f.lift()
	if w.sub != nil && which == mainLine {
		g.book.leave(w)
	}
	l.remove(w)
	if f.n == 0 {
		g.forget(f)
	} else {
		f.place()
		if first && which == mainLine {
			g.schedule(f)
		}
	}
	if r.n == 0 {
		r.credit = 0
		g.book.sleepers(r)
	}
	l.side.settle(l)
	if oldest && which == mainLine {
		g.aged(g.now, r)
	}
}

// ready says that k may have an idle server.
func (g *Gate) ready(k Key) {
	e := g.key(k)
	e.dry = false
	if e.parked > 0 && e.hot == 0 {
		g.hot = append(g.hot, k)
		e.hot = int32(len(g.hot))
	}
}

// drained says that k has no idle server. Its flows leave their lines' heaps
// when they come up there.
func (g *Gate) drained(k Key) {
	e := g.key(k)
	e.dry = true
	g.cool(e)
}

// cool takes a key out of the list of those whose parked flows are looked at.
func (g *Gate) cool(e *keyState) {
	if e.hot == 0 {
		return
	}
	last := len(g.hot) - 1
	moved := g.hot[last]
	g.hot[e.hot-1] = moved
	g.keys[moved].hot = e.hot
	g.hot = g.hot[:last]
	e.hot = 0
}

// park takes f out of its line's heap, for its key has no server.
func (g *Gate) park(f *flow) {
	f.lift()
	f.parked = true
	f.place()
	f.line.ready--
	g.key(f.key).parked++
	f.line.side.settle(f.line)
}

// best is the flow of a side whose head goes next: that of the first line by
// order, and of its flows the first by its policy, among those whose keys may have a
// server. nil if nobody may go.
func (g *Gate) best(s *side) *flow {
	if s.usable() == 0 {
		return nil
	}
	var found *flow
	for l, ok := s.open.top(); ok && found == nil; l, ok = s.open.top() {
		if f := l.firstOf(false); !f.slot && g.keys[f.key].dry {
			g.park(f)
		} else {
			found = f
		}
	}
	for _, k := range g.hot {
		for f := g.keys[k].flows; f != nil; f = f.next {
			if f.line.side == s && f.parked && f.line.used < f.line.most && f.before(found) {
				found = f
			}
		}
	}
	if found == nil || !s.may(found.line) {
		return nil // and so no other, for it has the best claim
	}
	return found
}

// ahead reports whether somebody waits for a server of k who could go if it had
// one: it has none then, or one that is not reported yet.
func (g *Gate) ahead(k Key) bool {
	for f := g.key(k).flows; f != nil; f = f.next {
		if f.served() && f.line.side.may(f.line) {
			return true
		}
	}
	return false
}
