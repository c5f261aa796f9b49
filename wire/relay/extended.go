package relay

import (
	"bytes"
	"strings"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// bind rewrites the statement's name, which stands behind the portal's.
func (c *Client) bind(m message, p *Plan) (int, Event) {
	portal, rest, ok := cstring(m.body())
	var name []byte
	if ok {
		name, rest, ok = cstring(rest)
	}
	if !ok {
		if !m.whole(c.shared.TextLimit) {
			return 0, None
		}
		c.violate("invalid Bind message")
		return 0, Violation
	}
	s := c.server
	if st := c.bindsOwn(name); st != nil {
		if n, done := c.bindCommand(portal, rest, st, m, p); done {
			return n, None
		}
	}
	c.closeOwn(portal)
	c.clearing, c.reset, c.resetsOwn = false, "", false
	c.bindStep(nil)
	if c.runsBegin(name) {
		return c.refuseBlock(m, p), None
	}
	st := c.names.or(name, c.unnamed)
	if e := c.pinPortal(portal, st); e != nil {
		c.poison(e, p)
		return c.take(m, p, true), None
	}
	if st != nil && c.tooManySettings(st.sets) {
		c.poison(settingsFull, p)
		return c.take(m, p, true), None
	}
	c.bindSets(portal, st)
	if len(name) == 0 {
		c.ensureUnnamed(p)
		if c.unnamed != nil {
			c.reset, c.resetsOwn = c.resets(c.unnamed.kind, c.unnamed.resetName()), c.unnamed.resetsAll()
			c.bindStep(c.unnamed)
		}
		if c.unnamed != nil && clearsNames(c.unnamed) {
			s.forgetPrepared()
			c.clearing = true
		}
		s.push(entry{kind: kBind})
		return c.take(m, p, false), None
	}
	st, key := c.names.lookup(name)
	if st == nil && !ours(name) {
		s.noteAll()
		s.push(entry{kind: kBind}) // the server knows best whether it exists
		return c.take(m, p, false), None
	}
	var prep *prepared
	heals := false
	if st != nil {
		had := s.fifo.total
		prep = c.use(st, p)
		heals = (s.heal.again || s.fifo.total == had) && c.mayHeal()
	}
	head := p.build(func(dst []byte) []byte {
		dst = append(dst, wire.MsgBind, 0, 0, 0, 0)
		dst = append(append(dst, portal...), 0)
		if prep == nil {
			dst = append(append(dst, '?'), name...)
		} else {
			dst = prep.name(dst)
		}
		return append(dst, 0)
	})
	setLength(head, m.size-1+len(head)-wire.HeaderLen-len(portal)-len(name)-2)
	p.server(head)
	n := min(m.size, len(m.raw))
	c.rest, c.drop = m.size-n, false
	p.server(rest)
	s.push(entry{kind: kBind, name: key, heals: heals})
	return n, None
}

// setLength writes the announced length of a message whose end follows later.
func setLength(msg []byte, n int) {
	msg[1], msg[2], msg[3], msg[4] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
}

// ours reports whether a name could be one that pgweir gave to a statement of
// another client.
func ours(name []byte) bool { return bytes.HasPrefix(name, []byte(namePrefix)) }

// use makes the server know a statement that is about to be run.
func (c *Client) use(st *Statement, p *Plan) *prepared {
	s := c.server
	s.mark(st)
	c.reset, c.resetsOwn = c.resets(st.kind, st.resetName()), st.resetsAll()
	c.bindStep(st)
	prep := c.ensure(st, p)
	if clearsNames(st) {
		s.forgetPrepared()
		c.clearing = true
	}
	return prep
}

// clearsNames tells the statements that drop all of a session's names.
func clearsNames(st *Statement) bool {
	return st.kind == sqltext.DeallocateAll || st.kind == sqltext.Discard
}

// ensureUnnamed makes the server's unnamed statement the client's.
func (c *Client) ensureUnnamed(p *Plan) {
	s := c.server
	switch {
	case c.unnamed != nil && s.unnamed == c.unnamed && !s.foreign:
		s.mark(c.unnamed)
	case c.unnamed != nil && c.unnamed.tail != "":
		st := c.unnamed
		p.server(p.build(func(dst []byte) []byte { return wire.AppendParse(dst, "", st.tail) }))
		s.push(entry{kind: kParse, fate: fallible})
		s.setUnnamed(st)
		s.foreign = false
		s.mark(st)
	case s.foreign:
		p.server(p.build(func(dst []byte) []byte { return wire.AppendClose(dst, 'S', "") }))
		s.push(entry{kind: kClose, fate: swallow})
		s.foreign = false
	}
}

func (c *Client) describe(m message, p *Plan) (int, Event) {
	what, name, ev := c.target(m)
	if name == nil {
		return 0, ev
	}
	if n, done := c.describeOwn(what, name, m, p); done {
		return n, None
	}
	s := c.server
	if what == 'P' {
		s.push(entry{kind: kDescribeP})
		return c.take(m, p, false), None
	}
	if len(name) == 0 {
		c.ensureUnnamed(p)
		s.push(entry{kind: kDescribeS})
		return c.take(m, p, false), None
	}
	st, key := c.names.lookup(name)
	if st == nil {
		if ours(name) {
			p.server(p.build(func(dst []byte) []byte { return wire.AppendDescribe(dst, 'S', "?"+string(name)) }))
			s.push(entry{kind: kDescribeS})
			return m.size, None
		}
		s.push(entry{kind: kDescribeS})
		return c.take(m, p, false), None
	}
	had := s.fifo.total
	prep := c.ensure(st, p)
	heals := (s.heal.again || s.fifo.total == had) && c.mayHeal()
	p.server(p.build(func(dst []byte) []byte { return wire.AppendDescribe(dst, 'S', string(prep.name(nil))) }))
	s.push(entry{kind: kDescribeS, name: key, heals: heals})
	return m.size, None
}

// target reads what Describe and Close name. The name is nil when the message
// is incomplete or malformed.
func (c *Client) target(m message) (what byte, name []byte, ev Event) {
	if !m.complete() {
		return 0, nil, None
	}
	b := m.body()
	if len(b) < 2 || bytes.IndexByte(b[1:], 0) != len(b)-2 || (b[0] != 'S' && b[0] != 'P') {
		c.violate("invalid Describe or Close message")
		return 0, nil, Violation
	}
	return b[0], b[1 : len(b)-1], None
}

// close forgets a name here; the statement stays on the server for others.
func (c *Client) close(m message, p *Plan) (int, Event) {
	what, name, ev := c.target(m)
	if name == nil {
		return 0, ev
	}
	s := c.server
	if what == 'P' && c.closeOwn(name) {
		c.fake(entry{kind: kClose}, p)
		return m.size, None
	}
	if what == 'S' && len(name) > 0 {
		if i := c.names.find(name); i >= 0 {
			key, st := c.dropName(i)
			s.push(entry{kind: kClose, fate: fake, name: key, old: st})
			s.runFakes(p)
			return m.size, None
		}
		if ours(name) { // never another client's
			s.push(entry{kind: kClose, fate: fake})
			s.runFakes(p)
			return m.size, None
		}
	}
	e := entry{kind: kClose}
	if what == 'S' && len(name) == 0 {
		e = c.dropUnnamed(e)
	}
	s.push(e)
	return c.take(m, p, false), None
}

// runFakes tells the client what the answers at the head of the queue are that
// the server was not asked for, and drops markers.
func (s *Server) runFakes(p *Plan) {
	for !s.fifo.empty() {
		e := s.fifo.first()
		switch {
		case e.kind == kCopyEnd:
		case e.fate == fake:
			s.answerFake(e, p)
			s.shared.Statements.release(e.old)
		default:
			return
		}
		s.fifo.pop()
	}
}

// tagIs compares a CommandComplete body with a tag.
func tagIs(body []byte, tag string) bool {
	return len(body) == len(tag)+1 && strings.EqualFold(string(body[:len(tag)]), tag)
}
