package loop

// ID names one connection of one loop: the slot's index in the low 32 bits and
// the slot's generation above. A slot that is used again has another
// generation, so an ID never comes to mean a later connection (short of 2^32
// connections in one slot). The zero ID names nothing.
type ID uint64

// slots is the table from IDs to connections. Freed slots are reused in LIFO
// order, which keeps the table as small as the largest number of connections
// ever open at once.
type slots struct {
	table []slot
	free  uint32 // 1 + index of the first free slot; 0 = none
}

type slot struct {
	c    *Conn
	gen  uint32 // of the present or, in a free slot, the last occupant
	next uint32 // free list, 1 + index
}

// put finds a slot for c and sets c.id.
func (s *slots) put(c *Conn) {
	if s.free == 0 {
		s.table = append(s.table, slot{})
		s.free = uint32(len(s.table))
	}
	i := s.free - 1
	e := &s.table[i]
	s.free = e.next
	e.gen++
	if e.gen == 0 {
		e.gen = 1
	}
	e.c, e.next = c, 0
	c.id = ID(i) | ID(e.gen)<<32
}

// drop frees the slot of id.
func (s *slots) drop(id ID) {
	i := uint32(id)
	e := &s.table[i]
	e.c, e.next = nil, s.free
	s.free = i + 1
}

// get returns the connection that id names, nil if there is none any more.
func (s *slots) get(id ID) *Conn {
	i := uint32(id)
	if uint64(i) >= uint64(len(s.table)) {
		return nil
	}
	e := &s.table[i]
	if e.gen != uint32(id>>32) {
		return nil
	}
	return e.c
}
