package relay

import (
	"bytes"
	"strings"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// RESET, SET TO DEFAULT, RESET ALL and DISCARD ALL go back to what a session began with. The server knows
// the settings of the client's startup packet as any others and goes back to its own
// defaults. So they are set again before the client is told that the statement is done,
// and of the settings that the server reports the client hears only what has changed in
// the end. In a transaction block nothing of ours is sent, and RESET is the server's.

// resetAll is the name of all settings, as RESET has it.
const resetAll = "all"

// resetting is what a server is doing to bring settings back to the client's own.
type resetting struct {
	on     bool   // a statement that resets was sent: nothing may follow
	target string // of one that ran in the open batch: it counts with the Sync
	seen   bool   // it has succeeded
	held   bool   // the settings of the login are under way; the client's ReadyForQuery waits
	hidden []Param
	told   []Param // status as the client knows it, if anything is hidden
}

// resets returns what a statement of that kind, which resets name, resets that the client has
// brought along: the name of a setting, or resetAll; "" = nothing.
func (c *Client) resets(k sqltext.Kind, name string) string {
	if len(c.initial.kv) == 0 {
		return ""
	}
	switch k {
	case sqltext.Discard:
		return resetAll
	case sqltext.Reset, sqltext.Set:
		if _, ok := c.initial.Get(name); ok || name == resetAll {
			return name
		}
	}
	return ""
}

// resetsText is resets for a Query: of several statements the last counts.
func (c *Client) resetsText(st sqltext.Statement, text []byte) string {
	if st.Flags&sqltext.Session == 0 {
		return ""
	}
	if st.Flags&sqltext.Multi != 0 {
		text = bytes.TrimRight(text, "; \t\r\n")
		text = text[bytes.LastIndexByte(text, ';')+1:]
		st = sqltext.Classify(text)
	}
	return c.resets(st.Kind, resetName(st, text))
}

// resetQuery reports what e, a Query, resets, in e. It has to wait for its turn as long as
// others are outstanding, because only then it is known whether a block is open.
func (c *Client) resetQuery(what string, e *entry) (wait bool) {
	s := c.server
	if what == "" || s.begun || s.beginFailed || s.batch {
		return false
	}
	if s.fifo.total > 0 {
		c.stalled = true
		return true
	}
	if s.tx == wire.Idle {
		e.resets = what
		s.reset.on, s.reset.seen = true, false
	}
	return false
}

// resetExecute notes what an Execute resets; the Sync that ends its batch is what it
// counts with.
func (c *Client) resetExecute() {
	s := c.server
	what := c.reset
	c.reset = ""
	if what == "" || s.begun || s.beginFailed || s.tx != wire.Idle {
		return
	}
	for _, e := range s.fifo.rest() {
		if e.kind.ready() && e.inj == injNone {
			return // what it leaves is not known yet
		}
	}
	s.reset.target, s.reset.seen = what, false
}

// resetSync marks the Sync behind such an Execute.
func (s *Server) resetSync(e *entry) {
	if e.resets = s.reset.target; e.resets != "" {
		s.reset.on, s.reset.target = true, ""
	}
}

// hide keeps a ParameterStatus back while a reset is under way.
func (s *Server) hide(name, value string) bool {
	if s.fifo.empty() || s.fifo.first().resets == "" {
		return false
	}
	if s.reset.told == nil {
		s.reset.told = s.status
	}
	s.reset.hidden = append(s.reset.hidden, Param{Name: name, Value: value})
	return true
}

// follow makes a reported setting the client's and the server's.
func (s *Server) follow(c *Client, name, value string) {
	key := strings.ToLower(name)
	if !Reported(key) && key != "search_path" {
		return
	}
	isDefault := s.isDefault(name, value)
	if c == nil {
		s.applied = s.applied.with(key, value, isDefault)
	} else {
		c.want, s.applied = with(c.want, s.applied, key, value, isDefault)
		if w := c.own; w != nil && w.want != nil {
			w.want, w.applied = with(w.want, w.applied, key, value, isDefault)
		}
	}
	s.accept(&Params{kv: []Param{{Name: key, Value: value}}})
}

// resetReady is called at the ReadyForQuery of what has reset settings. It reports whether
// that one has to wait until the client's own are set.
func (s *Server) resetReady(what string, p *Plan) (held bool) {
	c := s.client
	for _, h := range s.reset.hidden {
		s.follow(c, h.Name, h.Value)
	}
	if c == nil || !s.reset.seen || s.tx != wire.Idle {
		s.resetTold(p)
		return false
	}
	if what == resetAll {
		s.applied, c.want = NoParams().as(s.applied), c.initial.as(c.want)
	} else {
		own, _ := c.initial.Get(what)
		s.applied, c.want = s.applied.with(what, "", true), c.want.with(what, own, false)
	}
	if s.applied.equal(c.want) {
		s.applied = c.want
		s.resetTold(p)
		return false
	}
	if s.reset.told == nil {
		s.reset.told = s.status
	}
	sql, _ := settings(s.applied, c.want, s.accepted)
	s.before, s.applied, s.reset.held = s.applied, c.want, true
	s.inject(p, wire.AppendQuery(nil, sql))
	s.setUnnamed(nil)
	s.foreign = false
	s.push(entry{kind: kQuery, fate: swallow, inj: injParams})
	return true
}

// resetDone ends a reset: the client's own settings are in force, and it may be told.
func (s *Server) resetDone(p *Plan) {
	s.before = nil
	s.accept(s.applied)
	s.resetTold(p)
	if !s.orphan {
		p.client(p.build(func(dst []byte) []byte { return wire.AppendReadyForQuery(dst, wire.Idle) }))
	}
}

// resetTold tells what was kept back and is still true, and ends the reset.
func (s *Server) resetTold(p *Plan) {
	if told := s.reset.told; told != nil && !s.orphan {
		for _, now := range s.status {
			if !isReported(told, now) {
				p.client(p.build(func(dst []byte) []byte { return wire.AppendParameterStatus(dst, now.Name, now.Value) }))
			}
		}
	}
	s.reset = resetting{}
}

func isReported(list []Param, p Param) bool {
	for _, l := range list {
		if l == p {
			return true
		}
	}
	return false
}
