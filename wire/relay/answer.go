package relay

import (
	"encoding/binary"

	"github.com/pgweir/pgweir/wire"
)

// Input takes bytes from the server. It returns how many it has used; the rest
// must be given again with more behind it.
func (s *Server) Input(in []byte, p *Plan) (used int, ev Event) {
	for {
		if s.rest > 0 {
			n := min(s.rest, len(in)-used)
			if s.restForward && !s.orphan {
				p.client(in[used : used+n])
			}
			s.rest -= n
			used += n
			if s.rest > 0 {
				return used, None
			}
		}
		if s.fatal { // nothing follows its last word
			return len(in), None
		}
		if len(in)-used < wire.HeaderLen {
			return used, None
		}
		size := int(binary.BigEndian.Uint32(in[used+1:])) + 1
		if size < wire.HeaderLen || size > largeMessage+1 {
			return used, Broken
		}
		raw := in[used:min(used+size, len(in))]
		if len(raw) < size && (s.needsWhole(raw[0], size) || raw[0] == wire.MsgErrorResponse && len(raw) < errorHead ||
			s.fifo.empty() && size <= maxWhole) { // else an answer of ours could come into the middle of it
			if s.needsWhole(raw[0], size) && size > maxWhole {
				return used, Broken
			}
			return used, None
		}
		show, ev := s.message(raw, p)
		if ev == Broken {
			return used, Broken
		}
		if show && !s.orphan {
			p.client(raw)
		}
		s.rest, s.restForward = size-len(raw), show
		used += len(raw)
		if s.fifo.total > 0 {
			s.runFakes(p)
		}
		if ev == None {
			ev = s.state(p)
		}
		if ev == None && s.fifo.guesses == 0 && !s.doubt && !s.mayOpen() && !s.reset.on && !s.heal.waits {
			ev = s.unstall()
		}
		if ev != None {
			return used, ev
		}
	}
}

// errorHead is how much of an ErrorResponse must be there: severity and SQLSTATE
// come first.
const errorHead = 128

// maxWhole bounds the messages that are only looked at complete.
const maxWhole = 64 << 10

// smallRow is the size of rows above which none says whether an advisory lock was taken.
const smallRow = 64

// needsWhole tells the messages whose content matters here; all others are
// passed on as they come.
func (s *Server) needsWhole(typ byte, size int) bool {
	switch typ {
	case wire.MsgDataRow:
		return size < smallRow && !s.fifo.empty() && s.fifo.first().left != nil
	case wire.MsgCopyData, wire.MsgRowDescription, wire.MsgParameterDescription,
		wire.MsgErrorResponse, wire.MsgNoticeResponse, wire.MsgNotificationResponse, wire.MsgFunctionCallResponse:
		return false
	}
	return true
}

// message accounts for one message and reports whether the client gets it.
// Everything but a long body's end is there.
func (s *Server) message(raw []byte, p *Plan) (show bool, ev Event) {
	typ := raw[0]
	switch typ {
	case wire.MsgParameterStatus:
		return s.parameterStatus(raw[wire.HeaderLen:])
	case wire.MsgNoticeResponse:
		return s.holder() != nil && (s.fifo.empty() || s.fifo.first().inj == injNone), None
	case wire.MsgNotificationResponse:
		return s.holder() != nil, None // whatever the server is at: it comes once
	case wire.MsgErrorResponse:
		e := s.excuseFor(raw)
		if show, ev = s.error(raw, p); show && e != nil {
			s.tell(e, p)
			show = false
		}
		return show, ev
	case wire.MsgReadyForQuery:
		return s.ready(raw, p)
	}
	if s.fifo.empty() {
		return false, Broken
	}
	e := s.fifo.first()
	show = e.fate == forward
	if s.doubt && typ == wire.MsgEmptyQueryResponse {
		return false, s.resolve(p)
	}
	if !e.expects(typ) {
		return false, Broken
	}
	switch typ {
	case wire.MsgParseComplete, wire.MsgBindComplete, wire.MsgCloseComplete:
		s.done(e)
		s.fifo.pop()
	case wire.MsgNoData:
		s.fifo.pop()
	case wire.MsgRowDescription:
		if e.kind != kQuery {
			s.fifo.pop()
		}
	case wire.MsgCommandComplete:
		if len(raw) == wire.HeaderLen {
			return false, Broken // not even the end of a tag
		}
		begun := e.inj == injBegin
		s.complete(e, raw[wire.HeaderLen:])
		if begun {
			return false, s.beginDone()
		}
	case wire.MsgDataRow:
		if e.left != nil && s.client != nil {
			s.client.row(e.left, raw[wire.HeaderLen:])
		}
	case wire.MsgEmptyQueryResponse, wire.MsgPortalSuspended:
		if e.left != nil && s.client != nil {
			s.client.ran(e.left, true)
		}
		if e.kind == kExecute {
			s.steps++
			if len(e.sets) > 0 && s.client != nil { // the one row of set_config is out
				s.client.changeSettings(e.sets)
			}
			s.fifo.pop()
		}
	case wire.MsgFunctionCallResponse:
		if e.left != nil && s.client != nil {
			s.client.ran(e.left, true)
		}
	case wire.MsgCopyInResponse:
		if s.orphan {
			return false, Broken // nobody is left to send the data
		}
		s.copyIn = true
	case wire.MsgCopyOutResponse:
		s.copyOut = true
	case wire.MsgCopyDone:
		s.copyOut = false
	}
	return show, None
}

// expects reports whether a message type can be part of the entry's answer.
func (e *entry) expects(typ byte) bool {
	switch typ {
	case wire.MsgParseComplete:
		return e.kind == kParse
	case wire.MsgBindComplete:
		return e.kind == kBind
	case wire.MsgCloseComplete:
		return e.kind == kClose
	case wire.MsgParameterDescription:
		return e.kind == kDescribeS
	case wire.MsgNoData:
		return e.kind == kDescribeS || e.kind == kDescribeP
	case wire.MsgRowDescription:
		return e.kind == kDescribeS || e.kind == kDescribeP || e.kind == kQuery
	case wire.MsgPortalSuspended:
		return e.kind == kExecute
	case wire.MsgFunctionCallResponse:
		return e.kind == kFunction
	case wire.MsgDataRow, wire.MsgCommandComplete, wire.MsgEmptyQueryResponse, wire.MsgCopyInResponse,
		wire.MsgCopyOutResponse, wire.MsgCopyData, wire.MsgCopyDone:
		return e.kind == kQuery || e.kind == kExecute
	}
	return false
}

// done settles what a message defined or closed, once the server has read it.
func (s *Server) done(e *entry) {
	if e.kind == kParse && e.prep != nil && s.keeper == nil && s.dirt&dirtSession == 0 { // a session's own tables may have made it true
		e.prep.key.st.prove(proof{s.group, e.prep.key.meaning})
	}
	if e.old != nil {
		s.shared.Statements.release(e.old)
		e.old = nil
	}
}

// complete handles CommandComplete.
func (s *Server) complete(e *entry, tag []byte) {
	if s.copyIn {
		s.copyIn = false
		s.dropCopySyncs()
		e = s.fifo.first()
		if e.kind == kExecute && !s.syncAhead() {
			s.batch, s.asked = true, true // the Syncs that were to end it went into the COPY
		}
	}
	if tag[0] == 'D' && (tagIs(tag, "DEALLOCATE ALL") || tagIs(tag, "DISCARD ALL")) {
		s.deallocated()
	}
	s.own(e, tag)
	s.pinTag(e, tag)
	s.reset.seen = s.reset.seen || tagIs(tag, "RESET") || tagIs(tag, "SET") || tagIs(tag, "DISCARD ALL")
	if tag[0] == 'C' && tagIs(tag, "COMMIT") {
		s.turns++ // of a COMMIT AND CHAIN the ReadyForQuery does not say so
	}
	if e.kind == kExecute {
		s.steps++
		s.done(e)
		s.fifo.pop()
	}
}

// beginDone lets what waited for the BEGIN go on.
func (s *Server) beginDone() Event {
	s.begun, s.block = false, true
	if c := s.client; c != nil && c.awaitBegin {
		c.awaitBegin = false
		return Settled
	}
	return None
}

// deallocated forgets all names but those that were defined behind the
// statement that dropped them, in the same pipeline.
func (s *Server) deallocated() {
	keep := s.fifo.rest()[1:]
	later := func(name string) bool {
		for i := range keep {
			if keep[i].kind == kParse && keep[i].name == name {
				return true
			}
		}
		return false
	}
	for q := s.prepared.oldest(); q != nil && q != &s.prepared.root; {
		next, used := q.next, false
		for i := range keep {
			used = used || keep[i].prep == q
		}
		if !used {
			s.forget(q)
		}
		q = next
	}
	c := s.client
	if c == nil {
		return
	}
	for i := len(c.names.list) - 1; i >= 0; i-- {
		if !later(c.names.list[i].name) {
			_, st := c.dropName(i)
			s.shared.Statements.release(st)
		}
	}
}

// syncAhead reports whether a Sync is in the queue behind its head.
func (s *Server) syncAhead() bool {
	for _, e := range s.fifo.rest()[1:] {
		if e.kind == kSync {
			return true
		}
	}
	return false
}

// queryAhead reports whether a Query is still to be answered.
func (s *Server) queryAhead() bool {
	for i := range s.fifo.rest() {
		if s.fifo.rest()[i].kind == kQuery {
			return true
		}
	}
	return false
}

// mayOpen reports whether what runs may open a transaction block, in statement mode: until
// it is known, nothing may follow but the data of a COPY, and what is sent in its place.
func (s *Server) mayOpen() bool { return s.opening && !s.copyIn }

// dropCopySyncs removes the Syncs that the server read, and by the protocol
// ignored, while the COPY at the head of the queue took its data.
func (s *Server) dropCopySyncs() {
	f := &s.fifo
	q, w := f.rest(), 1
	for r := 1; r < len(q); r++ {
		if q[r].kind == kCopyEnd {
			q[r].n--
			f.total--
			if q[r].n > 0 {
				q[w] = q[r]
				w++
			}
			w += copy(q[w:], q[r+1:])
			break
		}
		if q[r].kind == kSync {
			f.total -= int(q[r].n)
			s.reset = resetting{} // if it was that of a reset
			continue
		}
		q[w] = q[r]
		w++
	}
	clear(q[w:])
	f.q = f.q[:f.head+w]
}

func (s *Server) parameterStatus(body []byte) (show bool, ev Event) {
	name, rest, ok := cstring(body)
	if !ok {
		return false, Broken
	}
	value, _, ok := cstring(rest)
	if !ok {
		return false, Broken
	}
	n, v := string(name), string(value)
	hidden := s.hide(n, v)
	if !s.setStatus(n, v) || len(s.reset.hidden) > maxStatus {
		return false, Broken
	}
	if hidden {
		s.renew(n, v, true) // when the reset is done
		return false, None
	}
	if !s.fifo.empty() && (s.fifo.first().inj == injParams || s.fifo.first().inj == injReset) {
		s.renew(n, v, false)
		return false, None // the effect of settings that are known
	}
	s.follow(s.holder(), n, v)
	show = s.holder() != nil && (s.fifo.empty() || s.fifo.first().inj == injNone)
	s.renew(n, v, show)
	return show, None
}

// ready handles ReadyForQuery.
func (s *Server) ready(raw []byte, p *Plan) (show bool, ev Event) {
	if len(raw) != wire.HeaderLen+1 || s.fifo.empty() {
		return false, Broken
	}
	e := s.fifo.first()
	if !e.kind.ready() {
		return false, Broken
	}
	tx := raw[wire.HeaderLen]
	if tx != wire.Idle && tx != wire.InTransaction && tx != wire.InFailed {
		return false, Broken // whether anything is open can't be told
	}
	s.tx = tx
	s.copyIn, s.copyOut = false, false
	s.steps++
	if s.tx == wire.Idle {
		s.turns++
	}
	kind, inj, show := e.kind, e.inj, e.fate == forward || e.fate == replace
	s.pinReady()
	resets := e.resets
	s.endSteps(e)
	s.replied = s.replied || inj == injNone
	s.done(e)
	s.fifo.pop()
	s.opening = s.opening && s.queryAhead()
	if show {
		s.block = false
		s.ownReady()
	}
	switch {
	case inj == injParams:
		ev = s.paramsReady(p)
	case inj == injHeal:
		return false, s.sendAgain(p)
	case inj == injReset:
		s.dirt = 0
		s.applied = &Params{}
	case inj == injProbe && kind == kQuery:
		s.doubt = false
		ev = s.unstall()
	case s.doubt && kind == kSync:
		s.answered = append(s.answered, s.tx)
		show = false
	}
	if resets != "" && s.resetReady(resets, p) {
		return false, None
	}
	if c := s.client; show && c != nil && c.mode == Single && s.tx != wire.Idle {
		return false, Blocked // before anything else of the block can be asked for
	}
	if show && s.beginFailed && s.client != nil {
		// The client believes to be in the transaction that its BEGIN opened.
		s.beginFailed = false
		s.client.tx = wire.InFailed
		s.client.awaitBegin = false
		if !s.orphan {
			p.client(p.build(func(dst []byte) []byte { return wire.AppendReadyForQuery(dst, wire.InFailed) }))
		}
		show = false
	}
	return show, ev
}

// unstall lets a client go on that had to wait for a doubt to be resolved.
func (s *Server) unstall() Event {
	if s.client != nil && s.client.stalled {
		s.client.stalled = false
		return Settled
	}
	return None
}

// state says what the server's progress means for its holder.
func (s *Server) state(p *Plan) Event {
	c := s.client
	if s.orphan && s.skip && s.rest == 0 {
		// It skips to a Sync that nobody is left to send.
		p.server(p.build(func(dst []byte) []byte { return wire.AppendEmpty(dst, wire.MsgSync) }))
		s.push(entry{kind: kSync, fate: swallow})
		s.skip = false
	}
	if !s.boundary() {
		return None
	}
	s.writes, s.ends = false, false
	if s.orphan {
		if s.tx != wire.Idle {
			p.server(p.build(func(dst []byte) []byte { return wire.AppendQuery(dst, "ROLLBACK") }))
			s.push(entry{kind: kQuery, fate: swallow, inj: injRollback})
			return None
		}
		s.orphan = false
		return Release
	}
	if c == nil {
		if s.cleaning {
			s.cleaning = false
			return Release
		}
		return None // something said out of turn
	}
	if s.touched && s.tx == wire.Idle && (c.rest == 0 || c.drop) && !c.awaitParams {
		return Release
	}
	if c.mode == Single && s.touched && s.tx != wire.Idle {
		return Blocked
	}
	return None
}
