package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// fakeServer lets everybody in and leaves the rest to a script.
type fakeServer struct {
	ln     net.Listener
	logins atomic.Int32
	asked  chan *pgproto3.Backend // has received a Query
	ended  chan string            // all that came after the login, up to the end of the connection
	conn   atomic.Pointer[net.Conn]
}

// hangUp closes the connection that came last.
func (f *fakeServer) hangUp() { _ = (*f.conn.Load()).Close() }

func startFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServer{ln: ln, asked: make(chan *pgproto3.Backend, 8), ended: make(chan string, 8)}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f.logins.Add(1)
			f.conn.Store(&conn)
			go f.serve(conn)
		}
	}()
	return f
}

func (f *fakeServer) url() string {
	return "postgres://app@" + f.ln.Addr().String() + "/shop?sslmode=disable"
}

// serve notes all messages after the login.
func (f *fakeServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		f.ended <- "no startup: " + err.Error()
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	_ = b.Flush()
	log := ""
	for {
		m, err := b.Receive()
		switch m := m.(type) {
		case *pgproto3.Query:
			log += "Q(" + m.String + ")"
			f.asked <- b
		case *pgproto3.Terminate:
			log += "X"
		}
		if err != nil {
			f.ended <- log
			return
		}
	}
}

// answer sends messages to the client that asked last.
func (f *fakeServer) answer(t *testing.T, messages ...pgproto3.BackendMessage) {
	t.Helper()
	select {
	case b := <-f.asked:
		for _, m := range messages {
			b.Send(m)
		}
		if err := b.Flush(); err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nobody asks")
	}
}

func connected(t *testing.T, f *fakeServer) *session {
	t.Helper()
	s := &session{}
	if err := s.connect(t.Context(), f.url(), clientName); err != nil {
		t.Fatal(err)
	}
	return s
}

var ready = &pgproto3.ReadyForQuery{TxStatus: 'I'}

// soon is long enough for a test.
func soon() time.Time { return time.Now().Add(30 * time.Second) }

func TestSessionAsks(t *testing.T) {
	f := startFakeServer(t)
	s := connected(t, f)
	answers := make(chan error, 1)
	ask := func(messages ...pgproto3.BackendMessage) error {
		go func() { answers <- s.ask("one", soon()) }()
		f.answer(t, messages...)
		return <-answers
	}
	no := &pgproto3.ErrorResponse{Severity: "ERROR", Code: "53300", Message: "pgweir: no"}
	if err := ask(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}, ready); err != nil {
		t.Error(err)
	}
	if err := ask(no, ready); !isRefusal(err) || s.conn == nil {
		t.Errorf("%v, session %v", err, s.conn)
	}
	s.leave()
	s.leave()
	if got := <-f.ended; got != "Q(one)Q(one)X" {
		t.Errorf("the server saw %s", got)
	}
}

// A client that gives up closes its connection and does nothing else: no cancel request on
// another one, no goodbye.
func TestSessionGivesUpWithoutAWord(t *testing.T) {
	f := startFakeServer(t)
	s := connected(t, f)
	err := s.ask("one", time.Now().Add(time.Millisecond))
	if judge(err, s.conn != nil) != gaveUp || s.conn != nil {
		t.Errorf("%v, session %v", err, s.conn)
	}
	if got := <-f.ended; got != "Q(one)" && got != "" { // "": the time was over before the question was sent
		t.Errorf("the server saw %s", got)
	}
	if n := f.logins.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestSessionThatTheServerEnds(t *testing.T) {
	f := startFakeServer(t)
	s := connected(t, f)
	answers := make(chan error, 1)
	go func() { answers <- s.ask("one", soon()) }()
	b := <-f.asked
	b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P01", Message: "pgweir: over"})
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	f.hangUp()
	err := <-answers
	if !strings.Contains(err.Error(), "57P01") || judge(err, s.conn != nil) != failed {
		t.Errorf("%v", err)
	}
	if s.conn != nil {
		t.Error("the session goes on")
	}
}

func TestVisitReopensItsSession(t *testing.T) {
	f := startFakeServer(t)
	c, err := newCrowd(t.Context(), f.url(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ta := &tally{}
	c.visit(t.Context(), arrival{0, overload}, ta) // nobody answers
	r := ta.result(policy{}, schedule(15*time.Second))
	if r.phases[overload].gaveUp != 1 || r.reopened != 1 || r.lost != 0 || f.logins.Load() != 2 {
		t.Errorf("%+v, %d logins", r, f.logins.Load())
	}
	<-f.asked
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.visit(t.Context(), arrival{12 * time.Second, after}, ta)
	}()
	f.answer(t, ready)
	<-done
	if r := ta.result(policy{}, schedule(15*time.Second)); len(r.phases[after].served) != 1 || r.reopened != 1 {
		t.Errorf("%+v", r)
	}
	c.close()
}

// A session that could not be opened again is opened by the next who needs it, and the
// failure is told.
func TestVisitWithoutAServer(t *testing.T) {
	f := startFakeServer(t)
	if err := f.ln.Close(); err != nil {
		t.Fatal(err)
	}
	c := &crowd{url: f.url(), free: make(chan *session, 1)}
	c.free <- &session{}
	ta := &tally{}
	c.visit(t.Context(), arrival{12 * time.Second, after}, ta)
	r := ta.result(policy{}, schedule(15*time.Second))
	if r.failed() != 1 || r.lost != 2 || r.failure == nil {
		t.Errorf("%+v", r)
	}
	if len(c.free) != 1 {
		t.Error("the session is not in line any more")
	}
	if _, err := newCrowd(t.Context(), f.url(), 2); err == nil {
		t.Error("a crowd without a server")
	}
}

// Who finds no session free gives up when its patience ends, as in an application's pool.
func TestVisitWithoutAFreeSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{free: make(chan *session)}
		ta := &tally{}
		start := time.Now()
		c.visit(t.Context(), arrival{0, overload}, ta)
		if took := time.Since(start); took != patience || ta.now().by[gaveUp] != 1 || ta.lost != 0 {
			t.Errorf("%v, %+v", took, ta)
		}
	})
}

func TestDriveIsAnOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{free: make(chan *session)} // nobody is ever served
		ta := &tally{}
		list := schedule(15 * time.Second)
		start := time.Now()
		n := 0
		for range arrivals(list) {
			n++
		}
		drive(t.Context(), arrivals(list), c, ta)
		if got := ta.now(); got.arrived != n || got.by[gaveUp] != n {
			t.Errorf("%+v of %d", got, n)
		}
		if took := time.Since(start); took > 15*time.Second+patience || took < 14*time.Second {
			t.Errorf("it took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		drive(ctx, arrivals(list), c, ta)
		if took, came := time.Since(start), ta.now().arrived-n; took > 2*time.Second+patience || came > 2*int(rate(list[goodDay].load)) {
			t.Errorf("it went on for %v, and %d came", took, came)
		}
	})
}

func fakeCluster() *pgtest.Cluster {
	return &pgtest.Cluster{Endpoint: pgtest.Endpoint{Host: "127.0.0.1", Port: 5432}}
}

func TestProgramThatIsNoPgweir(t *testing.T) {
	what := policies()[guarded]
	for _, program := range []string{"/bin/false", "/nonexistent"} {
		_, err := startPooler(t.Context(), program, t.TempDir(), fakeCluster(), what)
		if err == nil || !strings.Contains(err.Error(), "pgweir") {
			t.Errorf("%s: %v", program, err)
		}
	}
	// One that runs and never listens is given up when the caller does.
	dir := t.TempDir()
	sleeper := filepath.Join(dir, "sleeper")
	if err := os.WriteFile(sleeper, []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := startPooler(ctx, sleeper, dir, fakeCluster(), what); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// rest waits for a look that began after it was called.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watch{done: make(chan struct{})}
		w.note(servers{open: 2, executed: 5})
		w.begin()
		rested := make(chan error, 1)
		go func() { rested <- w.rest(t.Context()) }()
		for i, s := range []servers{{open: 3, executed: 6}, {open: 3, busy: 1, executed: 6}, {open: 2, executed: 7}} {
			<-time.After(time.Second)
			synctest.Wait()
			select {
			case err := <-rested:
				t.Fatalf("rested before look %d: %v", i, err)
			default:
			}
			w.note(s)
		}
		if err := <-rested; err != nil || w.most() != 3 || w.executed() != 2 {
			t.Errorf("%v, %d servers, %d executed", err, w.most(), w.executed())
		}
		w.note(servers{busy: 1})
		if err := w.rest(t.Context()); !errors.Is(err, errNoRest) {
			t.Error(err)
		}
		w.err = io.EOF
		close(w.done)
		if err := w.rest(t.Context()); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}
