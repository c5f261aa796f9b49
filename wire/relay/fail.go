package relay

import (
	"github.com/pgweir/pgweir/wire"
)

// error handles ErrorResponse: whose it is decides what the server does next.
func (s *Server) error(raw []byte, p *Plan) (show bool, ev Event) {
	if v, ok := wire.ErrorField(raw[wire.HeaderLen:], 'V'); s.fifo.empty() || ok && (v == "FATAL" || v == "PANIC") {
		s.fatal = true // the server is about to close
		return s.client != nil, None
	}
	e := s.fifo.first()
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
		s.copyIn = false
		return true, s.doubtSyncs()
	}
	if e.kind.ready() {
		return true, None // its ReadyForQuery follows
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
	if e.name != "" && (e.kind == kBind || e.kind == kDescribeS) && wire.ErrorFields(raw[wire.HeaderLen:]).Code == "26000" {
		// The Parse, in an earlier batch of the pipeline, has failed: the
		// client knows the statement by another name than the server.
		show = false
		s.tell(unknownName(e.name), p)
	}
	if s.copyIn {
		s.copyIn = false
		s.undo(e, nil)
		s.fifo.pop()
		if ev := s.doubtSyncs(); ev != None || s.doubt {
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
// next Sync, which may still have to come. The first is the one that failed. It
// reports how many of them the client expects a ReadyForQuery for.
func (s *Server) skipToSync() (owed int) {
	q := s.fifo.rest()
	n := 0
	for n < len(q) && q[n].kind != kSync {
		n++
	}
	for i := n - 1; i >= 0; i-- { // the latest first, as each restores what was before it
		if q[i].kind == kQuery || q[i].kind == kFunction {
			owed += int(q[i].n)
		}
		if i == 0 {
			s.failed(&q[i])
		}
		s.undo(&q[i], q[n:])
	}
	for i := range n {
		for k := q[i].n; k > 0; k-- {
			s.fifo.pop()
		}
	}
	s.skip = s.fifo.empty()
	s.batch = s.skip
	return owed
}

// failed notes what the failure of a message itself did: a Parse drops the
// unnamed statement before it reads the new one.
func (s *Server) failed(e *entry) {
	if e.kind == kParse && e.fate == forward && e.name == "" && e.prep == nil && s.client != nil {
		s.shared.Statements.release(e.old)
		e.old, e.changed = nil, true
	}
}

// undo takes back what the client or the server was thought to know by a
// message that failed or was never read. later are the entries of batches
// behind it, which are not affected.
func (s *Server) undo(e *entry, later []entry) {
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
				_, st := c.names.take(i)
				s.shared.Statements.release(st)
			}
		case e.name != "" && e.kind == kClose:
			if c.names.find([]byte(e.name)) < 0 {
				c.names.put(e.name, e.old)
				e.old = nil
			}
		case e.changed:
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
// and are answered if it did not get to them: only the server knows.
func (s *Server) doubtSyncs() Event {
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
	s.doubt = true
	return None
}

// probe asks the server something of which the answer can't be mistaken, to
// learn which Syncs it has read.
func (s *Server) probe(p *Plan) {
	if s.fifo.empty() {
		s.doubt = false
		return
	}
	s.probed = true
	p.server(p.build(func(dst []byte) []byte { return wire.AppendQuery(dst, "") }))
	s.push(entry{kind: kQuery, fate: swallow, inj: injProbe})
}

// resolve is called when the probe is answered: Syncs still in the queue before
// it were ignored.
func (s *Server) resolve() Event {
	for !s.fifo.empty() && s.fifo.first().inj != injProbe {
		s.fifo.pop()
	}
	if s.fifo.empty() {
		return Broken
	}
	return None
}

// beginError handles the failure of the BEGIN that went ahead. Nothing of the
// client's has run: it was sent behind it without a Sync, so the server skips
// it.
func (s *Server) beginError(p *Plan) (show bool, ev Event) {
	s.beginFailed = true
	s.beginDone()
	q := s.fifo.rest()
	for i := range q {
		if q[i].inj == injBegin && q[i].old != nil && s.client != nil {
			s.client.begin, q[i].old = q[i].old, nil // for AND CHAIN
		}
	}
	owed := s.skipToSync()
	switch {
	case owed == 0:
		return true, None // the client's own Sync is there or will come
	case owed > 1 || !s.skip:
		return true, Broken // several requests hung on it; each would need an answer of its own
	}
	// A simple Query was skipped: it brings no Sync of its own.
	p.server(p.build(func(dst []byte) []byte { return wire.AppendEmpty(dst, wire.MsgSync) }))
	s.skip = false
	s.push(entry{kind: kSync, inj: injSync})
	return true, None
}
