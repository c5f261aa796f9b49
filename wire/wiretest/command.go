package wiretest

import (
	"encoding/binary"

	"github.com/pgweir/pgweir/wire"
)

// commandLimit returns the largest length of a frontend message; 0 means that
// the type is invalid.
func commandLimit(typ byte) int {
	switch typ {
	case wire.MsgQuery, wire.MsgFunctionCall, wire.MsgBind, wire.MsgParse, wire.MsgCopyData:
		return maxLarge
	case wire.MsgTerminate, wire.MsgClose, wire.MsgDescribe, wire.MsgExecute, wire.MsgFlush,
		wire.MsgSync, wire.MsgCopyDone, wire.MsgCopyFail:
		return maxSmall
	}
	return 0
}

// readCommand reads and processes one message outside a COPY.
func (b *Backend) readCommand() bool {
	b.cancel = false
	if b.off == len(b.in) {
		if b.eof {
			b.exit()
		}
		return false
	}
	typ := b.in[b.off]
	limit := commandLimit(typ)
	if limit == 0 {
		b.fatal("08P01", "invalid frontend message type %d", typ)
		return false
	}
	m, ok, bad := b.message(limit)
	if bad || !ok && b.eof {
		b.exit() // without a word: only Postgres' log gets one
	}
	if !ok {
		return false
	}
	b.command(m)
	return !b.dead
}

func (b *Backend) before(m Message) *wire.Error {
	n := b.reads
	b.reads++
	if b.o.Before == nil {
		return nil
	}
	return b.o.Before(n, m)
}

// command processes a message of the main loop.
func (b *Backend) command(m Message) {
	refused := b.before(m)
	switch m.Type {
	case wire.MsgQuery, wire.MsgFunctionCall, wire.MsgCopyData, wire.MsgCopyDone, wire.MsgCopyFail:
		b.extended = false
	case wire.MsgTerminate, wire.MsgSync:
		b.extended, b.skip = false, false
	default:
		b.extended = true
	}
	if b.skip {
		return
	}
	if refused != nil {
		if m.Type == wire.MsgQuery || m.Type == wire.MsgParse && len(m.Body) > 0 && m.Body[0] == 0 {
			delete(b.prepared, "") // as these do before they fail
		}
		b.raise(refused)
		return
	}
	if err := b.dispatch(m); err != nil {
		b.raise(err)
	}
}

func (b *Backend) dispatch(m Message) *wire.Error {
	r := &reader{b: m.Body}
	switch m.Type {
	case wire.MsgQuery:
		return b.simpleQuery(r)
	case wire.MsgParse:
		return b.parse(r)
	case wire.MsgBind:
		return b.bind(r)
	case wire.MsgDescribe:
		return b.describe(r)
	case wire.MsgExecute:
		return b.execute(r)
	case wire.MsgClose:
		return b.close(r)
	case wire.MsgFunctionCall:
		return b.functionCall(r)
	case wire.MsgFlush:
		if err := r.end(); err != nil {
			return err
		}
		b.flush()
	case wire.MsgSync:
		if err := r.end(); err != nil {
			return err
		}
		b.endImplicit()
		b.finish()
		b.ready()
	case wire.MsgTerminate:
		b.exit()
	}
	return nil // CopyData, CopyDone and CopyFail are late: ignored
}

// inFailed returns the error that statements in a failed transaction get, or
// nil outside one. A nil st is anything that is not a statement.
func (b *Backend) inFailed(st *stmt) *wire.Error {
	if b.tx.block != blockFailed || st != nil && st.exitsTx() {
		return nil
	}
	return newError("25P02", "current transaction is aborted, commands ignored until end of transaction block")
}

// query is a simple Query in progress.
type query struct {
	stmts []*stmt
	next  int
}

func (b *Backend) simpleQuery(r *reader) *wire.Error {
	text := r.string()
	if err := r.end(); err != nil {
		return err
	}
	b.start()
	delete(b.prepared, "")
	stmts, err := parse(text)
	if err != nil {
		return err
	}
	b.query = &query{stmts: stmts}
	return nil
}

// nextStatement begins the next statement of the simple Query, or ends it.
func (b *Backend) nextStatement() bool {
	q := b.query
	if q.next == len(q.stmts) {
		if q.next == 0 {
			b.finish()
			b.put(wire.AppendEmpty(nil, wire.MsgEmptyQueryResponse))
		}
		b.query = nil
		b.ready()
		return true
	}
	st := q.stmts[q.next]
	q.next++
	if err := b.beginSimple(st, len(q.stmts) > 1); err != nil {
		b.raise(err)
	}
	return true
}

func (b *Backend) beginSimple(st *stmt, multi bool) *wire.Error {
	if err := b.inFailed(st); err != nil {
		return err
	}
	b.start()
	if multi {
		b.beginImplicit()
	}
	x := &execution{st: st, simple: true}
	if err := b.admit(x); err != nil {
		return err
	}
	if err := b.analyse(st); err != nil {
		return err
	}
	// The statement runs in a portal that takes the place of the unnamed one.
	delete(b.portals, "")
	x.portal = &portal{st: st}
	b.exec = x
	return nil
}

// analyse finds what Postgres finds before it executes a statement.
func (b *Backend) analyse(st *stmt) *wire.Error {
	b.tx.snapshot = b.tx.snapshot || st.optimizable()
	switch {
	case st.kind == kMissing:
		return newError("42P01", "relation \"%s\" does not exist", st.name)
	case st.kind == kShow && !b.set.known(st.name):
		return unknownSetting(st.typed)
	}
	return nil
}

// endSimple is what follows a statement of a simple Query.
func (b *Backend) endSimple(st *stmt, tag string) {
	q := b.query
	if q.next == len(q.stmts) {
		if len(q.stmts) > 1 {
			b.endImplicit()
		}
		b.finish()
	} else if st.isTx() {
		b.finish()
	}
	b.put(wire.AppendCommandComplete(nil, tag))
}

// int4pl is the function that FunctionCall can call.
const int4pl = 177

func (b *Backend) functionCall(r *reader) *wire.Error {
	b.start()
	if err := b.inFailed(nil); err != nil {
		return err
	}
	b.tx.snapshot = true
	oid := uint32(r.int32())
	if r.err == nil && oid != int4pl {
		return newError("42883", "function with OID %d does not exist", oid)
	}
	r.formats()
	n := r.int16()
	if r.err == nil && n != 2 {
		return newError("08P01", "function call message contains %d arguments but function requires 2", n)
	}
	a, c := r.value(), r.value()
	r.int16() // format of the result
	if err := r.end(); err != nil {
		return err
	}
	var result []byte
	if len(a) == 4 && len(c) == 4 {
		result = binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(a)+binary.BigEndian.Uint32(c))
	}
	b.put(wire.AppendMessage(nil, wire.MsgFunctionCallResponse, appendValue(nil, result)))
	b.finish()
	b.ready()
	return nil
}
