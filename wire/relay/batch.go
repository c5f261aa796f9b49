package relay

import (
	"bytes"
	"slices"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// unboundBatch handles extended messages of a client without a server. A batch
// up to its Sync that only begins or ends a transaction, or prepares what a
// server has accepted before, is answered here; anything else asks for a server once a Sync, Flush, Query or FunctionCall is
// there, or when the batch has grown long: a slow writer holds no slot.
func (c *Client) unboundBatch(m message, p *Plan) (int, Event) {
	if c.tx == wire.InFailed {
		return c.failedMessage(m, p)
	}
	b := batch{c: c, tx: c.tx, local: true}
	if pt := c.ownPortal(nil); pt != nil { // bound before a Flush
		b.portal, b.kind, b.command = true, pt.st.kind, pt.st.own
	}
	at, begun, ended := 0, 0, false
	for !ended {
		next, ok := c.header(m.raw[at:])
		if !ok {
			if c.fault == nil {
				break
			}
			if at == 0 {
				return 0, Violation
			}
			// What stands before the fault runs first; it will be met again.
			c.fault = nil
			ended = true
			break
		}
		switch next.typ() {
		case wire.MsgSync:
			ended = next.complete()
			if !ended {
				b.local = false
			}
		case wire.MsgFlush, wire.MsgQuery, wire.MsgFunctionCall, wire.MsgTerminate:
			// Up to a Flush behind commands about pgweir's own parameters they can be answered.
			b.local, ended = b.local && b.own && next.typ() == wire.MsgFlush, true
		case wire.MsgCopyData, wire.MsgCopyDone, wire.MsgCopyFail:
			b.local = false
		default:
			b.look(next)
		}
		if !next.complete() {
			break
		}
		if b.unknown {
			break // the parameter that it sets: what stands before it is first
		}
		at += next.size
		if b.local && next.typ() == wire.MsgExecute && b.command != nil {
			b.peel = at
		}
		if b.local && b.tx == wire.InTransaction && next.typ() == wire.MsgExecute {
			begun = at
		}
	}
	if b.blocks {
		return c.refuse(m, noBlocks, p), None
	}
	if b.unknown {
		if at == 0 {
			return c.refuseOwn(b.command, m, p), None
		}
		return c.answerBatch(m.raw[:at], p), None
	}
	if b.peel > 0 && !b.local && (ended || len(m.raw) >= holdUnbound) {
		// What it says of the rest must be known before that asks for a server.
		return c.answerBatch(m.raw[:b.peel], p), None
	}
	if c.refusal != nil && !b.local && begun > 0 {
		// What is refused comes behind a BEGIN, which never is: whoever goes on
		// without a look at the error must find himself in a failed transaction.
		return c.answerBatch(m.raw[:begun], p), None
	}
	if !ended {
		if len(m.raw) < holdUnbound {
			return 0, None
		}
		return c.acquire(m, b.request, p)
	}
	if !b.local {
		return c.acquire(m, b.request, p)
	}
	return c.answerBatch(m.raw[:at], p), None
}

// batch is what is known of an extended batch while it is read.
type batch struct {
	c       *Client
	tx      byte
	local   bool
	request Request // of its first statement with a text
	named   bool
	closed  bool         // by SQL, or under a portal: what is used after it is not looked up
	gone    []string     // the names of statements that were closed by the protocol
	last    sqltext.Kind // of the unnamed statement as the batch leaves it
	parsed  bool         // the batch has its own unnamed statement
	ending  string       // what that drops, if it is a DEALLOCATE
	blocks  bool         // it would open a transaction block, in statement mode
	portal  bool         // the unnamed portal is bound to portalKind
	kind    sqltext.Kind

	own     bool         // commands about pgweir's own parameters are in it
	parsing *ownCommand  // the unnamed statement as the batch leaves it is one
	fresh   []byte       // the name that the batch defines,
	stands  *ownCommand  // and what it stands for, if it is one,
	becomes sqltext.Kind // and the kind of it
	command *ownCommand  // the unnamed portal is bound to it
	peel    int          // where the last one ends that needs no server
	unknown bool         // the next message runs one of a parameter that there is not
}

// look judges one complete extended message: may it be answered here?
func (b *batch) look(m message) {
	body := m.body()
	switch m.typ() {
	case wire.MsgParse:
		name, tail, ok := cstring(body)
		if !ok || !m.complete() {
			b.local = false
			return
		}
		st := b.c.shared.Statements.classify(tail)
		kind, own := st.kind, st.own
		b.own = b.own || own != nil
		if own == nil {
			b.note(&Request{Kind: kind, Flags: st.flags, Text: textOf(tail), Comments: st.comments})
		}
		b.blocks = b.blocks || kind == sqltext.Begin && b.c.mode == Single
		proven := b.c.apart() && b.c.shared.Statements.known(tail, int(st.comments), proof{b.c.group, b.c.want.texts}) != nil
		if own == nil && !b.mayRun(kind) && !proven || (len(name) > 0 && (b.named || b.c.names.find(name) >= 0)) ||
			!proven && len(tail) != len(textOf(tail))+3 {
			b.local = false
		}
		if len(name) == 0 {
			b.gone = slices.DeleteFunc(b.gone, func(name string) bool { return name == "" })
			b.parsed, b.last, b.parsing = true, kind, own
			if kind == sqltext.Deallocate {
				text := textOf(tail)
				b.ending = sqltext.Classify(text).Name(text)
			}
		} else {
			b.named = true // more are worth a server
			b.fresh, b.stands, b.becomes = name, own, kind
			b.local = b.local && b.c.roomFor(name, len(tail)+statementOverhead)
		}
	case wire.MsgBind:
		b.lookBind(body)
	case wire.MsgDescribe:
		if len(body) != 2 || body[0] != 'P' || !b.portal || b.closed {
			b.local = b.local && len(body) > 1 && body[0] == 'S' && b.localName(body[1:])
		}
	case wire.MsgExecute:
		if len(body) < 1 || body[0] != 0 || !b.portal || b.closed {
			b.local = false
			return
		}
		b.unknown = b.local && b.command != nil && b.command.key < 0
		switch b.kind {
		case sqltext.Begin:
			b.local = b.local && b.tx == wire.Idle
			b.tx = wire.InTransaction
		case sqltext.Commit, sqltext.Rollback:
			b.tx = wire.Idle
		case sqltext.CommitChain, sqltext.RollbackChain:
			b.local = b.local && b.tx != wire.Idle
		case sqltext.Deallocate:
			b.local = b.local && b.tx == wire.Idle && b.parsed && !b.named && b.c.names.find([]byte(b.ending)) >= 0
			b.closed = true
		case sqltext.DeallocateAll:
			b.local = b.local && b.tx == wire.Idle
			b.closed = true
		}
	case wire.MsgClose:
		// Nothing of the client's is on a server now, but for what a session has made by
		// SQL, so it is enough to forget it here. A Parse in the same batch may have
		// defined it.
		if len(body) < 2 || bytes.IndexByte(body[1:], 0) != len(body)-2 || (body[0] != 'S' && body[0] != 'P') || b.named ||
			!b.c.apart() && len(body) > 2 && (body[0] == 'P' || b.c.names.find(body[1:len(body)-1]) < 0) {
			b.local = false
		}
		// pgJDBC closes what its cache has dropped in front of whatever comes next, its
		// empty probe too.
		if len(body) > 1 && body[0] == 'S' && !b.portal && len(b.gone) < mostGone {
			b.gone = append(b.gone, string(body[1:len(body)-1]))
			b.parsed = b.parsed && len(body) > 2
		} else {
			b.closed = true
		}
	default:
		b.local = false
	}
}

// mostGone is how many closed names are told apart in a batch.
const mostGone = 16

// note keeps what the batch's first statement is, for admission.
func (b *batch) note(r *Request) {
	q := &b.request
	if q.Text == nil && r.Kind != sqltext.Begin && r.Kind != sqltext.Empty {
		q.Text, q.Comments, q.Statement = r.Text, r.Comments, r.Statement
	}
	switch {
	case q.Kind == sqltext.Other && q.Flags == 0:
		q.Kind, q.Flags = r.Kind, r.Flags
	case r.Kind != sqltext.Read && r.Kind != sqltext.Probe:
		q.Kind = sqltext.Other
		q.Flags |= r.Flags
	}
}

// noteStatement is note for one that was prepared before.
func (b *batch) noteStatement(st *Statement) {
	if st.own == nil {
		b.note(&Request{Kind: st.kind, Flags: st.flags, Text: st.text(), Comments: st.comments, Statement: st})
	}
}

func (b *batch) lookBind(body []byte) {
	portal, rest, ok := cstring(body)
	if !ok {
		b.local = false
		return
	}
	name, rest, ok := cstring(rest)
	if !ok || b.closed || slices.Contains(b.gone, string(name)) {
		b.local = false
		return
	}
	k, own := b.last, b.parsing
	switch {
	case b.named && string(name) == string(b.fresh):
		k, own = b.becomes, b.stands
	case len(name) > 0 || !b.parsed:
		st := b.c.unnamed
		if len(name) > 0 {
			st = b.c.names.get(name)
		}
		if st == nil {
			b.local = false
			return
		}
		k, own = st.kind, st.own
		b.noteStatement(st)
	}
	b.own = b.own || own != nil
	b.blocks = b.blocks || k == sqltext.Begin && b.c.mode == Single
	// Formats and parameters: none of the latter for what is answered here.
	if len(portal) > 0 || own == nil && !b.mayRun(k) || !noParameters(rest) {
		b.local = false
	}
	b.portal, b.kind, b.command = true, k, own
}

// localName reports whether a described statement is one answered here.
func (b *batch) localName(z []byte) bool {
	name := z[:len(z)-1]
	switch {
	case b.closed || slices.Contains(b.gone, string(name)):
		return false
	case len(name) == 0 && b.parsed:
		return b.parsing != nil
	case len(name) == 0:
		return b.c.bindsOwn(nil) != nil
	case b.named && string(name) == string(b.fresh):
		return b.stands != nil || localKind(b.becomes)
	}
	st := b.c.names.get(name)
	return st != nil && st.local()
}

// noParameters reads a Bind body behind the names.
func noParameters(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	formats := int(b[0])<<8 | int(b[1])
	b = b[2:]
	return len(b) >= 2*formats+2 && b[2*formats] == 0 && b[2*formats+1] == 0
}

// mayRun tells the statements that the batch may run without a server. Those that drop
// names are among them where no server has these: drivers clean up with them, and would
// take a refusal for the loss of the connection.
func (b *batch) mayRun(k sqltext.Kind) bool {
	return localKind(k) || (k == sqltext.Deallocate || k == sqltext.DeallocateAll) && b.c.apart()
}

// localKind tells the statements that extended batches may run without a
// server, in any mode.
func localKind(k sqltext.Kind) bool {
	switch k {
	case sqltext.Empty, sqltext.Begin:
		return true
	}
	return endsTx(k)
}

// answerBatch runs a batch that look has found to need no server.
func (c *Client) answerBatch(raw []byte, p *Plan) int {
	var portal *Statement
	if pt := c.ownPortal(nil); pt != nil {
		portal = pt.st
	}
	for at := 0; at < len(raw); {
		m, _ := c.header(raw[at:])
		at += m.size
		body := m.body()
		switch m.typ() {
		case wire.MsgParse:
			name, tail, _ := cstring(body)
			c.counts.ClientParses++
			c.define(name, tail)
			p.empty(wire.MsgParseComplete)
		case wire.MsgBind:
			c.counts.Binds++
			_, rest, _ := cstring(body)
			name, rest, _ := cstring(rest)
			if portal = c.unnamed; len(name) > 0 {
				portal = c.names.get(name)
			}
			c.closeOwn(nil)
			if portal.own != nil {
				c.bindOwn(nil, portal, rest)
			}
			p.empty(wire.MsgBindComplete)
		case wire.MsgDescribe:
			c.describeLocal(body, portal, p)
		case wire.MsgExecute:
			if portal.kind == sqltext.Begin {
				c.dropBegin()
				c.begin = retain(portal)
			}
			p.client(p.build(func(dst []byte) []byte {
				if portal.own != nil {
					return c.runOwn(dst, portal.own, c.tx == wire.InTransaction, c.ownPortal(nil).run(limitOf(body)))
				}
				return c.run(dst, portal.kind, portal.flags, portal.drops())
			}))
		case wire.MsgClose:
			c.forget(body)
			p.empty(wire.MsgCloseComplete)
		case wire.MsgSync:
			if c.tx == wire.Idle {
				c.endOwn(true)
				c.dropPortals()
			}
			p.client(p.build(func(dst []byte) []byte { return wire.AppendReadyForQuery(dst, c.tx) }))
		}
	}
	return len(raw)
}

// describeLocal answers a Describe of what needs no server.
func (c *Client) describeLocal(body []byte, portal *Statement, p *Plan) {
	st, form := portal, ownForm(0)
	if pt := c.ownPortal(nil); pt != nil {
		form = pt.described()
	}
	if body[0] == 'S' {
		if st = c.unnamed; len(body) > 2 {
			st = c.names.get(body[1 : len(body)-1])
		}
		form = 0
		p.client(p.build(func(dst []byte) []byte {
			return wire.AppendMessage(dst, wire.MsgParameterDescription, noParameterTypes)
		}))
	}
	if st.own == nil {
		p.empty(wire.MsgNoData)
		return
	}
	p.client(p.build(func(dst []byte) []byte { return appendOwnRow(dst, st.own, form) }))
}

// empty adds a message without a body for the client.
func (p *Plan) empty(typ byte) {
	p.client(p.build(func(dst []byte) []byte { return wire.AppendEmpty(dst, typ) }))
}

// define keeps a statement that was parsed here.
func (c *Client) define(name, tail []byte) {
	st := c.shared.Statements.intern(tail)
	if st == nil {
		st = &Statement{tail: string(tail), refs: 1}
		st.take(sqltext.Classify(textOf(tail)), tail)
	}
	if len(name) == 0 {
		c.setUnnamed(st)
	} else {
		c.addName(st.aliasOf(name))
	}
}

// forget drops what a Close names; portals are not kept here.
func (c *Client) forget(body []byte) {
	name := body[1 : len(body)-1]
	if body[0] != 'S' {
		c.closeOwn(name)
		return
	}
	if len(name) == 0 {
		c.setUnnamed(nil)
	} else if i := c.names.find(name); i >= 0 {
		_, st := c.dropName(i)
		c.shared.Statements.release(st)
	}
}

// failedMessage answers one extended message inside a transaction that was
// refused before it had a server: only its end is accepted, as in Postgres.
func (c *Client) failedMessage(m message, p *Plan) (int, Event) {
	if !m.complete() {
		if !m.whole(c.shared.TextLimit) {
			return 0, None
		}
		return c.refuse(m, abortedTx, p), None
	}
	body := m.body()
	ok := false
	switch m.typ() {
	case wire.MsgParse:
		name, tail, fine := cstring(body)
		st := sqltext.Classify(textOf(tail))
		if fine && (exitOf(st.Kind, st.Flags, textOf(tail)) != sqltext.Other || st.Kind == sqltext.Empty) && c.names.find(name) < 0 &&
			c.roomFor(name, len(tail)+statementOverhead) {
			ok = true
			c.define(name, tail)
			p.empty(wire.MsgParseComplete)
		}
	case wire.MsgBind:
		portal, rest, fine := cstring(body)
		name, rest, fine2 := cstring(rest)
		st := c.unnamed
		if len(name) > 0 {
			st = c.names.get(name)
		}
		if fine && fine2 && len(portal) == 0 && st != nil && st.exit() != sqltext.Other && noParameters(rest) {
			ok = true
			c.portal = st
			p.empty(wire.MsgBindComplete)
		}
	case wire.MsgDescribe:
		ok = c.describeFailed(body, p)
	case wire.MsgExecute:
		if len(body) > 0 && body[0] == 0 && c.portal != nil {
			ok = true
			st := c.portal
			c.portal = nil
			if st.exit() == sqltext.RollbackTo {
				return c.refuse(m, noSavepoint(st.savepoint()), p), None
			}
			p.client(p.build(func(dst []byte) []byte { return c.run(dst, st.exit(), st.flags, "") }))
		}
	case wire.MsgClose:
		if _, name, ev := c.target(m); name == nil {
			return 0, ev
		}
		ok = true
		c.forget(body)
		p.empty(wire.MsgCloseComplete)
	}
	if ok {
		return m.size, None
	}
	c.portal = nil
	return c.refuse(m, abortedTx, p), None
}

func (c *Client) describeFailed(body []byte, p *Plan) bool {
	if len(body) == 2 && body[0] == 'P' && c.portal != nil {
		p.empty(wire.MsgNoData)
		return true
	}
	if len(body) < 2 || body[0] != 'S' {
		return false
	}
	st := c.unnamed
	if len(body) > 2 {
		st = c.names.get(body[1 : len(body)-1])
	}
	if st == nil || !endsTx(st.kind) {
		return false
	}
	p.client(p.build(func(dst []byte) []byte {
		return wire.AppendMessage(dst, wire.MsgParameterDescription, []byte{0, 0})
	}))
	p.empty(wire.MsgNoData)
	return true
}

// exitOf is the kind of a statement that a failed transaction accepts; Other if it does not.
// PREPARE TRANSACTION ends it, as ROLLBACK does.
func exitOf(k sqltext.Kind, f sqltext.Flags, text []byte) sqltext.Kind {
	switch {
	case endsTx(k), k == sqltext.RollbackTo:
		return k
	case k == sqltext.Other && f&(sqltext.EndsTx|sqltext.Multi) == sqltext.EndsTx:
		const word = "prepare"
		if text = bytes.TrimLeft(text, " \t\r\n"); len(text) > len(word) && bytes.EqualFold(text[:len(word)], []byte(word)) {
			return sqltext.Rollback
		}
	}
	return sqltext.Other
}

// exit is exitOf a statement that was prepared.
func (st *Statement) exit() sqltext.Kind { return exitOf(st.kind, st.flags, st.text()) }

// endsTx tells the ends of a transaction.
func endsTx(k sqltext.Kind) bool {
	switch k {
	case sqltext.Commit, sqltext.Rollback, sqltext.CommitChain, sqltext.RollbackChain:
		return true
	}
	return false
}
