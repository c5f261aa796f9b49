package loop

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// 1: an event of a descriptor's former owner does not reach the present one. A
// duplicate keeps the old socket in the epoll set after its number is reused.
func TestInvariant01StaleGeneration(t *testing.T) {
	l := handLoop(t, Options{})
	old := &probe{t: t}
	oldPeer := adopt(t, l, old)
	fd, slot := old.c.Fd(), uint32(old.c.ID())
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(dup) }()
	old.c.Close()
	settle(t, l)
	turn(t, l)

	// The same number and the same slot again.
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(p[1]) }()
	if p[0] != fd {
		t.Fatalf("the number %d was not reused but %d", fd, p[0])
	}
	now := &probe{t: t}
	if err := l.Adopt(p[0], nil, nil, now); err != nil {
		t.Fatal(err)
	}
	settle(t, l)
	if uint32(now.c.ID()) != slot || now.c.ID() == old.c.ID() {
		t.Fatalf("slot %x, then %x: want the same slot, another generation", old.c.ID(), now.c.ID())
	}
	if l.Lookup(old.c.ID()) != nil || l.Lookup(now.c.ID()) != now.c {
		t.Error("Lookup mixes up generations")
	}

	events := l.count.Events
	_ = oldPeer.Close()
	until(t, l, func() bool { return l.count.Events > events }) // the stale hang-up
	settle(t, l)
	if got := strings.Join(now.log, ", "); got != "open" {
		t.Errorf("the new connection saw %q", got)
	}
}

// 2: closing happens at the end of the turn, once, whoever asks how often.
func TestInvariant02CloseAtEndOfTurn(t *testing.T) {
	var l *Loop
	var a, b *probe
	l = handLoop(t, Options{EndOfTurn: func(int64) {
		if a.c == nil || a.c.flags&fClosed == 0 || a.c.Fd() < 0 {
			return
		}
		if _, err := unix.FcntlInt(uintptr(a.c.Fd()), unix.F_GETFD, 0); err != nil {
			t.Errorf("closed before the end of the turn: %v", err)
		}
	}})
	a = &probe{t: t, onData: func(c *Conn, b []byte) int { c.Close(); c.Close(); c.Finish(); return len(b) }}
	b = &probe{t: t, onData: func(_ *Conn, b []byte) int {
		a.c.Close()
		if a.c.Send(spans("late")) != 0 || a.c.Fd() < 0 {
			t.Error("a closing connection must stay valid and swallow what is sent")
		}
		return len(b)
	}}
	pa, pb := adopt(t, l, a), adopt(t, l, b)
	fd := a.c.Fd()
	write(t, pa, "x")
	write(t, pb, "y")
	turn(t, l)
	if a.saw("data 1") != 1 || b.saw("data 1") != 1 {
		t.Fatalf("logs %v, %v: not one turn", a.log, b.log)
	}
	if l.count.Closed != 1 || a.c.Fd() != -1 {
		t.Errorf("closed %d times, fd %d", l.count.Closed, a.c.Fd())
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("descriptor still open: %v", err)
	}
	a.c.Close() // long dead: nothing may happen
	a.c.Resume()
	a.c.Pause()
	a.c.Finish()
	a.c.ShutdownWrite()
	a.c.SetStall(1)
	settle(t, l)
	if l.count.Closed != 1 || len(a.log) != 2 {
		t.Errorf("closed %d times, log %v", l.count.Closed, a.log)
	}
}

// 3: other goroutines have Adopt, Post, Stop, Stats, Now. The race detector is
// the judge; every connection and task must also have been seen.
func TestInvariant03OtherGoroutines(t *testing.T) {
	l := running(t, Options{})
	const workers, each = 8, 50
	var ran int // owned by the loop thread
	var wg sync.WaitGroup
	for range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range each {
				fd, peer := pair(t)
				e := &relayTo{}
				e.to = e
				if err := l.Adopt(fd, nil, nil, e); err != nil {
					t.Error(err)
					return
				}
				l.Post(&Task{Run: func(int64) { ran++ }})
				write(t, peer, "ping")
				var b [4]byte
				if _, err := peer.Read(b[:]); err != nil || string(b[:]) != "ping" {
					t.Errorf("echo %q, %v", b, err)
				}
				_ = l.Stats()
				_ = l.Now()
				_ = peer.Close()
			}
		}()
	}
	wg.Wait()
	on(t, l, func() {
		if ran != workers*each || l.count.Adopted != workers*each {
			t.Errorf("%d tasks and %d adoptions, want %d", ran, l.count.Adopted, workers*each)
		}
	})
}

// 4: no handler is entered while another one is active, whatever it does.
func TestInvariant04NoNesting(t *testing.T) {
	l := handLoop(t, Options{})
	active := false
	mk := func() *probe { return &probe{t: t, active: &active} }
	resumed, full, broken, hung, self := mk(), mk(), mk(), mk(), mk()
	resumed.onData = func(c *Conn, b []byte) int {
		if resumed.saw("data 3") == 1 {
			c.Pause()
			return 0
		}
		return len(b)
	}
	pr, pf, pb, ph, ps := adopt(t, l, resumed), adopt(t, l, full), adopt(t, l, broken), adopt(t, l, hung), adopt(t, l, self)
	write(t, pr, "abc")
	settle(t, l)
	fill(full.c)
	_ = pb.Close()
	hung.c.Pause()
	self.onData = func(c *Conn, b []byte) int {
		resumed.c.Resume() // has bytes kept
		full.c.Send(spans("more"))
		broken.c.Send(spans("to nobody")) // fails
		broken.c.Pause()
		_ = ph.Close()
		hung.c.Resume()
		c.ShutdownWrite()
		c.Pause()
		c.Resume()
		return len(b)
	}
	write(t, ps, "go")
	until(t, l, func() bool { return self.saw("data 2") == 1 })
	go drain(pf)
	until(t, l, func() bool {
		return resumed.saw("data 3") == 2 && full.saw("drained") == 1 && broken.saw("end reset") == 1 && hung.saw("eof") == 1
	})
}

func drain(f *os.File) {
	buf := make([]byte, 64<<10)
	for {
		if _, err := f.Read(buf); err != nil {
			return
		}
	}
}

// 5: what Data leaves and what the kernel does not take is copied: overwriting
// the shared buffer between turns changes nothing.
func TestInvariant05NoReferenceToTheSharedBuffer(t *testing.T) {
	var l *Loop
	l = handLoop(t, Options{EndOfTurn: func(int64) { scribble(l) }})
	out := &probe{t: t}
	in := &probe{t: t}
	pOut, pIn := adopt(t, l, out), adopt(t, l, in)
	first := fill(out.c)
	in.onData = func(_ *Conn, b []byte) int {
		if len(b) < 9 {
			return 0
		}
		out.c.Send([][]byte{b[:4], b[4:9]})
		return len(b)
	}
	for _, s := range []string{"hel", "lo ", "you"} {
		write(t, pIn, s)
		settle(t, l)
	}
	if in.got.String() != "hello you" {
		t.Fatalf("kept bytes became %q", in.got.String())
	}
	var sent bytes.Buffer
	buf := make([]byte, 64<<10)
	until(t, l, func() bool {
		for {
			_ = pOut.SetReadDeadline(time.Now().Add(time.Millisecond))
			n, err := pOut.Read(buf)
			sent.Write(buf[:n])
			if err != nil {
				return sent.Len() == first+9
			}
		}
	})
	want := append(bytes.Repeat([]byte("0123456789abcdef"), first/16), "hello you"...)
	if !bytes.Equal(sent.Bytes(), want) {
		t.Error("unsent bytes were not what was sent")
	}
}

// 6: readiness is a bit: set by adoption or an edge, cleared by a short read or
// EAGAIN, remembered while paused.
func TestInvariant06RememberedReadiness(t *testing.T) {
	l := handLoop(t, Options{BufferSize: 512})
	early := &probe{t: t}
	fd, peer := pair(t)
	write(t, peer, "early")
	_ = l.Adopt(fd, nil, nil, early)
	l.oneTurn(0) // no event has been asked for
	if early.got.String() != "early" {
		t.Errorf("bytes before adoption: %v", early.log)
	}
	settle(t, l)

	p := &probe{t: t}
	peer = adopt(t, l, p)
	reads := l.count.Reads
	write(t, peer, "short")
	turn(t, l)
	l.oneTurn(0)
	if n := l.count.Reads - reads; n != 1 || p.c.flags&fReadable != 0 {
		t.Errorf("%d reads for a short one", n)
	}
	write(t, peer, strings.Repeat("x", 512))
	turn(t, l)
	if p.c.flags&fReadable == 0 {
		t.Error("a full read cleared the bit")
	}
	l.oneTurn(0)
	if n := l.count.Reads - reads; n != 3 || p.c.flags&fReadable != 0 {
		t.Errorf("%d reads, want 3: short, full, EAGAIN", n)
	}

	p.c.Pause()
	write(t, peer, "while paused")
	settle(t, l)
	if p.saw("data 12") != 0 || p.c.flags&fReadable == 0 {
		t.Fatalf("paused: %v", p.log)
	}
	p.c.Resume()
	l.oneTurn(0) // by the bit, not by an edge
	if p.saw("data 12") != 1 {
		t.Errorf("after Resume: %v", p.log)
	}
}

// 7: data first, then the end, once.
func TestInvariant07DataThenEnd(t *testing.T) {
	l := handLoop(t, Options{BufferSize: 512})
	t.Run("close with data", func(t *testing.T) {
		p := &probe{t: t}
		peer := adopt(t, l, p)
		write(t, peer, strings.Repeat("x", 700))
		_ = peer.Close()
		settle(t, l)
		if got := strings.Join(p.log, ", "); got != "open, hangup, data 512, data 188, eof" {
			t.Error(got)
		}
		p.c.Send(spans("nobody listens"))
		settle(t, l)
		if got := strings.Join(p.log[5:], ", "); got != "end reset" {
			t.Errorf("write after EOF: %v", p.log)
		}
	})
	t.Run("short read hides a FIN", func(t *testing.T) {
		p := &probe{t: t}
		peer := adoptTCP(t, l, p)
		write(t, peer, "bye")
		_ = peer.CloseWrite()
		until(t, l, func() bool { return p.saw("eof") == 1 })
		if p.got.String() != "bye" {
			t.Error(p.log)
		}
	})
	t.Run("reset with data", func(t *testing.T) {
		p := &probe{t: t}
		peer := adoptTCP(t, l, p)
		write(t, peer, strings.Repeat("x", 1300))
		_ = peer.SetLinger(0)
		_ = peer.Close()
		until(t, l, func() bool { return p.saw("end reset") == 1 })
		settle(t, l)
		if p.saw("end reset") != 1 || p.saw("eof") != 0 || p.log[len(p.log)-1] != "end reset" {
			t.Error(p.log)
		}
		if p.got.Len() != 1300 {
			t.Errorf("%d of 1300 bytes before the reset", p.got.Len())
		}
	})
	t.Run("data behind a failed write", func(t *testing.T) {
		p := &probe{t: t}
		peer := adopt(t, l, p)
		write(t, peer, "FATAL: going away")
		_ = peer.Close()
		p.c.Send(spans("query"))
		p.c.Send(spans("another"))
		settle(t, l)
		if p.got.String() != "FATAL: going away" || p.saw("end reset") != 1 || p.saw("eof") != 0 {
			t.Error(p.log)
		}
	})
}

// 7: a failed write ends the connection also if there will never be an end of
// the stream: a peer that has shut its reading side only.
func TestInvariant07FailedWriteEnds(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t}
	peer := adopt(t, l, p)
	if err := unix.Shutdown(int(peer.Fd()), unix.SHUT_RD); err != nil {
		t.Fatal(err)
	}
	settle(t, l)
	p.c.Send(spans("not wanted"))
	settle(t, l)
	if got := strings.Join(p.log, ", "); got != "open, end reset" {
		t.Error(got)
	}
}

// 8: a hang-up is seen while reading is paused; a reset ends the connection.
func TestInvariant08HangupWhilePaused(t *testing.T) {
	l := handLoop(t, Options{})
	p := &probe{t: t}
	peer := adoptTCP(t, l, p)
	p.c.Pause()
	write(t, peer, "last words")
	_ = peer.CloseWrite()
	until(t, l, func() bool { return p.saw("hangup") == 1 })
	settle(t, l)
	if len(p.log) != 2 {
		t.Fatalf("paused: %v", p.log)
	}
	p.c.Resume()
	until(t, l, func() bool { return p.saw("eof") == 1 })
	if got := strings.Join(p.log[2:], ", "); got != "data 10, eof" {
		t.Error(got)
	}

	q := &probe{t: t}
	peer = adoptTCP(t, l, q)
	q.c.Pause()
	_ = peer.SetLinger(0)
	_ = peer.Close()
	until(t, l, func() bool { return q.saw("end reset") == 1 })

	// Pausing after the reset was noted, with bytes still to be read.
	r := &probe{t: t, onData: func(c *Conn, b []byte) int { c.Pause(); return len(b) }}
	peer = adoptTCP(t, l, r)
	write(t, peer, "x")
	_ = peer.SetLinger(0)
	_ = peer.Close()
	until(t, l, func() bool { return r.saw("end reset") == 1 })
}

// 9: a relay that pauses on unsent bytes never holds more than one buffer, and what was held
// back to be sent a little later.
func TestInvariant09UnsentIsBounded(t *testing.T) {
	const size = 4096
	l := handLoop(t, Options{BufferSize: size})
	a, b := relayPair()
	pa, pb := adopt(t, l, a), adopt(t, l, b)
	chunk := make([]byte, 16<<10)
	moved, most, blocked := 0, 0, 0
	buf := make([]byte, 3000)
	for range 400 {
		for {
			if n, _ := send(int32(pa.Fd()), chunk); n < len(chunk) {
				break
			}
		}
		for range 30 {
			turn(t, l)
			most = max(most, b.c.Unsent())
		}
		if b.c.Unsent() > 0 {
			blocked++
		}
		n, _ := recv(int32(pb.Fd()), buf)
		moved += n
	}
	if most > size+size/parcelPart || blocked == 0 || moved == 0 {
		t.Errorf("unsent up to %d with buffers of %d; blocked in %d rounds; %d bytes moved", most, size, blocked, moved)
	}
}
