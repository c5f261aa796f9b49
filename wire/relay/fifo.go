package relay

import (
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// kind is what an entry of the answer queue waits for.
type kind uint8

const (
	kSync      kind = iota // ReadyForQuery
	kQuery                 // anything, then ReadyForQuery
	kFunction              // the same
	kParse                 // ParseComplete
	kBind                  // BindComplete
	kDescribeS             // ParameterDescription, then RowDescription or NoData
	kDescribeP             // RowDescription or NoData
	kExecute               // rows, then CommandComplete, EmptyQueryResponse or PortalSuspended
	kClose                 // CloseComplete
	kCopyEnd               // nothing: marks where the client ended its COPY data
)

// ready reports whether the entry ends with ReadyForQuery.
func (k kind) ready() bool { return k <= kFunction }

// fate is what becomes of an entry's answer.
type fate uint8

const (
	forward  fate = iota // to the client
	swallow              // ours: the client never sees it
	fake                 // the server was not asked; the client is told what it expects, in its turn
	replace              // must fail; the client gets a different error, see entry.err
	fallible             // ours, but its error is the client's (a Parse that went ahead of its Bind)
)

// entry is one expected answer, or n equal ones.
type entry struct {
	kind kind
	fate fate
	inj  inject
	n    uint16
	// changed: the message replaced or dropped the client's unnamed statement,
	// which was old.
	changed bool
	heals   bool // Bind, Describe: of a batch that may be sent again it is the first message
	// clears: the message drops all of the client's names.
	clears bool
	// resetsOwn: the statement sets pgweir's own parameters back.
	resetsOwn bool
	steps     bool              // Query: its steps are the client's, see ownState
	step      sqltext.Kind      // Execute: what it does to a transaction; name is the savepoint's
	form      ownForm           // fate fake: how the result looks
	end       bool              // Query, Execute: it is nothing but the end of a transaction
	resets    string            // what it sets back to the values of the client's login
	prep      *prepared         // Parse, Close: the statement on the server
	old       *Statement        // what the client's name, or no name, stood for before
	name      string            // the client's name that this message defined or closed, or a savepoint's
	err       *wire.Error       // fate replace
	left      *leaving          // what it leaves with the session, or takes from it
	sets      []sqltext.Setting // what it sets that is followed by its text
}

// inject says which of our own messages an entry belongs to.
type inject uint8

const (
	injNone   inject = iota
	injParams        // settings ahead of the client's request
	injBegin         // the pending BEGIN
	injReset         // cleaning before the server goes back
	injRollback
	injSync  // a Sync of ours that stands for the client's
	injHeal  // the Sync of a batch that is sent again
	injProbe // an empty Query, to learn what was read before it
)

// maxOutstanding bounds the answers that a client may be owed unless Shared says otherwise;
// above it the client is not read.
const maxOutstanding = 4096

// defines reports whether the entry's failure would take back what one of the
// client's names, or no name, stands for, or what the server knows.
func (e *entry) defines() bool {
	switch e.kind {
	case kParse:
		return e.changed || e.name != "" || e.prep != nil
	case kClose:
		return e.changed || e.name != ""
	}
	return e.changed
}

// fifo is the queue of expected answers of one server.
type fifo struct {
	q     []entry
	head  int
	total int // answers outstanding, markers included
	// defs counts the entries that define something, guesses those of them
	// that stand before the last ReadyForQuery in the queue: whether a later
	// batch meets what they define is not known yet.
	defs, guesses int
	// clears counts the entries that drop all names: what a name means behind
	// them is known when they are answered.
	clears int
}

func (f *fifo) empty() bool { return f.total == 0 }

// plain reports whether equal entries may share one element.
func (e *entry) plain() bool {
	return e.prep == nil && e.old == nil && e.name == "" && e.err == nil && e.left == nil && !e.changed && !e.clears && !e.resetsOwn && !e.steps && e.step == sqltext.Other && e.resets == "" && len(e.sets) == 0 && !e.end && e.inj == injNone
}

func (f *fifo) push(e entry) {
	e.n = 1
	f.total++
	if e.defines() {
		f.defs++
	}
	if e.clears {
		f.clears++
	}
	if e.kind.ready() {
		f.guesses = f.defs
	}
	if n := len(f.q); n > f.head && e.plain() {
		if l := &f.q[n-1]; l.kind == e.kind && l.fate == e.fate && l.plain() && l.n < 1<<15 {
			l.n++
			return
		}
	}
	if f.head > 32 && f.head*2 > len(f.q) {
		n := copy(f.q, f.q[f.head:])
		clear(f.q[n:])
		f.q, f.head = f.q[:n], 0
	}
	f.q = append(f.q, e)
}

// first returns the entry at the head; the queue must not be empty.
func (f *fifo) first() *entry { return &f.q[f.head] }

// pop drops one answer from the head.
func (f *fifo) pop() {
	f.total--
	e := &f.q[f.head]
	if e.defines() {
		f.defs--
		f.guesses = max(f.guesses-1, 0)
	}
	if e.clears {
		f.clears--
	}
	if e.n--; e.n > 0 {
		return
	}
	*e = entry{}
	if f.head++; f.head == len(f.q) {
		f.q, f.head = f.q[:0], 0
		if cap(f.q) > 64 {
			f.q = nil
		}
	}
}

// rest returns the entries from the head on.
func (f *fifo) rest() []entry { return f.q[f.head:] }
