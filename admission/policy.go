package admission

// Policy is the order and the bounds of a workload's queue. All keep the workload's MaxWait
// and MaxWaiting.
type Policy uint8

// The policies. Guard is for production; the others are there to be compared with it.
const (
	// Guard serves by class, role and tenant, and keeps the queue short.
	Guard Policy = iota
	// FIFO serves the oldest, as most poolers do, also for those who have left.
	FIFO
	// FIFOGone is FIFO that forgets who has left.
	FIFOGone
	// FIFODeadline is FIFOGone that refuses at their turn those for whom it comes too late.
	FIFODeadline
	// Bounded is FIFODeadline with a short queue, MaxWaiting.
	Bounded
	// LIFO serves the newest, also those who have left.
	LIFO
	// LIFODeadline is LIFO that forgets who has left, and refuses at their turn those for whom
	// it comes too late.
	LIFODeadline
	// CoDel refuses those who have waited for 60 ms while the queue has not been empty for
	// 100 ms, and serves the newest as long as that is so.
	CoDel
	// Priority lets work below Critical wait only behind fewer than one waiter for each slot,
	// the rest behind eight.
	Priority
	policies
)

// Policies is how many there are.
const Policies = int(policies)

var policyNames = [Policies]string{
	"guard", "fifo", "fifo-gone", "fifo-deadline", "bounded", "lifo", "lifo-deadline", "codel", "priority",
}

// String returns the policy as files and metrics name it.
func (p Policy) String() string {
	if p >= policies {
		return "unknown"
	}
	return policyNames[p]
}

// ParsePolicy returns the policy of a name; ok is false if there is none of that name.
func ParsePolicy(name string) (p Policy, ok bool) {
	for i, n := range policyNames {
		if n == name {
			return Policy(i), true
		}
	}
	return Guard, false
}

// IgnoresGone reports that the policy serves also those who have left: their callers must
// not look whether they are still there while they wait.
func (p Policy) IgnoresGone() bool { return p == FIFO || p == LIFO }

// Mode is whether a control acts.
type Mode uint8

// The modes of a control.
const (
	Enforce Mode = iota // it acts
	DryRun              // it counts what it would do
	Off
	allModes
)

var modeNames = [allModes]string{"enforce", "dry_run", "off"}

// String returns the mode as files and metrics name it.
func (m Mode) String() string {
	if m >= allModes {
		return "unknown"
	}
	return modeNames[m]
}

// ParseMode returns the mode of a name; ok is false if there is none of that name.
func ParseMode(name string) (m Mode, ok bool) {
	for i, n := range modeNames {
		if n == name {
			return Mode(i), true
		}
	}
	return Enforce, false
}
