package wiretest

import (
	"fmt"
	"sort"

	"github.com/pgweir/pgweir/wire"
)

// BackendOptions says what kind of backend NewBackend makes.
type BackendOptions struct {
	PID    uint32 // process id, for Welcome and Effects
	Secret []byte // cancel key, for Welcome; 4 bytes for protocol 3.0

	// Params are parameters of the start-up packet: the session's defaults, to
	// which RESET returns. Names fold case; the rest has Postgres' defaults.
	Params map[string]string

	// Outcomes is the table of what depended on time: a real backend writes
	// it, an oracle reads it. Nil means that nothing is recorded or looked up.
	Outcomes *Outcomes
	// Effects logs what was executed. Nil means no log.
	Effects *Effects
	// Oracle makes a backend that repeats what Outcomes says and never sleeps.
	Oracle bool

	// Busy is how long statements that return rows or insert keep the backend
	// busy, in nanoseconds. An oracle ignores it.
	Busy int64
	// SendLimit is how many bytes of output may wait for Output before rows
	// and COPY OUT stall; 0 means without limit.
	SendLimit int

	// ImplicitPipelines makes a pipeline after its first Execute a transaction
	// block until Sync, as PostgreSQL 18 does: SET LOCAL no longer warns there,
	// and a Query or FunctionCall in its middle is answered with the state T.
	ImplicitPipelines bool

	// Before, if not nil, sees every message that the backend reads, numbered
	// from 0, also those that it skips or that belong to a COPY. If it returns
	// an error, a message that is neither skipped nor part of a COPY fails
	// with it instead of being processed; severity FATAL ends the session. A
	// Query or Parse that would take the unnamed statement away still does. It
	// tells an oracle what the pooler refused.
	Before func(n int, m Message) *wire.Error

	// Meddler begins the reason of a CopyFail that a pooler sends on its own account: Outcomes
	// says that one came, as of a cancel.
	Meddler string
}

// Backend is a Postgres backend after its login, as a machine that is fed
// bytes and yields bytes. It starts in the idle state, having said nothing;
// Welcome has what a login ends with. Not safe for concurrent use.
//
// Its language, one statement each, separated by semicolons; words fold case,
// comments and white space are free, and a comment of the form /*id=x*/
// anywhere inside names the statement for Outcomes and Effects:
//
//	select N                    a row with the integer N
//	rows N K                    N rows of K bytes
//	nonce X                     a row with X; also nonce $1
//	insert N                    "INSERT 0 N"
//	fail CODE                   an error with this SQLSTATE when executed
//	select * from X             error 42P01 when analysed
//	notice T                    a NoticeResponse
//	sleep MS, sleepfail MS      keeps busy, then returns a row or fails (22012)
//	copy T from stdin           COPY IN
//	copyfail N from stdin       fails (22P02) when it has read N CopyData
//	copybs from stdin           fails (P0001) after CopyInResponse, before it reads
//	copy T to stdout N K        N lines of K bytes
//	whoami, whoami all          a row "name=value" for each reported (each) parameter
//	begin, start transaction, commit, end, rollback, abort, savepoint,
//	release, rollback to        as in Postgres, with modes and AND CHAIN
//	set, set local, reset, show as in Postgres, for the parameters that the fake
//	                            knows and for names with a point
//	select set_config(n, v, b)  one or several in a select list
//	discard all, deallocate, close all, listen, unlisten
//	prepare Q as select N, execute Q, create temp table T, drop table T, discard temp,
//	declare C cursor with hold for select N, close C, select pg_advisory_lock(N) and its kin
//	left                        a row with what of the last two lines the session has
//
// Everything else is a syntax error, 42601.
type Backend struct {
	o   BackendOptions
	in  []byte
	off int    // how much of in is consumed
	out []byte // written, not flushed
	net []byte // flushed, for Output

	tx       tx
	set      settings
	portals  map[string]*portal
	prepared map[string]*statement // the unnamed statement is ""
	left     left

	query    *query     // the simple Query in progress
	exec     *execution // the statement that runs
	extended bool       // an error skips to the next Sync
	skip     bool       // skipping to Sync
	eof      bool
	dead     bool
	cancel   bool // a cancel request is pending
	reads    int  // messages read
	runs     map[string]int

	asleep bool
	told   bool // Run has told about this sleep
	nap    int64
	naps   int
}

// NewBackend returns a backend that has just logged a client in.
func NewBackend(o BackendOptions) *Backend {
	return &Backend{
		o: o, set: newSettings(o.Params),
		portals: map[string]*portal{}, prepared: map[string]*statement{},
		left: newLeft(), runs: map[string]int{},
	}
}

// newError returns an ERROR.
func newError(code, format string, args ...any) *wire.Error {
	return &wire.Error{Severity: "ERROR", Code: code, Message: fmt.Sprintf(format, args...)}
}

// Welcome returns what a login ends with after AuthenticationOk: the reported
// parameters, BackendKeyData, ReadyForQuery.
func (b *Backend) Welcome() []byte {
	out := wire.AppendParameterStatus(nil, "server_version", "15.18")
	for _, name := range tracked() {
		out = wire.AppendParameterStatus(out, findGUC(name).name, b.set.get(name))
	}
	out = wire.AppendBackendKeyData(out, b.o.PID, b.o.Secret)
	return wire.AppendReadyForQuery(out, wire.Idle)
}

// Feed gives the backend input, cut anywhere. It only stores it: call Run.
// Input after EOF or death is ignored.
func (b *Backend) Feed(p []byte) {
	if b.dead || b.eof {
		return
	}
	if b.off > 0 && b.off >= len(b.in)/2 {
		b.in, b.off = b.in[:copy(b.in, b.in[b.off:])], 0
	}
	b.in = append(b.in, p...)
}

// EOF says that no input will follow: the frontend closed its sending side.
// The backend notices when it wants to read: call Run.
func (b *Backend) EOF() { b.eof = true }

// Run processes input until it lacks bytes, the output limit is reached, the
// backend is dead, or a statement begins to sleep. In the last case, and once
// for each sleep, it returns for how many nanoseconds (at least 1): call
// Resume after that time. Otherwise it returns 0.
func (b *Backend) Run() int64 {
	for !b.dead {
		if b.asleep && b.cancel && b.exec.key != "" {
			b.asleep = false
		}
		if b.asleep {
			if b.told {
				return 0
			}
			b.told = true
			return b.nap
		}
		more := false
		switch {
		case b.exec != nil:
			more = b.step()
		case b.query != nil:
			more = b.nextStatement()
		default:
			more = b.readCommand()
		}
		if !more && !b.asleep {
			return 0
		}
	}
	return 0
}

// Resume ends the sleep of the running statement; without one it does nothing.
// Call Run afterwards.
func (b *Backend) Resume() { b.asleep = false }

// Sleeping tells whether a statement sleeps, and the number of this sleep
// (from 1), by which a timer set for an earlier one can be told apart.
func (b *Backend) Sleeping() (nap int, asleep bool) { return b.naps, b.asleep }

func (b *Backend) sleep(ns int64) {
	if b.o.Oracle || ns <= 0 {
		return
	}
	b.asleep, b.told, b.nap = true, false, ns
	b.naps++
}

// Cancel delivers a cancel request. A sleeping statement, one that sends rows
// and one that copies fails with 57014, the last two not before more bytes
// move; while the backend waits for a command the request is ignored, and so
// it is for statements without an id, because no oracle could repeat it. Call
// Run afterwards.
func (b *Backend) Cancel() {
	if !b.dead && b.exec != nil {
		b.cancel = true
	}
}

// Die ends the session as pg_terminate_backend does: FATAL 57P01, unless the
// backend is stuck in the middle of sending. If a statement runs, Outcomes says
// so; an oracle has to be told of a death between statements through Before.
func (b *Backend) Die() { b.end(Died) }

// Crash ends the session without a word; output in the buffer is lost.
func (b *Backend) Crash() { b.end(Crashed) }

func (b *Backend) end(kind OutcomeKind) {
	if b.dead {
		return
	}
	if x := b.exec; x != nil {
		b.record(x, kind)
		if b.full() {
			kind = Crashed
		}
	}
	if kind == Died {
		b.put(wire.AppendError(nil, adminShutdown()))
		b.flush()
	}
	b.exit()
}

func adminShutdown() *wire.Error {
	return &wire.Error{Severity: "FATAL", Code: "57P01", Message: "terminating connection due to administrator command"}
}

// exit ends the process: what was not flushed is lost, what was not committed
// is rolled back.
func (b *Backend) exit() {
	if b.tx.block != blockNone {
		b.endTx(RolledBack)
	}
	b.dead, b.asleep = true, false
	b.exec, b.query, b.in, b.out, b.off = nil, nil, nil, nil, 0
}

// Dead says that the backend has ended: after Terminate, end of input, a FATAL
// error, Die or Crash. What Output still holds was sent before.
func (b *Backend) Dead() bool { return b.dead }

// Output returns what the backend has sent since the last call. The bytes are
// the caller's.
func (b *Backend) Output() []byte {
	out := b.net
	b.net = nil
	return out
}

// Unflushed returns what the backend has written and still keeps in its output
// buffer. The bytes are the backend's.
func (b *Backend) Unflushed() []byte { return b.out }

// TxState returns the state that a ReadyForQuery would report now.
func (b *Backend) TxState() byte { return b.tx.status() }

// Settings returns all known parameters by their lower-case names.
func (b *Backend) Settings() map[string]string { return b.set.all() }

// Statements returns the names of the prepared statements, sorted; the unnamed
// one is not among them.
func (b *Backend) Statements() []string {
	var names []string
	for name := range b.prepared {
		if name != "" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// Channels returns how many channels the session listens on.
func (b *Backend) Channels() int { return len(b.left.channels) }

// Idle says that the session is between transactions with nothing under way:
// no open batch, no partial message, no unread input, nothing to skip.
func (b *Backend) Idle() bool {
	return !b.dead && b.tx.block == blockNone && b.exec == nil && b.query == nil &&
		!b.skip && b.off == len(b.in) && len(b.out) == 0
}
