package relay

import "github.com/pgweir/pgweir/wire"

// Bind gives the client a server, which must stand at a boundary and be clean.
// Settings that differ go ahead of the client's bytes; when they must be
// accepted first, Settling reports true and Settled follows.
func (c *Client) Bind(s *Server, p *Plan) {
	c.server, s.client, s.orphan, s.touched, s.statements = s, c, false, false, 0
	s.begun, s.beginFailed = false, false // of a client that has left meanwhile
	s.counts, s.opening, s.reset, s.block = c.counts, false, resetting{}, false
	s.replied, s.stopped, s.excuse, s.unflushed = false, false, nil, false
	c.shared.asked = asked{}
	if c.own != nil {
		c.own.failed, c.own.want, c.own.applied = false, nil, nil
		c.own.endSteps()
	}
	if c.want.temp && !c.starting {
		s.dirt |= dirtSession
	}
	want := c.want
	if c.sparing = c.lone != ""; c.sparing {
		want = c.spared()
	}
	if s.applied == want || s.applied.equal(want) {
		s.applied = want
		c.refresh(p)
		return
	}
	sql, safe := settings(s.applied, want, s.accepted)
	s.before, s.applied = s.applied, want
	p.server(p.build(func(dst []byte) []byte { return wire.AppendQuery(dst, sql) }))
	s.setUnnamed(nil)
	s.foreign = false
	s.push(entry{kind: kQuery, fate: swallow, inj: injParams})
	c.awaitParams = !safe || c.starting
}

// Start binds a session that is logging in only to have its settings accepted:
// after Settled, or at once if Settling reports false, the server's Status is
// what the client must be told. Failure tells why they were refused.
func (c *Client) Start(s *Server, p *Plan) {
	c.starting = true
	c.Bind(s, p)
	c.starting = false
}

// Failure returns why the settings that went ahead were refused, and nil if
// they were not.
func (s *Server) Failure() *wire.Error { return s.failure }

// paramsFailed handles an error that answers our own settings. They were one
// implicit transaction, so the server is as it was before.
func (s *Server) paramsFailed(raw []byte) (show bool, ev Event) {
	s.applied = s.before
	if s.reset.held {
		return false, None // what is refused is said when it is needed
	}
	s.failure = wire.ErrorFields(raw[wire.HeaderLen:])
	if s.client == nil || !s.client.awaitParams {
		return false, Broken // what followed has met the wrong settings
	}
	return false, None
}

// paramsReady handles the end of our own settings.
func (s *Server) paramsReady(p *Plan) Event {
	if s.reset.held {
		s.resetDone(p)
		return None
	}
	s.before = nil
	if s.failure == nil {
		s.accept(s.applied)
	}
	c := s.client
	if c != nil {
		c.refresh(p)
	}
	if c == nil || !c.awaitParams {
		return None
	}
	c.awaitParams, c.misfit = false, s.failure != nil
	if c.misfit {
		c.refusal = unsettled(s.failure)
	}
	return Settled
}

// sendBegin sends the BEGIN that was answered here, ahead of the client's first
// request and without a Sync: if it fails, the server skips that request, so
// nothing of the transaction can run outside it. What the client has pipelined
// behind waits until it is known.
func (c *Client) sendBegin(p *Plan) {
	s := c.server
	st := c.begin
	c.begin = nil
	p.server(p.build(func(dst []byte) []byte {
		dst = wire.AppendParse(dst, "", st.tail)
		dst = wire.AppendBindNone(dst, "")
		return wire.AppendExecute(dst)
	}))
	s.push(entry{kind: kParse, fate: swallow, inj: injBegin})
	s.push(entry{kind: kBind, fate: swallow, inj: injBegin})
	s.push(entry{kind: kExecute, fate: swallow, inj: injBegin, old: st})
	s.setUnnamed(nil)
	s.foreign, s.begun = true, true
}

// Unbind takes the server from the client after Release, or after Settled for a
// session that only wanted its settings accepted.
func (c *Client) Unbind() *Server {
	s := c.server
	c.server, s.client = nil, nil
	c.awaitParams, c.awaitBegin, c.stalled = false, false, false
	c.dropPortals()
	c.pinOver()
	c.sets, c.sparing = nil, false
	s.heal.drop()
	c.disown()
	s.failure = nil
	s.foreign = s.foreign || s.unnamed != nil
	s.setUnnamed(nil)
	return s
}

// Clean sends what removes an earlier client's traces; Release follows when the
// server has done it.
func (s *Server) Clean(p *Plan) {
	sql := "SET SESSION AUTHORIZATION DEFAULT; RESET ALL"
	if s.dirt&dirtSession != 0 {
		sql = "DISCARD ALL"
		s.forgetPrepared()
	}
	p.server(p.build(func(dst []byte) []byte { return wire.AppendQuery(dst, sql) }))
	s.foreign, s.cleaning = false, true
	s.push(entry{kind: kQuery, fate: swallow, inj: injReset})
}

// Gone takes a client that has left from its server and starts what brings the
// server back to a boundary: the answers are swallowed, a COPY is failed, an
// open batch is ended, a transaction rolled back. Release follows when it is
// done. It returns Broken when the server can't be saved.
func (c *Client) Gone(p *Plan) Event {
	s := c.server
	c.server, s.client = nil, nil
	s.orphan = true
	if c.own != nil {
		s.dirt |= dirtSettings // nobody will follow what it sets
	}
	if c.rest > 0 && !c.drop || s.doubt || s.failure != nil {
		return Broken // in the middle of a message, or of a doubt
	}
	if s.copyIn && !s.copyEnding() {
		extended := s.fifo.first().kind == kExecute
		p.server(p.build(func(dst []byte) []byte { return wire.AppendCopyFail(dst, "the client has left") }))
		s.push(entry{kind: kCopyEnd})
		s.batch = s.batch || extended
	}
	if s.batch && !s.skip {
		// The client has not ended the batch, so nothing of it may be committed:
		// it is made to fail before the Sync that ends it.
		p.server(p.build(func(dst []byte) []byte { return wire.AppendDescribe(dst, 'S', poisonName) }))
		s.push(entry{kind: kDescribeS, fate: swallow})
	}
	if s.batch || s.skip {
		p.server(p.build(func(dst []byte) []byte { return wire.AppendEmpty(dst, wire.MsgSync) }))
		s.push(entry{kind: kSync, fate: swallow})
		s.skip = false
	}
	s.foreign = true
	s.setUnnamed(nil)
	s.runFakes(p)
	return s.state(p)
}

// copyEnding reports whether the client has ended its COPY data.
func (s *Server) copyEnding() bool {
	for _, e := range s.fifo.rest() {
		if e.kind == kCopyEnd {
			return true
		}
	}
	return false
}
