package admission

// A refusal was in vain if what it made room for did not come: afterwards, within the time
// that the refused could have waited, slots that it could have had were idle for as long as
// it would have needed one. Each moment of an idle slot speaks for one refused only.

// mostVain bounds the refusals that are remembered for each workload.
const mostVain = 1024

// vain is the refusals of a workload that may turn out to have been in vain.
type vain struct {
	ring    []refused
	from, n int
	idle    int64 // ns of idle slots for the first of them
	count   uint64
	watched bool
}

// refused is one of them: until when it could have waited, and how long its slot.
type refused struct{ until, need int64 }

// inVain remembers a refusal if it may turn out to have been in vain.
func (g *Gate) inVain(now int64, w *Waiter, r Reason) {
	d := g.loads[w.Workload]
	switch r {
	case QueueFull, QueueWait, Displaced, QueueAge, Deadline:
	default:
		return
	}
	until := w.arrived + d.maxWait(int(w.class))
	if w.Deadline != 0 {
		until = min(until, w.Deadline-w.expected)
	}
	if until <= now || w.expected <= 0 {
		return
	}
	v := &d.vain
	if v.ring == nil {
		v.ring = make([]refused, mostVain)
	}
	if v.n == mostVain {
		v.from = (v.from + 1) % mostVain
		v.n--
	}
	v.ring[(v.from+v.n)%mostVain] = refused{until, w.expected}
	v.n++
	if !v.watched {
		v.watched, v.idle = true, 0
		g.watched = append(g.watched, d)
	}
}

// idle accounts for the time since the gate was last asked, in which nothing changed.
func (g *Gate) idle(now int64) {
	left := g.watched[:0]
	for _, d := range g.watched {
		l, v := &d.lines[slots], &d.vain
		if l.n == 0 {
			v.idle += int64(l.side.allows(l)) * (now - g.now)
		}
		for v.n > 0 {
			f := v.ring[v.from]
			switch {
			case f.until < g.now: // before all this
			case v.idle >= f.need:
				v.idle -= f.need
				v.count++
			case f.until >= now:
				f.need = -1
			}
			if f.need < 0 {
				break
			}
			v.from = (v.from + 1) % mostVain
			v.n--
		}
		if v.watched = v.n > 0; v.watched {
			left = append(left, d)
		}
	}
	clear(g.watched[len(left):])
	g.watched = left
}
