package admission

import (
	"cmp"
	"slices"
)

// moving is those who wait while their workloads get another policy, and what their clocks
// must not forget.
type moving struct {
	waiters []*Waiter
	joined  []int64
	modes   map[Key]keyState
}

// reorder takes those out of the queue whose workloads get another policy.
func (g *Gate) reorder(now int64, p Plan) (m moving) {
	p = p.withDefaults()
	for i, d := range g.loads {
		if i >= len(p.Workloads) || p.Workloads[i].Policy == d.plan.Policy {
			continue
		}
		for c := range d.lines[slots].ranks {
			r := &d.lines[slots].ranks[c]
			for w := r.head; w != nil; w = w.links[mainLine].next {
				m.waiters = append(m.waiters, w)
			}
		}
	}
	slices.SortFunc(m.waiters, func(a, b *Waiter) int { return cmp.Compare(a.seq, b.seq) })
	m.modes = make(map[Key]keyState)
	for _, w := range m.waiters {
		m.joined = append(m.joined, w.joined)
		if e := &g.keys[w.Key]; e.active > 0 {
			m.modes[w.Key] = *e
		}
	}
	for _, w := range m.waiters {
		w.start -= g.clock(now, w.links[mainLine].flow)
		r := w.links[mainLine].flow.rank
		g.exit(w)
		r.on = false
		g.stands.put(r, false)
	}
	return m
}

// rejoin puts them back in the order of their arrival.
func (g *Gate) rejoin(now int64, m moving) {
	for i, w := range m.waiters {
		g.enter(now, w)
		w.joined = m.joined[i]
	}
	for k, old := range m.modes {
		if e := &g.keys[k]; e.active > 0 && e.mode == old.mode {
			e.since = old.since
		}
	}
}
