package relay

import (
	"github.com/pgweir/pgweir/wire"
)

// error handles ErrorResponse: whose it is decides what the server does next.
func (s *Server) error(raw []byte, p *Plan) (show bool, ev Event) {
	v, ok := wire.ErrorField(raw[wire.HeaderLen:], 'V')
	last := ok && (v == "FATAL" || v == "PANIC")
	if ok && !last && s.fifo.empty() && s.batch {
		// It is about a message that has no answer, such as a Flush: the server skips
		// to the Sync that the client has not sent yet.
		s.skip = true
		return s.client != nil, None
	}
	if s.fifo.empty() || last {
		// The server is about to close. A client that it owes nothing does not
		// need to know, unless it is a session's own.
		s.dying = true
		s.fatal = s.keeper != nil || s.client != nil && s.touched && !(s.boundary() && s.tx == wire.Idle)
		return s.fatal, None
	}
	s.reset.seen = false
	s.heed(raw)
	if c := s.client; c != nil && c.own != nil {
		c.own.failed = true
	}
	e := s.fifo.first()
	if e.inj == injNone {
		s.pinError(raw)
	}
	switch e.inj {
	case injReset, injRollback, injProbe:
		return false, Broken
	case injParams:
		return s.paramsFailed(raw)
	case injBegin:
		return s.beginError(p)
	}
	if s.doubt {
		return false, Broken
	}
	if s.copyIn && e.kind == kQuery {
		s.copyIn, s.simple = false, true
		return true, s.doubtSyncs(p)
	}
	show = true
	if e.fate == replace {
		show = false
		text := e.err
		if s.tx == wire.InFailed {
			text = abortedTx
		}
		s.tell(text, p)
	}
	if e.kind.ready() {
		return show, None // its ReadyForQuery follows
	}
	if (e.kind == kBind || e.kind == kDescribeS || s.heal.again) && s.failedFirst(e, raw, p) {
		show = false
	}
	if e.name != "" && (e.kind == kBind || e.kind == kDescribeS) && wire.ErrorFields(raw[wire.HeaderLen:]).Code == "26000" {
		// The Parse, in an earlier batch of the pipeline, has failed, or something that
		// can't be seen has dropped it, such as a function: nothing is known of any
		// others. The client knows the statement by another name than the server.
		s.forgetPrepared()
		s.dirt |= dirtSession
		show = false
		s.tell(unknownName(e.name), p)
	}
	if s.copyIn {
		s.copyIn, s.simple = false, false
		s.undo(e, nil, false)
		s.fifo.pop()
		if ev := s.doubtSyncs(p); ev != None || s.doubt {
			return show, ev
		}
	}
	s.skipToSync()
	return show, None
}

// tell gives the client an error in the place of the server's.
func (s *Server) tell(e *wire.Error, p *Plan) {
	if !s.orphan {
		p.client(p.build(func(dst []byte) []byte { return wire.AppendError(dst, e) }))
	}
}

// skipToSync drops the entries that the server will not answer: all up to the
// next Sync, which may still have to come. The first is the one that failed.
func (s *Server) skipToSync() {
	if s.client != nil {
		s.client.dropPortals() // as the server has: they go with the transaction
	}
	s.steps++
	q := s.fifo.rest()
	n := 0
	for n < len(q) && q[n].kind != kSync {
		n++
	}
	for i := n - 1; i >= 0; i-- { // the latest first, as each restores what was before it
		s.undo(&q[i], q[n:], i == 0 && s.failed(&q[i]))
	}
	for i := range n {
		for k := q[i].n; k > 0; k-- {
			s.fifo.pop()
		}
	}
	s.opening = s.opening && s.queryAhead() // a Query that is skipped opens nothing
	if s.skip = s.fifo.empty(); s.skip {
		s.batch, s.asked = true, true
	}
}

// failed reports whether the failure of the message itself left the client
// without an unnamed statement: a Parse drops the old one before it reads the
// new.
func (s *Server) failed(e *entry) bool {
	refused := e.fate == replace && e.changed // a Parse in whose place something else was sent
	if !refused && (e.kind != kParse || e.fate != forward || e.name != "" || e.prep != nil) {
		return false
	}
	s.shared.Statements.release(e.old)
	e.old = nil
	return true
}

// undo takes back what the client or the server was thought to know by a
// message that failed or was never read. later are the entries of batches
// behind it, which are not affected; dropped says that no unnamed statement is
// left.
func (s *Server) undo(e *entry, later []entry, dropped bool) {
	s.endSteps(e)
	if e.prep != nil {
		if e.kind == kParse {
			s.forget(e.prep)
		} else {
			s.keep(e.prep)
		}
	}
	if c := s.client; c != nil {
		switch {
		case e.name != "" && e.kind == kParse:
			if i := c.names.find([]byte(e.name)); i >= 0 {
				_, st := c.dropName(i)
				s.shared.Statements.release(st)
			}
		case e.name != "" && e.kind == kClose:
			if c.names.find([]byte(e.name)) < 0 {
				c.addName(e.old.aliasOf([]byte(e.name)))
				e.old = nil
			}
		case e.changed || dropped:
			s.restoreUnnamed(e, later)
		}
	}
	s.shared.Statements.release(e.old)
	e.old = nil
}

// restoreUnnamed brings back the unnamed statement that a message replaced, unless
// a later batch has replaced it as well: then its failure would bring this one
// back.
func (s *Server) restoreUnnamed(e *entry, later []entry) {
	for i := range later {
		switch l := &later[i]; {
		case l.changed:
			l.old, e.old = e.old, l.old
			return
		case l.kind == kParse && l.fate == forward && l.prep == nil:
			return // the same text again
		}
	}
	s.client.setUnnamed(e.old)
	s.setUnnamed(nil)
	s.foreign = true
	e.old = nil
}

// keep takes back a statement whose Close was not read. If the text has been
// prepared again meanwhile, the old one is closed for good with the next chance.
func (s *Server) keep(prep *prepared) {
	if s.prepared.byKey[prep.key] != nil {
		s.unclosed = append(s.unclosed, prep)
		return
	}
	prep.gone = false
	retain(prep.key.st)
	s.prepared.byKey[prep.key] = prep
	s.prepared.link(prep)
}

// doubtSyncs is called when a COPY FROM STDIN has failed. Syncs sent before the
// client ended its data were ignored if the server read them inside the COPY,
// and are answered if it did not get to them: only the server knows. So it is
// asked, with a Sync that ends any skipping and a Query whose answer can't be
// mistaken; until that has come the client is not read.
func (s *Server) doubtSyncs(p *Plan) Event {
	maybe := false
	q := s.fifo.rest()
	if len(q) > 0 && q[0].kind == kQuery {
		q = q[1:]
	}
	for i := range q {
		if q[i].kind == kCopyEnd {
			break
		}
		maybe = maybe || q[i].kind == kSync
	}
	if !maybe {
		return None
	}
	for i := range q {
		if q[i].kind != kSync && q[i].kind != kCopyEnd {
			return Broken // more was sent behind it: which answer is whose can't be told
		}
	}
	if s.orphan {
		return Broken
	}
	s.doubt, s.answered = true, s.answered[:0]
	s.inject(p, wire.AppendQuery(wire.AppendEmpty(nil, wire.MsgSync), ""))
	s.push(entry{kind: kSync, fate: swallow, inj: injProbe})
	s.push(entry{kind: kQuery, fate: swallow, inj: injProbe})
	return None
}

// inject sends bytes of ours on account of what the server said: behind the
// client's message that may be under way.
func (s *Server) inject(p *Plan, b []byte) {
	if c := s.client; c != nil && c.rest > 0 && !c.drop {
		s.later = append(s.later, b...)
		return
	}
	p.server(b)
}

// resolve is called when the probe is answered. Of the ReadyForQuery before it
// the last is our own Sync's; the others are the client's. If there is none the
// server was still skipping: what the client sends up to its next Sync is not
// for it.
func (s *Server) resolve(p *Plan) Event {
	for !s.fifo.empty() && (s.fifo.first().inj != injProbe || s.fifo.first().kind != kQuery) {
		s.endSteps(s.fifo.first())
		s.fifo.pop()
	}
	s.reset = resetting{}
	n := len(s.answered) - 1
	if s.fifo.empty() || n < 0 {
		return Broken
	}
	for _, tx := range s.answered[:n] {
		if !s.orphan {
			p.client(p.build(func(dst []byte) []byte { return wire.AppendReadyForQuery(dst, tx) }))
		}
	}
	if n == 0 && !s.simple {
		s.skip, s.batch, s.asked = true, true, true
	}
	return None
}

// beginError handles the failure of the BEGIN that went ahead. Nothing of the
// client's has run: its first request was sent behind it without a Sync, so the
// server skips it, and nothing else was sent.
func (s *Server) beginError(p *Plan) (show bool, ev Event) {
	s.begun, s.beginFailed = false, true
	q := s.fifo.rest()
	simple := false // the request is a Query or FunctionCall, which brings no Sync
	for i := range q {
		if q[i].inj == injNone {
			simple = q[i].kind == kQuery || q[i].kind == kFunction
			break
		}
		if q[i].old != nil && s.client != nil {
			s.client.begin, q[i].old = q[i].old, nil // for AND CHAIN
		}
	}
	s.skipToSync()
	if simple {
		s.inject(p, wire.AppendEmpty(nil, wire.MsgSync))
		s.skip = false
		s.push(entry{kind: kSync, inj: injSync})
	}
	if c := s.client; c != nil {
		// What is pipelined behind must not meet this server: nothing is read
		// until the end of the request is answered, or its Sync is still to come.
		if waited := c.awaitBegin; s.skip && waited {
			ev = Settled
		}
		c.awaitBegin = !s.skip
	}
	return true, ev
}
