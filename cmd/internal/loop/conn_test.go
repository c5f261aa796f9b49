package loop

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestConnIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Conn{}); n > 160 {
		t.Errorf("%d bytes", n)
	}
}

// What Data leaves comes again in front of new bytes, and only then; Resume
// brings it without new ones.
func TestKeptBytes(t *testing.T) {
	l := handLoop(t, Options{})
	var seen []string
	use := 0
	p := &probe{t: t, onData: func(_ *Conn, b []byte) int {
		seen = append(seen, string(b))
		return use
	}}
	peer := adopt(t, l, p)
	send := func(s string) { write(t, peer, s); settle(t, l) }
	send("ab")
	send("cd")
	use = 3
	send("ef")
	use = 0
	p.c.Resume()
	settle(t, l)
	p.c.Pause()
	p.c.Resume()
	p.c.Pause()
	send("gh")
	p.c.Resume()
	if p.c.Kept() != 3 {
		t.Errorf("%d bytes kept, want 3", p.c.Kept())
	}
	settle(t, l)
	want := "ab abcd abcdef def def defgh"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	use = 5
	p.c.Resume()
	settle(t, l)
	if p.c.Kept() != 0 || l.bufs.lent != 0 {
		t.Errorf("%d bytes kept, %d buffers lent", p.c.Kept(), l.bufs.lent)
	}
}

// Pausing inside Data stops the reading; resuming inside Data brings the rest
// once more in the next turn.
func TestPauseAndResumeInsideData(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t}
	p.onData = func(c *Conn, b []byte) int {
		if len(b) > 1 {
			c.Pause()
			c.Resume()
		}
		return 1
	}
	peer := adopt(t, l, p)
	write(t, peer, "abc")
	for i, want := range []string{"a", "ab", "abc"} {
		turn(t, l)
		if p.got.String() != want {
			t.Errorf("turn %d: %q", i, p.got.String())
		}
	}
	_ = peer.Close()
	settle(t, l)
}

// The end of the stream does not overtake bytes that Resume asked for.
func TestKeptBytesBeforeEOF(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t, onData: func(c *Conn, b []byte) int { c.Resume(); return 1 }}
	peer := adopt(t, l, p)
	write(t, peer, "abcd")
	_ = peer.Close()
	settle(t, l)
	if p.got.String() != "abcd" || p.log[len(p.log)-1] != "eof" {
		t.Errorf("%q, %v", p.got.String(), p.log)
	}
}

// A message larger than the shared buffer grows a buffer of the connection's
// own, which goes when the message is used. Too large a one ends the connection.
func TestLargeMessage(t *testing.T) {
	const size, keep = 1024, 100_000
	l := handLoop(t, Options{BufferSize: size, MaxKeep: keep})
	msg := make([]byte, keep)
	fillRandom(mrand.New(mrand.NewPCG(1, 1)), msg)
	most := 0
	p := &probe{t: t, onData: func(_ *Conn, b []byte) int {
		most = max(most, len(b))
		if len(b) < keep {
			return 0
		}
		return len(b)
	}}
	peer := adopt(t, l, p)
	feed := func(b []byte) {
		for len(b) > 0 {
			n, e := send(int32(peer.Fd()), b)
			if e != 0 && e != unix.EAGAIN {
				t.Fatal(e)
			}
			b = b[n:]
			settle(t, l)
		}
	}
	feed(msg)
	if !bytes.Equal(p.got.Bytes(), msg) || l.bufs.lent != 0 {
		t.Errorf("%d of %d bytes, largest %d, %d buffers lent", p.got.Len(), keep, most, l.bufs.lent)
	}
	p.onData = func(_ *Conn, b []byte) int { return 0 }
	feed(msg)
	if p.saw("end overflow") != 0 || p.c.Kept() != keep {
		t.Fatalf("%v with %d kept", p.log[len(p.log)-1], p.c.Kept())
	}
	feed([]byte("x"))
	if p.saw("end overflow") != 1 || p.c.Fd() != -1 {
		t.Errorf("no overflow: %v", p.log[len(p.log)-1])
	}
}

// Streams survive both directions, all sizes of buffers, left-over bytes, pauses
// and backpressure.
func TestPlainBigTransfers(t *testing.T) {
	kinds := map[string]func(testing.TB) (net.Conn, net.Conn){
		"tcp":  func(tb testing.TB) (net.Conn, net.Conn) { return tcpPair(tb) },
		"unix": unixPair,
	}
	for kind, mk := range kinds {
		for _, size := range []int{512, 4096, DefaultBufferSize} {
			t.Run(fmt.Sprint(kind, size), func(t *testing.T) { plainTransfer(t, mk, size, 2<<20) })
		}
	}
}

func plainTransfer(t *testing.T, mk func(testing.TB) (net.Conn, net.Conn), size, total int) {
	nc, peer := mk(t)
	l := running(t, Options{BufferSize: size})
	in, out, sent, got := sha256.New(), sha256.New(), sha256.New(), sha256.New()
	finished, errs := make(chan struct{}), make(chan error, 1)
	p := &pump{in: in, out: out, left: total, rnd: mrand.New(mrand.NewPCG(7, uint64(size))), finished: finished}
	adoptConn(t, l, nc, p)
	go func() {
		rnd := mrand.New(mrand.NewPCG(8, 9))
		buf := make([]byte, 100_000)
		var err error
		for left := total; left > 0 && err == nil; {
			b := buf[:min(left, 1+rnd.IntN(len(buf)))]
			fillRandom(rnd, b)
			sent.Write(b)
			_, err = peer.Write(b)
			left -= len(b)
		}
		errs <- errors.Join(err, peer.(interface{ CloseWrite() error }).CloseWrite())
	}()
	n, err := io.Copy(got, peer)
	if err != nil || n != int64(total) {
		t.Fatalf("peer received %d of %d bytes: %v", n, total, err)
	}
	if err := await(t, errs); err != nil {
		t.Fatal(err)
	}
	_ = peer.Close()
	await(t, finished)
	on(t, l, func() {
		if !bytes.Equal(got.Sum(nil), out.Sum(nil)) || !bytes.Equal(sent.Sum(nil), in.Sum(nil)) {
			t.Error("bytes changed on the way")
		}
		if p.ended != 0 {
			t.Errorf("ended by %v", p.ended)
		}
	})
}

func unixPair(tb testing.TB) (net.Conn, net.Conn) {
	tb.Helper()
	ln, err := net.Listen("unix", filepath.Join(tb.TempDir(), "s"))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	d, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	a, err := ln.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = a.Close(); _ = d.Close() })
	return a, d
}

// More spans than one sendmsg takes, with empty ones among them, into a socket
// that takes only a part.
func TestManySpans(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t}
	peer := adopt(t, l, p)
	var many [][]byte
	var want bytes.Buffer
	for i := range 3*maxIov + 7 {
		b := bytes.Repeat([]byte{byte(i)}, (i%5)*1500)
		many = append(many, b)
		want.Write(b)
	}
	if p.c.Send(many) == 0 {
		t.Fatal("the socket took everything: no test")
	}
	p.c.Send(spans("tail"))
	want.WriteString("tail")
	p.c.Finish()
	done := make(chan []byte, 1)
	go func() { b, _ := io.ReadAll(peer); _ = peer.Close(); done <- b }()
	var got []byte
	until(t, l, func() bool {
		select {
		case got = <-done:
			return true
		default:
			return false
		}
	})
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d of %d bytes", len(got), want.Len())
	}
	until(t, l, func() bool { return l.count.Closed == 1 })
	if len(p.log) != 1 {
		t.Errorf("callbacks after Finish: %v", p.log)
	}
}

// Finish delivers its last words although the peer has sent what nobody reads:
// a plain close would reset the connection and lose them.
func TestFinishSurvivesUnreadInput(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t}
	peer := adoptTCP(t, l, p)
	p.c.Pause()
	write(t, peer, strings.Repeat("unread", 50_000))
	p.c.Send(spans("FATAL: no room"))
	p.c.Finish()
	write(t, peer, "and more")
	settle(t, l)
	b, err := io.ReadAll(peer)
	if err != nil || string(b) != "FATAL: no room" {
		t.Errorf("%q, %v", b, err)
	}
	if l.count.Closed != 0 {
		t.Error("closed before the peer has")
	}
	_ = peer.Close()
	until(t, l, func() bool { return l.count.Closed == 1 })
	if len(p.log) != 1 {
		t.Error(p.log)
	}
}

// Finish takes at most LingerTime.
func TestFinishIsBounded(t *testing.T) {
	l := handLoop(t, Options{LingerTime: 3 * time.Second})
	p, q := &probe{t: t}, &probe{t: t}
	adopt(t, l, p)
	adopt(t, l, q)
	p.c.SetStall(1) // no longer counts
	fill(p.c)
	p.c.Finish() // its peer does not read
	q.c.Finish() // its peer does not close
	settle(t, l)
	if n := l.Finishing(); n != 2 {
		t.Errorf("%d finishing", n)
	}
	if at := l.nextDue(); len(l.due) != 2 || at <= l.now || at > l.now+int64(3*time.Second) {
		t.Fatalf("due at %d, now %d", at, l.now)
	}
	l.now += int64(3 * time.Second)
	l.lookAtDue()
	l.reap()
	if l.count.Closed != 2 || l.Finishing() != 0 || len(l.due) != 0 || len(p.log)+len(q.log) != 2 {
		t.Errorf("closed %d, due %d, %v, %v", l.count.Closed, len(l.due), p.log, q.log)
	}
}

// A peer that resets ends the lingering at once.
func TestFinishEndsWithThePeer(t *testing.T) {
	l := handLoop(t, Options{})
	p, q := &probe{t: t}, &probe{t: t}
	peer := adoptTCP(t, l, p)
	fill(p.c)
	p.c.Finish()
	settle(t, l)
	_ = peer.SetLinger(0)
	_ = peer.Close()
	until(t, l, func() bool { return l.count.Closed == 1 })

	gone := adopt(t, l, q)
	_ = gone.Close()
	settle(t, l)
	q.c.Finish()
	settle(t, l)
	turn(t, l)
	if l.count.Closed != 2 || l.Finishing() != 0 {
		t.Error("EOF was seen, nothing is unsent, and still it lingers")
	}
}

// The writing side ends behind what is unsent; reading goes on.
func TestShutdownWrite(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t}
	peer := adopt(t, l, p)
	n := fill(p.c)
	p.c.ShutdownWrite()
	if p.c.Send(spans("dropped")); p.c.flags&fShutDone != 0 {
		t.Error("shut before the bytes are sent")
	}
	done := make(chan int, 1)
	go func() { m, _ := io.Copy(io.Discard, peer); done <- int(m) }()
	until(t, l, func() bool { return p.saw("drained") == 1 })
	if m := await(t, done); m != n {
		t.Errorf("peer read %d bytes, want %d", m, n)
	}
	write(t, peer, "still here")
	settle(t, l)
	if p.got.String() != "still here" {
		t.Error(p.log)
	}
}

// No callback comes after Finish, not even in the step in which it was called.
func TestFinishInsideHangup(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t, onHangup: func(c *Conn) { c.Finish() }}
	peer := adopt(t, l, p)
	n := fill(p.c)
	fd := int32(peer.Fd())
	_ = unix.Shutdown(int(fd), unix.SHUT_WR)
	big := make([]byte, 1<<20)
	for m := 1; m > 0; n -= m { // room again: the same event says so
		m, _ = recv(fd, big)
	}
	settle(t, l)
	m, _ := recv(fd, big)
	if n != m || l.count.Closed != 1 {
		t.Errorf("%d bytes instead of %d after Finish, %d closed", m, n, l.count.Closed)
	}
	if got := strings.Join(p.log, ", "); got != "open, hangup" {
		t.Error(got)
	}
}

// Drained comes once per time that bytes were unsent.
func TestDrained(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t}
	peer := adopt(t, l, p)
	p.c.Send(spans("fits"))
	settle(t, l)
	if len(p.log) != 1 {
		t.Fatal(p.log)
	}
	go drain(peer)
	for i := range 3 {
		fill(p.c)
		until(t, l, func() bool { return p.saw("drained") == i+1 })
		settle(t, l)
		if p.c.Unsent() != 0 || p.saw("drained") != i+1 {
			t.Fatalf("round %d: %d unsent, %v", i, p.c.Unsent(), p.log)
		}
	}
	_ = peer.Close()
}

// A TCP socket is registered once for its life, blocked or not. A Unix socket is
// not woken by its peer's reading.
func TestRegistrations(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t}
	peer := adoptTCP(t, l, p)
	sent := fill(p.c)
	go func() { _, _ = io.CopyN(io.Discard, peer, int64(sent)) }()
	until(t, l, func() bool { return p.saw("drained") == 1 })
	if l.count.EpollCtl != 1 {
		t.Errorf("%d calls of epoll_ctl for a TCP connection", l.count.EpollCtl)
	}

	q := &probe{t: t}
	near := adopt(t, l, q)
	ctl, events := l.count.EpollCtl, l.count.Events
	var b [16]byte
	for range 10 {
		q.c.Send(spans("message"))
		_, _ = near.Read(b[:])
		settle(t, l)
	}
	if n := l.count.Events - events; n != 0 || l.count.EpollCtl != ctl {
		t.Errorf("%d events and %d epoll_ctl for 10 messages read by the peer", n, l.count.EpollCtl-ctl)
	}
	fill(q.c) // registered for output now
	big := make([]byte, 1<<20)
	until(t, l, func() bool { _, _ = recv(int32(near.Fd()), big); return q.saw("drained") == 1 })
	for n := 1; n > 0; {
		n, _ = recv(int32(near.Fd()), big)
	}
	settle(t, l)
	events = l.count.Events
	q.c.Send(spans("message"))
	_, _ = near.Read(b[:])
	settle(t, l)
	if n := l.count.Events - events; n != 0 || l.count.EpollCtl != ctl+2 {
		t.Errorf("after having been blocked: %d events, %d epoll_ctl", n, l.count.EpollCtl-ctl)
	}
}

// One small message over one hop: one read, one write, nothing else, and no
// allocation.
func TestCostOfAHop(t *testing.T) {
	l := handLoop(t, Options{})
	left, right := relayPair()
	pa, pb := adopt(t, l, left), adopt(t, l, right)
	a, z := int(pa.Fd()), int(pb.Fd())
	msg := make([]byte, 64)
	const rounds = 100
	before := l.count
	allocs := testing.AllocsPerRun(rounds-1, func() { // and one to warm up
		_, _ = unix.Write(a, msg)
		turn(t, l)
		_, _ = unix.Read(z, msg)
	})
	c := l.count
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if r, w, e := c.Reads-before.Reads, c.Writes-before.Writes, c.EpollCtl-before.EpollCtl; r != rounds || w != rounds || e != 0 {
		t.Errorf("%d reads, %d writes, %d epoll_ctl for %d hops", r, w, e, rounds)
	}
	if c.ReadEAGAIN != before.ReadEAGAIN || c.Turns-before.Turns != rounds || c.Events-before.Events != rounds {
		t.Errorf("%+v, before %+v", c, before)
	}
}

// The same through TLS on one side: no allocation in the loop's own code beyond
// what crypto/tls makes for a record read.
func TestCostOfAHopWithTLS(t *testing.T) {
	l := handLoop(t, Options{})
	left, right := relayPair()
	server, br, client := tlsPair(t, 0, nil)
	adoptTLS(t, l, server, br, left)
	pb := adopt(t, l, right)
	buf := make([]byte, 64)
	hop := func() {
		_, _ = client.Write(buf)
		n := right.c.loop.count.Writes
		until(t, l, func() bool { return l.count.Writes > n })
		_, _ = pb.Read(buf)
	}
	hop()
	before := l.count
	for range 50 {
		hop()
	}
	if r, w := l.count.Reads-before.Reads, l.count.Writes-before.Writes; r != 50 || w != 50 {
		t.Errorf("%d reads, %d writes for 50 hops", r, w)
	}
	out := spans(strings.Repeat("x", 200))
	if n := testing.AllocsPerRun(20, func() { left.c.Send(out) }); n > 0 && !raceDetector {
		t.Errorf("%v allocations for a Send", n)
	}
}

func TestAdoptRefuses(t *testing.T) {
	l := handLoop(t, Options{})
	before := openFiles(t)
	server, br, _ := tlsPair(t, 0, nil)
	files := openFiles(t) - before
	for _, f := range []func(fd int) error{
		func(fd int) error { return l.Adopt(fd, nil, nil, nil) },
		func(fd int) error { return l.Adopt(fd, server, nil, &relayTo{}) },
		func(fd int) error { return l.Adopt(fd, nil, br, &relayTo{}) },
		func(fd int) error { return l.Adopt(fd, tls.Server(br, &tls.Config{}), br, &relayTo{}) },
	} {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f(p[0]); err == nil {
			t.Error("no error")
		}
		_ = unix.Close(p[1])
	}
	if n := openFiles(t); n != before+files {
		t.Errorf("%d descriptors left open", n-before-files)
	}

	// epoll does not watch ordinary files.
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{t: t}
	if err := l.Adopt(fd, nil, nil, p); err != nil {
		t.Fatal(err)
	}
	settle(t, l)
	if strings.Join(p.log, " ") != "end unwatched" || l.count.Closed != 1 {
		t.Errorf("%v, %d closed", p.log, l.count.Closed)
	}
}

func TestDetach(t *testing.T) {
	nc, peer := tcpPair(t)
	tc := nc.(*net.TCPConn)
	_ = tc.SetNoDelay(true)
	fd, err := Detach(nc)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := nc.Write([]byte("x")); err == nil {
		t.Error("the net.Conn is still open")
	}
	if f, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || f&unix.FD_CLOEXEC == 0 {
		t.Errorf("close-on-exec: %x, %v", f, err)
	}
	if f, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || f&unix.O_NONBLOCK == 0 {
		t.Errorf("non-blocking: %x, %v", f, err)
	}
	if v, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY); err != nil || v == 0 {
		t.Errorf("TCP_NODELAY: %d, %v", v, err)
	}
	if _, err := unix.Write(fd, []byte("alive")); err != nil {
		t.Error(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(peer, b); err != nil || string(b) != "alive" {
		t.Errorf("%q, %v", b, err)
	}

	one, two := net.Pipe()
	defer func() { _ = one.Close(); _ = two.Close() }()
	if _, err := Detach(one); err == nil {
		t.Error("a pipe has no descriptor")
	}
	if _, err := Detach(NewBridge(one)); err == nil {
		t.Error("nor has a bridge over it")
	}
	if _, err := Detach(nc); err == nil {
		t.Error("detached twice")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{BufferSize: 1}, {BufferSize: 2 << 30}, {MaxKeep: -1}, {LingerTime: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
}

// A running loop that never sleeps publishes its counters all the same.
func TestStatsOfABusyLoop(t *testing.T) {
	l := running(t, Options{Timer: func(now int64) int64 { return now }})
	first := l.Stats().Turns
	for end := time.Now().Add(patience); l.Stats().Turns < first+2*publishEvery; {
		if time.Now().After(end) {
			t.Fatal("the counters stand still")
		}
	}
}
