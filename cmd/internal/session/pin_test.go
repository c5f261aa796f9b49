package session

import (
	"strings"
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// pinLab is a core with fake servers and clients that talk to them.
type pinLab struct {
	*lab
	t        *testing.T
	backends map[*Server]*wiretest.Backend
	wires    map[*Server]*collector
	now      int64
}

// collector is a Conn that keeps everything until it is taken.
type collector struct {
	sink
	all []byte
}

func (c *collector) Send(spans [][]byte) int {
	for _, b := range spans {
		c.all = append(c.all, b...)
	}
	return 0
}

func (c *collector) take() []byte {
	b := c.all
	c.all = nil
	return b
}

// newPinLab has a budget of three servers, of which at most two may be pinned, and at most
// that part of them.
func newPinLab(t *testing.T, most float64) *pinLab {
	t.Helper()
	l := &pinLab{lab: &lab{env: &still{}}, t: t, backends: map[*Server]*wiretest.Backend{}, wires: map[*Server]*collector{}, now: 1}
	set := pool.New(pool.Options{Budget: 3})
	gate := admission.New(admission.Plan{Slots: 3, Workloads: []admission.Workload{{MaxPinned: most}}}, set, nil)
	shared := &relay.Shared{Statements: relay.NewStatements(1 << 20), MaxPrepared: 100, TextLimit: 1 << 20}
	l.core = New(l.env, shared, gate, set)
	l.env.core = l.core
	return l
}

// dial lets all logins to servers succeed.
func (l *pinLab) dial() {
	for len(l.env.dials) > 0 {
		sv := l.env.dials[0]
		l.env.dials = l.env.dials[1:]
		l.backends[sv], l.wires[sv] = wiretest.NewBackend(wiretest.BackendOptions{}), &collector{}
		l.core.Dialed(l.now, sv, l.wires[sv], []relay.Param{{Name: "server_version", Value: "15"}}, nil, false)
	}
}

// enter logs a client in.
func (l *pinLab) enter(pid uint32) (*Client, *collector) {
	l.t.Helper()
	conn := &collector{}
	cl := l.core.NewClient(conn, l.core.Group(l.core.Key("db", "role"), "db", "role", anyone()), relay.NewParams(nil), wire.NewCancelKey(pid, 0))
	cl.Start(l.now)
	l.run()
	if cl.login {
		l.t.Fatal("no welcome")
	}
	conn.take()
	return cl, conn
}

// run lets the servers work until nothing happens any more.
func (l *pinLab) run() {
	l.dial()
	for busy := true; busy; {
		busy = false
		for sv, b := range l.backends {
			in := l.wires[sv].take()
			b.Feed(in)
			b.Run()
			out := b.Output()
			if busy = busy || len(in) > 0 || len(out) > 0; len(out) > 0 {
				sv.Data(out, l.now)
			}
		}
		l.dial()
	}
	if err := l.core.Check(); err != nil {
		l.t.Fatal(err)
	}
}

// say sends a Query and returns the answer.
func (l *pinLab) say(cl *Client, conn *collector, text string) string {
	l.t.Helper()
	l.now++
	b := wire.AppendQuery(nil, text)
	for len(b) > 0 {
		n := cl.Data(b, l.now)
		b = b[n:]
		l.run()
	}
	return wiretest.DumpBackend(conn.take())
}

func TestPinnedSessionsKeepTheirServers(t *testing.T) {
	l := newPinLab(t, 1)
	a, to := l.enter(1)
	l.say(a, to, "listen news")
	sv := a.kept
	if sv == nil || !sv.Kept() {
		t.Fatal("not pinned")
	}
	if p, since := sv.Pinned(); p != relay.PinListen || since == 0 {
		t.Errorf("pinned for %q since %d", p, since)
	}
	if st := l.core.gate.Workload(0); st.Pinned != 1 || st.Running != 0 {
		t.Errorf("%d pinned, %d running", st.Pinned, st.Running)
	}
	sv.Data(wire.AppendMessage(nil, wire.MsgNotificationResponse, []byte("\x00\x00\x00\x09news\x00hello\x00")), l.now)
	if got := string(to.take()); !strings.Contains(got, "hello") {
		t.Errorf("of a notification it hears %q", got)
	}
	l.say(a, to, "select 1")
	if a.kept != sv {
		t.Error("another transaction has ended it")
	}
	l.say(a, to, "unlisten *")
	if a.kept != nil || l.core.gate.Workload(0).Pinned != 0 || l.backends[sv].Left() != "" {
		t.Error("still pinned")
	}
	if st := l.core.set.Stats(); st.Busy != 0 {
		t.Errorf("%d servers are busy", st.Busy)
	}
}

func TestTooManyPins(t *testing.T) {
	l := newPinLab(t, 1)
	var clients []*Client
	var conns []*collector
	for i := range uint32(3) {
		cl, conn := l.enter(i + 1)
		clients, conns = append(clients, cl), append(conns, conn)
	}
	l.say(clients[0], conns[0], "listen a")
	l.say(clients[1], conns[1], "create temp table x")
	for _, text := range []string{"listen c", "begin; listen c"} {
		got := l.say(clients[2], conns[2], text)
		for _, want := range []string{"ERROR 53300", "max_pinned", "reason=pins", "pinned=2 max_pinned=3 state=listen"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is answered with %s, without %q", text, got, want)
			}
		}
		l.say(clients[2], conns[2], "rollback")
	}
	l.say(clients[2], conns[2], "begin")
	l.say(clients[2], conns[2], "select 1")
	if got := l.say(clients[2], conns[2], "listen c"); !strings.Contains(got, "ReadyForQuery E") {
		t.Errorf("in a transaction it is answered with %s", got)
	}
	if got := l.say(clients[2], conns[2], "rollback"); !strings.Contains(got, "ROLLBACK") || clients[2].kept != nil {
		t.Errorf("then: %s", got)
	}
	l.say(clients[0], conns[0], "discard all")
	if got := l.say(clients[2], conns[2], "listen c"); !strings.Contains(got, "LISTEN") || clients[2].kept == nil {
		t.Errorf("with room it is answered with %s", got)
	}
}

func TestAPinnedServerDies(t *testing.T) {
	for name, last := range map[string][]byte{
		"with a word":    wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "57P01", Message: "terminating connection due to administrator command"}),
		"without a word": nil,
	} {
		t.Run(name, func(t *testing.T) {
			l := newPinLab(t, 1)
			a, to := l.enter(1)
			l.say(a, to, "listen news")
			sv := a.kept
			if len(last) > 0 {
				sv.Data(last, l.now)
			}
			sv.Gone(l.now)
			got := to.take()
			e := wire.ErrorFields(got[wire.HeaderLen:])
			if !a.ended || e.Severity != "FATAL" || e.Code != "57P01" || len(last) == 0 && !strings.HasSuffix(e.Detail, "pinned=listen") {
				t.Errorf("ended %v, told %+v", a.ended, e)
			}
			if st := l.core.gate.Workload(0); st.Pinned != 0 || st.Sessions != 0 {
				t.Errorf("%d pinned afterwards", st.Pinned)
			}
		})
	}
}

// TestAnUnforeseenPin: a text that takes away what it leaves needs no place; if it fails
// before that and there is none, the session has lost something and must not go on.
func TestAnUnforeseenPin(t *testing.T) {
	l := newPinLab(t, 0)
	a, to := l.enter(1)
	if got := l.say(a, to, "prepare q as select 1; execute q; deallocate q"); !strings.Contains(got, "DEALLOCATE") || a.kept != nil {
		t.Errorf("answered with %s", got)
	}
	got := l.say(a, to, "prepare q as select 1; fail 22012; deallocate q")
	if !a.ended || !strings.Contains(got, "FATAL 53300") {
		t.Errorf("ended %v, answered with %s", a.ended, got)
	}
}

func TestLibrariesEndWithTheirServer(t *testing.T) {
	l := newPinLab(t, 1)
	a, _ := l.enter(1)
	sv := l.core.set.Servers(nil)[0].Payload.(*Server)
	l.now++
	a.Data(wire.AppendQuery(nil, "load 'x'"), l.now)
	sv.Data(append(wire.AppendCommandComplete(nil, "LOAD"), wire.AppendReadyForQuery(nil, wire.Idle)...), l.now)
	if p, _ := sv.Pinned(); p != relay.PinLoad {
		t.Fatalf("pinned for %q", p)
	}
	a.Lost(l.now)
	if sv.pool.State() != pool.Closing {
		t.Errorf("the server is %v", sv.pool.State())
	}
}
