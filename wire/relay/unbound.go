package relay

import (
	"bytes"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// unbound handles the next message, or the next batch up to its Sync, of a
// client without a server. It answers what needs none and asks for one when a
// request is complete.
func (c *Client) unbound(m message, p *Plan) (int, Event) {
	switch m.typ() {
	case wire.MsgTerminate:
		return min(m.size, len(m.raw)), Terminate
	case wire.MsgSync:
		if !m.complete() {
			return 0, None
		}
		if c.tx == wire.Idle {
			c.endOwn(!c.skip)
			c.dropPortals()
		}
		c.skip = false
		p.client(p.build(func(dst []byte) []byte { return wire.AppendReadyForQuery(dst, c.tx) }))
		return c.take(m, p, true), None
	case wire.MsgFlush, wire.MsgCopyData, wire.MsgCopyDone, wire.MsgCopyFail:
		return c.take(m, p, true), None // nothing to flush; data of a COPY that has failed
	}
	if c.skip {
		return c.take(m, p, true), None
	}
	switch m.typ() {
	case wire.MsgQuery:
		return c.unboundQuery(m, p)
	case wire.MsgFunctionCall:
		if !m.whole(holdUnbound) {
			return 0, None
		}
		if c.tx == wire.InFailed {
			return c.refuse(m, abortedTx, p), None
		}
		return c.acquire(m, Request{}, p)
	}
	return c.unboundBatch(m, p)
}

// acquire asks for a server, or refuses if that is what was decided.
func (c *Client) acquire(m message, r Request, p *Plan) (int, Event) {
	c.request.Kind, c.request.Flags, c.request.Comments = r.Kind, r.Flags, r.Comments
	c.shared.asked = asked{c, r.Text, r.Statement}
	if c.lone = ""; (c.misfit || c.want.acting) && c.tx == wire.Idle {
		c.lone = loneSetting(r.Kind, r.Text)
		if !c.misfit && !acts(c.lone) {
			c.lone = ""
		}
	}
	if c.refusal == nil {
		return 0, Acquire
	}
	if m.typ() == wire.MsgQuery && c.tx == wire.Idle {
		c.beginRefused(m.body(), p)
	}
	e := c.refusal
	c.refusal, c.shared.asked = nil, asked{}
	if c.tx == wire.InTransaction {
		c.tx = wire.InFailed // the BEGIN is kept for AND CHAIN
	}
	return c.refuse(m, e, p), None
}

// beginRefused runs the BEGIN in front of other statements in the text of a Query
// that is to be refused: a BEGIN never is, and whoever goes on without a look at
// the error must find himself in a failed transaction.
func (c *Client) beginRefused(text []byte, p *Plan) {
	i := bytes.IndexByte(text, ';')
	if i < 0 {
		return
	}
	st := sqltext.Classify(text[:i])
	if st.Kind != sqltext.Begin || !c.setBegin(text[:i], p) {
		return
	}
	p.client(p.build(func(dst []byte) []byte { return c.run(dst, st.Kind, st.Flags, "") }))
}

// Refused reports whether the next request that needs a server will be refused.
func (c *Client) Refused() bool { return c.refusal != nil }

// refuse answers a request with an error: a Query or FunctionCall at once and
// in full, extended messages with the error now and ReadyForQuery at the Sync.
func (c *Client) refuse(m message, e *wire.Error, p *Plan) int {
	if body := m.body(); m.typ() == wire.MsgQuery || m.typ() == wire.MsgParse && len(body) > 0 && body[0] == 0 {
		// As in Postgres, where these drop the unnamed statement before they
		// fail: a Bind that was sent behind must not meet an older one.
		c.setUnnamed(nil)
	}
	p.client(p.build(func(dst []byte) []byte {
		dst = wire.AppendError(dst, e)
		if m.typ() == wire.MsgQuery || m.typ() == wire.MsgFunctionCall {
			dst = wire.AppendReadyForQuery(dst, c.tx)
		} else {
			c.skip = true
		}
		return dst
	}))
	return c.take(m, p, true)
}

func (c *Client) dropBegin() {
	if c.begin != nil {
		c.shared.Statements.release(c.begin)
		c.begin = nil
	}
	c.chained = false
}

// unboundQuery answers a simple Query that needs no server.
func (c *Client) unboundQuery(m message, p *Plan) (int, Event) {
	if !m.whole(holdUnbound) {
		return 0, None
	}
	text := m.body()
	if m.complete() {
		end := bytes.IndexByte(text, 0)
		if end < 0 || end < len(text)-1 {
			return c.acquire(m, Request{}, p) // malformed: the server says how
		}
		text = text[:end]
	}
	st := p.classify(text)
	r := Request{Kind: st.Kind, Flags: st.Flags, Text: text, Comments: int32(st.Comments())}
	if c.tx == wire.InFailed && st.Kind != sqltext.Empty {
		switch exit := exitOf(st.Kind, st.Flags, text); exit {
		case sqltext.RollbackTo:
			return c.refuse(m, noSavepoint(st.Name(text)), p), None
		case sqltext.Other:
			return c.refuse(m, abortedTx, p), None
		default:
			st.Kind = exit
		}
	}
	if !m.complete() {
		return c.acquire(m, Request{Text: text}, p)
	}
	if o := ownOf(st, text); o != nil {
		return c.unboundOwn(o, m, p), None
	}
	c.dropPortals()
	var name string
	switch st.Kind {
	case sqltext.Empty, sqltext.Commit, sqltext.Rollback:
	case sqltext.CommitChain, sqltext.RollbackChain:
		if c.tx == wire.Idle {
			return c.acquire(m, r, p)
		}
	case sqltext.Begin:
		if c.mode == Single {
			return c.refuse(m, noBlocks, p), None
		}
		if c.tx != wire.Idle || !c.setBegin(text, p) {
			return c.acquire(m, r, p)
		}
	case sqltext.Discard, sqltext.DeallocateAll:
		if c.tx != wire.Idle || !c.apart() || st.Kind == sqltext.Discard && !c.want.equal(c.initial) {
			return c.acquire(m, r, p) // a server tells what changes by it
		}
	case sqltext.Deallocate:
		name = st.Name(text)
		if c.names.find([]byte(name)) < 0 {
			return c.acquire(m, r, p)
		}
	default:
		if !c.cleans(text, p) {
			return c.acquire(m, r, p)
		}
		c.setUnnamed(nil)
		return m.size, None
	}
	c.setUnnamed(nil)
	p.client(p.build(func(dst []byte) []byte {
		return wire.AppendReadyForQuery(c.run(dst, st.Kind, st.Flags, name), c.tx)
	}))
	return m.size, None
}

// setBegin remembers the text of a BEGIN that is answered here.
func (c *Client) setBegin(text []byte, p *Plan) bool {
	tail := p.build(func(dst []byte) []byte { return append(append(dst, text...), 0, 0, 0) })
	c.begin, c.chained = c.shared.Statements.intern(tail), false
	return c.begin != nil
}

// beginPlain forgets the options of the BEGIN that is to be sent.
func (c *Client) beginPlain() {
	if st := c.shared.Statements.intern([]byte("BEGIN\x00\x00\x00")); st != nil {
		c.dropBegin()
		c.begin = st
	}
}

// run does what a statement of the given kind does without a server and appends
// its answer up to CommandComplete. BEGIN's text has been remembered already.
func (c *Client) run(dst []byte, k sqltext.Kind, f sqltext.Flags, name string) []byte {
	switch k {
	case sqltext.Empty:
		return wire.AppendEmpty(dst, wire.MsgEmptyQueryResponse)
	case sqltext.Begin:
		c.tx = wire.InTransaction
		if f&sqltext.Start != 0 {
			return wire.AppendCommandComplete(dst, "START TRANSACTION")
		}
		return wire.AppendCommandComplete(dst, "BEGIN")
	case sqltext.Commit, sqltext.Rollback:
		if c.tx == wire.Idle {
			dst = wire.AppendNotice(dst, noTransaction)
		}
		tag := "ROLLBACK"
		if k == sqltext.Commit && c.tx != wire.InFailed {
			tag = "COMMIT"
		}
		c.tx = wire.Idle
		c.dropBegin()
		c.endOwn(tag == "COMMIT")
		return wire.AppendCommandComplete(dst, tag)
	case sqltext.CommitChain, sqltext.RollbackChain:
		tag := "ROLLBACK"
		if k == sqltext.CommitChain && c.tx != wire.InFailed {
			tag = "COMMIT"
		}
		if c.tx == wire.InFailed && !c.chained {
			c.beginPlain() // what the BEGIN asked for went with the error, as in Postgres
		}
		c.chained = true
		c.tx = wire.InTransaction
		c.endOwn(tag == "COMMIT")
		return wire.AppendCommandComplete(dst, tag)
	case sqltext.Discard:
		c.forgetNames()
		c.want = c.initial
		c.resetOwn()
		c.endOwn(true)
		return wire.AppendCommandComplete(dst, "DISCARD ALL")
	case sqltext.DeallocateAll:
		c.forgetNames()
		return wire.AppendCommandComplete(dst, "DEALLOCATE ALL")
	default: // Deallocate
		if i := c.names.find([]byte(name)); i >= 0 {
			_, st := c.dropName(i)
			c.shared.Statements.release(st)
		}
		return wire.AppendCommandComplete(dst, "DEALLOCATE")
	}
}

// noSavepoint is right for any name: nothing has run since the BEGIN.
func noSavepoint(name string) *wire.Error {
	return &wire.Error{Severity: "ERROR", Code: "3B001", Message: `savepoint "` + name + `" does not exist`}
}

var noTransaction = &wire.Error{
	Severity: "WARNING", Code: "25P01", Message: "there is no transaction in progress",
}

func (c *Client) forgetNames() {
	for i := range c.names.list {
		c.shared.Statements.release(c.names.list[i].st)
	}
	c.shared.Statements.bytes -= c.names.charged
	c.names = names{}
}
