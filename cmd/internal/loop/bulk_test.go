package loop

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const piece = 8 << 10 // what Postgres writes at a time

// lowat returns the mark that the kernel has for c.
func lowat(tb testing.TB, c *Conn) int {
	tb.Helper()
	n, err := unix.GetsockoptInt(c.Fd(), unix.SOL_SOCKET, unix.SO_RCVLOWAT)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// inBulk returns a connection in bulk mode that has nothing to read, and makes
// sure that it got there by a stream.
func inBulk(t *testing.T, l *Loop) (*probe, *net.TCPConn) {
	t.Helper()
	p := &probe{t: t}
	peer := adoptTCP(t, l, p)
	b := make([]byte, piece)
	sent := 0
	for end := time.Now().Add(patience); p.c.flags&fBulk == 0; {
		if time.Now().After(end) {
			t.Fatal("a stream does not lead to bulk mode")
		}
		write(t, peer, string(b))
		sent += piece
		until(t, l, func() bool { return p.got.Len() == sent })
	}
	if sent < bulkEnter*DefaultBufferSize {
		t.Errorf("bulk mode after %d bytes", sent)
	}
	if n := lowat(t, p.c); n != bulkUp*DefaultBufferSize {
		t.Errorf("mark at %d", n)
	}
	p.got.Reset()
	return p, peer
}

// neverPolled takes the clock away from a connection in bulk mode.
func neverPolled(l *Loop) {
	for i := range l.bulks {
		l.bulks[i].at = Never
	}
}

// left fails the test unless c is out of bulk mode and nothing of it remains.
func left(t *testing.T, l *Loop, c *Conn) {
	t.Helper()
	if c.flags&(fBulk|fPolled) != 0 || len(l.bulks) != 0 || l.nextBulk() != Never {
		t.Errorf("still in bulk mode: flags %x, %d entries", c.flags, len(l.bulks))
	}
	if c.fd >= 0 && c.flags&fEOF == 0 && lowat(t, c) != 1 {
		t.Errorf("mark still at %d", lowat(t, c))
	}
}

// Bytes below the mark raise no edge; the clock finds them. Little ends the
// mode, and from then on everything has its edge again.
func TestBulkTail(t *testing.T) {
	l := handLoop(t, Options{})
	p, peer := inBulk(t, l)
	before := l.count
	write(t, peer, "tail")
	if n, err := l.poll(); n != 0 || err != nil {
		t.Fatalf("%d events below the mark, %v", n, err)
	}
	if at := l.nextDue(); at > l.Now()+bulkPoll {
		t.Fatalf("due in %d ns", at-l.Now())
	}
	until(t, l, func() bool { return p.got.String() == "tail" })
	settle(t, l)
	left(t, l, p.c)
	c := l.count
	if c.BulkPolls-before.BulkPolls != 1 || c.SockOpts != 2 || c.Bulks != 1 {
		t.Errorf("%+v", c)
	}
	if n := c.ReadEAGAIN - before.ReadEAGAIN; n != 1 {
		t.Errorf("%d reads after the mark went down found nothing, want 1", n)
	}
	write(t, peer, "!")
	until(t, l, func() bool { return p.got.String() == "tail!" })
}

// A poll that finds nothing ends the mode, one that finds much does not.
func TestBulkPolls(t *testing.T) {
	l := handLoop(t, Options{})
	p, peer := inBulk(t, l)
	write(t, peer, string(make([]byte, 2*l.bulk.least)))
	until(t, l, func() bool { return p.got.Len() == 2*l.bulk.least })
	if p.c.flags&fBulk == 0 {
		t.Error("left although a poll found much")
	}
	until(t, l, func() bool { return p.c.flags&fBulk == 0 })
	settle(t, l)
	left(t, l, p.c)
}

// What was suppressed while the mark went down is read without an edge.
func TestBulkLeavesNothingBehind(t *testing.T) {
	l := handLoop(t, Options{})
	p, peer := inBulk(t, l)
	neverPolled(l)
	write(t, peer, "tail")
	if n, _ := l.poll(); n != 0 {
		t.Fatalf("%d events below the mark", n)
	}
	l.leaveBulk(p.c)
	_, _ = l.poll() // the kernel may tell of it by itself; do without
	until(t, l, func() bool { return p.got.String() == "tail" })
	settle(t, l)
	left(t, l, p.c)
}

// The mark's worth of bytes raises an edge, without the clock; more than a
// buffer takes several turns.
func TestBulkEdge(t *testing.T) {
	l := handLoop(t, Options{})
	p, peer := inBulk(t, l)
	neverPolled(l)
	reads := l.count.Reads
	big := bytes.Repeat([]byte("0123456789abcdef"), (l.bulk.mark+piece)/16)
	go func() { _, _ = peer.Write(big) }()
	until(t, l, func() bool { neverPolled(l); return p.got.Len() >= l.bulk.mark })
	if n := l.count.Reads - reads; n < 2 {
		t.Errorf("%d bytes by %d reads", p.got.Len(), n)
	}
	until(t, l, func() bool { return p.got.Len() == len(big) })
	if !bytes.Equal(p.got.Bytes(), big) {
		t.Error("not what was sent")
	}
}

// The end of the stream and an error come through at once, whatever the mark.
func TestBulkEnds(t *testing.T) {
	ends := map[string]func(*probe, *net.TCPConn){
		"eof":       func(_ *probe, peer *net.TCPConn) { _ = peer.CloseWrite() },
		"hangup":    func(p *probe, peer *net.TCPConn) { p.c.Pause(); _ = peer.CloseWrite() },
		"end reset": func(_ *probe, peer *net.TCPConn) { _ = peer.SetLinger(0); _ = peer.Close() },
	}
	for what, act := range ends {
		t.Run(what, func(t *testing.T) {
			l := handLoop(t, Options{})
			p, peer := inBulk(t, l)
			neverPolled(l)
			write(t, peer, "last")
			act(p, peer)
			until(t, l, func() bool { return p.saw(what) == 1 })
			if what == "eof" && p.got.String() != "last" {
				t.Errorf("got %q", p.got.String())
			}
			if what == "hangup" {
				p.c.Resume()
				until(t, l, func() bool { return p.saw("eof") == 1 && p.got.String() == "last" })
			}
			settle(t, l)
			left(t, l, p.c)
		})
	}
}

// A paused connection costs no wake-up in bulk mode, and is read once resumed,
// without an edge and before its time.
func TestBulkPause(t *testing.T) {
	l := handLoop(t, Options{})
	p, peer := inBulk(t, l)
	p.c.Pause()
	if l.nextDue() != Never {
		t.Error("a paused connection has a time")
	}
	write(t, peer, "while paused")
	settle(t, l)
	p.c.Resume()
	turn(t, l)
	if p.got.String() != "while paused" {
		t.Fatalf("got %q", p.got.String())
	}
	if l.nextDue() == Never {
		t.Error("resumed, but not on the list")
	}
	// Paused between the poll and its step: the poll is made up for.
	write(t, peer, "!")
	l.bulks[0].at = l.now
	l.pollBulks()
	p.c.Pause()
	settle(t, l)
	if p.got.String() != "while paused" || len(l.bulks) != 0 {
		t.Fatalf("paused, but got %q", p.got.String())
	}
	p.c.Resume()
	until(t, l, func() bool { return p.got.String() == "while paused!" })
	until(t, l, func() bool { return p.c.flags&fBulk == 0 })
	settle(t, l)
	left(t, l, p.c)
}

// What is sent is a request: its answer must not wait for a mark or a clock.
func TestBulkEndsWithARequest(t *testing.T) {
	l := handLoop(t, Options{})
	p, peer := inBulk(t, l)
	neverPolled(l)
	write(t, peer, "tail")
	p.c.Send(spans("request"))
	until(t, l, func() bool { return p.got.String() == "tail" })
	settle(t, l)
	left(t, l, p.c)
	polls := l.count.BulkPolls
	write(t, peer, "answer")
	until(t, l, func() bool { return p.got.String() == "tailanswer" })
	if l.count.BulkPolls != polls {
		t.Error("the answer was read by the clock")
	}
}

// Closing, in whichever way, leaves nothing on the list.
func TestBulkClose(t *testing.T) {
	for what, act := range map[string]func(c *Conn){"close": (*Conn).Close, "finish": (*Conn).Finish} {
		t.Run(what, func(t *testing.T) {
			l := handLoop(t, Options{})
			p, peer := inBulk(t, l)
			write(t, peer, "unread")
			act(p.c)
			if what == "finish" {
				left(t, l, p.c) // what it discards has its edges
				go func() { _, _ = io.Copy(io.Discard, peer); _ = peer.Close() }()
			}
			until(t, l, func() bool { return p.c.fd < 0 })
			left(t, l, p.c)
		})
	}
}

// Small answers, a slow trickle, full buffers, Unix sockets, TLS and loops that
// cannot wait finely do not lead to bulk mode.
func TestBulkIsForStreams(t *testing.T) {
	l := handLoop(t, Options{})
	const rounds = 3 * bulkEnter * DefaultBufferSize / piece
	drive := func(l *Loop, p *probe, w io.Writer, size int, between func()) {
		t.Helper()
		b := string(make([]byte, size))
		for range rounds {
			between()
			p.got.Reset()
			write(t, w, b)
			until(t, l, func() bool { return p.got.Len() == size })
		}
	}
	nothing := func() {}
	p := &probe{t: t}
	peer := adoptTCP(t, l, p)
	drive(l, p, peer, piece, func() { p.c.Send(spans("q")) })
	drive(l, p, peer, piece, func() { p.c.readAt -= bulkQuiet + 1 }) // as if it had been read long ago
	q := &probe{t: t}
	drive(l, q, adopt(t, l, q), piece, nothing)
	s := &probe{t: t}
	server, br, client := tlsPair(t, 0, nil)
	adoptTLS(t, l, server, br, s)
	drive(l, s, client, piece, nothing)
	if l.count.Bulks+l.count.SockOpts != 0 {
		t.Errorf("%+v", l.count)
	}

	coarse, small := handLoop(t, Options{}), handLoop(t, Options{BufferSize: bulkSmallest / 2})
	coarse.fine = false
	for _, l := range []*Loop{coarse, small} {
		p := &probe{t: t}
		drive(l, p, adoptTCP(t, l, p), min(piece, len(l.buf)-1), nothing)
		if l.count.Bulks+l.count.SockOpts != 0 {
			t.Errorf("%+v", l.count)
		}
	}

	full := &probe{t: t}
	drive(l, full, adoptTCP(t, l, full), 1, func() { l.wasRead(full.c, len(l.buf), len(l.buf)) })
	if l.count.Bulks != 0 {
		t.Error("full buffers count")
	}
}

// After a stream the loop is as idle as before it.
func TestBulkThenIdle(t *testing.T) {
	l := running(t, Options{})
	nc, peer := tcpPair(t)
	p := &probe{t: t}
	got := make(chan int, 1<<16)
	p.onData = func(_ *Conn, b []byte) int { got <- len(b); return len(b) }
	adoptConn(t, l, nc, p)
	b := make([]byte, piece)
	for end := time.Now().Add(patience); l.Stats().Bulks == 0; {
		if time.Now().After(end) {
			t.Fatal("no bulk mode")
		}
		write(t, peer, string(b))
		for n := 0; n < piece; n += await(t, got) {
		}
	}
	for end := time.Now().Add(patience); ; {
		idle := false
		on(t, l, func() { idle = len(l.bulks) == 0 && p.c.flags&(fBulk|fReadable) == 0 })
		if idle {
			break
		}
		if time.Now().After(end) {
			t.Fatal("bulk mode does not end")
		}
	}
	asleep(t, l, 1)
	before := l.Stats()
	const rounds = 20
	for range rounds {
		on(t, l, func() {})
		asleep(t, l, 1)
	}
	if after := l.Stats(); after.Sleeps-before.Sleeps != rounds || after.Reads != before.Reads {
		t.Errorf("idle: %+v, before %+v", after, before)
	}
}

// A loop that is never quiet passes through Go's scheduler now and then, and an
// idle one does not for its own sake.
func TestYields(t *testing.T) {
	l := handLoop(t, Options{})
	turn(t, l)
	l.yielded = l.Now() + int64(time.Hour)
	before := l.count.Yields
	turn(t, l)
	if l.count.Yields != before {
		t.Error("yields too soon")
	}
	l.yielded = l.Now() - yieldEvery
	turn(t, l)
	if l.count.Yields != before+1 || l.yielded != l.now {
		t.Errorf("%d yields, want 1", l.count.Yields-before)
	}
}
