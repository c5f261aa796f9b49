package relay

import (
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// turn says what becomes of a command of pgweir's own that came while a server is bound.
type turn uint8

const (
	turnServer turn = iota // the server's: it says what is wrong
	turnWait               // the client waits until it is known whether the transaction has failed
	turnFake               // answered here, when everything before it is
)

// ownTurn judges one extended message of a command.
func (c *Client) ownTurn() turn {
	s := c.server
	switch {
	case s.copyIn:
		return turnServer
	case c.mayFake():
		return turnFake
	case s.tx == wire.InFailed && !s.queryOrSyncAhead():
		return turnServer
	}
	c.stalled = true
	return turnWait
}

// mayFake reports whether ParseComplete may be told without asking the server:
// not in a failed transaction that the batch does not leave, nor where an earlier request whose outcome is
// unknown may have made it one.
func (c *Client) mayFake() bool {
	s := c.server
	if s.tx == wire.InFailed && !s.exits {
		return false
	}
	for _, e := range s.fifo.rest() {
		if e.kind.ready() && e.inj == injNone {
			return false
		}
	}
	return true
}

// queryOrSyncAhead reports whether an earlier request of the client's is not answered.
func (s *Server) queryOrSyncAhead() bool {
	for _, e := range s.fifo.rest() {
		if e.kind.ready() && e.inj == injNone {
			return true
		}
	}
	return false
}

// fake records an answer that the server is not asked for, and gives it if its turn has come.
func (c *Client) fake(e entry, p *Plan) {
	e.fate = fake
	c.server.push(e)
	c.server.runFakes(p)
}

// queryOwn answers a Query that is a command, when everything before it is answered. done is
// false if it is the server's.
func (c *Client) queryOwn(o *ownCommand, m message, p *Plan) (n int, done bool) {
	s := c.server
	if s.batch || s.copyIn {
		return 0, false
	}
	if s.fifo.total > 0 {
		c.stalled = true
		return 0, true
	}
	if s.tx != wire.InTransaction {
		return 0, false // as it stands: a failed transaction does not read it
	}
	c.dropPortals()
	if o.key < 0 {
		p.server(p.build(func(dst []byte) []byte { return wire.AppendQuery(dst, "EXECUTE "+poisonName) }))
		s.push(c.dropUnnamed(entry{kind: kQuery, fate: replace, err: unknownParameter(o.name)}))
		return c.take(m, p, true), true
	}
	c.setUnnamed(nil)
	s.foreign = true // the server's unnamed statement is no longer the client's
	c.answerOwn(o, s.tx, p)
	return m.size, true
}

// parseOwn handles a Parse of a command, whose name is free. done is false if it is the
// server's; the caller keeps its reference to st then, and if n is 0.
func (c *Client) parseOwn(name []byte, st *Statement, m message, p *Plan) (n int, done bool) {
	switch c.ownTurn() {
	case turnServer:
		return 0, false
	case turnWait:
		return 0, true
	}
	if len(name) > 0 {
		alias := st.aliasOf(name)
		c.addName(alias)
		c.fake(entry{kind: kParse, name: alias.name}, p)
		return m.size, true
	}
	e := entry{kind: kParse, old: c.unnamed, changed: true}
	c.unnamed = st
	c.server.fresh = true
	c.fake(e, p)
	return m.size, true
}

// bindsOwn returns the command that a Bind of that statement binds, or nil.
func (c *Client) bindsOwn(name []byte) *Statement {
	st := c.unnamed
	if len(name) > 0 {
		st = c.names.get(name)
	}
	if st == nil || st.own == nil {
		return nil
	}
	return st
}

// bindCommand handles a Bind of a command. done is false if it is the server's.
func (c *Client) bindCommand(portal, rest []byte, st *Statement, m message, p *Plan) (n int, done bool) {
	if !m.complete() {
		return 0, true
	}
	if !noParameters(rest) {
		return 0, false
	}
	switch c.ownTurn() {
	case turnServer:
		return 0, false
	case turnWait:
		return 0, true
	}
	if !c.bindOwn(portal, st, rest) {
		c.poison(tooManyPortals, p)
		return m.size, true
	}
	c.fake(entry{kind: kBind}, p)
	return m.size, true
}

var tooManyPortals = &wire.Error{
	Severity: "ERROR", Code: "53400", Message: "pgweir: too many open portals of pgweir's own parameters",
	Detail: "reason=portals", Hint: "retry=no; close portals, or use the unnamed one",
}

// executeOwn handles an Execute of a portal of a command. done is false if it is the server's.
func (c *Client) executeOwn(m message, p *Plan) (n int, done bool) {
	if c.own == nil || len(c.own.portals) == 0 {
		return 0, false
	}
	name, _, _ := cstring(m.body())
	pt := c.ownPortal(name)
	if pt == nil {
		return 0, false
	}
	switch c.ownTurn() {
	case turnServer:
		return 0, false
	case turnWait:
		return 0, true
	}
	if o := pt.st.own; o.key < 0 {
		c.poison(unknownParameter(o.name), p)
		return m.size, true
	}
	c.fake(entry{kind: kExecute, old: retain(pt.st), form: pt.run(limitOf(m.body()))}, p)
	return m.size, true
}

// describeOwn handles a Describe of a command, or of its portal. done is false if it is the
// server's.
func (c *Client) describeOwn(what byte, name []byte, m message, p *Plan) (n int, done bool) {
	e := entry{kind: kDescribeS}
	if what == 'S' {
		if e.old = c.bindsOwn(name); e.old == nil {
			return 0, false
		}
	} else {
		pt := c.ownPortal(name)
		if pt == nil {
			return 0, false
		}
		e = entry{kind: kDescribeP, old: pt.st, form: pt.described()}
	}
	switch c.ownTurn() {
	case turnServer:
		return 0, false
	case turnWait:
		return 0, true
	}
	retain(e.old)
	c.fake(e, p)
	return m.size, true
}

// answerFake gives the answer of an entry that the server was not asked for.
func (s *Server) answerFake(e *entry, p *Plan) {
	c := s.client
	if s.orphan || c == nil {
		return
	}
	p.client(p.build(func(dst []byte) []byte {
		switch e.kind {
		case kClose:
			return wire.AppendEmpty(dst, wire.MsgCloseComplete)
		case kBind:
			return wire.AppendEmpty(dst, wire.MsgBindComplete)
		case kDescribeS:
			return appendOwnRow(wire.AppendMessage(dst, wire.MsgParameterDescription, noParameterTypes), e.old.own, 0)
		case kDescribeP:
			return appendOwnRow(dst, e.old.own, e.form)
		case kExecute:
			return c.runOwn(dst, e.old.own, s.tx == wire.InTransaction || s.block, e.form)
		}
		return wire.AppendEmpty(dst, wire.MsgParseComplete)
	}))
}

// resetsAll reports whether a statement is RESET ALL, which sets pgweir's own back as well.
func (st *Statement) resetsAll() bool {
	return st.kind == sqltext.Reset && st.resetName() == resetAll
}

// own notes what a CommandComplete means for pgweir's own parameters.
func (s *Server) own(e *entry, tag []byte) {
	s.block = s.block || tag[0] == 'B' && tagIs(tag, "BEGIN")
	c := s.client
	if c == nil {
		return
	}
	discards := tag[0] == 'D' && tagIs(tag, "DISCARD ALL")
	if discards {
		c.discardSettings()
	}
	if len(e.sets) > 0 {
		c.changeSettings(e.sets)
	}
	if c.own == nil {
		return
	}
	c.ownStep(e, tag)
	if e.resetsOwn || discards {
		c.resetOwn()
	}
}

// unboundOwn answers a Query that is a command while no server is bound.
func (c *Client) unboundOwn(o *ownCommand, m message, p *Plan) int {
	c.dropPortals()
	if o.key < 0 {
		return c.refuseOwn(o, m, p)
	}
	c.setUnnamed(nil)
	c.answerOwn(o, c.tx, p)
	return m.size
}

// refuseOwn tells a client without a server that there is no such parameter.
func (c *Client) refuseOwn(o *ownCommand, m message, p *Plan) int {
	if c.tx == wire.InTransaction {
		c.tx = wire.InFailed // the BEGIN is kept for AND CHAIN
	}
	return c.refuse(m, unknownParameter(o.name), p)
}
