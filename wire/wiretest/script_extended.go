package wiretest

import (
	"fmt"

	"github.com/pgweir/pgweir/wire"
)

// batch is Parse, Bind, perhaps Describe, Execute of an unnamed statement,
// without the Sync.
func (s *scripter) batch(text string) {
	s.parse("", text)
	if s.chance(3) {
		s.describe('S', "")
	}
	s.bind(Bind{})
	if s.chance(2) {
		s.describe('P', "")
	}
	s.execute("", pick(s, 0, 0, 0, 1, 100))
}

// param is a batch with a parameter; its text is the same for all clients.
func (s *scripter) param(statement string) {
	if statement == "" {
		s.parse("", "nonce $1", pick(s, [][]uint32{nil, {0}, {oidText}}...)...)
	}
	b := Bind{Statement: statement, Params: [][]byte{[]byte(s.nonce())}}
	if s.chance(4) {
		b.ParamFormats, b.ResultFormats = []int16{1}, []int16{1}
	}
	s.bind(b)
	if s.chance(3) {
		s.describe('P', "")
	}
	s.execute("", 0)
}

func (s *scripter) unnamed() {
	for range 1 + s.r.IntN(2) {
		if s.chance(2) {
			s.param("")
		} else {
			s.batch(s.any())
		}
		s.sync()
		s.pause()
	}
	if s.chance(6) {
		s.sync() // alone
	}
}

// unnamedLater parses in one transaction and binds in a later one.
func (s *scripter) unnamedLater() {
	s.parse("", s.any())
	s.describe('S', "")
	s.sync()
	s.pause()
	if s.chance(4) {
		s.query(s.work()) // takes the unnamed statement away
	}
	for range 1 + s.r.IntN(2) {
		s.bind(Bind{})
		s.execute("", 0)
		s.sync()
		s.pause()
	}
}

// pipeline is several batches, or several statements in one, sent ahead.
func (s *scripter) pipeline() {
	for range 2 + s.r.IntN(4) {
		switch {
		case s.has(Transactions) && s.chance(10):
			s.batch(pick(s, "begin", "commit", "rollback"))
		case s.has(Reported) && s.chance(8):
			s.batch(s.setting())
		case s.chance(12): // a Query inside the batch: skipped after an error
			s.query(s.any())
		default:
			s.batch(s.any())
		}
		if s.chance(2) {
			s.sync()
		}
	}
	s.sync()
	if s.has(Transactions) {
		s.query("rollback")
	}
}

// portals uses a named portal over several Executes, perhaps several Syncs.
func (s *scripter) portals() {
	block := s.has(Transactions) && s.chance(2)
	if block {
		s.query("begin")
	}
	s.parse("", s.tag(fmt.Sprintf("rows %d %d", s.r.IntN(7), s.rowSize())))
	s.bind(Bind{Portal: "c1"})
	for range 1 + s.r.IntN(4) {
		s.execute("c1", pick(s, 1, 2, 3, 0))
		if s.chance(3) {
			s.sync() // outside a transaction this takes the portal away
			s.pause()
		}
	}
	if s.chance(2) {
		s.close('P', "c1")
	}
	s.sync()
	if block {
		s.query(s.endText())
	}
}

// flushing waits for the description before it goes on, as pgx and JDBC do.
func (s *scripter) flushing() {
	s.parse("", s.any())
	s.describe('S', "")
	s.flush()
	s.bind(Bind{})
	s.execute("", 0)
	if s.chance(2) {
		s.flush()
	}
	if s.chance(4) {
		s.bind(Bind{})
		s.execute("", 0)
		s.flush()
	}
	s.sync()
}

// extendedTransaction begins and ends by Parse, Bind, Execute.
func (s *scripter) extendedTransaction() {
	s.batch(s.beginText())
	if s.chance(2) {
		s.sync()
		s.pause()
	}
	for range s.r.IntN(3) {
		if s.chance(2) {
			s.param("")
		} else {
			s.batch(s.any())
		}
		if s.chance(2) {
			s.sync()
			s.pause()
		}
	}
	s.batch(s.endText())
	s.sync()
}

// namedUse prepares, uses, redefines and closes named statements. The names are
// the same for all clients; those with p have one parameter.
func (s *scripter) namedUse() {
	if s.named == nil {
		s.named = map[string]bool{}
	}
	for range 1 + s.r.IntN(4) {
		name := pick(s, "s1", "s2", "p1", "p2")
		if !s.named[name] || s.chance(8) { // the second time it exists already
			text := "nonce $1"
			if name[0] == 's' {
				text = s.any()
			}
			s.parse(name, text)
			if s.chance(2) {
				s.describe('S', name)
			}
			s.named[name] = true
			if s.chance(2) {
				s.sync()
				s.pause()
			}
		}
		if name[0] == 'p' {
			s.param(name)
		} else {
			s.bind(Bind{Statement: name})
			s.execute("", 0)
		}
		if s.chance(5) {
			s.close('S', name)
			s.named[name] = false
		}
		if s.chance(2) {
			s.sync()
			s.pause()
		}
	}
	s.sync()
}

// unknowns refers to what does not exist.
func (s *scripter) unknowns() {
	switch s.r.IntN(6) {
	case 0:
		s.bind(Bind{Statement: "never"})
		s.execute("", 0)
	case 1:
		s.execute("never", 0)
	case 2:
		s.describe('S', "never")
	case 3:
		s.close('S', "never")
	case 4:
		s.describe('P', "never")
	case 5:
		s.query(s.work())
		s.bind(Bind{}) // the Query took the unnamed statement away
	}
	s.batch(s.work())
	s.sync()
}

// copyText returns a COPY FROM STDIN and whether it has a way to fail.
func (s *scripter) copyText() string {
	if s.has(Errors) && s.chance(3) {
		return s.tag(pick(s, "copyfail 1 from stdin", "copyfail 2 from stdin", "copyfail 3 from stdin", "copybs from stdin"))
	}
	return s.tag("copy t from stdin")
}

// copyData sends some lines and the end.
func (s *scripter) copyData(early bool) {
	for i := range s.r.IntN(4) {
		line := fmt.Sprintf("%d:%s\n", i+1, s.nonce())
		s.buf = wire.AppendMessage(s.buf, wire.MsgCopyData, []byte(line))
		if s.chance(4) {
			s.buf = wire.AppendEmpty(s.buf, wire.MsgFlush)
		}
		if s.chance(4) {
			s.send()
		}
		if early && s.chance(8) {
			s.buf = wire.AppendEmpty(s.buf, wire.MsgSync)
		}
	}
	if s.chance(4) {
		s.buf = wire.AppendCopyFail(s.buf, "changed my mind")
	} else {
		s.buf = wire.AppendEmpty(s.buf, wire.MsgCopyDone)
	}
}

// copyInSimple is COPY FROM STDIN in a simple Query.
func (s *scripter) copyInSimple() {
	block := s.has(Transactions) && s.chance(3)
	if block {
		s.query("begin")
		s.pause()
	}
	text := s.copyText()
	if s.chance(4) {
		text = s.work() + "; " + text + "; " + s.any()
	}
	s.query(text)
	if s.chance(2) {
		s.await()
	}
	s.copyData(false)
	s.wait()
	if block {
		s.query(s.endText())
	}
}

// copyInExtended is COPY FROM STDIN in an extended batch; the Sync may come
// ahead of the data, as libpq sends it.
func (s *scripter) copyInExtended() {
	block := s.has(Transactions) && s.chance(3)
	if block {
		s.query("begin")
		s.pause()
	}
	if s.chance(4) {
		s.batch(s.any())
	}
	s.parse("", s.copyText())
	s.bind(Bind{})
	s.execute("", 0)
	early := s.chance(2)
	switch {
	case early:
		s.buf = wire.AppendEmpty(s.buf, wire.MsgSync)
		if s.chance(2) {
			s.await()
		}
	case s.chance(2):
		s.flush()
	}
	s.copyData(early)
	s.sync()
	s.wait()
	if block {
		s.query(s.endText())
	}
}

// copyOut is COPY TO STDOUT in either protocol.
func (s *scripter) copyOut() {
	text := s.tag(fmt.Sprintf("copy t to stdout %d %d", s.r.IntN(6), s.rowSize()))
	if s.has(Extended) && s.chance(2) {
		s.batch(text)
		if s.chance(3) {
			s.batch(s.any())
		}
		s.sync()
		return
	}
	s.query(text)
}
