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

// reorder takes those out of the queue whose workloads get another policy, and lets no queue
// stand on that is not looked at any more.
func (g *Gate) reorder(now int64, p Plan) (m moving) {
	p = p.withDefaults()
	var emptied []*rank
	for i, d := range g.loads[:min(len(g.loads), len(p.Workloads))] {
		q := p.Workloads[i]
		for c := range d.lines[slots].ranks {
			r := &d.lines[slots].ranks[c]
			switch {
			case q.Policy != d.plan.Policy:
				emptied = append(emptied, r)
				for w := r.head; w != nil; w = w.places[mainLine].next {
					m.waiters = append(m.waiters, w)
				}
			case q.Patient && r.on && r.line.policy == Guard:
				g.turnStanding(now, r, false)
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
		w.start -= g.clock(now, w.flows[mainLine])
		w.begins -= now
		g.exit(w)
	}
	for _, r := range emptied {
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
	g.retime()
}

// retime brings those who wait to the heap of deadlines, or out of it, whose workloads look at
// deadlines now, or do not any more; and those are there again who waited only because the
// guard was not enforced.
func (g *Gate) retime() {
	for _, d := range g.loads {
		if d.lines[slots].policy != Guard {
			continue
		}
		for c := range d.lines[slots].ranks {
			for w := d.lines[slots].ranks[c].head; w != nil; w = w.places[mainLine].next {
				g.relive(w)
				g.watch(w)
			}
		}
	}
}

// watch puts w, which waits, to those whose deadlines are watched, if its own is.
func (g *Gate) watch(w *Waiter) {
	l := g.loads[w.Workload].line(w)
	w.late = w.Deadline - w.needs
	g.late.put(w, w.Deadline != 0 && l.policy == Guard && l.load.plan.Mode != Off)
}
