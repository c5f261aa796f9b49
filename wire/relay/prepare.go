package relay

import "github.com/pgweir/pgweir/wire"

// prepare gives the statement a place and a new name on the server, and closes
// the least recently used one if there is no place.
func (s *Server) prepare(k prepKey, p *Plan) *prepared {
	for _, old := range s.unclosed {
		p.server(p.build(func(dst []byte) []byte { return wire.AppendClose(dst, 'S', string(old.name(nil))) }))
		s.push(entry{kind: kClose, fate: swallow, prep: old})
	}
	s.unclosed = nil
	for s.prepared.len() >= max(s.shared.MaxPrepared, 1) {
		s.evict(s.prepared.oldest(), p)
	}
	retain(k.st)
	return s.prepared.add(k)
}

// evict closes a statement on the server.
func (s *Server) evict(prep *prepared, p *Plan) {
	p.server(p.build(func(dst []byte) []byte {
		return wire.AppendClose(dst, 'S', string(prep.name(nil)))
	}))
	s.push(entry{kind: kClose, fate: swallow, prep: prep})
	s.forget(prep)
}

// forget drops a statement that the server no longer has.
func (s *Server) forget(prep *prepared) {
	if !prep.gone {
		s.prepared.remove(prep)
		s.shared.Statements.release(prep.key.st)
	}
}

func (s *Server) forgetPrepared() {
	for q := s.prepared.oldest(); q != nil; q = s.prepared.oldest() {
		s.forget(q)
	}
}

// ensure makes the server know the statement before what follows.
func (c *Client) ensure(st *Statement, p *Plan) *prepared {
	s := c.server
	k := c.prepKey(st)
	if prep := s.prepared.get(k); prep != nil {
		return prep
	}
	prep := s.prepare(k, p)
	p.server(p.build(func(dst []byte) []byte { return appendParse(dst, prep) }))
	s.push(entry{kind: kParse, fate: fallible, prep: prep})
	return prep
}
