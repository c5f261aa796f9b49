package admission

// mode is how the clocks of a key's waiters run.
type mode uint8

const (
	// counting: what they wait counts towards their limit.
	counting mode = iota
	// warming: servers are being opened. It does not count for sessions, nor
	// for others while a slot is free, which they lack only the server for.
	warming
	// away: no server could be opened. It does not count, but has a limit of
	// its own.
	away
)

// The time of a flow is the real time without how long it stood still. For a warming key
// it stands still while the flow's line may have a permit. That changes often and for many
// flows at once; so flows under a warming key are scheduled by the time of their line, on
// which it does not stand still, and their lines by the time of their class, which is one
// for all lines of it. All these times differ by what is added up only when something moves
// from one to another.

// class says what decides whether a line may have a permit more.
type class uint8

const (
	ownClass    class = iota // it has some of its own left: whether one is free
	borrowClass              // it may borrow: whether one is free that nobody keeps back
	fullClass                // it has all that it may have
	classes
)

// lasting is for how long something holds.
type lasting struct {
	on        bool
	from, sum int64 // since when, if on; and for how long before
}

// at is for how long it has held until now.
func (d *lasting) at(now int64) int64 {
	if d.on {
		return d.sum + now - d.from
	}
	return d.sum
}

// set notes whether it holds from now on.
func (d *lasting) set(now int64, on bool) {
	if on != d.on {
		d.sum, d.from, d.on = d.at(now), now, on
	}
}

// see notes whether permits are free from now on.
func (s *side) see() {
	s.isFree.set(s.now, s.free() > 0)
	s.isSpare.set(s.now, s.free() > s.kept)
}

// able is for how long lines of a class could have had a permit.
func (s *side) able(c class, now int64) int64 {
	switch c {
	case ownClass:
		return s.isFree.at(now)
	case borrowClass:
		return s.isSpare.at(now)
	}
	return 0
}

// stands reports whether the time of a class stands still now.
func (s *side) stands(c class) bool {
	return c == ownClass && s.isFree.on || c == borrowClass && s.isSpare.on
}

// able is for how long the line could have had a permit.
func (l *line) able(now int64) int64 {
	return l.ableSum + l.side.able(l.class, now) - l.ableFrom
}

// classOf is the class that follows from the line's numbers.
func (l *line) classOf() class {
	switch {
	case l.used < l.own:
		return ownClass
	case l.used < l.most:
		return borrowClass
	}
	return fullClass
}

// sort brings the line into its class, and to its place there by when the first of its
// flows is due.
func (s *side) sort(l *line) {
	if c := l.classOf(); c != l.class {
		s.warm[l.class].put(l, false)
		l.ableSum, l.ableFrom = l.able(s.now), s.able(c, s.now)
		l.class = c
	}
	f, ok := l.warm.top()
	if ok {
		l.due = f.due + l.ableSum - l.ableFrom
	}
	s.warm[l.class].put(l, ok)
}

// tick notes the time, which does not run backwards.
func (g *Gate) tick(now int64) {
	if now > g.now && len(g.watched) > 0 {
		g.idle(now)
	}
	g.now = max(g.now, now)
	for _, s := range g.side {
		s.now = g.now
	}
}

// modeOf asks the supply.
func (g *Gate) modeOf(k Key) mode {
	switch {
	case g.down != nil && g.down.Down(k):
		return away
	case g.warm != nil && g.warm.Warming(k):
		return warming
	}
	return counting
}

// activate starts k's clocks: from now on somebody waits for a server of it.
func (g *Gate) activate(now int64, k Key) {
	e := g.key(k)
	g.active = append(g.active, k)
	e.active = int32(len(g.active))
	e.mode, e.since = g.modeOf(k), now
}

func (g *Gate) deactivate(k Key) {
	e := g.key(k)
	last := len(g.active) - 1
	moved := g.active[last]
	g.active[e.active-1] = moved
	g.keys[moved].active = e.active
	g.active = g.active[:last]
	e.active = 0
}

// look notes how it stands with the supply of the keys that are waited for. It
// walks over them only if something changed there.
func (g *Gate) look(now int64) {
	switch {
	case g.down == nil && g.warm == nil:
		return
	case g.changes != nil:
		n := g.changes.Changes()
		if n == g.seen {
			return
		}
		g.seen = n
	}
	for _, k := range g.active {
		e := &g.keys[k]
		m := g.modeOf(k)
		if m == e.mode {
			continue
		}
		for f := e.flows; f != nil; f = f.next {
			if f.served() {
				f.begin(now, f.still(e.mode, now))
			}
		}
		e.mode, e.since = m, now
		for f := e.flows; f != nil; f = f.next {
			if f.served() {
				g.schedule(f)
			}
		}
	}
}

// begin notes for how long the flow's clock had stood still until now.
func (f *flow) begin(now, stood int64) {
	f.stood, f.since, f.ableAt = stood, now, f.line.able(now)
}

// still is for how long the clock of the flow, whose key has had that mode since it began,
// has stood still.
func (f *flow) still(m mode, now int64) int64 {
	switch m {
	case away:
		return f.stood + now - f.since
	case warming:
		return f.stood + f.line.able(now) - f.ableAt
	}
	return f.stood
}

// clock is the time of f.
func (g *Gate) clock(now int64, f *flow) int64 {
	if f.slot {
		return now
	}
	return now - f.still(g.keys[f.key].mode, now)
}

// kind is the line's side as a number.
func (l *line) kind() int {
	if l == &l.load.lines[sessions] {
		return sessions
	}
	return slots
}

// schedule works out when f's first waiter is too old.
func (g *Gate) schedule(f *flow) {
	e, w, l := &g.keys[f.key], f.first, f.line
	limit := f.limit()
	warm := false
	switch {
	case f.slot:
		f.due = after(w.start, limit)
	case e.mode == away:
		f.due = min(after(max(w.joined, e.since), l.load.plan.NoServerWait), f.bound(w))
	case e.mode == counting:
		f.due = after(w.start, limit+f.stood)
		if w.start+f.stood > w.begins { // else it comes to the limit first, for its clock has not stood still
			f.due = min(f.due, f.bound(w))
		}
	default:
		f.due, warm = after(w.start, limit+f.stood-f.ableAt), true
		f.end = f.bound(w)
	}
	g.byTime.put(f, !warm)
	l.warm.put(f, warm)
	g.ends.put(f, warm)
	l.side.sort(l)
	if l.load.plan.Mode == DryRun || f.inShed > 0 {
		g.foresee(f)
	}
}

// foresee works out when the first waiter of f would be too old if the guard were enforced,
// where it is only tried and its limit is shorter than the real one. While servers are being
// opened, or cannot be, nobody is.
func (g *Gate) foresee(f *flow) {
	limit, w := int64(never), f.remains()
	if f.line.load.plan.Mode == DryRun && w != nil {
		limit = f.shedAt()
	}
	in := limit < f.limit() && (f.slot || g.keys[f.key].mode == counting)
	if in {
		f.shed = after(w.start, limit+f.stood)
	}
	g.sheds.put(f, in)
}

// overdue counts who would be too old if the guard were enforced.
func (g *Gate) overdue(now int64) {
	for f, ok := g.sheds.top(); ok && f.shed <= now; f, ok = g.sheds.top() {
		if g.foresee(f); f.inShed > 0 && f.shed <= now { // its first may be another one than then
			g.only(f.remains(), QueueAge)
			g.foresee(f)
		}
	}
}

// after adds without running over.
func after(t, d int64) int64 {
	if d > 0 && t > never-d {
		return never
	}
	return t + d
}

// expire refuses those who waited for too long, as far as the budget goes. Being the first
// thing that every dispatch does, it keeps them from being granted.
func (g *Gate) expire(now int64, out []Verdict) []Verdict {
	g.overdue(now)
	for f, ok := g.byTime.top(); ok && f.due <= now && g.budget > 0; f, ok = g.byTime.top() {
		g.budget--
		out = append(out, g.evict(now, f.first, g.whyOld(now, f.first)))
	}
	if len(g.ends.items)+len(g.again.items) > 0 {
		out = g.overBound(now, out)
	}
	for _, s := range [...]*side{g.side[slots], g.side[sessions]} {
		for c := range classes {
			for l, ok := s.warm[c].top(); ok && l.due <= now-s.able(c, now) && g.budget > 0; l, ok = s.warm[c].top() {
				g.budget--
				out = append(out, g.evict(now, l.warm.items[0].first, QueueAge))
			}
		}
	}
	return out
}

// whyOld says why w, which grew too old, was not served: it lacked a slot, or a server that cannot
// be had, or that ended each time before it could serve. Where logins fail, servers that are open
// and let nobody in are those of an outage as well: they run what will not end.
func (g *Gate) whyOld(now int64, w *Waiter) Reason {
	f := w.flows[mainLine]
	e := &g.keys[f.key]
	switch {
	case f.slot:
	case e.mode == away:
		return NoServer
	case g.fails != nil && e.grantedAt < w.joined && f.line.side.may(f.line) && g.fails.Failing(f.key):
		return NoServer
	case g.lackedServer(now, w):
		return NoServer
	}
	return QueueAge
}

// due is when expire has to be called next.
func (g *Gate) due(now int64) int64 {
	due := g.boundDue()
	if f, ok := g.byTime.top(); ok {
		due = min(due, f.due)
	}
	if f, ok := g.sheds.top(); ok {
		due = min(due, f.shed)
	}
	for _, s := range [...]*side{g.side[slots], g.side[sessions]} {
		for c := range classes {
			if l, ok := s.warm[c].top(); ok && !s.stands(c) {
				due = min(due, after(l.due, s.able(c, now)))
			}
		}
	}
	return due
}
