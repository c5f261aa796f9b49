package integration

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// apply runs a change, by either way of the protocol.
func (s *stressed) apply(c stressChange, to ...*stressValues) error {
	b := wire.AppendQuery(nil, c.sql)
	if !strings.Contains(c.sql, ";") && s.rnd.IntN(2) == 0 {
		b = wiretest.AppendBind(wiretest.AppendParse(nil, "", c.sql), wiretest.Bind{})
		b = wire.AppendEmpty(wiretest.AppendExecute(b, "", 0), wire.MsgSync)
	}
	if _, err := s.run(b); err != nil {
		return err
	}
	for _, v := range to {
		c.apply(v)
	}
	s.done.sets.Add(1)
	return nil
}

// set changes settings for the rest of the session.
func (s *stressed) set() error {
	for range 1 + s.rnd.IntN(2) {
		if err := s.apply(s.change(false), &s.now); err != nil {
			return err
		}
		s.kept = s.now
	}
	return s.askOnce()
}

// transaction changes settings in a transaction, or for it, and asks; some of it may be
// rolled back.
func (s *stressed) transaction() error {
	after := s.kept // if it commits
	change := func() error {
		if s.rnd.IntN(2) == 0 {
			return nil
		}
		c := s.change(true)
		if c.local {
			return s.apply(c, &s.now)
		}
		return s.apply(c, &s.now, &after)
	}
	if err := s.exec("begin"); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	if s.rnd.IntN(3) == 0 {
		if err := s.savepoint(change, &after); err != nil {
			return err
		}
	}
	for range 1 + s.rnd.IntN(2) {
		if err := s.askOnce(); err != nil {
			return err
		}
	}
	if s.conn.state != wire.InTransaction {
		return fmt.Errorf("state %c inside a transaction", s.conn.state)
	}
	end := []string{"commit", "rollback", "select 1/0", "commit"}[s.rnd.IntN(4)]
	err := s.exec(end)
	if told, ok := errors.AsType[*rawError](err); ok && end == "select 1/0" && told.code == "22012" {
		err = s.exec("commit") // of what has failed
	}
	if err != nil {
		return err
	}
	if end == "commit" {
		s.kept = after
	}
	s.now = s.kept
	s.done.transactions.Add(1)
	if s.conn.state != wire.Idle {
		return fmt.Errorf("state %c after a transaction", s.conn.state)
	}
	return s.askOnce()
}

// savepoint changes something behind a savepoint, and perhaps goes back to it.
func (s *stressed) savepoint(change func() error, after *stressValues) error {
	now, then := s.now, *after
	if err := s.exec("savepoint s"); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	if s.rnd.IntN(2) == 0 {
		return s.exec("release s")
	}
	if s.rnd.IntN(2) == 0 {
		err := s.exec("select 1/0")
		if told, ok := errors.AsType[*rawError](err); !ok || told.code != "22012" {
			return errors.Join(errors.New("a division by zero"), err)
		}
	}
	if err := s.exec("rollback to s"); err != nil {
		return err
	}
	s.now, *after = now, then
	return nil
}

// copyThrough copies rows in and out again, in one transaction.
func (s *stressed) copyThrough() error {
	nonce := s.nonce()
	if err := s.exec("begin"); err != nil {
		return err
	}
	a, err := s.run(wire.AppendQuery(nil, "copy public.stress_copy from stdin"))
	if err != nil {
		return err
	}
	if !a.copyIn {
		return errors.New("no CopyInResponse")
	}
	row := fmt.Sprintf("%d\t%s\n", s.id, nonce)
	b := wire.AppendMessage(nil, wire.MsgCopyData, []byte(row+row[:3]))
	b = wire.AppendMessage(b, wire.MsgCopyData, []byte(row[3:]))
	began := s.began
	_, err = s.run(wire.AppendEmpty(b, wire.MsgCopyDone))
	if s.began = began; err != nil { // it is one request: a cancel meets COPY also between its parts
		return err
	}
	a, err = s.run(wire.AppendQuery(nil, fmt.Sprintf("copy (select owner, nonce from public.stress_copy where owner = %d) to stdout", s.id)))
	if err != nil {
		return err
	}
	want := fmt.Sprintf("%d|%s", s.id, nonce)
	if !slices.Equal(a.rows, []string{want, want}) {
		return fmt.Errorf("copied %q and %q came back", want, a.rows)
	}
	s.done.copies.Add(1)
	return s.exec("rollback")
}

// cancel cancels a statement of its own, early or late. What comes next must not feel it.
func (s *stressed) cancel() error {
	if err := s.send(wire.AppendQuery(nil, fmt.Sprintf("select pg_sleep(%.4f)", s.rnd.Float64()*0.02))); err != nil {
		return err
	}
	if err := s.sendCancel(s.conn, s.cancels); err != nil {
		return err
	}
	a, err := s.conn.answer()
	if err == nil && a.err != nil {
		err = s.judge(a.err)
	}
	if err != nil || s.conn == nil {
		return err
	}
	return s.askOnce()
}

// sendCancel asks to cancel whatever the connection is at.
func (s *stressed) sendCancel(c *rawClient, all *stressCancels) error {
	all.add(1)
	defer all.add(-1)
	s.done.cancels.Add(1)
	return c.cancel(s.f.Endpoint)
}

// cancelLater cancels whatever its connection is at in a moment, if there is one then.
func (s *stressed) cancelLater(late *sync.WaitGroup) {
	c, all, wait := s.conn, s.cancels, time.Duration(s.rnd.IntN(20))*time.Millisecond
	late.Go(func() {
		moment := time.NewTimer(wait)
		defer moment.Stop()
		<-moment.C
		if err := s.sendCancel(c, all); err != nil && !lostServer(err) {
			s.done.fail(fmt.Errorf("a request to cancel: %w", err))
		}
	})
}

// vanish leaves in the middle of something.
func (s *stressed) vanish() error {
	s.done.vanished.Add(1)
	defer func() { s.drop(s.rnd.IntN(2) == 0) }()
	if s.rnd.IntN(2) == 0 {
		if err := s.exec("begin"); err != nil {
			return err
		}
		if err := s.askOnce(); err != nil {
			return err
		}
	}
	question, q := s.ask(nil, map[int]bool{})
	switch s.rnd.IntN(9) {
	case 0: // nothing under way
		return nil
	case 1: // a statement runs
		return s.send(wire.AppendQuery(nil, "select pg_sleep(0.01)"))
	case 2: // half of a message
		return s.send(question[:1+s.rnd.IntN(len(question)-1)])
	case 3: // a batch without its Sync
		return s.send(question[:max(len(question)-5, 1)])
	case 4: // data on the way
		return s.send(wire.AppendMessage(wire.AppendQuery(nil, "copy public.stress_copy from stdin"), wire.MsgCopyData, []byte("1\tx\n")))
	case 5: // in the middle of a result
		if err := s.send(wire.AppendQuery(nil, "select repeat('x', 10000) from generate_series(1, 200)")); err != nil {
			return err
		}
		if err := s.conn.conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		for range s.rnd.IntN(20) { // a cancel may have made it short
			typ, _, err := s.conn.message()
			if err != nil || typ == wire.MsgReadyForQuery {
				return err
			}
		}
		return nil
	case 6: // without a farewell of TLS, and in the middle of a record
		if tcp := s.conn.socket(); tcp != nil {
			_, err := tcp.Write([]byte("\x17\x03\x03\x10\x00abc")[:s.rnd.IntN(8)])
			return errors.Join(err, tcp.Close())
		}
		return nil
	case 7: // half-closed
		return s.halfClose(question, q)
	}
	return s.send(append(question, wire.AppendEmpty(nil, wire.MsgTerminate)...)) // goodbye, unheard
}

// halfClose ends its own side of the connection behind a question. It may be answered or
// not, but with nothing of anybody else's.
func (s *stressed) halfClose(question []byte, q *stressAsked) error {
	if err := s.send(question); err != nil {
		return err
	}
	half, ok := s.conn.conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("%T can't be half closed", s.conn.conn)
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	a, err := s.conn.answer()
	for _, row := range a.rows {
		if row != q.rows[0]+"|"+s.now.row() {
			return fmt.Errorf("half closed it was answered %q instead of %q", row, q.rows[0]+"|"+s.now.row())
		}
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	return nil
}
