package admission

const (
	// What holds where the plan says 0.
	defaultMaxWait     = 2e9
	defaultPatientWait = 60e9
	defaultSessionWait = 10e9
	defaultProbes      = 100
)

// Plan is what a gate enforces. Reconfigure replaces it.
type Plan struct {
	// Slots is how many transactions run at once; 0 or less = none, everybody
	// waits.
	Slots int
	// Extra is how many transactions of Reserved waiters may run beside them.
	Extra int
	// Connections is how many servers sessions (Want Session) may hold at most,
	// over all workloads: the budget without its reserve. 0 or less = Slots.
	Connections int
	// ProbeWaiting bounds the waiting probes, and by itself the waiting Reserved where
	// Extra is more than 0; 0 or less = 100.
	ProbeWaiting int
	// Workloads are indexed by Waiter.Workload; empty = one with defaults. A
	// workload keeps its index over Reconfigure, or its tickets that are out
	// count for another one.
	Workloads []Workload
}

// Workload is what the plan says about a group of clients.
type Workload struct {
	// MaxWait is the longest time in the queue for a slot, in ns; 0 or less =
	// 2 s, or 60 s if Patient.
	MaxWait int64
	// NoServerWait is the longest time, in ns, that somebody waits whose
	// database is away, as the supply tells by Downer; 0 or less = MaxWait. It is also the most by
	// which somebody may wait for longer than his limit because his clock stands still, pauses aside.
	NoServerWait int64
	// SessionWait is the longest time in the queue for a server to keep, in ns;
	// 0 or less = 10 s.
	SessionWait int64
	// MaxWaiting bounds the workload's queue, probes not counted and Reserved not bound. 0 or less =
	// automatic: as many as drain within MaxWait with the workload's part of the
	// slots, but at most 1,000, and at least 4 x that part; 1,000 as long as the
	// drain rate is not known.
	MaxWaiting int
	// Patient work may wait for long, and is not displaced.
	Patient bool
	// Policy is the order of the queue, Mode whether Guard refuses by it: without Enforce the
	// order is its own, but only MaxWait and MaxWaiting refuse.
	Policy Policy
	Mode   Mode
	// ClassWait is the longest time in the queue for a slot by class, highest first, in ns;
	// 0 or less = MaxWait.
	ClassWait [Classes]int64
	// Share is the workload's part of the slots and, for sessions, of the
	// connections, as a fraction. Where every workload says 0 they have equal
	// parts; else 0 = it only borrows.
	Share float64
	// Lendable is how much of the idle part of its Share others may use, Borrow
	// how much of all slots it may use on top of its part; fractions.
	Lendable, Borrow float64
	// MaxPinned is how much of its part of the connections sessions may keep by Pin, as a
	// fraction, but at least one; 0 or less = none.
	MaxPinned float64
}

// withDefaults returns p with all numbers in force. It leaves p's slice alone.
func (p Plan) withDefaults() Plan {
	p.Slots, p.Extra = max(p.Slots, 0), max(p.Extra, 0)
	if p.Connections <= 0 {
		p.Connections = p.Slots
	}
	if p.ProbeWaiting <= 0 {
		p.ProbeWaiting = defaultProbes
	}
	p.Workloads = append([]Workload(nil), p.Workloads...)
	if len(p.Workloads) == 0 {
		p.Workloads = make([]Workload, 1)
	}
	shared := false
	for i := range p.Workloads {
		p.Workloads[i] = p.Workloads[i].withDefaults()
		shared = shared || p.Workloads[i].Share > 0
	}
	if !shared {
		for i := range p.Workloads {
			p.Workloads[i].Share = 1 / float64(len(p.Workloads))
		}
	}
	return p
}

func (w Workload) withDefaults() Workload {
	if w.MaxWait <= 0 {
		w.MaxWait = defaultMaxWait
		if w.Patient {
			w.MaxWait = defaultPatientWait
		}
	}
	if w.NoServerWait <= 0 {
		w.NoServerWait = w.MaxWait
	}
	if w.SessionWait <= 0 {
		w.SessionWait = defaultSessionWait
	}
	w.Share = min(max(w.Share, 0), 1)
	w.Lendable = min(max(w.Lendable, 0), 1)
	w.Borrow = min(max(w.Borrow, 0), 1)
	w.MaxPinned = min(max(w.MaxPinned, 0), 1)
	return w
}
