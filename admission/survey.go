package admission

import (
	"cmp"
	"slices"
)

// A snapshot of a gate with a thousand workloads, or twenty thousand tenants, takes longer than
// a transaction should have to wait. So it can be taken in pieces, between which the gate goes
// on: [Gate.Totals], [Gate.Workload], [Gate.Accounts]. What is borrowed from whom is worked out when the caller has
// them all.

// Totals returns what there is once. It costs the same however much the gate knows.
func (g *Gate) Totals() Totals {
	return Totals{
		Slots: g.plan.Slots, Extra: g.plan.Extra, Connections: g.plan.Connections,
		Running: g.side[slots].used + g.side[extras].used, Lane: g.side[probes].used,
		Reserved: g.side[extras].used, Sessions: g.side[sessions].used,
		Waiting: g.Waiting(), Probes: g.probes, Paused: g.halted,
		DrainRate: g.drain.perSecond(g.plan.Slots), Moves: g.moves,
	}
}

// Workloads is how many there are, those included that the plan does not know any more. Their
// number never gets less.
func (g *Gate) Workloads() int { return len(g.loads) }

// Workload returns a snapshot of one workload, without Lent; the zero one if there is none of
// that index. It costs the same however much the gate knows.
func (g *Gate) Workload(i int) WorkloadStats {
	if i < 0 || i >= len(g.loads) {
		return WorkloadStats{}
	}
	return g.loads[i].snapshot()
}

// Stats returns a snapshot of everything at once. It walks over the workloads.
func (g *Gate) Stats() Stats {
	s := Stats{Totals: g.Totals(), Workloads: make([]WorkloadStats, len(g.loads))}
	for i, d := range g.loads {
		w := d.snapshot()
		s.Workloads[i] = w
		s.MaxWaiting += w.MaxWaiting
		for want := range w.Granted {
			s.Granted += w.Granted[want]
		}
		for r := range w.Refused {
			s.Refused[r] += w.Refused[r]
		}
		s.Withdrawn += w.Withdrawn
		s.GrantWaits.merge(&w.GrantWaits)
		s.RefusalWaits.merge(&w.RefusalWaits)
		if w.Oldest != 0 && (s.Oldest == 0 || w.Oldest < s.Oldest) {
			s.Oldest = w.Oldest
		}
	}
	Lend(s.Workloads)
	return s
}

// Lend works out Lent of all workloads of a gate, by index, from what of their parts is idle
// and how much is borrowed: whose part of an idle one it is that somebody borrows follows from
// how much of all idle ones is left.
func Lend(all []WorkloadStats) {
	borrowed, idle := 0, 0
	for i := range all {
		borrowed += all[i].Borrowed
		idle += all[i].Idle
	}
	borrowed = min(borrowed, idle)
	told, seen := 0, 0
	for i := range all {
		if seen += all[i].Idle * borrowed; idle > 0 {
			all[i].Lent = seen/idle - told
			told = seen / idle
		}
	}
}

func (d *load) snapshot() WorkloadStats {
	l, k := &d.lines[slots], &d.lines[sessions]
	w := WorkloadStats{
		Policy: d.plan.Policy, Mode: d.plan.Mode, FalseRefusals: d.vain.count,
		Slots: d.part, Connections: k.own, Running: l.used + d.extra, Reserved: d.extra, Sessions: k.used,
		Pinned: d.pinned, MaxPinned: d.mostPinned(), Pins: d.stats.pins,
		Waiting: d.waiting(), Probes: d.probes, Paused: len(d.halted.items), MaxWaiting: d.maxWaiting(),
		Borrowed: l.adds.borrowed, Idle: max(l.own-l.used, 0), Oldest: d.oldest(), DrainRate: d.drain.perSecond(d.atWork()),
		Granted: d.stats.granted, Refused: d.stats.refused, Withdrawn: d.stats.withdrawn,
		GrantWaits: d.stats.served, RefusalWaits: d.stats.turnedAway,
	}
	for i := range w.Classes {
		c, r := &d.stats.classes[i], &l.ranks[i]
		w.Classes[i] = ClassStats{
			Waiting: r.n, Standing: r.on && r.n > 0, Granted: c.granted, Refused: c.refused, Would: c.would,
			GrantWaits: c.served, RefusalWaits: c.turnedAway,
		}
		if r.head != nil {
			w.Classes[i].Oldest = r.head.arrived
		}
	}
	return w
}

// oldest is when the oldest of its waiters arrived; 0 if there is none.
func (d *load) oldest() int64 {
	first := int64(never)
	for kind := range d.lines {
		if w := d.lines[kind].oldest(); w != nil {
			first = min(first, w.arrived)
		}
	}
	if w, ok := d.halted.top(); ok {
		first = min(first, w.arrived)
	}
	if first == never {
		return 0
	}
	return first
}

// Accounts looks at up to n of the tenants that the gate tells apart, from the place from on
// (first 0), and keeps the limit most important of those and of what is in top already: those
// with the most waiters, then those who were served most. It returns the place to go on from, or
// a negative one after the last. Only if top is too small for that limit it allocates. Until
// [Rank] top is in no order that is of use. A tenant that comes, or leaves and comes back, while
// the caller goes from piece to piece may be missing, or be there twice.
func (g *Gate) Accounts(top []TenantStats, limit, from, n int) (next int, _ []TenantStats) {
	list := g.book.list
	end := min(max(from, 0)+n, len(list))
	for _, t := range list[min(max(from, 0), end):end] {
		top = keepTop(top, limit, t)
	}
	if end == len(list) {
		end = -1
	}
	return end, top
}

// keepTop puts t into top, a heap with the least important first, if it belongs to the limit
// most important.
func keepTop(top []TenantStats, limit int, t *tenant) []TenantStats {
	r := t.role.rank
	s := TenantStats{
		Workload: r.line.load.index, Class: ClassAt(r.index), Role: t.role.id, Tenant: t.id,
		Waiting: t.waiting, Running: t.running, Served: t.served, Granted: t.granted, Refused: t.refused,
	}
	switch {
	case len(top) < limit:
		top = append(top, s)
		for i := len(top) - 1; i > 0 && top[i].compare(&top[(i-1)/2]) > 0; i = (i - 1) / 2 {
			top[i], top[(i-1)/2] = top[(i-1)/2], top[i]
		}
	case limit > 0 && s.compare(&top[0]) < 0:
		top[0] = s
		for i := 0; 2*i+1 < len(top); {
			c := 2*i + 1
			if c+1 < len(top) && top[c+1].compare(&top[c]) > 0 {
				c++
			}
			if top[c].compare(&top[i]) <= 0 {
				break
			}
			top[i], top[c] = top[c], top[i]
			i = c
		}
	}
	return top
}

// Rank puts the most important tenants first, and leaves out those that are there twice.
func Rank(top []TenantStats) []TenantStats {
	slices.SortFunc(top, func(a, b TenantStats) int { return a.compare(&b) })
	type name struct {
		workload     uint16
		class        Class
		role, tenant uint32
	}
	seen := make(map[name]struct{}, len(top))
	return slices.DeleteFunc(top, func(t TenantStats) bool {
		n := name{t.Workload, t.Class, t.Role, t.Tenant}
		_, known := seen[n]
		seen[n] = struct{}{}
		return known
	})
}

// compare is the order of importance.
func (t *TenantStats) compare(o *TenantStats) int {
	return cmp.Or(cmp.Compare(o.Waiting, t.Waiting), cmp.Compare(o.Served, t.Served), cmp.Compare(t.Role, o.Role),
		cmp.Compare(t.Tenant, o.Tenant), cmp.Compare(t.Class, o.Class), cmp.Compare(t.Workload, o.Workload))
}
