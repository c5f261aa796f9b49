package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test.
const patience = 20 * time.Second

// fakePostgres serves fake backends on a listener until it is closed.
func fakePostgres(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serveBackend(conn)
		}
	}()
	return ln
}

func serveBackend(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if p, err := wire.ReadStartup(conn); err != nil {
		return
	} else if _, ok := p.(*wire.Startup); !ok {
		return // a cancel: nothing here runs for long
	}
	b := wiretest.NewBackend(wiretest.BackendOptions{PID: 7, Secret: []byte{1, 2, 3, 4}})
	out := wire.AppendMessage(nil, wire.MsgAuthentication, []byte{0, 0, 0, 0})
	out = append(out, b.Welcome()...)
	buf := make([]byte, 1<<16)
	for !b.Dead() {
		if _, err := conn.Write(out); err != nil {
			return
		}
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		b.Feed(buf[:n])
		for b.Run() > 0 {
			b.Resume()
		}
		out = b.Output()
	}
}

// start runs a proxy in front of the fake and returns its address.
func start(t *testing.T, change func(*Options)) (*Proxy, string) {
	t.Helper()
	pg := fakePostgres(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Listeners: []net.Listener{ln}, MaxLogins: 20, TextLimit: 1 << 20, StatementMemory: 1 << 20,
		Log: slog.New(slog.DiscardHandler),
		Settings: &plan.Settings{
			MaxClients: 100, LoginTimeout: patience, ShutdownTimeout: patience, MaxPrepared: 10, Auth: plan.Auth{Method: login.Trust},
			Upstreams: []plan.Upstream{{
				Name: "main", Budget: 2, Slots: 2, ConnectParallel: 2,
				Hosts: upstream.Options{Hosts: []upstream.Host{{Network: "tcp", Address: pg.Addr().String()}}, ConnectTimeout: patience},
			}},
			Databases:  []plan.Database{{Name: "db", Upstream: "main"}},
			Workloads:  []plan.Workload{{Name: "default", Share: 1, MaxWait: patience, NoServerWait: patience}},
			WorkloadOf: func(string, string, string, netip.Addr) int { return 0 },
		},
	}
	if change != nil {
		change(&o)
	}
	px, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- px.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("the proxy does not end")
		}
	})
	return px, ln.Addr().String()
}

// connect logs a client in.
func connect(t *testing.T, address, database string) (net.Conn, error) {
	t.Helper()
	s, err := login.Dial(t.Context(), login.Target{Network: "tcp", Address: address, User: "app", Database: database})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = s.Conn.Close() })
	_ = s.Conn.SetDeadline(time.Now().Add(patience))
	return s.Conn, nil
}

// ask sends a Query and reads up to ReadyForQuery.
func ask(t *testing.T, conn net.Conn, text string) (types string) {
	t.Helper()
	if _, err := conn.Write(wire.AppendQuery(nil, text)); err != nil {
		t.Fatal(err)
	}
	for {
		typ, _, err := wire.ReadMessage(conn, 1<<20)
		if err != nil {
			t.Fatalf("after %q: %v", types, err)
		}
		types += string(typ)
		if typ == wire.MsgReadyForQuery {
			return types
		}
	}
}

// A transaction costs a read and a write on either side, and nothing else of
// the kernel: this is most of what there is to win.
func TestSystemCallsPerTransaction(t *testing.T) {
	px, address := start(t, nil)
	conn, err := connect(t, address, "db")
	if err != nil {
		t.Fatal(err)
	}
	ask(t, conn, "select 1")
	before := settled(t, px)
	const n = 500
	for range n {
		if got := ask(t, conn, "select 1"); got != "TDCZ" {
			t.Fatalf("answer %q", got)
		}
	}
	after := settled(t, px)
	reads, writes := after.Reads-before.Reads, after.Writes-before.Writes
	if reads > 2*n+2 || writes > 2*n+2 {
		t.Errorf("%d reads and %d writes for %d transactions", reads, writes, n)
	}
	if ctl := after.EpollCtl - before.EpollCtl; ctl != 0 {
		t.Errorf("%d epoll_ctl", ctl)
	}
	if wakes := after.PosterWakes - before.PosterWakes; wakes != 0 {
		t.Errorf("%d wake-ups from other threads", wakes)
	}
}

// settled returns the loop's counters when it is idle.
func settled(t *testing.T, px *Proxy) (s loop.Stats) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		a := px.Stats()
		done := make(chan struct{})
		time.AfterFunc(2*time.Millisecond, func() { close(done) })
		<-done
		if b := px.Stats(); a == b {
			return b
		}
	}
	t.Fatal("the loop does not come to rest")
	return s
}

func TestUnknownDatabase(t *testing.T) {
	_, address := start(t, nil)
	_, err := connect(t, address, "unknown")
	wantCode(t, err, "3D000")
}

func TestTooManyClients(t *testing.T) {
	_, address := start(t, func(o *Options) { o.Settings.MaxClients = 1 })
	if _, err := connect(t, address, "db"); err != nil {
		t.Fatal(err)
	}
	_, err := connect(t, address, "db")
	wantCode(t, err, "53300")
}

// Who comes while as many as allowed log in is told so before it has said anything.
func TestTooManyLogins(t *testing.T) {
	px, address := start(t, func(o *Options) { o.MaxLogins = 1 })
	mute, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	for deadline := time.Now().Add(patience); len(px.logins) == 0 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	typ, body, err := wire.ReadMessage(conn, 1<<16)
	if err != nil || typ != wire.MsgErrorResponse {
		t.Fatalf("%c, %v", typ, err)
	}
	if e := wire.ErrorFields(body); e.Code != "53300" || e.Detail != "reason=max_logins" {
		t.Errorf("%v", e)
	}
}

func TestOnlyTheUserOfTheURL(t *testing.T) {
	_, address := start(t, func(o *Options) { o.Settings.Auth.OnlyUser = "somebody" })
	_, err := connect(t, address, "db")
	wantCode(t, err, "28000")
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("got %v, want SQLSTATE %s", err, code)
	}
}

// Clients that leave in any way leave nothing behind.
func TestClientsLeaveNothing(t *testing.T) {
	px, address := start(t, nil)
	for i := range 30 {
		conn, err := connect(t, address, "db")
		if err != nil {
			t.Fatal(err)
		}
		switch i % 4 {
		case 0:
			_, _ = conn.Write(wire.AppendEmpty(nil, wire.MsgTerminate))
			_, _ = io.Copy(io.Discard, conn)
		case 1:
			_, _ = conn.Write(wire.AppendQuery(nil, "sleep 1"))
		case 2:
			ask(t, conn, "begin")
			ask(t, conn, "select 1")
		case 3:
			_, _ = conn.Write([]byte{'Q', 0, 0, 1})
		}
		_ = conn.Close()
	}
	for deadline := time.Now().Add(patience); px.clients.Load() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d clients are left", px.clients.Load())
		}
		settled(t, px)
	}
	conn, err := connect(t, address, "db")
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, conn, "select 1"); got != "TDCZ" {
		t.Errorf("answer %q", got)
	}
}
