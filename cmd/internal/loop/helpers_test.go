package loop

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// probe is a Handler that logs its callbacks and lets a test say what they do.
type probe struct {
	t      *testing.T
	c      *Conn
	log    []string
	got    bytes.Buffer // what Data used
	active *bool        // shared by probes of one test: is a handler running?

	onData    func(c *Conn, b []byte) int
	onOpen    func(c *Conn)
	onDrained func(c *Conn)
	onHangup  func(c *Conn)
	onEOF     func(c *Conn)
	onEnd     func(c *Conn, how End)
}

// enter notes that a callback runs, and fails the test if another one does.
func (p *probe) enter(what string) func() {
	p.log = append(p.log, what)
	if p.active == nil {
		return func() {}
	}
	if *p.active {
		p.t.Errorf("%s entered while another handler is active", what)
	}
	*p.active = true
	return func() { *p.active = false }
}

func (p *probe) Open(c *Conn, _ int64) {
	defer p.enter("open")()
	p.c = c
	if p.onOpen != nil {
		p.onOpen(c)
	}
}

func (p *probe) Data(c *Conn, b []byte, _ int64) int {
	defer p.enter(fmt.Sprintf("data %d", len(b)))()
	used := len(b)
	if p.onData != nil {
		used = p.onData(c, b)
	}
	p.got.Write(b[:used])
	return used
}

func (p *probe) Drained(c *Conn, _ int64) {
	defer p.enter("drained")()
	if p.onDrained != nil {
		p.onDrained(c)
	}
}

func (p *probe) Hangup(c *Conn, _ int64) {
	defer p.enter("hangup")()
	if p.onHangup != nil {
		p.onHangup(c)
	}
}

func (p *probe) EOF(c *Conn, _ int64) {
	defer p.enter("eof")()
	if p.onEOF != nil {
		p.onEOF(c)
	}
}

func (p *probe) End(c *Conn, how End, _ int64) {
	defer p.enter("end " + how.String())()
	if p.onEnd != nil {
		p.onEnd(c, how)
	}
}

// saw reports whether the log has the entry, and how often.
func (p *probe) saw(what string) (n int) {
	for _, s := range p.log {
		if s == what {
			n++
		}
	}
	return n
}

// handLoop is a loop whose turns the test itself makes, one by one: the test
// goroutine is the loop thread, and nothing happens in between.
func handLoop(tb testing.TB, o Options) *Loop {
	tb.Helper()
	l, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		l.Stop()
		if err := l.Run(); err != nil {
			tb.Error(err)
		}
		if l.bufs.lent != 0 {
			tb.Errorf("%d buffers not given back", l.bufs.lent)
		}
	})
	return l
}

// turn makes one turn with whatever events there are.
func turn(tb testing.TB, l *Loop) {
	n, err := l.poll()
	if err != nil {
		tb.Fatal(err)
	}
	l.oneTurn(n)
}

// settle makes turns until one has nothing to do.
func settle(tb testing.TB, l *Loop) {
	tb.Helper()
	for range 100000 {
		n, err := l.poll()
		if err != nil {
			tb.Fatal(err)
		}
		if n == 0 && l.run.head == nil && l.later.head == nil && l.inbox == nil && l.posted.Load() == nil {
			return
		}
		l.oneTurn(n)
	}
	tb.Fatal("the loop does not settle")
}

// until makes turns until cond holds.
func until(tb testing.TB, l *Loop, cond func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !cond(); {
		if time.Now().After(end) {
			tb.Fatal("waited in vain")
		}
		n := 0
		if l.run.head == nil && l.later.head == nil {
			n, _ = pollUntil(l.epfd, l.events[:], 2e6, false)
		}
		l.oneTurn(max(n, 0))
	}
}

// running starts a loop on a goroutine of its own.
func running(tb testing.TB, o Options) *Loop {
	tb.Helper()
	l, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	tb.Cleanup(func() {
		l.Stop()
		select {
		case err := <-done:
			if err != nil {
				tb.Error(err)
			}
			if l.bufs.lent != 0 {
				tb.Errorf("%d buffers not given back", l.bufs.lent)
			}
		case <-time.After(patience):
			tb.Error("the loop does not stop")
		}
	})
	return l
}

// on runs f on the loop thread and waits for it.
func on(tb testing.TB, l *Loop, f func()) {
	tb.Helper()
	done := make(chan struct{})
	l.Post(&Task{Run: func(int64) { f(); close(done) }})
	await(tb, done)
}

func await[T any](tb testing.TB, ch <-chan T) (v T) {
	tb.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		tb.Fatal("waited in vain")
	}
	return v
}

// pair returns the two ends of a Unix stream socket; the second is closed at
// the end of the test.
func pair(tb testing.TB) (ours int, peer *os.File) {
	tb.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		tb.Fatal(err)
	}
	peer = os.NewFile(uintptr(p[1]), "peer")
	tb.Cleanup(func() { _ = peer.Close() })
	return p[0], peer
}

// adopt hands the near end of a new pair to l, with h, and makes turns until it
// is registered and quiet.
func adopt(tb testing.TB, l *Loop, h Handler) *os.File {
	tb.Helper()
	fd, peer := pair(tb)
	if err := l.Adopt(fd, nil, nil, h); err != nil {
		tb.Fatal(err)
	}
	settle(tb, l)
	return peer
}

// tcpPair returns the two ends of a TCP connection over loopback.
func tcpPair(tb testing.TB) (ours net.Conn, peer *net.TCPConn) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	d, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	a, err := ln.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = a.Close(); _ = d.Close() })
	return a, d.(*net.TCPConn)
}

// adoptTCP is adopt over TCP.
func adoptTCP(tb testing.TB, l *Loop, h Handler) *net.TCPConn {
	tb.Helper()
	nc, peer := tcpPair(tb)
	adoptConn(tb, l, nc, h)
	settle(tb, l)
	return peer
}

func adoptConn(tb testing.TB, l *Loop, nc net.Conn, h Handler) {
	tb.Helper()
	fd, err := Detach(nc)
	if err != nil {
		tb.Fatal(err)
	}
	if err := l.Adopt(fd, nil, nil, h); err != nil {
		tb.Fatal(err)
	}
}

func write(tb testing.TB, w interface{ Write([]byte) (int, error) }, s string) {
	tb.Helper()
	if _, err := w.Write([]byte(s)); err != nil {
		tb.Fatal(err)
	}
}

// openFiles counts this process's descriptors.
func openFiles(tb testing.TB) int {
	tb.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(e)
}

func spans(s ...string) (out [][]byte) {
	for _, x := range s {
		out = append(out, []byte(x))
	}
	return out
}

// fill sends on c until the kernel takes no more, and returns what was sent.
func fill(c *Conn) (sent int) {
	block := bytes.Repeat([]byte("0123456789abcdef"), 1024)
	for c.Unsent() == 0 {
		c.Send([][]byte{block})
		sent += len(block)
	}
	return sent
}

// idleConnections returns 10,000, or fewer if this process may not open so many
// descriptors.
func idleConnections(tb testing.TB) int {
	tb.Helper()
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		tb.Fatal(err)
	}
	return int(min(10_000, r.Cur-r.Cur/4)) &^ 1
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// asleep waits until the loop sleeps with n connections adopted.
func asleep(tb testing.TB, l *Loop, n uint64) {
	tb.Helper()
	for end := time.Now().Add(patience); l.Stats().Adopted != n || !l.sleeping.Load(); runtime.Gosched() {
		if time.Now().After(end) {
			tb.Fatal("the loop does not go to sleep")
		}
	}
}

// scribble overwrites what no connection may rely on between its steps.
func scribble(l *Loop) {
	fillWith := func(b []byte) {
		for i := range b {
			b[i] = 0xEE
		}
	}
	fillWith(l.buf)
	if l.tls != nil {
		fillWith(l.tls.plain)
		fillWith(l.tls.enc[:cap(l.tls.enc)])
		fillWith(l.tls.join[:cap(l.tls.join)])
	}
}
