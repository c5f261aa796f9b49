package admission

// counters are what the gate counts for ever about a workload.
type counters struct {
	granted    [wants]uint64
	refused    [Reasons]uint64
	withdrawn  uint64
	pins       uint64
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

// Totals is a snapshot of what a gate knows without a look at its workloads.
type Totals struct {
	Slots       int // of the plan in force
	Extra       int
	Connections int
	Running     int     // tickets of transactions out
	Lane        int     // of these by the probe lane's privilege
	Reserved    int     // of these on Extra's slots
	Sessions    int     // servers that sessions keep
	Waiting     int     // in the queue, probes and those of paused keys included
	Probes      int     // of these probes, those of paused keys not included
	Paused      int     // of these because their key is paused
	DrainRate   float64 // tickets per second that the slots can end; 0 = not known yet
	Moves       uint64  // servers of other keys given up for a head of a line, since the start
}

// Stats is a snapshot of a gate. Counters only grow.
type Stats struct {
	Totals

	MaxWaiting int // the sum of the workloads' bounds in force
	// Oldest is when the oldest waiter arrived, in the caller's ns; 0 = nobody waits.
	Oldest int64

	Granted   uint64
	Refused   [Reasons]uint64 // by Reason
	Withdrawn uint64
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
	Pinned      int // of these by Pin
	MaxPinned   int // how many that may be
	Waiting     int
	Probes      int
	Paused      int
	MaxWaiting  int
	// Borrowed is how many of Running are beyond its own part, Idle how many of its own part
	// it does not use, Lent how many of these others use; see [Lend].
	Borrowed, Idle, Lent int
	Oldest               int64   // see Stats
	DrainRate            float64 // of the slots that it has, its part at least

	Granted                  [wants]uint64   // by Want
	Refused                  [Reasons]uint64 // by Reason
	Withdrawn                uint64
	Pins                     uint64
	GrantWaits, RefusalWaits Waits
}
