package session

import (
	"bytes"
	"testing"
	"time"
	"unsafe"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// sink is a Conn that takes everything and remembers the last write.
type sink struct {
	last    []byte
	writes  int
	paused  bool
	resumed bool
	closed  bool
	unsent  int
}

func (s *sink) Send(spans [][]byte) int {
	s.writes++
	s.last = s.last[:0]
	for _, b := range spans {
		s.last = append(s.last, b...)
	}
	return 0
}
func (s *sink) Unsent() int    { return s.unsent }
func (s *sink) Pause()         { s.paused = true }
func (s *sink) Resume()        { s.paused, s.resumed = false, true }
func (s *sink) Close()         { s.closed = true }
func (s *sink) Finish()        { s.closed = true }
func (s *sink) ShutdownWrite() {}

// still is an Env in which dials succeed at once.
type still struct {
	core  *Core
	dials []*Server
	ended []Reason

	refused []admission.Reason
	cancels int
	alone   bool
	asks    int       // for locks
	stopped []Timeout // by a ceiling
}

// anyone is the workload of clients of which no test asks more.
func anyone() *Workload { return &Workload{Name: "default"} }

func (e *still) Dial(sv *Server)           { e.dials = append(e.dials, sv) }
func (e *still) Cancel(*Server)            { e.cancels++ }
func (e *still) CommitsAlone(*Server) bool { return e.alone }
func (e *still) Ended(_ *Client, r Reason) { e.ended = append(e.ended, r) }

func (e *still) AskLocks(*Server) { e.asks++ }
func (e *still) Stopped(_ *Client, t Timeout, _ time.Duration) {
	e.stopped = append(e.stopped, t)
}
func (e *still) Group(cl *Client) *Group { return cl.group }
func (e *still) Refused(_ *Client, v admission.Verdict, _ *wire.Error, _ bool) {
	e.refused = append(e.refused, v.Reason)
}

// lab is a core with one server and one client.
type lab struct {
	env    *still
	core   *Core
	server *Server
	wire   *sink // to the server
	client *Client
	user   *sink // to the client
}

func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{env: &still{}, wire: &sink{}, user: &sink{}}
	set := pool.New(pool.Options{Budget: 1})
	gate := admission.New(admission.Plan{Slots: 1}, set, nil)
	shared := &relay.Shared{Statements: relay.NewStatements(1 << 20), MaxPrepared: 100, TextLimit: 1 << 20}
	l.core = New(l.env, shared, gate, set)
	l.env.core = l.core
	l.client = l.login(l.user, 1)
	if len(l.env.dials) != 1 {
		t.Fatalf("%d dials", len(l.env.dials))
	}
	l.server = l.env.dials[0]
	l.core.Dialed(1, l.server, l.wire, []relay.Param{{Name: "server_version", Value: "15"}}, nil, false)
	if l.client.login {
		t.Fatal("no welcome")
	}
	return l
}

func (l *lab) login(conn *sink, pid uint32) *Client {
	cl := l.core.NewClient(conn, l.core.Group(l.core.Key("db", "role"), "db", "role", anyone()), relay.NewParams(nil), wire.NewCancelKey(pid, 0))
	cl.Start(1)
	return cl
}

// answer is what a server says to a request.
func answer(request []byte) []byte {
	b := wiretest.NewBackend(wiretest.BackendOptions{})
	b.Feed(request)
	b.Run()
	return b.Output()
}

func TestTransactionsDoNotAllocate(t *testing.T) {
	prepared := wire.AppendEmpty(wire.AppendExecute(wiretest.AppendBind(nil, wiretest.Bind{Statement: "s"})), wire.MsgSync)
	known := []byte{'2', 0, 0, 0, 4, 'C', 0, 0, 0, 13, 'S', 'E', 'L', 'E', 'C', 'T', ' ', '1', 0, 'Z', 0, 0, 0, 5, 'I'}
	extended := wire.AppendEmpty(wire.AppendExecute(wiretest.AppendBind(wiretest.AppendParse(nil, "", "select 1"), wiretest.Bind{})), wire.MsgSync)
	simple := wire.AppendQuery(nil, "select 1")
	for name, step := range map[string]struct{ ask, reply []byte }{
		"simple":   {simple, answer(simple)},
		"extended": {extended, answer(extended)},
		"prepared": {prepared, known},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			first := wire.AppendEmpty(wiretest.AppendParse(nil, "s", "select 1"), wire.MsgSync)
			l.client.Data(first, 2)
			l.server.Data(answer(first), 2)
			now := int64(3)
			run := func() {
				now++
				if n := l.client.Data(step.ask, now); n != len(step.ask) {
					t.Fatalf("%d of %d bytes used", n, len(step.ask))
				}
				if n := l.server.Data(step.reply, now); n != len(step.reply) {
					t.Fatalf("%d of %d bytes of the answer used", n, len(step.reply))
				}
			}
			run()
			before := l.core.Counts().Transactions
			writes := l.wire.writes + l.user.writes
			if n := testing.AllocsPerRun(200, run); n != 0 {
				t.Errorf("%v allocations for a transaction", n)
			}
			if got := l.core.Counts().Transactions - before; got != 201 {
				t.Errorf("%d transactions, want 201", got)
			}
			if got := l.wire.writes + l.user.writes - writes; got != 2*201 {
				t.Errorf("%d writes for 201 transactions", got)
			}
			if err := l.core.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A client that has to wait is paused, keeps its bytes and is resumed when its
// turn comes.
func TestWaitingClientIsServedNext(t *testing.T) {
	l := newLab(t)
	user := &sink{}
	other := l.login(user, 2)
	ask := wire.AppendQuery(nil, "select 1")
	l.client.Data(ask, 2)
	if n := other.Data(ask, 2); n != 0 || !user.paused {
		t.Fatalf("used %d bytes, paused %v", n, user.paused)
	}
	l.server.Data(answer(ask), 3)
	if !user.resumed || other.server == nil {
		t.Fatal("the slot did not go to the one who waited")
	}
	if n := other.Data(ask, 3); n != len(ask) || string(l.wire.last) != string(ask) {
		t.Fatalf("used %d bytes; the server got %q", n, l.wire.last)
	}
}

func TestRefusalKeepsTheSession(t *testing.T) {
	l := newLab(t)
	user := &sink{}
	other := l.login(user, 2)
	ask := wire.AppendQuery(nil, "select 1")
	l.client.Data(ask, 2)
	other.Data(ask, 2)
	l.core.Fire(10e9)
	if n := other.Data(ask, 10e9); n != len(ask) {
		t.Fatalf("used %d bytes", n)
	}
	msgs, _ := wiretest.Messages(user.last)
	if len(msgs) != 2 || msgs[0].Type != wire.MsgErrorResponse || msgs[1].Type != wire.MsgReadyForQuery {
		t.Fatalf("told %s", wiretest.DumpBackend(user.last))
	}
	if e := wire.ErrorFields(msgs[0].Body); e.Code != "53300" || e.Severity != "ERROR" || e.Detail == "" || e.Hint == "" {
		t.Errorf("told %+v", e)
	}
	if other.ended || user.closed {
		t.Error("the session was ended")
	}
}

// A transaction that a client has begun goes on while pgweir drains, also one that has no
// server yet; the session ends with it.
func TestDrainLetsBegunTransactionsGoOn(t *testing.T) {
	for name, statement := range map[string]string{"used": "select 1", "never used": ""} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.client.Data(wire.AppendQuery(nil, "begin"), 2)
			l.core.Drain(3, func(yield func(*Client)) { yield(l.client) })
			if l.client.ended {
				t.Fatal("ended in a transaction")
			}
			if statement != "" {
				l.client.Data(wire.AppendQuery(nil, statement), 4)
				b := wiretest.NewBackend(wiretest.BackendOptions{})
				for range 2 { // the statement with BEGIN ahead of it, then COMMIT
					b.Feed(l.wire.last)
					b.Run()
					l.server.Data(b.Output(), 5)
					if !l.client.ended {
						l.client.Data(wire.AppendQuery(nil, "commit"), 5)
					}
				}
			} else {
				l.client.Data(wire.AppendQuery(nil, "commit"), 4)
			}
			if len(l.env.ended) != 1 || l.env.ended[0] != Draining || l.client.server != nil {
				t.Errorf("ended %v", l.env.ended)
			}
			if err := l.core.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What an idle client costs decides how many fit; see the goals in the README.
func TestClientIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Client{}); n > 896 {
		t.Errorf("a Client takes %d bytes", n)
	}
}

// Servers that end before anything is sent to them are replaced, but not for ever. Trap 40.
func TestServersThatEndAtOnce(t *testing.T) {
	l := newLab(t)
	l.core.Retire(2, func(*Server) bool { return true })
	l.server.Gone(2)
	l.client.link = *relay.NewClient(l.core.shared, l.client.info.group, relay.NewParams([]relay.Param{{Name: "work_mem", Value: "1MB"}}))
	ask := wire.AppendQuery(nil, "select 1")
	n := 0
	for ; n < 100; n++ {
		now := int64(n+1) * 2e9 // for the rate of logins
		dials := len(l.env.dials)
		l.client.Data(ask, now)
		l.core.Fire(now)
		if len(l.env.refused) > 0 {
			break
		}
		if len(l.env.dials) == dials {
			t.Fatalf("after %d servers it waits for nothing", n)
		}
		sv, conn := l.env.dials[dials], &sink{}
		l.core.Dialed(now, sv, conn, []relay.Param{{Name: "server_version", Value: "15"}}, nil, false)
		l.client.Data(ask, now) // its settings go ahead
		if conn.writes != 1 {
			t.Fatalf("%d writes", conn.writes)
		}
		sv.Gone(now)
	}
	if n < 3 || n > 20 || l.client.ended {
		t.Fatalf("refused after %d servers, ended %v", n, l.client.ended)
	}
	l.client.Data(ask, 200e9)
	if got := string(l.user.last); got[0] != 'E' || !bytes.Contains(l.user.last, []byte("reason=no_server")) {
		t.Errorf("told %q", got)
	}
}

// Nor for longer than max_wait and no_server_wait, which are 2 s each: what it waits for one server
// after the other counts together.
func TestServersThatEndAtOnceTakeNoLongerThanOneWait(t *testing.T) {
	const begin, step = int64(10e9), int64(50e6)
	l := newLab(t)
	l.core.Retire(2, func(*Server) bool { return true })
	l.server.Gone(2)
	l.client.link = *relay.NewClient(l.core.shared, l.client.info.group, relay.NewParams([]relay.Param{{Name: "work_mem", Value: "1MB"}}))
	ask := wire.AppendQuery(nil, "select 1")
	servers, dialled := 0, begin // and when the last was asked for
	for now := begin; ; now += step {
		if now > begin+60e9 {
			t.Fatalf("%d servers, and it still waits", servers)
		}
		l.core.Fire(now)
		l.client.Data(ask, now)
		if len(l.env.refused) > 0 {
			if now != begin+4e9 || l.env.refused[0] != admission.NoServer || servers < 3 || servers >= mostReplaced {
				t.Fatalf("refused after %d ms and %d servers: %v", (now-begin)/1e6, servers, l.env.refused)
			}
			break
		}
		if len(l.env.dials) == servers+1 || now < dialled+int64(700e6) { // the lab has opened one
			continue
		}
		sv := l.env.dials[servers+1]
		l.core.Dialed(now, sv, &sink{}, []relay.Param{{Name: "server_version", Value: "15"}}, nil, false)
		l.client.Data(ask, now) // its settings go ahead
		sv.Gone(now)
		l.client.Data(ask, now)
		servers, dialled = servers+1, now
	}
	if l.client.ended {
		t.Fatal("its session has ended")
	}
	// The next request has a wait of its own.
	l.env.refused = nil
	l.client.Data(ask, begin+5e9)
	l.core.Fire(begin + 8e9)
	if len(l.env.refused) != 0 {
		t.Fatal("the next is refused at once")
	}
}

// Of many cancel requests for one statement one goes to Postgres at a time, and one after
// it: the first may have been too early. Trap 34.
func TestManyCancels(t *testing.T) {
	l := newLab(t)
	ask := wire.AppendQuery(nil, "select 1")
	l.client.Data(ask, 2)
	done := 0
	for range 100 {
		l.client.CancelRequest(3, func() { done++ })
	}
	if l.env.cancels != 1 || done != 0 {
		t.Fatalf("%d cancels, %d done", l.env.cancels, done)
	}
	l.core.CancelDone(4, l.server, true)
	if l.env.cancels != 2 || done != 0 {
		t.Fatalf("%d cancels, %d done", l.env.cancels, done)
	}
	l.core.CancelDone(5, l.server, true)
	if l.env.cancels != 2 || done != 100 {
		t.Fatalf("%d cancels, %d done", l.env.cancels, done)
	}
	l.server.Data(answer(ask), 6)
	if st := l.core.Set().Stats(); st.Idle != 1 || st.Held != 0 {
		t.Errorf("%+v", st)
	}
	if err := l.core.Check(); err != nil {
		t.Error(err)
	}
}
