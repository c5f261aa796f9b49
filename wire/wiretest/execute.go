package wiretest

import (
	"github.com/pgweir/pgweir/wire"
)

// millisecond in nanoseconds.
const millisecond = 1_000_000

// execution is one run of a statement: a statement of a simple Query, or one
// Execute of a portal.
type execution struct {
	st     *stmt
	portal *portal
	name   string // of the portal
	simple bool
	limit  int // rows to return; 0 = all

	begun bool
	count int // rows sent, or CopyData messages sent or read
	key   string
	nth   int
	fate  Outcome // what an oracle has to repeat; zero = nothing

	lines   int  // complete lines of COPY FROM STDIN
	partial bool // bytes after the last of them
	ignored int  // Syncs read in a COPY FROM STDIN
}

// admit numbers the execution and strikes one that is cancelled before it begins.
func (b *Backend) admit(x *execution) *wire.Error {
	if x.st.timed() {
		x.key = x.st.id
		if x.key == "" && x.portal != nil && len(x.portal.params) > 0 {
			x.key = string(x.portal.params[0])
		}
	}
	switch {
	case x.key == "" || b.o.Outcomes == nil:
	case b.o.Oracle:
		b.runs[x.key]++
		x.nth = b.runs[x.key]
		x.fate, _ = b.o.Outcomes.Lookup(x.key, x.nth)
	default:
		x.nth = b.o.Outcomes.begin(x.key)
	}
	return b.strike(x, -1)
}

// strike returns the error that ends the execution at this point, if any.
func (b *Backend) strike(x *execution, at int) *wire.Error {
	if b.o.Oracle {
		if x.fate.Kind == 0 || x.fate.At != at || x.fate.Reason != "" && x.fate.Ignored != x.ignored {
			return nil
		}
		switch x.fate.Kind {
		case Died:
			return adminShutdown()
		case Crashed:
			b.exit()
			return nil
		}
		if x.fate.Reason != "" {
			return copyFailed(x.fate.Reason)
		}
		return cancelled()
	}
	if !b.cancel || x.key == "" {
		return nil
	}
	b.cancel = false
	if b.o.Outcomes != nil {
		b.o.Outcomes.record(x.key, x.nth, Outcome{Kind: Cancelled, At: at})
	}
	return cancelled()
}

func cancelled() *wire.Error {
	return newError("57014", "canceling statement due to user request")
}

// record notes that the backend ended under the execution.
func (b *Backend) record(x *execution, kind OutcomeKind) {
	if x.key != "" && b.o.Outcomes != nil && !b.o.Oracle {
		if b.full() {
			kind = Crashed
		}
		b.o.Outcomes.record(x.key, x.nth, Outcome{Kind: kind, At: x.count})
	}
}

// step lets the running statement do its next piece. It returns false if the
// statement has to wait.
func (b *Backend) step() bool {
	x := b.exec
	if !x.begun {
		x.begun = true
		return b.check(b.begin(x))
	}
	if b.full() && (x.st.kind == kCopyOut || len(x.st.columns()) > 0) {
		return false // stuck in a send: nothing strikes before bytes move
	}
	// A cancel request strikes COPY FROM STDIN only after a message.
	if x.st.kind != kCopyIn || b.o.Oracle {
		if err := b.strike(x, x.count); !x.fate.Done && err != nil || b.dead {
			return b.check(err)
		}
	}
	switch {
	case x.st.kind == kCopyIn:
		return b.copyIn(x)
	case x.st.kind == kCopyOut:
		return b.copyOut(x)
	case len(x.st.columns()) > 0:
		return b.sendRows(x)
	}
	tag, err := b.utility(x)
	if err != nil {
		return b.check(err)
	}
	x.portal.done = true
	b.complete(x, tag)
	return true
}

// check raises err, if any, and says that the main loop goes on.
func (b *Backend) check(err *wire.Error) bool {
	if err != nil && !b.dead {
		b.raise(err)
	}
	return !b.dead
}

// complete ends an execution with its tag.
func (b *Backend) complete(x *execution, tag string) {
	b.exec = nil
	if x.simple {
		b.endSimple(x.st, tag)
	} else {
		b.endExecute(x.st, tag)
	}
}

// begin does what comes before the first row: the description, the switch into
// COPY, the sleep.
func (b *Backend) begin(x *execution) *wire.Error {
	st, q := x.st, x.portal
	b.tx.snapshot = b.tx.snapshot || st.snapshots()
	if p := b.prepared[st.name]; st.kind == kExecute && (p == nil || !p.sql) {
		return newError("26000", "prepared statement \"%s\" does not exist", st.name)
	}
	if columns := st.columns(); x.simple && len(columns) > 0 {
		b.put(appendRowDescription(nil, columns, nil))
	}
	if what, writes := map[kind]string{
		kInsert: "INSERT", kCopyIn: "COPY FROM", kTemp: "CREATE TABLE", kDrop: "DROP TABLE",
	}[st.kind]; b.tx.readOnly && writes && st.tag != "DISCARD TEMP" {
		return newError("25006", "cannot execute %s in a read-only transaction", what)
	}
	switch st.kind {
	case kCopyIn:
		b.put(appendCopyResponse(nil, wire.MsgCopyInResponse))
		b.flush()
		if st.fails && st.n == 0 {
			return newError("P0001", "refused before the first row")
		}
	case kCopyOut:
		b.put(appendCopyResponse(nil, wire.MsgCopyOutResponse))
		b.sleep(b.o.Busy)
	case kSleep, kSleepFail:
		if !q.begun {
			b.sleep(int64(st.n) * millisecond)
		}
	case kSelect, kRows, kInsert, kNonce:
		if !q.begun {
			b.sleep(b.o.Busy)
		}
	}
	return nil
}

// effect logs an effect of the running statement.
func (b *Backend) effect(x *execution, value string, rows int) {
	if b.o.Effects == nil {
		return
	}
	log := &b.o.Effects.log
	b.tx.effects = append(b.tx.effects, len(*log))
	*log = append(*log, Effect{ID: x.st.id, Value: value, Rows: rows, PID: b.o.PID})
}
