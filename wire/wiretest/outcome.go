package wiretest

import "strconv"

// OutcomeKind says what happened to a statement that did not just run.
type OutcomeKind uint8

// The kinds of Outcome.
const (
	Cancelled OutcomeKind = iota + 1 // ERROR 57014
	Died                             // FATAL 57P01, the backend is gone
	Crashed                          // the backend is gone without a word
)

// Outcome is a decision of a real Backend that depended on time.
type Outcome struct {
	Kind OutcomeKind
	// At is the number of rows or CopyData that the statement had sent (or,
	// during COPY FROM STDIN, read) by then; -1 if it had not begun.
	At int
	// Done says that COPY FROM STDIN was struck when it read CopyDone.
	Done bool
	// Reason is the one of a CopyFail that was not the client's, see BackendOptions.Meddler.
	Reason string
	// Ignored is how many Syncs the COPY had read by then.
	Ignored int
}

// Outcomes is the table of what depended on time, keyed by statement and
// execution. The real backends of one simulated world share one; the oracles
// read it. Not safe for concurrent use.
type Outcomes struct {
	runs map[string]int
	seen map[string]Outcome
}

// NewOutcomes returns an empty table.
func NewOutcomes() *Outcomes {
	return &Outcomes{runs: map[string]int{}, seen: map[string]Outcome{}}
}

// Lookup tells what was decided about the nth execution (from 1) of the
// statement with the given id.
func (o *Outcomes) Lookup(id string, nth int) (Outcome, bool) {
	out, ok := o.seen[outcomeKey(id, nth)]
	return out, ok
}

// Runs returns how many executions of the statement the real backends began.
func (o *Outcomes) Runs(id string) int { return o.runs[id] }

// Len returns the number of outcomes recorded.
func (o *Outcomes) Len() int { return len(o.seen) }

func (o *Outcomes) begin(id string) (nth int) {
	o.runs[id]++
	return o.runs[id]
}

func (o *Outcomes) record(id string, nth int, out Outcome) {
	o.seen[outcomeKey(id, nth)] = out
}

func outcomeKey(id string, nth int) string { return id + "#" + strconv.Itoa(nth) }

// EffectState says what became of an Effect.
type EffectState uint8

// The states of an Effect.
const (
	Open       EffectState = iota // its transaction is still open
	Committed                     // durable
	RolledBack                    // undone, or lost with its backend
)

// Effect is one execution of a statement that a client would miss or notice
// twice: an insert, a nonce, a finished COPY FROM STDIN.
type Effect struct {
	ID    string // the statement's id comment, "" if it had none
	Value string // what a nonce returned; "" otherwise
	Rows  int
	PID   uint32 // of the backend
	State EffectState
}

// Effects is the log of effects in the order of execution, over all backends
// that share it. Not safe for concurrent use.
type Effects struct {
	log []Effect
}

// All returns the log. It is shared: do not write to it.
func (e *Effects) All() []Effect { return e.log }

// Count returns how often the statement id had an effect, and how many of
// these were committed.
func (e *Effects) Count(id string) (executed, committed int) {
	for i := range e.log {
		if e.log[i].ID != id {
			continue
		}
		executed++
		if e.log[i].State == Committed {
			committed++
		}
	}
	return executed, committed
}
