package admission

// counters are what the gate counts for ever.
type counters struct {
	granted    uint64
	refused    [Reasons]uint64
	withdrawn  uint64
	moves      uint64
	served     Waits
	turnedAway Waits
}

// Stats is a snapshot of a gate. Counters only grow.
type Stats struct {
	Slots      int // of the plan in force
	Running    int // tickets out
	Lane       int // of these by the probe lane's privilege
	Waiting    int // in the queue, probes included
	Probes     int // of these probes
	MaxWaiting int // the bound in force for others than probes
	// Oldest is when the oldest waiter arrived, in the caller's ns; meaningful
	// only if Waiting > 0.
	Oldest    int64
	DrainRate float64 // tickets per second that the slots can end; 0 = not known yet

	Granted   uint64
	Refused   [Reasons]uint64 // by Reason
	Withdrawn uint64
	Moves     uint64 // servers of other keys given up for a head of the line
	// GrantWaits are the waits of the granted, RefusalWaits those of the
	// refused. A wait that is recorded only on success hides the incident.
	GrantWaits, RefusalWaits Waits
}

// Stats returns a snapshot. It copies about 600 bytes.
func (g *Gate) Stats() Stats {
	s := Stats{
		Slots: g.plan.Slots, Running: g.running, Lane: g.inLane,
		Waiting: g.queue.Len(), Probes: g.lane.Len(), MaxWaiting: g.maxWaiting(),
		DrainRate: g.drain.perSecond(g.plan.Slots),
		Granted:   g.stats.granted, Refused: g.stats.refused, Withdrawn: g.stats.withdrawn,
		Moves: g.stats.moves, GrantWaits: g.stats.served, RefusalWaits: g.stats.turnedAway,
	}
	if w := g.queue.Oldest(); w != nil {
		s.Oldest = w.arrived
	}
	return s
}
