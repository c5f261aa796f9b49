package wiretest

import (
	"fmt"
	"strings"
)

// pins leaves something with the session, takes it away, and looks what is there: alone, in
// transactions that are committed or not, in one text, by the extended protocol.
func (s *scripter) pins() {
	block := s.has(Transactions) && s.chance(2)
	if block {
		s.query(s.beginText())
		s.pause()
	}
	for range 1 + s.r.IntN(4) {
		switch {
		case s.has(Extended) && s.chance(3):
			text := s.pin(block)
			if strings.Contains(strings.ToLower(text), "execute") {
				text = s.tag("left") // what Describe says of it depends on what is there
			}
			s.batch(text)
			s.sync()
		case s.chance(4):
			s.query(s.pin(true) + "; " + s.pin(true) + "; " + s.tag("left"))
		case block && s.chance(4):
			s.query("savepoint a")
			s.query(s.pin(block))
			s.query(pick(s, "rollback to a", "release a"))
		default:
			s.query(s.pin(block))
		}
		if s.has(Errors) && s.chance(10) {
			s.query(s.failing())
		}
		s.pause()
	}
	if block {
		s.query(s.endText())
		s.pause()
	}
	s.query(s.tag("left"))
}

// pin is a statement about what a session leaves; block says that it is not alone.
func (s *scripter) pin(block bool) string {
	name := pick(s, "a", "b")
	switch s.r.IntN(10) {
	case 0:
		return s.tag(pick(s, "listen ", "listen ", "unlisten ") + name)
	case 1:
		return s.tag("create temp table x" + name + pick(s, "", "", " on commit drop"))
	case 2:
		return s.tag(pick(s, "drop table x"+name, "drop table x"+name, "discard temp"))
	case 3:
		return s.tag(fmt.Sprintf("prepare q%s as select %d", name, s.r.IntN(9)))
	case 4:
		return s.tag(pick(s, "execute q", "deallocate q", "deallocate q") + name)
	case 5:
		return s.tag(pick(s, "declare c"+name+" cursor with hold for select 1", "close c"+name, "close all"))
	case 6:
		return s.tag(fmt.Sprintf("select pg_advisory_lock(%d)", s.r.IntN(3)))
	case 7:
		return s.tag(fmt.Sprintf("select pg_try_advisory_lock(%d)", 2+s.r.IntN(5)))
	case 8:
		return s.tag(fmt.Sprintf("select pg_advisory_unlock(%d)", s.r.IntN(4)))
	}
	switch {
	case !block && s.has(Discards) && s.chance(2):
		return pick(s, "discard all", "deallocate all")
	case s.chance(2):
		return s.tag(pick(s, "unlisten *", "select pg_advisory_unlock_all()"))
	}
	return s.tag("left")
}
