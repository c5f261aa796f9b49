package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/wire"
)

// patience bounds every wait of the tests. It says nothing about speed.
const patience = 30 * time.Second

// behaviour is what a fake server does with a connection. It returns when it is
// done with it.
type behaviour func(f *fake, conn *net.TCPConn)

// fake is a server on loopback that can change its mind.
type fake struct {
	t    *testing.T
	host Host

	mu       sync.Mutex
	act      behaviour
	listener net.Listener
	conns    map[net.Conn]bool
	cancels  []*wire.CancelRequest

	accepted atomic.Int64
	logins   atomic.Int64 // complete ones
	work     sync.WaitGroup
}

// newFake starts a server at a free port of 127.0.0.1.
func newFake(t *testing.T, act behaviour) *fake {
	t.Helper()
	f := &fake{t: t, act: act, conns: make(map[net.Conn]bool)}
	f.listen("127.0.0.1:0")
	f.host = Host{"tcp", f.listener.Addr().String()}
	t.Cleanup(func() { f.stop(); f.work.Wait() })
	return f
}

func (f *fake) listen(address string) {
	f.t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.listener = ln
	f.mu.Unlock()
	f.work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			f.accepted.Add(1)
			f.mu.Lock()
			f.conns[conn] = true
			act := f.act
			f.mu.Unlock()
			f.work.Go(func() {
				act(f, conn.(*net.TCPConn))
				f.mu.Lock()
				defer f.mu.Unlock()
				delete(f.conns, conn)
				_ = conn.Close()
			})
		}
	})
}

// stop is a crash of the server.
func (f *fake) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.listener.Close()
	for c := range f.conns {
		_ = c.Close()
	}
}

// start starts it again.
func (f *fake) start(act behaviour) {
	f.t.Helper()
	f.become(act)
	f.listen(f.host.Address)
}

func (f *fake) become(act behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.act = act
}

// open is how many connections it has.
func (f *fake) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// postgres is a server of a role. One that is old does not report it.
func postgres(r role, old bool) behaviour {
	return func(f *fake, conn *net.TCPConn) { speak(f, conn, r, old) }
}

// speak is what such a server says, on a connection of any kind.
func speak(f *fake, conn net.Conn, r role, old bool) {
	p, err := wire.ReadStartup(conn)
	if err != nil {
		return
	}
	speakTo(f, conn, p, r, old)
}

// speakTo is speak once the start-up packet is read.
func speakTo(f *fake, conn net.Conn, p wire.Packet, r role, old bool) {
	if request, ok := p.(*wire.CancelRequest); ok {
		f.mu.Lock()
		f.cancels = append(f.cancels, request)
		f.mu.Unlock()
		return
	}
	out := wire.AppendAuthentication(nil, wire.AuthOK, nil)
	if !old {
		out = wire.AppendParameterStatus(out, "in_hot_standby", onOff(r.standby))
		out = wire.AppendParameterStatus(out, "default_transaction_read_only", onOff(r.readOnly))
	}
	out = wire.AppendBackendKeyData(out, 7, []byte("abcd"))
	out = wire.AppendReadyForQuery(out, wire.Idle)
	f.logins.Add(1)
	if _, err := conn.Write(out); err != nil {
		return
	}
	for {
		typ, _, err := wire.ReadMessage(conn, 1000)
		if err != nil || typ != wire.MsgQuery {
			return
		}
		if _, err := conn.Write(r.answer()); err != nil {
			return
		}
	}
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// answer is what an old server says to roleQuery, and to any other.
func (r role) answer() []byte {
	standby := "f"
	if r.standby {
		standby = "t"
	}
	readOnly := onOff(r.standby || r.readOnly)
	row := []byte{0, 2, 0, 0, 0, 1, standby[0], 0, 0, 0, byte(len(readOnly))}
	out := wire.AppendNotice(nil, &wire.Error{Severity: wire.SeverityWarning, Code: "01000", Message: "hear, hear"})
	out = wire.AppendMessage(out, wire.MsgRowDescription, []byte{0, 0})
	out = wire.AppendMessage(out, wire.MsgDataRow, append(row, readOnly...))
	return wire.AppendReadyForQuery(wire.AppendCommandComplete(out, "SELECT 1"), wire.Idle)
}

// says is a server that answers every start-up packet with an error.
func says(code, message string) behaviour {
	return func(_ *fake, conn *net.TCPConn) {
		if _, err := wire.ReadStartup(conn); err != nil {
			return
		}
		_, _ = conn.Write(wire.AppendError(nil, &wire.Error{Severity: wire.SeverityFatal, Code: code, Message: message}))
	}
}

// hangs accepts and says nothing until the client leaves.
func hangs(_ *fake, conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) }

// resets ends connections with a RST.
func resets(_ *fake, conn *net.TCPConn) { _ = conn.SetLinger(0) }

// greets is another kind of server.
func greets(_ *fake, conn *net.TCPConn) {
	_, _ = conn.Write([]byte("220 mail.example.com ESMTP\r\n"))
	_, _ = io.Copy(io.Discard, conn)
}

// newDead is a host that refuses connections.
func newDead(t *testing.T) *fake {
	t.Helper()
	f := newFake(t, hangs)
	f.stop()
	return f
}

// newHole is a host from which no packet comes back: its queue of connections that
// are not accepted is full.
func newHole(t *testing.T) Host {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at.(*unix.SockaddrInet4).Port}).String()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return Host{"tcp", address}
}

// lab is a cluster under test, with what it told.
type lab struct {
	*Cluster
	t *testing.T

	mu    sync.Mutex
	moves []move
}

func newLab(t *testing.T, o Options) *lab {
	t.Helper()
	l := &lab{t: t}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = patience
	}
	o.Moved = func(from, to Place) {
		if !l.mu.TryLock() {
			t.Error("Moved is called concurrently")
			return
		}
		defer l.mu.Unlock()
		l.moves = append(l.moves, move{from, to})
	}
	l.Cluster = New(o)
	return l
}

// moved is what Moved was told.
func (l *lab) moved() []move {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moves
}

// bounded is a context that ends only if something hangs.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// dial dials and ends the session, if there is one.
func (l *lab) dial() (*Session, error) {
	l.t.Helper()
	s, err := l.Dial(bounded(l.t), Request{Database: "d", Role: "r"})
	if (s == nil) == (err == nil) {
		l.t.Fatal(s, err)
	}
	if s != nil {
		s.End(bounded(l.t))
	}
	return s, err
}

// reaches dials and expects to reach a host.
func (l *lab) reaches(h Host) *Session {
	l.t.Helper()
	s, err := l.dial()
	if err != nil {
		l.t.Fatalf("expected %v: %v", h, err)
	}
	if s.Where.Host != h {
		l.t.Fatalf("reached %v, expected %v", s.Where, h)
	}
	return s
}

// fails dials and expects an error.
func (l *lab) fails() error {
	l.t.Helper()
	s, err := l.dial()
	if err == nil {
		l.t.Fatalf("reached %v", s.Where)
	}
	return err
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx := bounded(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("in vain: " + what)
		}
	}
}

// socketPath is a path for a Unix socket.
func socketPath(t *testing.T) string { return filepath.Join(t.TempDir(), ".s.PGSQL.5432") }
