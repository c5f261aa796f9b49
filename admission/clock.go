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

// The time of a flow is that of its key without how long it stood still. For a
// warming key it stands still whenever a slot is free, which changes often; so
// flows that wait for slots under a warming key are scheduled by the time on
// which slots are busy, and that one is kept for all of them: it is now less
// slackTime.

// slackTime is for how long a slot was free since the gate exists.
func (g *Gate) slackTime(now int64) int64 {
	if g.slack {
		return g.slackSum + now - g.slackFrom
	}
	return g.slackSum
}

// seeSlack notes whether a slot is free from now on.
func (g *Gate) seeSlack(now int64) {
	if slack := g.side[slots].free() > 0; slack != g.slack {
		g.slackSum, g.slackFrom, g.slack = g.slackTime(now), now, slack
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
	e.mode, e.since, e.slackAt = g.modeOf(k), now, g.slackTime(now)
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
		for side := range e.stood {
			e.stood[side] = e.still(side, now, g.slackTime(now))
		}
		e.mode, e.since, e.slackAt = m, now, g.slackTime(now)
		for f := e.flows; f != nil; f = f.next {
			if f.served() {
				g.schedule(f)
			}
		}
	}
}

// still is for how long the clock of k's waiters on a side has stood still.
func (e *keyState) still(side int, now, slackTime int64) int64 {
	switch {
	case e.mode == away || e.mode == warming && side == sessions:
		return e.stood[side] + now - e.since
	case e.mode == warming:
		return e.stood[side] + slackTime - e.slackAt
	}
	return e.stood[side]
}

// clock is the time of f.
func (g *Gate) clock(now int64, f *flow) int64 {
	if f.slot {
		return now
	}
	return now - g.keys[f.key].still(f.line.kind(), now, g.slackTime(now))
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
	e, w, kind := &g.keys[f.key], f.first, f.line.kind()
	limit := f.line.load.limit(kind)
	inTime, inSlack := true, false
	switch {
	case f.slot:
		f.due = after(w.start, limit)
	case e.mode == away:
		f.due = after(max(w.joined, e.since), f.line.load.plan.NoServerWait)
	case e.mode == counting:
		f.due = after(w.start, limit+e.stood[kind])
	case kind == slots:
		f.due, inTime, inSlack = after(w.start, limit+e.stood[kind]-e.slackAt), false, true
	default: // it stands still for as long as the key is warming
		f.due = e.since
		inTime = e.since-e.stood[kind]-w.start >= limit
	}
	g.byTime.put(f, inTime)
	g.bySlack.put(f, inSlack)
}

// after adds without running over.
func after(t, d int64) int64 {
	if d > 0 && t > never-d {
		return never
	}
	return t + d
}

// expire refuses everybody who waited for too long. Being the first thing that
// every dispatch does, it keeps them from being granted.
func (g *Gate) expire(now int64, out []Verdict) []Verdict {
	for f, ok := g.byTime.top(); ok && f.due <= now; f, ok = g.byTime.top() {
		r := QueueAge
		if !f.slot && g.keys[f.key].mode == away {
			r = NoServer
		}
		out = append(out, g.evict(now, f.first, r))
	}
	busy := now - g.slackTime(now)
	for f, ok := g.bySlack.top(); ok && f.due <= busy; f, ok = g.bySlack.top() {
		out = append(out, g.evict(now, f.first, QueueAge))
	}
	return out
}

// due is when expire has to be called next.
func (g *Gate) due(now int64) int64 {
	due := int64(never)
	if f, ok := g.byTime.top(); ok {
		due = f.due
	}
	if f, ok := g.bySlack.top(); ok && !g.slack {
		due = min(due, after(f.due, g.slackTime(now)))
	}
	return due
}
