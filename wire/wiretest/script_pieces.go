package wiretest

import (
	"fmt"

	"github.com/pgweir/pgweir/wire"
)

// piece adds one small conversation.
func (s *scripter) piece() {
	type part struct {
		weight int
		needs  Feature
		do     func()
	}
	parts := []part{
		{6, 0, func() { s.query(s.any()) }},
		{3, 0, s.multi},
		{1, 0, s.empty},
		{5, Transactions, s.transaction},
		{2, Transactions, s.oddTransaction},
		{2, Transactions, s.savepoints},
		{5, Extended, s.unnamed},
		{2, Extended, s.unnamedLater},
		{3, Extended, s.pipeline},
		{2, Extended, s.portals},
		{2, Extended, s.flushing},
		{2, Extended | Transactions, s.extendedTransaction},
		{5, Extended | Named, s.namedUse},
		{1, Extended | Named, s.unknowns},
		{3, CopyIn, s.copyInSimple},
		{3, CopyIn | Extended, s.copyInExtended},
		{2, CopyOut, s.copyOut},
		{2, FunctionCalls, s.function},
		{3, Reported, s.settings},
		{3, Unreported, s.unreported},
		{1, Discards, s.discard},
		{1, Own, s.own},
		{1, Listens, func() { s.query(s.tag("listen news")) }},
		{4, Pinned, s.pins},
		{2, Sleeps | Cancels, s.cancelled},
	}
	total := 0
	for _, p := range parts {
		if s.has(p.needs) {
			total += p.weight
		}
	}
	n := s.r.IntN(total)
	for _, p := range parts {
		if !s.has(p.needs) {
			continue
		}
		if n -= p.weight; n < 0 {
			p.do()
			return
		}
	}
}

// multi is a simple Query of several statements.
func (s *scripter) multi() {
	text := ""
	for i := range 1 + s.r.IntN(4) {
		if i > 0 {
			text += "; "
		}
		switch {
		case s.has(Transactions) && s.chance(6):
			text += pick(s, "begin", "commit", "rollback", "savepoint a")
		case s.chance(10): // an empty statement between two semicolons
		case s.has(Reported) && s.chance(8):
			text += s.setting()
		case s.has(CopyOut) && s.chance(10):
			text += s.tag("copy t to stdout 2 10")
		default:
			text += s.any()
		}
	}
	s.query(text + pick(s, "", ";", " ; ;"))
	if s.has(Transactions) {
		s.query(s.tag("rollback"))
	}
}

func (s *scripter) empty() {
	text := pick(s, "", ";", " ", "-- nothing", "/* nothing */;;")
	if s.has(Extended) && s.chance(2) {
		s.batch(text)
		s.sync()
		return
	}
	s.query(text)
}

func (s *scripter) beginText() string {
	return pick(s, "BEGIN", "begin;", "start transaction", "BEGIN ISOLATION LEVEL READ COMMITTED",
		"begin work", "begin transaction isolation level repeatable read", "BEGIN READ WRITE",
		"begin isolation level serializable", "BEGIN /* by hand */ ;")
}

func (s *scripter) endText() string {
	return pick(s, "COMMIT", "commit;", "END", "ROLLBACK", "abort", "rollback work", "COMMIT", "COMMIT")
}

// transaction is BEGIN, statements, an end; or no end.
func (s *scripter) transaction() {
	s.query(s.beginText())
	s.pause()
	for range s.r.IntN(4) {
		switch {
		case s.has(Reported) && s.chance(6):
			s.query(s.setting())
		case s.has(Extended) && s.chance(3):
			s.batch(s.any())
			s.sync()
		default:
			s.query(s.any())
		}
		s.pause()
	}
	if s.chance(8) {
		return // the next piece runs inside
	}
	s.query(s.endText())
	if s.chance(12) {
		s.query(s.endText())
	}
}

// oddTransaction is what a confused client does.
func (s *scripter) oddTransaction() {
	switch s.r.IntN(7) {
	case 0:
		s.query("commit")
	case 1:
		s.query("rollback")
	case 2:
		s.query("begin")
		s.query("begin")
		s.query(s.work())
		s.query(s.endText())
	case 3:
		s.query("begin")
		s.query(s.any())
		s.query("commit and chain")
		s.query(s.any())
		s.query(s.endText())
	case 4:
		s.query(pick(s, "savepoint a", "rollback to a", "release a"))
	case 5:
		s.query("begin read only")
		s.query(s.tag("insert 1"))
		s.query("commit")
	case 6: // BEGIN and the first statement in one write, as many drivers do
		s.query(s.beginText())
		s.query(s.any())
		s.wait()
		s.query("commit")
	}
}

func (s *scripter) savepoints() {
	s.query("begin")
	s.pause()
	s.query("savepoint a")
	s.query(s.any())
	if s.chance(2) {
		s.query("savepoint b")
		s.query(s.any())
	}
	s.pause()
	s.query(pick(s, "rollback to a", "release a", "rollback to savepoint a", "rollback to none"))
	s.query(s.any())
	s.query(s.endText())
}

func (s *scripter) function() {
	inBatch := s.has(Extended) && s.chance(4)
	if inBatch {
		s.batch(s.any())
	}
	oid := uint32(int4pl)
	if s.has(Errors) && s.chance(5) {
		oid = 4000000
	}
	s.buf = AppendFunctionCall(s.buf, oid, []byte{0, 0, 0, 2}, []byte{0, 0, 0, byte(s.r.IntN(100))})
	s.expect++
	if inBatch {
		s.sync()
	}
}

func (s *scripter) settings() {
	block := s.has(Transactions) && s.chance(2)
	if block {
		s.query("begin")
	}
	for range 1 + s.r.IntN(3) {
		if s.has(Extended) && s.chance(3) {
			s.batch(s.setting())
			s.sync()
		} else {
			s.query(s.setting())
		}
		s.pause()
	}
	if s.has(Errors) && s.chance(5) {
		s.query(s.failing())
	}
	if block {
		s.query(s.endText())
	}
	s.query(s.tag("whoami"))
}

func (s *scripter) discard() {
	name := pick(s, "s1", "s2", "p1")
	text := pick(s, "discard all", "DISCARD ALL;", "deallocate all", "deallocate prepare all", "reset all",
		"deallocate "+name, "deallocate prepare "+name)
	if s.has(Extended) && s.chance(3) {
		s.batch(text)
		s.sync()
		return
	}
	s.query(text)
}

// cancelled is a statement with a CancelRequest after it: too early, in time
// or too late.
func (s *scripter) cancelled() {
	text := s.tag(fmt.Sprintf("sleep %d", 1+s.r.IntN(s.o.SleepMS)))
	block := s.has(Transactions) && s.chance(2)
	if block {
		s.query("begin")
		s.pause()
	}
	if s.has(Extended) && s.chance(2) {
		s.batch(text)
		s.sync()
	} else {
		s.query(text)
	}
	s.send()
	s.steps = append(s.steps, Step{Op: OpCancel})
	if block {
		s.pause()
		s.query(s.endText())
	}
}

// finish ends the conversation.
func (s *scripter) finish() {
	n := s.r.IntN(13)
	switch {
	case n < 2 && s.has(Abrupt|Transactions):
		s.query("begin")
		s.query(s.work())
		s.steps = append(s.steps, s.end(OpClose, n == 0)...)
	case n == 2 && s.has(Abrupt):
		s.query(s.work())
		cut := s.r.IntN(len(s.buf))
		s.buf = s.buf[:cut]
		s.steps = append(s.steps, s.end(OpClose, false)...)
	case n == 3 && s.has(Abrupt):
		s.query(s.any())
		s.steps = append(s.steps, s.end(pick(s, OpClose, OpHalfClose), s.chance(2))...)
	case n == 4 && s.has(Malformed):
		s.malformed()
	case n == 5: // Terminate right behind a statement
		s.query(s.work())
		s.buf = wire.AppendEmpty(s.buf, wire.MsgTerminate)
		s.send()
	case n == 6: // Terminate in an open batch or transaction
		if s.has(Extended) {
			s.batch(s.work())
		}
		s.buf = wire.AppendEmpty(s.buf, wire.MsgTerminate)
		s.send()
	case n == 7 && s.has(Abrupt|CopyIn): // in the middle of a COPY
		s.query(s.copyText())
		if s.chance(2) {
			s.await()
		}
		s.buf = wire.AppendMessage(s.buf, wire.MsgCopyData, []byte("1:"+s.nonce()+"\n"))
		s.buf = s.buf[:len(s.buf)-s.r.IntN(2)*s.r.IntN(len(s.buf))]
		s.steps = append(s.steps, s.end(pick(s, OpClose, OpHalfClose), false)...)
	default:
		s.wait()
		s.buf = wire.AppendEmpty(s.buf, wire.MsgTerminate)
		s.send()
	}
	s.send()
}

// end sends what is left, waits or not, and closes.
func (s *scripter) end(op Op, wait bool) []Step {
	if wait {
		s.wait()
	}
	s.send()
	return []Step{{Op: op}}
}

func (s *scripter) malformed() {
	s.wait()
	switch s.r.IntN(6) {
	case 0: // a type that does not exist
		s.buf = append(s.buf, pick(s, byte('?'), 'p', 0, 0xff), 0, 0, 0, 4)
	case 1: // an impossible length
		s.buf = append(s.buf, 'Q', 0, 0, 0, byte(s.r.IntN(4)))
	case 2: // a negative length
		s.buf = append(s.buf, 'P', 0xff, 0xff, 0xff, 0xff)
	case 3: // a small message that claims to be large
		s.buf = append(s.buf, 'S', 0x7f, 0, 0, 0)
	case 4: // a command inside of a COPY
		if s.has(CopyIn) {
			s.query(s.tag("copy t from stdin"))
		}
		s.query(s.work())
	case 5: // a message that ends in the middle of a field, and one with too much
		s.buf = wire.AppendMessage(s.buf, wire.MsgParse, []byte("s1\x00select"))
		s.sync()
		s.buf = wire.AppendMessage(s.buf, wire.MsgExecute, []byte{0, 0, 0, 0, 0, 0})
		s.sync()
		s.buf = wire.AppendEmpty(s.buf, wire.MsgTerminate)
	}
	s.send()
	s.steps = append(s.steps, Step{Op: OpWaitReady})
}
