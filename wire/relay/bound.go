package relay

import (
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// bound handles one message of a client that has a server. It returns 0 when
// more of the message must arrive first.
func (c *Client) bound(m message, p *Plan) (int, Event) {
	s := c.server
	if s.unflushed && m.typ() != wire.MsgSync && m.typ() != wire.MsgFlush && m.typ() != wire.MsgTerminate {
		c.Pace(p)
	}
	if c.begin != nil && !s.beginFailed && m.typ() != wire.MsgTerminate {
		if !m.complete() && (m.typ() == wire.MsgParse || len(m.raw) < c.shared.TextLimit) {
			return 0, None // the BEGIN goes with a request, never alone
		}
		c.sendBegin(p)
	}
	if s.doubt && m.typ() != wire.MsgTerminate {
		c.stalled = true
		return 0, None
	}
	if (s.reset.on || s.heal.waits || c.sparing && s.touched && !s.batch) && m.typ() != wire.MsgTerminate {
		c.stalled = true // the rest is for a server with all settings
		return 0, None
	}
	switch m.typ() {
	case wire.MsgTerminate:
		return min(m.size, len(m.raw)), Terminate
	case wire.MsgCopyData, wire.MsgCopyDone, wire.MsgCopyFail:
		return c.copyMessage(m, p), None
	case wire.MsgSync:
		return c.sync(m, p)
	}
	if s.guessing(m) || s.mayOpen() {
		c.stalled = true
		return 0, None
	}
	if s.skip {
		// The server discards it unread, so it may as well stay here.
		return c.take(m, p, true), None
	}
	switch m.typ() {
	case wire.MsgQuery:
		return c.query(m, p), None
	case wire.MsgParse:
		return c.parse(m, p)
	case wire.MsgBind:
		return c.bind(m, p)
	case wire.MsgDescribe:
		return c.describe(m, p)
	case wire.MsgClose:
		return c.close(m, p)
	case wire.MsgExecute:
		if !m.complete() {
			return 0, None
		}
		if n, done := c.executeOwn(m, p); done {
			return n, None
		}
		if c.ending != "" {
			c.ended()
		}
		c.resetExecute()
		st := c.takeStep()
		s.push(entry{
			kind: kExecute, clears: c.clearing, resetsOwn: c.resetsOwn, step: st.Kind, name: st.Name, end: c.finishes,
			left: c.runsPortal(m.body()), sets: c.takeSets(m.body()),
		})
		s.unflushed = c.paced
		if c.clearing { // its answer is waited for, so it must come
			c.clearing = false
			n := c.take(m, p, false)
			p.server(p.build(func(dst []byte) []byte { return wire.AppendEmpty(dst, wire.MsgFlush) }))
			s.unflushed = false
			return n, None
		}
	case wire.MsgFunctionCall:
		return c.function(m, p), None
	case wire.MsgFlush:
		s.unflushed = false
	}
	return c.take(m, p, false), None
}

// guessing reports whether what the message means depends on whether an earlier
// batch of the pipeline, not answered yet, fails: it closed or defined names
// that a failure would bring back or take away.
func (s *Server) guessing(m message) bool {
	if s.fifo.guesses == 0 && s.fifo.clears == 0 || s.copyIn {
		return false
	}
	body := m.body()
	switch m.typ() {
	case wire.MsgParse:
		return len(body) == 0 || body[0] != 0
	case wire.MsgBind:
		_, rest, ok := cstring(body)
		return !s.fresh || !ok || len(rest) == 0 || rest[0] != 0
	case wire.MsgDescribe, wire.MsgClose:
		return !s.fresh || len(body) != 2
	case wire.MsgQuery:
		return true
	}
	return false
}

// push records that an answer is expected.
func (s *Server) push(e entry) {
	s.fifo.push(e)
	s.count(e)
	if c := s.client; c != nil && e.inj == injNone && !s.touched {
		s.touched = true
		c.tx = wire.Idle // the state is the server's from here on
	}
	if e.inj == injNone && (e.kind == kQuery || e.kind == kExecute || e.kind == kFunction) {
		s.statements++
	}
	switch e.kind {
	case kCopyEnd:
	case kSync, kQuery, kFunction:
		s.batch, s.asked, s.fresh, s.exits = false, false, false, false
		if (s.begun || s.beginFailed) && s.client != nil {
			s.client.awaitBegin = true
		}
	default:
		s.batch, s.asked = true, s.asked || e.fate != fake
		s.exits = s.exits || endsTx(e.step) || e.step == sqltext.RollbackTo
	}
}

// count counts what is sent to the server for a client.
func (s *Server) count(e entry) {
	n := s.counts
	if n == nil {
		return
	}
	switch e.kind {
	case kSync, kQuery, kFunction:
		if e.inj == injNone && e.fate == forward {
			n.Queries++
		}
	case kBind:
		if e.inj == injNone {
			n.Binds++
		}
	case kParse:
		if e.inj != injNone {
			return
		}
		if e.fate != fallible && e.fate != swallow { // else it is one of ours
			n.ClientParses++
		}
		if e.fate != fake {
			n.ServerParses++
		}
	}
}

// copyMessage handles COPY data. Outside a COPY the server would read it and
// ignore it; it may come late, after the COPY has failed.
func (c *Client) copyMessage(m message, p *Plan) int {
	s := c.server
	late := s.skip || !s.mayCopy()
	if !late && m.typ() != wire.MsgCopyData {
		s.push(entry{kind: kCopyEnd})
	}
	return c.take(m, p, late)
}

// mayCopy reports whether something outstanding is or may become a COPY FROM
// STDIN.
func (s *Server) mayCopy() bool {
	for _, e := range s.fifo.rest() {
		if e.fate == forward && (e.kind == kQuery || e.kind == kExecute) {
			return true
		}
	}
	return false
}

func (c *Client) sync(m message, p *Plan) (int, Event) {
	if !m.complete() {
		return 0, None
	}
	s := c.server
	e := entry{kind: kSync}
	s.resetSync(&e)
	s.push(e)
	s.skip, s.unflushed = false, false
	return c.take(m, p, false), None
}

func (c *Client) query(m message, p *Plan) int {
	if !m.whole(c.shared.TextLimit) {
		return 0
	}
	s := c.server
	text := m.body()
	if n := len(text); m.complete() && n > 0 && text[n-1] == 0 {
		text = text[:n-1]
	}
	st := p.classify(text)
	if !m.complete() {
		s.dirt |= dirtSettings | dirtSession // its end cannot be looked at
		s.noteAll()
	}
	if c.mode == Single {
		if st.Kind == sqltext.Begin {
			return c.refuseBlock(m, p)
		}
		s.opening = st.Flags&sqltext.Multi != 0 || !m.complete()
	}
	e := entry{kind: kQuery, resetsOwn: st.Kind == sqltext.Reset && resetName(st, text) == resetAll}
	e.end = st.Flags&sqltext.EndsTx != 0 && endsTx(exitOf(st.Kind, st.Flags, text))
	if m.complete() {
		if o := ownOf(st, text); o != nil {
			if n, done := c.queryOwn(o, m, p); done {
				return n
			}
		}
	}
	c.dropPortals()
	left, refusal := c.changes(st.Flags, text)
	if refusal != nil {
		return c.refuseText(m, refusal, p)
	}
	e.left = leavingOf(left)
	rest := st.Flags
	if m.complete() {
		var wait bool
		if rest, wait = c.setsQuery(st, text, &e); wait {
			return 0
		}
		if c.tooManySettings(e.sets) {
			return c.refuseText(m, settingsFull, p)
		}
	}
	if m.complete() && c.resetQuery(c.resetsText(st, text), &e) {
		if e.steps {
			c.own.endSteps() // it is looked at again
		}
		return 0
	}
	switch {
	case st.Kind == sqltext.Deallocate:
		name := st.Name(text)
		if n, done := c.deallocate(name, m, p); done {
			return n
		}
		s.spoils(name)
	case st.Kind == sqltext.DeallocateAll || st.Kind == sqltext.Discard || st.Flags&sqltext.Dealloc != 0:
		s.forgetPrepared()
		e.clears = true
	}
	s.note(st.Kind, st.Flags)
	s.dirt |= dirtOf(rest)
	s.push(c.dropUnnamed(e))
	return c.take(m, p, false)
}

// resetName returns the parameter that a statement sets back, or resetAll; "" = it does not.
func resetName(st sqltext.Statement, text []byte) string {
	if st.Kind == sqltext.Reset || st.ToDefault(text) {
		return st.Name(text)
	}
	return ""
}

// deallocate answers a DEALLOCATE of a name that the client gave in a Parse: the
// server knows the statement under another name and keeps it for others. Its
// turn comes when everything before it is answered.
func (c *Client) deallocate(name string, m message, p *Plan) (int, bool) {
	s := c.server
	i := c.names.find([]byte(name))
	if i < 0 || !m.complete() {
		return 0, false
	}
	if s.fifo.total > 0 {
		c.stalled = true
		return 0, true
	}
	if s.tx != wire.InTransaction {
		return 0, false // as it stands: a failed transaction does not read it
	}
	_, st := c.dropName(i)
	c.shared.Statements.release(st)
	c.setUnnamed(nil)
	s.foreign = true // the server's unnamed statement is no longer the client's
	p.client(p.build(func(dst []byte) []byte {
		return wire.AppendReadyForQuery(wire.AppendCommandComplete(dst, "DEALLOCATE"), s.tx)
	}))
	return m.size, true
}

// spoils notes that a client drops a name that it has not given to a statement, which
// may be one that others have there.
func (s *Server) spoils(name string) {
	if ours([]byte(name)) {
		s.dirt |= dirtSession
	}
}

// deallocates is deallocate for a Parse of the unnamed statement: the server
// gets the text with its own name, and the client's is gone with the Execute.
func (c *Client) deallocates(text []byte, p *Plan) *prepared {
	name := sqltext.Classify(text).Name(text)
	st, key := c.names.lookup([]byte(name))
	if st == nil || c.server.tx == wire.InFailed {
		c.server.spoils(name)
		return nil
	}
	c.ending = key
	return c.ensure(st, p)
}

// ended drops the name that an Execute deallocates.
func (c *Client) ended() {
	i := c.names.find([]byte(c.ending))
	c.ending = ""
	if i < 0 {
		return
	}
	_, st := c.dropName(i)
	if prep := c.server.prepared.get(c.prepKey(st)); prep != nil {
		c.server.forget(prep)
	}
	c.shared.Statements.release(st)
}

// dropUnnamed notes in e, a Query or a Close, that it drops the unnamed
// statement.
func (c *Client) dropUnnamed(e entry) entry {
	switch {
	case c.unnamed == nil:
	case e.kind == kQuery && !c.server.batch:
		c.setUnnamed(nil) // nothing before it could make the server skip it
	default:
		e.old, e.changed = c.unnamed, true
		c.unnamed = nil
	}
	c.server.setUnnamed(nil)
	c.server.foreign = false
	return e
}

func (c *Client) setUnnamed(st *Statement) {
	if c.unnamed != nil {
		c.shared.Statements.release(c.unnamed)
	}
	c.unnamed = st
}

func (s *Server) setUnnamed(st *Statement) {
	if s.unnamed != nil {
		s.shared.Statements.release(s.unnamed)
	}
	s.unnamed = retain(st)
}

func (c *Client) parse(m message, p *Plan) (int, Event) {
	if !m.complete() {
		return 0, None
	}
	name, tail, ok := cstring(m.body())
	if !ok {
		c.violate("invalid Parse message")
		return 0, Violation
	}
	s := c.server
	if c.mode == Single && sqltext.Classify(textOf(tail)).Kind == sqltext.Begin {
		return c.refuseBlock(m, p), None
	}
	if len(name) == 0 {
		return c.parseUnnamed(m, tail, p), None
	}
	if c.names.find(name) >= 0 {
		// Postgres reads the text first and complains of it rather.
		if st := c.shared.Statements.intern(tail); st != nil {
			c.ensure(st, p)
			c.shared.Statements.release(st)
		}
		c.poison(duplicateName(string(name)), p)
		return m.size, None
	}
	st := c.shared.Statements.intern(tail)
	if st == nil || !c.roomFor(name, 0) {
		c.shared.Statements.release(st)
		c.poison(tooMany, p)
		return m.size, None
	}
	if st.own != nil {
		n, done := c.parseOwn(name, st, m, p)
		if done && n == 0 {
			c.shared.Statements.release(st)
		}
		if done {
			return n, None
		}
	}
	alias := st.aliasOf(name)
	key := alias.name
	c.addName(alias)
	s.mark(st)
	k := c.prepKey(st)
	if prep := s.prepared.get(k); prep != nil && c.mayFake() {
		s.push(entry{kind: kParse, fate: fake, name: key})
		s.runFakes(p)
		return m.size, None
	} else if prep != nil {
		// It must run to fail where the transaction has failed, and under a
		// name that is free; the old one goes the way of all old ones.
		s.evict(prep, p)
	}
	prep := s.prepare(k, p)
	p.server(p.build(func(dst []byte) []byte { return appendParse(dst, prep) }))
	s.push(entry{kind: kParse, prep: prep, name: key})
	return m.size, None
}

// parseUnnamed remembers the unnamed statement: a Bind may come in a later
// transaction, on another server.
func (c *Client) parseUnnamed(m message, tail []byte, p *Plan) int {
	s := c.server
	if (s.tx == wire.InFailed || s.fifo.guesses > 0 || s.fifo.clears > 0) && s.fifo.total > 0 && sqltext.Classify(textOf(tail)).Kind == sqltext.Deallocate {
		c.stalled = true // see deallocate
		return 0
	}
	e := entry{kind: kParse}
	st := c.unnamed
	changed := st == nil || st.tail != string(tail)
	if changed {
		if st = c.shared.Statements.intern(tail); st == nil { // remembered by nobody, good for this transaction only
			st = &Statement{refs: 1}
			st.take(sqltext.Classify(textOf(tail)), tail)
		}
	}
	if st.own != nil {
		n, done := c.parseOwn(nil, retain(st), m, p)
		if !done || n == 0 {
			c.shared.Statements.release(st)
		}
		if done {
			if changed {
				c.shared.Statements.release(st)
			}
			return n
		}
	}
	if changed {
		e.old, e.changed = c.unnamed, true // until it is known whether this one was read
		c.unnamed = st
	}
	var prep *prepared
	if c.unnamed.kind == sqltext.Deallocate {
		prep = c.deallocates(textOf(tail), p)
	}
	s.mark(c.unnamed)
	s.setUnnamed(c.unnamed)
	s.foreign = false
	s.push(e)
	s.fresh = true
	if prep == nil {
		return c.take(m, p, false)
	}
	p.server(p.build(func(dst []byte) []byte {
		return wire.AppendParse(dst, "", "DEALLOCATE "+string(prep.name(nil))+"\x00\x00\x00")
	}))
	return m.size
}

// mark notes what running the statement may do and leave on the server.
func (s *Server) mark(st *Statement) {
	s.note(st.kind, st.flags)
	s.dirt |= st.dirt
}

// resetName is the function of that name for a statement that was parsed.
func (st *Statement) resetName() string {
	if st.kind != sqltext.Set && st.kind != sqltext.Reset {
		return ""
	}
	text := textOf([]byte(st.tail))
	return resetName(sqltext.Classify(text), text)
}

// drops returns the name that a DEALLOCATE drops, unless it says ALL.
func (st *Statement) drops() string {
	if st.kind != sqltext.Deallocate {
		return ""
	}
	text := textOf([]byte(st.tail))
	return sqltext.Classify(text).Name(text)
}

// poison sends what the server must refuse, in the place of a request that
// pgweir refuses, so that the server goes through the same states; the client
// is told e.
func (c *Client) poison(e *wire.Error, p *Plan) {
	p.server(p.build(func(dst []byte) []byte { return wire.AppendDescribe(dst, 'S', poisonName) }))
	c.server.push(entry{kind: kDescribeS, fate: replace, err: e})
}

const poisonName = namePrefix + "none"

func duplicateName(name string) *wire.Error {
	return &wire.Error{Severity: "ERROR", Code: "42P05", Message: `prepared statement "` + name + `" already exists`}
}

func unknownName(name string) *wire.Error {
	return &wire.Error{Severity: "ERROR", Code: "26000", Message: `prepared statement "` + name + `" does not exist`}
}

var (
	tooMany = &wire.Error{
		Severity: "ERROR", Code: "53400", Message: "pgweir: too many different prepared statements",
		Detail: "reason=statements", Hint: "retry=no; prepare fewer different texts, or use parameters instead of literals",
	}
	abortedTx = &wire.Error{
		Severity: "ERROR", Code: "25P02",
		Message: "current transaction is aborted, commands ignored until end of transaction block",
	}
)

func appendParse(dst []byte, prep *prepared) []byte {
	at := len(dst)
	dst = append(dst, wire.MsgParse, 0, 0, 0, 0)
	dst = append(prep.name(dst), 0)
	dst = append(dst, prep.key.st.tail...)
	setLength(dst[at:], len(dst)-at-1)
	return dst
}
