package admission

import (
	"errors"
	"fmt"
)

// Check verifies the gate's invariants by walking over everything, for tests
// and the simulation; it is not for the hot path. It holds between any two
// calls.
func (g *Gate) Check() error {
	if err := g.check(); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}

func (g *Gate) check() error {
	var c census
	for i, d := range g.loads {
		for kind := range d.lines {
			if err := c.line(g, &d.lines[kind], kind); err != nil {
				return fmt.Errorf("workload %d, line %d: %w", i, kind, err)
			}
		}
		if d.halted.check() >= 0 {
			return fmt.Errorf("workload %d: the heap of the halted is broken", i)
		}
		c.wantHalted += len(d.halted.items)
		if d.extra < 0 || d.probes < 0 {
			return fmt.Errorf("workload %d: %d probes, %d on extra slots", i, d.probes, d.extra)
		}
		c.extra += d.extra
		c.wantProbes += d.probes
	}
	for _, i := range [...]int{probes, extras} {
		if err := c.line(g, g.lanes[i], i); err != nil {
			return fmt.Errorf("lane %d: %w", i, err)
		}
	}
	if c.extra != g.side[extras].used || g.side[probes].used > g.side[slots].used {
		return fmt.Errorf("%d on extra slots, %d counted, %d in the lane", g.side[extras].used, c.extra, g.side[probes].used)
	}
	for kind, s := range g.side {
		if err := s.check(&c, kind); err != nil {
			return fmt.Errorf("side %d: %w", kind, err)
		}
	}
	if err := c.keys(g); err != nil {
		return err
	}
	switch {
	case c.waiting != g.waiting || c.flows != len(g.flows):
		return fmt.Errorf("%d wait in %d flows, counted %d in %d", c.waiting, c.flows, g.waiting, len(g.flows))
	case c.probes != g.probes || c.wantProbes != g.probes:
		return fmt.Errorf("%d probes wait, counted %d and %d", c.probes, g.probes, c.wantProbes)
	case g.late.check() >= 0 || len(g.late.items) != c.late || g.stands.check() >= 0:
		return fmt.Errorf("the heap of deadlines is broken, or has %d waiters instead of %d", len(g.late.items), c.late)
	case g.again.check() >= 0 || len(g.again.items) != c.again:
		return fmt.Errorf("the heap of those who came back is broken, or has %d waiters instead of %d", len(g.again.items), c.again)
	case g.ends.check() >= 0 || len(g.ends.items) != c.ends:
		return fmt.Errorf("the heap of those whose time is bounded is broken, or has %d flows instead of %d", len(g.ends.items), c.ends)
	case g.sheds.check() >= 0 || len(g.sheds.items) != c.sheds:
		return fmt.Errorf("the heap of what would be due is broken, or has %d flows instead of %d", len(g.sheds.items), c.sheds)
	case g.byTime.check() >= 0 || len(g.byTime.items) != c.inTime:
		return fmt.Errorf("the heap of what is due is broken, or has %d flows instead of %d", len(g.byTime.items), c.inTime)
	}
	return nil
}

// census is a fresh count of everything.
type census struct {
	used                [sides]int
	open, dry, lines    [sides]int
	late, again         int // waiters with deadlines, and whose waits go on with others
	sums                [sides]sums
	warm                [sides][classes]int
	inTime, ends, sheds int
	waiting, flows      int
	probes, wantProbes  int
	extra, wantHalted   int
}

// line verifies one line: its ranks, and where it is.
func (c *census) line(g *Gate, l *line, kind int) error {
	n, ready := 0, 0
	for i := range l.ranks {
		r := &l.ranks[i]
		if err := c.rank(g, r); err != nil {
			return fmt.Errorf("rank %d: %w", i, err)
		}
		n += r.n
		ready += r.flowsIn(false)
	}
	if w := l.oldest(); w == nil && l.age != nobody || w != nil && l.age != w.seq {
		return fmt.Errorf("its oldest is said to be %d", l.age)
	}
	if n != l.n || ready != l.ready {
		return fmt.Errorf("%d in line, %d flows ready, counted %d, %d", n, ready, l.n, l.ready)
	}
	if l.load != nil {
		c.waiting += n
	}
	return c.place(l, kind)
}

// rank verifies one rank: links, order, counts and flows.
func (c *census) rank(g *Gate, r *rank) error {
	l, n, last := r.line, 0, uint64(0)
	var prev *Waiter
	for w := r.head; w != nil; w = w.places[l.link].next {
		f := w.flows[l.link]
		switch {
		case g.draining && !g.leaving && !w.Begun:
			return errors.New("somebody waits at a draining gate who has not begun")
		case (w.inAgain > 0) != (w.again && w.Want != Slot):
			return fmt.Errorf("waiter %d goes on with another wait: %v", w.seq, w.again)
		case w.gate != g || w.halted:
			return fmt.Errorf("a waiter of key %d is in line but does not wait", w.Key)
		case w.places[l.link].prev != prev:
			return fmt.Errorf("a waiter of key %d has a wrong predecessor", w.Key)
		case w.seq <= last:
			return fmt.Errorf("order: %d after %d", w.seq, last)
		case f == nil || f.line != l || f.rank != r || f.key != w.Key || f.slot != (w.Want == Slot):
			return fmt.Errorf("waiter %d is in a wrong flow", w.seq)
		case l.load != nil && (w.sub != nil) != (l.policy == Guard):
			return fmt.Errorf("waiter %d is in no tenant's flow, or in one in vain", w.seq)
		case l.load != nil && g.loads[w.Workload] != l.load:
			return fmt.Errorf("waiter %d is in the line of another workload", w.seq)
		case g.keys[w.Key].paused:
			return fmt.Errorf("waiter %d is in line but its key is paused", w.seq)
		}
		if l.load != nil && w.Probe {
			c.probes++
		}
		if l.load != nil {
			c.again += min(int(w.inAgain), 1)
			c.late += min(int(w.inLate), 1)
		}
		prev, last, n = w, w.seq, n+1
	}
	flows := 0
	for f := r.flows; f != nil; f = f.nextRank {
		flows++
	}
	switch {
	case n != r.n || r.tail != prev:
		return fmt.Errorf("%d in line, counted %d, tail right: %v", n, r.n, r.tail == prev)
	case flows != r.flowsIn(false)+r.flowsIn(true):
		return fmt.Errorf("%d flows, %d ready, %d parked", flows, r.flowsIn(false), r.flowsIn(true))
	case r.ready.check() >= 0 || r.parked.check() >= 0 || r.asleep.check() >= 0 || r.fullest.check() >= 0:
		return fmt.Errorf("a heap is broken at %d, %d, %d or %d", r.ready.check(), r.parked.check(), r.asleep.check(), r.fullest.check())
	case r.readyRoles.check() >= 0 || r.parkedRoles.check() >= 0:
		return fmt.Errorf("a heap of roles is broken at %d or %d", r.readyRoles.check(), r.parkedRoles.check())
	}
	return c.accounts(r)
}

// flowsIn is how many flows are in the heaps of the ready or the parked.
func (r *rank) flowsIn(parked bool) (n int) {
	if parked {
		n = len(r.parked.items)
		for _, o := range r.parkedRoles.items {
			n += len(o.parked.items)
		}
		return n
	}
	n = len(r.ready.items)
	for _, o := range r.readyRoles.items {
		n += len(o.ready.items)
	}
	return n
}

// accounts verifies what a rank knows of its roles and tenants.
func (c *census) accounts(r *rank) error {
	if r.line.policy != Guard || r.line.load == nil {
		return nil
	}
	var work int64
	fresh, active := 0, 0
	roles := make(map[*role]int)
	for f := r.flows; f != nil; f = f.nextRank {
		n := 0
		for _, s := range f.subs.items {
			k := 0
			for w := s.first; w != nil; w = w.places[ofSub].next {
				k++
				if !w.would {
					work += w.expected
				}
				if mayLose(w) {
					fresh++
				}
			}
			if k != s.n || k == 0 || s.flow != f || s.tenant.role != f.role {
				return fmt.Errorf("a tenant has %d waiters in a flow, counted %d", s.n, k)
			}
			if roles[f.role] == 0 {
				active++
			}
			roles[f.role] += k
			n += k
		}
		if n != f.n || f.subs.check() >= 0 {
			return fmt.Errorf("%d wait in a flow, %d by tenants", f.n, n)
		}
	}
	for o, n := range roles {
		switch {
		case o.waiting != n || o.rank != r:
			return fmt.Errorf("%d of role %d wait, counted %d", o.waiting, o.id, n)
		case o.ready.check() >= 0 || o.parked.check() >= 0 || o.fullest.check() >= 0 || o.asleep.check() >= 0:
			return fmt.Errorf("a heap of role %d is broken", o.id)
		}
	}
	if work != r.work || fresh != r.fresh || active != r.active {
		return fmt.Errorf("%d ns of work, %d fresh, %d roles, counted %d, %d, %d", r.work, r.fresh, r.active, work, fresh, active)
	}
	return nil
}

// place verifies what follows from a line's numbers.
func (c *census) place(l *line, kind int) error {
	if l.used < 0 || l.own < 0 || l.most < l.own {
		return fmt.Errorf("%d used, %d own, %d at most", l.used, l.own, l.most)
	}
	if i := l.late.check(); i >= 0 {
		return fmt.Errorf("the heap of flows passed over is broken at %d", i)
	}
	runs, ready, late := l.n > 0 && l.used < l.most, l.ready > 0, len(l.late.items) > 0
	if (l.inOpen > 0) != (runs && ready) || (l.inDry > 0) != (runs && !ready && !late) || (l.inLate > 0) != late {
		return fmt.Errorf("%d wait, %d of %d used, ready %v, late %v, but open %d, dry %d, late %d",
			l.n, l.used, l.most, ready, late, l.inOpen, l.inDry, l.inLate)
	}
	c.used[kind] += l.used
	c.open[kind] += min(int(l.inOpen), 1)
	c.dry[kind] += min(int(l.inDry), 1)
	c.lines[kind] += min(int(l.inLate), 1)
	if l.load != nil {
		if err := c.clock(l, kind); err != nil {
			return err
		}
	}
	own := min(l.n, max(l.own-l.used, 0))
	s := &c.sums[kind]
	s.kept += max(l.keep-l.used, 0)
	s.borrowed += max(l.used-l.own, 0)
	s.useful += own
	s.more += min(l.n, max(l.most-l.used, 0)) - own
	return nil
}

// clock verifies a line's place among those that wait for servers that are being opened.
func (c *census) clock(l *line, kind int) error {
	f, ok := l.warm.top()
	switch {
	case l.class != l.classOf():
		return fmt.Errorf("%d used, %d own, %d at most, but class %d", l.used, l.own, l.most, l.class)
	case l.warm.check() >= 0 || ok != (l.inWarm > 0):
		return fmt.Errorf("%d flows under warming keys, in its class %v", len(l.warm.items), l.inWarm > 0)
	case ok && l.due != f.due+l.ableSum-l.ableFrom:
		return fmt.Errorf("due at %d", l.due)
	case ok:
		c.warm[kind][l.class]++
	}
	return nil
}

func (s *side) check(c *census, kind int) error {
	for i := range s.warm {
		if len(s.warm[i].items) != c.warm[kind][i] || s.warm[i].check() >= 0 {
			return fmt.Errorf("the heap of lines of class %d is broken, or has %d instead of %d", i, len(s.warm[i].items), c.warm[kind][i])
		}
	}
	switch {
	case s.isFree.on != (s.free() > 0) || s.isSpare.on != (s.free() > s.kept):
		return fmt.Errorf("%d permits are free, %d kept back, but one is free: %v, %v", s.free(), s.kept, s.isFree.on, s.isSpare.on)
	case s.used != c.used[kind] || s.sums != c.sums[kind]:
		return fmt.Errorf("%d used, sums %+v, counted %d, %+v", s.used, s.sums, c.used[kind], c.sums[kind])
	case len(s.open.items) != c.open[kind] || len(s.dry.items) != c.dry[kind] || len(s.late.items) != c.lines[kind]:
		return fmt.Errorf("%d, %d, %d lines in the heaps, counted %d, %d, %d", len(s.open.items), len(s.dry.items),
			len(s.late.items), c.open[kind], c.dry[kind], c.lines[kind])
	case s.open.check() >= 0 || s.dry.check() >= 0 || s.late.check() >= 0:
		return fmt.Errorf("a heap of lines is broken")
	}
	return nil
}

// keys verifies the flows by key, and that nobody waits who could go.
func (c *census) keys(g *Gate) error {
	halted, hot, active := 0, 0, 0
	for k := range g.keys {
		e := &g.keys[k]
		waiting, parked := 0, 0
		var prev *flow
		for f := e.flows; f != nil; f = f.next {
			if err := c.flow(g, f, Key(k)); err != nil {
				return fmt.Errorf("key %d: %w", k, err)
			}
			if f.prev != prev {
				return fmt.Errorf("key %d: the list of flows is broken", k)
			}
			prev = f
			if f.served() {
				waiting += f.n
			}
			if f.parked {
				parked++
			}
		}
		switch {
		case waiting != e.waiting || parked != e.parked:
			return fmt.Errorf("key %d: %d wait, %d flows parked, counted %d, %d", k, waiting, parked, e.waiting, e.parked)
		case (e.active > 0) != (waiting > 0) || e.active > 0 && g.active[e.active-1] != Key(k):
			return fmt.Errorf("key %d: %d wait, active %d", k, waiting, e.active)
		case e.hot > 0 && (parked == 0 || e.dry || g.hot[e.hot-1] != Key(k)), e.hot == 0 && parked > 0 && !e.dry:
			return fmt.Errorf("key %d: %d flows parked, dry %v, hot %d", k, parked, e.dry, e.hot)
		case e.halted.n > 0 && !e.paused:
			return fmt.Errorf("key %d: %d halted without a pause", k, e.halted.n)
		}
		n, last := 0, uint64(0)
		for w := e.halted.head; w != nil; w = w.places[mainLine].next {
			if !w.halted || w.gate != g || w.Key != Key(k) || w.seq <= last {
				return fmt.Errorf("key %d: the list of the halted is broken at %d", k, w.seq)
			}
			n, last = n+1, w.seq
		}
		if n != e.halted.n {
			return fmt.Errorf("key %d: %d halted, counted %d", k, n, e.halted.n)
		}
		halted += n
		hot += min(int(e.hot), 1)
		active += min(int(e.active), 1)
	}
	if halted != g.halted || halted != c.wantHalted || hot != len(g.hot) || active != len(g.active) {
		return fmt.Errorf("%d halted, %d hot, %d active, counted %d, %d, %d", halted, hot, active, g.halted, len(g.hot), len(g.active))
	}
	return nil
}

func (c *census) flow(g *Gate, f *flow, k Key) error {
	c.flows++
	n, link := 0, f.line.link
	var prev *Waiter
	for w := f.first; w != nil; w = w.places[ofFlow+link].next {
		if w.flows[link] != f || w.places[ofFlow+link].prev != prev {
			return fmt.Errorf("a flow is broken at waiter %d", w.seq)
		}
		prev, n = w, n+1
	}
	if f.line.load != nil {
		warm := !f.slot && g.keys[k].mode == warming
		if warm != (f.inWarm > 0) || warm != (f.inEnds > 0) || warm == (f.inTime > 0) {
			return fmt.Errorf("a flow of key %d is due by its line's time: %v", f.key, f.inWarm > 0)
		}
		c.inTime += min(int(f.inTime), 1)
		c.ends += min(int(f.inEnds), 1)
		c.sheds += min(int(f.inShed), 1)
	}
	switch {
	case n == 0 || n != f.n || f.last != prev || f.key != k || g.flows[f.name] != f:
		return fmt.Errorf("a flow of key %d has %d waiters, counted %d", f.key, n, f.n)
	case f.slot && f.parked:
		return fmt.Errorf("a flow that needs no server is parked")
	case !g.behind && f.line.load != nil && (f.slot || !g.keys[k].dry) && f.line.side.may(f.line):
		return fmt.Errorf("waiter %d waits, but may have a permit and perhaps a server", f.first.seq)
	}
	return nil
}
