package bench

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// fake lets everybody in and answers each statement as a script says. Nothing waits for
// anything in it.
type fake struct {
	ln     net.Listener
	logins atomic.Int32
	// answer returns what to send for the n-th statement of all; nil closes the connection.
	answer func(n int, text string) []pgproto3.BackendMessage

	mu     sync.Mutex
	texts  []string // statements that were parsed or sent
	parsed []string // their names
	params map[string]string
}

// newFake starts a server until the end of the test.
func newFake(t *testing.T, answer func(n int, text string) []pgproto3.BackendMessage) *fake {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{ln: ln, answer: answer}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = ln.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { f.serve(conn) })
		}
	})
	return f
}

func (f *fake) target() Target {
	return Target{Name: "fake", URL: "postgres://app@" + f.ln.Addr().String() + "/shop?sslmode=disable"}
}

// serve is one connection.
func (f *fake) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	b := pgproto3.NewBackend(conn, conn)
	m, err := b.ReceiveStartupMessage()
	s, ok := m.(*pgproto3.StartupMessage)
	if err != nil || !ok {
		return
	}
	f.logins.Add(1)
	f.mu.Lock()
	f.params = s.Parameters
	f.mu.Unlock()
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	text := ""
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Query:
			text = m.String
		case *pgproto3.Parse:
			text = m.Query
			f.mu.Lock()
			f.parsed = append(f.parsed, m.Name)
			f.mu.Unlock()
			continue
		case *pgproto3.Sync:
		default:
			continue
		}
		f.mu.Lock()
		f.texts = append(f.texts, text)
		messages := f.answer(len(f.texts), text)
		f.mu.Unlock()
		if messages == nil {
			return
		}
		for _, one := range messages {
			b.Send(one)
		}
		if e, ok := messages[len(messages)-1].(*pgproto3.ErrorResponse); ok && e.Severity == "FATAL" {
			_ = b.Flush()
			return
		}
	}
}

func served() []pgproto3.BackendMessage {
	return []pgproto3.BackendMessage{&pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")}, &pgproto3.ReadyForQuery{TxStatus: 'I'}}
}

func refusedWith(hint string) []pgproto3.BackendMessage {
	return []pgproto3.BackendMessage{
		&pgproto3.ErrorResponse{Severity: "ERROR", Code: "53300", Message: "pgweir: no", Detail: "reason=queue_age", Hint: hint},
		&pgproto3.ReadyForQuery{TxStatus: 'I'},
	}
}

// clients is a load of one client that waits for its answers.
func clients(each int, change func(*Stream)) Load {
	l := Load{Streams: []Stream{{Clients: 1, Each: each, Queries: []Query{{Statements: []string{"SELECT {id}"}, IDs: 1}}}}}
	if change != nil {
		change(&l.Streams[0])
	}
	return l
}

func TestRefusalsKeepTheConnection(t *testing.T) {
	for _, p := range []Protocol{Simple, Extended, Prepared} {
		f := newFake(t, func(n int, _ string) []pgproto3.BackendMessage {
			if n%2 == 1 {
				return refusedWith("retry=no")
			}
			return served()
		})
		r := run(t, f.target(), clients(10, func(s *Stream) { s.Protocol = p }))
		s := r.Sum(Filter{})
		if s.By[Served] != 5 || s.By[Refused] != 5 || s.Lost != 0 || f.logins.Load() != 1 || len(s.Told) != 5 {
			t.Errorf("%v: %+v after %d logins", p, s, f.logins.Load())
		}
		if s.Why[0].Reason != "queue_age" || s.Why[0].N != 5 || r.Refusal == nil || r.Refusal.Hint != "retry=no" || r.Counts.Reconnects() != 0 {
			t.Errorf("%v: %+v, %+v", p, s.Why, r.Refusal)
		}
	}
}

func TestLostConnectionsAreReplaced(t *testing.T) {
	for name, last := range map[string][]pgproto3.BackendMessage{
		"closed": nil,
		"fatal":  {&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "query_wait_timeout"}},
	} {
		f := newFake(t, func(n int, _ string) []pgproto3.BackendMessage {
			if n%2 == 0 {
				return last
			}
			return served()
		})
		r, err := Run(t.Context(), f.target(), clients(10, nil), Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := r.Sum(Filter{})
		want, reason := Failed, "connection closed"
		if name == "fatal" {
			want, reason = Refused, "query_wait_timeout"
		}
		if s.By[Served] != 5 || s.By[want] != 5 || s.Lost != 5 || s.Why[0].Reason != reason {
			t.Errorf("%s: %+v", name, s)
		}
		if r.Counts.Lost != 5 || r.Counts.Left != 0 || f.logins.Load() != 6 || (r.Failure != nil) != (want == Failed) {
			t.Errorf("%s: %+v, %d logins, %v", name, r.Counts, f.logins.Load(), r.Failure)
		}
	}
}

func TestRetries(t *testing.T) {
	f := newFake(t, func(n int, _ string) []pgproto3.BackendMessage {
		if n%4 != 0 {
			return refusedWith("retry_after_ms=1 retry=yes")
		}
		return served()
	})
	// The first is served at its fourth attempt, the others as well.
	r := run(t, f.target(), clients(3, func(s *Stream) { s.Retry = Retry{Most: 5, Delay: time.Hour, Honour: true} }))
	s := r.Sum(Filter{})
	if s.Asked != 3 || s.By[Served] != 3 || s.Retries != 9 || r.Counts.Retries != 9 || len(s.Told) != 9 || len(r.Records) != 12 {
		t.Errorf("%+v", s)
	}
	for i, one := range r.Records {
		if int(one.Attempt) != i%4+1 || one.Last != (i%4 == 3) || one.Whole < one.Took {
			t.Errorf("%d: %+v", i, one)
		}
	}
	if f.texts[0] != "SELECT 1" || f.texts[1] != "SELECT 1 /*pgweir.attempt='2'*/" {
		t.Errorf("%q", f.texts[:2])
	}
}

func TestPreparedOncePerConnection(t *testing.T) {
	texts := maxNames + 20
	f := newFake(t, func(n int, text string) []pgproto3.BackendMessage {
		if n == 1 { // what was not parsed has to be parsed again
			return refusedWith("")
		}
		return append([]pgproto3.BackendMessage{&pgproto3.ParseComplete{}}, served()...)
	})
	l := clients(2, func(s *Stream) {
		s.Protocol, s.Queries[0].GoOn, s.Queries[0].Statements = Prepared, true, nil
		for i := range texts {
			s.Queries[0].Statements = append(s.Queries[0].Statements, fmt.Sprint("SELECT ", i))
		}
	})
	run(t, f.target(), l)
	n := map[string]int{}
	for _, name := range f.parsed {
		n[name]++
	}
	first := hashed("SELECT 0")
	// The first was refused, so that it has to be parsed again, but then others have all the
	// names. They are parsed once; what has no name is parsed each time.
	nameless := 2*(texts-1-maxNames) + 1
	if n[first] != 1 || n[""] != nameless || len(f.parsed) != 1+maxNames+nameless || len(n) != maxNames+2 {
		t.Errorf("%d without a name of %d, %d times the first, %d names", n[""], len(f.parsed), n[first], len(n))
	}
}

func TestStartupTellsWhoItIs(t *testing.T) {
	f := newFake(t, func(int, string) []pgproto3.BackendMessage { return served() })
	run(t, f.target(), clients(1, func(s *Stream) {
		s.Tell, s.Class, s.Tenants, s.NameTenants, s.User, s.Database = AtStartup, "sheddable", []string{"shop"}, true, "other", "db"
	}))
	for key, want := range map[string]string{
		"user": "other", "database": "db", "application_name": "shop", "options": "-c pgweir.class=sheddable",
	} {
		if f.params[key] != want {
			t.Errorf("%s is %q, want %q", key, f.params[key], want)
		}
	}
}

func TestSlowReaders(t *testing.T) {
	row := &pgproto3.DataRow{Values: [][]byte{make([]byte, 10_000)}}
	f := newFake(t, func(int, string) []pgproto3.BackendMessage {
		return append([]pgproto3.BackendMessage{row}, served()...)
	})
	r := run(t, f.target(), clients(1, func(s *Stream) { s.ReadRate = 100_000 }))
	// It can't be faster; how much slower is the machine's business.
	if s := r.Sum(Filter{}); s.By[Served] != 1 || s.Took[0] < 90*time.Millisecond {
		t.Errorf("%v", s.Took)
	}
}

// A server that says goodbye to who is idle costs nobody a request.
func TestIdleConnectionsThatEnd(t *testing.T) {
	f := newFake(t, func(n int, _ string) []pgproto3.BackendMessage {
		return append(served(), &pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P05", Message: "idle"})
	})
	r := run(t, f.target(), clients(4, func(s *Stream) { s.Think = 30 * time.Millisecond }))
	if s := r.Sum(Filter{}); s.By[Served] != 4 || r.Counts.Lost != 3 || f.logins.Load() != 4 {
		t.Errorf("%+v, %+v, %d logins", s, r.Counts, f.logins.Load())
	}
}

func TestUnixSocket(t *testing.T) {
	url := cluster.SocketEndpoint().URL(pgtest.Login{User: pgtest.Superuser, Database: "postgres"})
	r := run(t, Target{URL: url}, clients(2, func(s *Stream) {
		s.Patience, s.Leave, s.Queries = 10*time.Millisecond, Cancel, nap(time.Minute)
	}))
	if s := r.Sum(Filter{}); s.By[GaveUp] != 2 || r.Counts.Reconnects() != 0 {
		t.Errorf("%+v %+v", s, r.Counts)
	}
	if name := Address(url); !strings.HasPrefix(name, "/") || Address("postgres://u:p@h:1/d") != "h:1" || Address("%") != "postgres" {
		t.Error(name)
	}
}

func TestDesertedAreBounded(t *testing.T) {
	d := &deserted{}
	ends := make([]net.Conn, 5)
	for i := range ends {
		var ours net.Conn
		ours, ends[i] = net.Pipe()
		d.add(&conn{net: ours}, 3)
	}
	if len(d.list) != 3 {
		t.Errorf("%d", len(d.list))
	}
	d.close()
	for i, end := range ends {
		if _, err := end.Read(make([]byte, 1)); err == nil {
			t.Errorf("%d is open", i)
		}
	}
}
