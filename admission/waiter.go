package admission

// Key is a dense number for one (database, role) on the gate's upstream:
// servers of one key are interchangeable, servers of two are not. Tables are
// indexed by it, so callers number keys from 0 without large holes.
type Key uint32

// Want is what a waiter asks for.
type Want uint8

// The wants.
const (
	// Transaction is a slot and an idle server of the key. End it with Done.
	Transaction Want = iota
	// Session is a server to keep, and no slot: the login of session mode. End
	// it with Release when that server went back or ended.
	Session
	// Slot is a slot for a transaction of a session that keeps its server: the
	// grant has no server. End it with Done.
	Slot
	wants
)

// String returns the want in lower case.
func (w Want) String() string {
	switch w {
	case Transaction:
		return "transaction"
	case Session:
		return "session"
	case Slot:
		return "slot"
	}
	return "unknown"
}

// Waiter is one session's place in the queue, embedded in the session so that
// waiting allocates nothing. Set the exported fields before Admit and leave
// them alone until the final verdict. The zero value is ready; a Waiter is
// used again for the session's next transaction and never copied while it
// waits.
type Waiter struct {
	Key      Key
	Workload uint16 // index in Plan.Workloads
	Want     Want
	Probe    bool // a driver's liveness probe: may use the probe lane, if it is not Reserved
	Reserved bool // may use Plan.Extra
	Begun    bool // its client has begun the transaction already: Drain lets it go on
	Owner    any  // whoever the verdict is delivered to; the gate never looks at it

	Class  Class
	Role   uint32 // a dense number: fairness is between roles first
	Tenant uint32 // a dense number, and then between the tenants of each
	// Continuing work goes on with what was begun: its session, or its trace, was served a
	// moment ago.
	Continuing bool
	Attempt    uint8 // which try it is, from 1; 0 = not said
	// Since is when the first of it came, in the caller's ns; 0 = now. It counts only for
	// Continuing work.
	Since int64
	// Deadline is when its answer stops being useful, in the caller's ns; 0 = not known.
	Deadline int64
	// Expected is how long it will hold its slot, in ns; 0 = not known: as long as others of
	// the workload.
	Expected int64

	gate    *Gate // the gate it waits at; nil = does not wait
	arrived int64
	joined  int64    // when it came into its line, from the door or a pause
	start   int64    // its flow's clock at that time, less what it had waited before; paused: minus that
	seq     uint64   // order of arrival at this gate
	halted  bool     // its key is paused: it stands in no line
	would   bool     // it was counted in ClassStats.Would
	goesOn  bool     // its next wait goes on with the last,
	again   bool     // and this one does with the one before
	flows   [2]*flow // in its workload's line, and in the lane
	places  [allPlaces]place

	class    int8  // index of the class that it waits as
	expected int64 // ns of its slot that it is taken for
	sub      *sub  // where it stands among its tenant's, under Guard
	began    int64 // since when it counts as under way, while it continues
	inBegun  int32 // place in its sub's heap by that
	needs    int64 // ns that have to be left before its deadline when it is granted
	late     int64 // when it is too late for its deadline
	inLate   int32 // place in the gate's heap of those
	inHalted int32 // place in its workload's heap of the halted
	inAgain  int32 // place in the gate's heap of those who wait again,
	end      int64 // by when it is refused in any case then
	begins   int64 // when it came into its line less what it had waited before, by real time, on which only a pause stands still; paused: minus that
}

// Waiting reports whether w stands in a queue: Admit answered Queued and no
// final verdict was made and no Withdraw has removed it since.
func (w *Waiter) Waiting() bool { return w.gate != nil }

// Arrived is when w was last admitted to a queue, in the caller's nanoseconds.
func (w *Waiter) Arrived() int64 { return w.arrived }

// Reason says why a waiter was refused. Its String is a metric label, a log
// field and the reason= of the error's DETAIL.
type Reason uint8

// The reasons, in the order of Stats.Refused.
const (
	None      Reason = iota // not refused
	QueueFull               // as many as allowed were waiting already
	QueueAge                // it waited for the maximum wait
	NoServer                // no server of its key could be opened
	Draining                // this pgweir is going away
	QueueWait               // it would have waited for longer than the maximum wait
	Displaced               // others came while the queue did not shrink
	Deadline                // its answer would have come too late
	Attempts                // it was tried too often
	Rate                    // its client, role or tenant sends more than its rate
	Blocked                 // its client is blocked for a while
	Pins                    // its workload keeps as many servers for sessions as it may
	reasons
)

// Reasons is the number of reasons, None included.
const Reasons = int(reasons)

// String returns the reason's label.
func (r Reason) String() string {
	switch r {
	case None:
		return "none"
	case QueueFull:
		return "queue_full"
	case QueueAge:
		return "queue_age"
	case NoServer:
		return "no_server"
	case Draining:
		return "draining"
	case QueueWait:
		return "queue_wait"
	case Displaced:
		return "displaced"
	case Deadline:
		return "deadline"
	case Attempts:
		return "attempts"
	case Rate:
		return "rate"
	case Blocked:
		return "blocked"
	case Pins:
		return "pins"
	}
	return "unknown"
}

// Outcome is what a Verdict says.
type Outcome uint8

// The outcomes. Queued is the only one that is not final.
const (
	Queued Outcome = iota
	Granted
	Refused
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Queued:
		return "queued"
	case Granted:
		return "granted"
	case Refused:
		return "refused"
	}
	return "unknown"
}

// Ticket is a granted permission, to be given back when it ends.
type Ticket struct {
	Workload uint16
	Want     Want
	Lane     bool // granted ahead of its turn by the probe lane
	Extra    bool // on one of Plan.Extra's slots

	tenant   *tenant // who was charged with it; nil = nobody
	expected int64   // how much, in ns
	key      Key     // whose server it has
	class    int8    // index of the class that it was granted as
}

// Verdict is the gate's answer about one waiter. Verdicts that are appended to
// a caller's slice are final and are delivered after the lock is released.
type Verdict struct {
	W       *Waiter
	Outcome Outcome
	Reason  Reason // why, if Refused
	Ticket  Ticket // to give back to Done, if Granted
	Grant   uint32 // the reserved server's handle, if Granted; 0 for a Slot
	Waited  int64  // ns of real time between Admit and this verdict
	// Queued is how many of the workload were waiting when the verdict was made
	// (without this one, except when it was just queued), Slots the workload's
	// part of the slots, rounded, at least 1 if there are any.
	Queued, Slots int
	// RetryAfter is when a refused client may sensibly come back, in ns: the time
	// that twice the queue and those refused lately need, between 100 ms and 5 s, times
	// a random 0.5 to 1.5 so that the refused do not return together. 0 unless Refused.
	RetryAfter int64
}

// Supply is where servers come from. The gate calls it under the caller's
// lock; every method is O(1) or bounded by the number of servers, does no I/O
// and never calls back.
type Supply interface {
	// Reserve takes an idle server of key k for a ticket, the one used last
	// first. ok is false if there is none.
	Reserve(k Key, now int64) (grant uint32, ok bool)
	// Demand says that waiting waiters of k stand in the queue now and that
	// over all keys usable servers could be used at once: no more than the free
	// slots, than those who wait, and than their workloads may have. It is called
	// when either number changed.
	Demand(k Key, waiting, usable int, now int64)
	// Steal asks to give up an idle server of another key, even of one that is
	// waited for, because a waiter of k was passed over for too long; urgent says
	// by one of a lower class. It returns whether one is on its way out for k's sake now.
	Steal(k Key, now int64, urgent bool) bool
}

// Downer is a Supply that knows why it has nothing. Down reports that no
// server of k is open and the last attempt to open one failed: waiters of k
// that grow too old are then refused with NoServer instead of QueueAge.
type Downer interface{ Down(k Key) bool }

// Failer is a Supply that knows that no server can be opened, also while some are open.
// Failing reports that the last attempt to open one for k failed. A waiter that grows too old
// while a slot is free for it, and nobody of its key was let in since it came, is refused
// with NoServer then: those servers serve nobody.
type Failer interface{ Failing(k Key) bool }

// Warmer is a Supply that knows whether it is still opening what it may open.
// Warming reports that servers are on their way, or k may get one at once, and
// that nothing speaks against success.
type Warmer interface{ Warming(k Key) bool }

// Changer is a Supply that counts the changes of what Down and Warming say of
// any key. The gate asks them again only after a change.
type Changer interface{ Changes() uint64 }

// Asker is a Supply that wants to ask back, when it considers to open a server:
// usable is how many of those who wait for a server of k could use one at once,
// as far as slots and the workloads' parts go. It may be called whenever a
// method of the gate may.
type Asker interface{ Ask(usable func(k Key) int) }
