package admission

import (
	"cmp"
	"slices"
)

// counters are what the gate counts for ever about a workload.
type counters struct {
	granted    [wants]uint64
	refused    [Reasons]uint64
	withdrawn  uint64
	served     Waits
	turnedAway Waits
	classes    [Classes]classCounters
}

// classCounters are the same about a class.
type classCounters struct {
	granted            uint64
	refused, would     [Reasons]uint64
	served, turnedAway Waits
}

// Stats is a snapshot of a gate. Counters only grow.
type Stats struct {
	Slots       int // of the plan in force
	Extra       int
	Connections int
	Running     int // tickets of transactions out
	Lane        int // of these by the probe lane's privilege
	Reserved    int // of these on Extra's slots
	Sessions    int // servers that sessions keep
	Waiting     int // in the queue, probes and those of paused keys included
	Probes      int // of these probes, those of paused keys not included
	Paused      int // of these because their key is paused
	MaxWaiting  int // the sum of the workloads' bounds in force
	// Oldest is when the oldest waiter arrived, in the caller's ns; meaningful
	// only if Waiting > 0.
	Oldest    int64
	DrainRate float64 // tickets per second that the slots can end; 0 = not known yet

	Granted   uint64
	Refused   [Reasons]uint64 // by Reason
	Withdrawn uint64
	Moves     uint64 // servers of other keys given up for a head of a line
	// GrantWaits are the waits of the granted, RefusalWaits those of the
	// refused. A wait that is recorded only on success hides the incident.
	GrantWaits, RefusalWaits Waits

	// Workloads are by index; those that the plan does not know any more come
	// last.
	Workloads []WorkloadStats
}

// ClassStats is a snapshot of one class of one workload. Its counters only grow.
type ClassStats struct {
	Waiting  int
	Standing bool  // its queue has not been short for a while
	Oldest   int64 // when its oldest waiter arrived, in the caller's ns; 0 = nobody waits

	Granted uint64
	Refused [Reasons]uint64 // by Reason
	// Would is what would have been refused without DryRun or Off. Who was let in instead
	// counts once, for the first reason.
	Would                    [Reasons]uint64
	GrantWaits, RefusalWaits Waits
}

// TenantStats is a snapshot of one tenant of a role in one workload and class.
type TenantStats struct {
	Workload uint16
	Class    Class
	Role     uint32
	Tenant   uint32
	Waiting  int
	Running  int
	Served   int64  // ns of slots that it was charged with since it is known
	Granted  uint64 // since it is known
	Refused  uint64
}

// WorkloadStats is a snapshot of one workload. Its counters only grow.
type WorkloadStats struct {
	Policy  Policy
	Mode    Mode
	Classes [Classes]ClassStats // highest first
	// FalseRefusals is how many refusals were in vain: a slot that the workload may use was
	// idle for as long as the refused would have needed it, within the time that they could
	// have waited.
	FalseRefusals uint64

	Slots       int // its part, rounded, at least 1 if there are any
	Connections int // the part of its sessions
	Running     int
	Reserved    int // of Running on Extra's slots
	Sessions    int // servers that its sessions keep
	Waiting     int
	Probes      int
	Paused      int
	MaxWaiting  int
	// Borrowed is how many of Running are beyond its own part, Lent how many of
	// its own part others use. Which part of an idle one that is follows from
	// how much of all idle ones is left.
	Borrowed, Lent int
	Oldest         int64   // see Stats
	DrainRate      float64 // of its part

	Granted                  [wants]uint64   // by Want
	Refused                  [Reasons]uint64 // by Reason
	Withdrawn                uint64
	GrantWaits, RefusalWaits Waits
}

// Stats returns a snapshot. It walks over the workloads, and over those who wait
// for a paused key.
func (g *Gate) Stats() Stats {
	s := Stats{
		Slots: g.plan.Slots, Extra: g.plan.Extra, Connections: g.plan.Connections,
		Running: g.side[slots].used + g.side[extras].used, Lane: g.side[probes].used,
		Reserved: g.side[extras].used, Sessions: g.side[sessions].used,
		Waiting: g.Waiting(), Probes: g.probes, Paused: g.halted,
		DrainRate: g.drain.perSecond(g.plan.Slots), Moves: g.moves,
		Workloads: make([]WorkloadStats, len(g.loads)),
	}
	idle := 0
	for i, d := range g.loads {
		w := d.snapshot()
		idle += max(d.lines[slots].own-d.lines[slots].used, 0)
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
		s.Workloads[i] = w
	}
	g.lent(s.Workloads, idle)
	s.Oldest = g.oldest(s.Workloads)
	return s
}

// Tenants appends what is known of up to limit tenants, those with the most waiters first.
func (g *Gate) Tenants(dst []TenantStats, limit int) []TenantStats {
	from := len(dst)
	for _, t := range g.book.tenants {
		r := t.role.rank
		dst = append(dst, TenantStats{
			Workload: r.line.load.index, Class: ClassAt(r.index), Role: t.role.id, Tenant: t.id,
			Waiting: t.waiting, Running: t.running, Served: t.served, Granted: t.granted, Refused: t.refused,
		})
	}
	slices.SortFunc(dst[from:], func(a, b TenantStats) int {
		return cmp.Or(b.Waiting-a.Waiting, cmp.Compare(b.Served, a.Served), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Tenant, b.Tenant))
	})
	return dst[:min(len(dst), from+max(limit, 0))]
}

func (d *load) snapshot() WorkloadStats {
	l, k := &d.lines[slots], &d.lines[sessions]
	w := WorkloadStats{
		Policy: d.plan.Policy, Mode: d.plan.Mode, FalseRefusals: d.vain.count,
		Slots: d.part, Connections: k.own, Running: l.used + d.extra, Reserved: d.extra, Sessions: k.used,
		Waiting: d.waiting(), Probes: d.probes, Paused: d.halted, MaxWaiting: d.maxWaiting(),
		Borrowed: l.adds.borrowed, DrainRate: d.drain.perSecond(d.part),
		Granted: d.stats.granted, Refused: d.stats.refused, Withdrawn: d.stats.withdrawn,
		GrantWaits: d.stats.served, RefusalWaits: d.stats.turnedAway,
	}
	for i := range w.Classes {
		c, r := &d.stats.classes[i], &l.ranks[i]
		w.Classes[i] = ClassStats{
			Waiting: r.n, Standing: r.on, Granted: c.granted, Refused: c.refused, Would: c.would,
			GrantWaits: c.served, RefusalWaits: c.turnedAway,
		}
		if r.head != nil {
			w.Classes[i].Oldest = r.head.arrived
		}
	}
	return w
}

// lent spreads what is borrowed over those whose parts are idle.
func (g *Gate) lent(all []WorkloadStats, idle int) {
	borrowed := 0
	for i := range all {
		borrowed += all[i].Borrowed
	}
	borrowed = min(borrowed, idle)
	told, seen := 0, 0
	for i, d := range g.loads {
		if seen += max(d.lines[slots].own-d.lines[slots].used, 0) * borrowed; idle > 0 {
			all[i].Lent = seen/idle - told
			told = seen / idle
		}
	}
}

// oldest fills in when each workload's oldest waiter arrived, and returns when
// the oldest of all did; 0 where nobody waits.
func (g *Gate) oldest(all []WorkloadStats) int64 {
	for i, d := range g.loads {
		all[i].Oldest = never
		for kind := range d.lines {
			if h := d.lines[kind].oldest(); h != nil {
				all[i].Oldest = min(all[i].Oldest, h.arrived)
			}
		}
	}
	if g.halted > 0 {
		for k := range g.keys {
			for w := g.keys[k].halted.head; w != nil; w = w.links[mainLine].next {
				all[w.Workload].Oldest = min(all[w.Workload].Oldest, w.arrived)
			}
		}
	}
	first := int64(never)
	for i := range all {
		first = min(first, all[i].Oldest)
		if all[i].Oldest == never {
			all[i].Oldest = 0
		}
	}
	if first == never {
		return 0
	}
	return first
}
