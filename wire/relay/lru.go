package relay

import "strconv"

// prepKey is what makes two prepared statements the same on a server: text,
// types and every setting that can change what the text means.
type prepKey struct {
	st      *Statement
	meaning uint64
}

// prepared is a statement that a server knows.
type prepared struct {
	key        prepKey
	id         uint32
	gone       bool // removed from the list
	prev, next *prepared
}

// lru is a server's prepared statements, least recently used first.
type lru struct {
	byKey map[prepKey]*prepared
	root  prepared // ring
	ids   uint32
}

// namePrefix starts the names that pgweir gives to statements on servers.
const namePrefix = "pgweir_"

// name returns the statement's name on the server.
func (p *prepared) name(dst []byte) []byte {
	return strconv.AppendUint(append(dst, namePrefix...), uint64(p.id), 10)
}

func (l *lru) get(k prepKey) *prepared {
	p := l.byKey[k]
	if p != nil && l.root.prev != p {
		l.unlink(p)
		l.link(p)
	}
	return p
}

func (l *lru) add(k prepKey) *prepared {
	l.ids++
	p := &prepared{key: k, id: l.ids}
	l.byKey[k] = p
	l.link(p)
	return p
}

func (l *lru) link(p *prepared) {
	r := &l.root
	if r.next == nil {
		r.next, r.prev = r, r
	}
	p.prev, p.next = r.prev, r
	r.prev.next = p
	r.prev = p
}

func (l *lru) unlink(p *prepared) {
	p.prev.next, p.next.prev = p.next, p.prev
	p.prev, p.next = nil, nil
}

func (l *lru) remove(p *prepared) {
	l.unlink(p)
	p.gone = true
	if l.byKey[p.key] == p {
		delete(l.byKey, p.key)
	}
}

func (l *lru) len() int { return len(l.byKey) }

// oldest returns the least recently used statement, or nil.
func (l *lru) oldest() *prepared {
	if l.root.next == nil || l.root.next == &l.root {
		return nil
	}
	return l.root.next
}

// Prepared returns how many prepared statements of clients the server has.
func (s *Server) Prepared() int { return s.prepared.len() }
