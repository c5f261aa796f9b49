package loop

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// withRing skips a test where there is no io_uring.
func withRing(t *testing.T) {
	t.Helper()
	r, err := newRing(mostParcels)
	if err != nil {
		t.Skip(err)
	}
	r.close()
}

// ends returns the ends of a stream.
func ends(t *testing.T) (a, b *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b = os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

func openRing(t *testing.T, n uint32) *ring {
	t.Helper()
	withRing(t)
	r, err := newRing(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

// Sends go out in their order, and each has its own result; the rings turn over many times.
func TestRing(t *testing.T) {
	r := openRing(t, 4)
	a, b := ends(t)
	closed, _ := ends(t)
	fd, gone := int32(a.Fd()), int32(closed.Fd())
	_ = closed.Close()
	for i := range 100 {
		all := bytes.Repeat([]byte{byte(i)}, 5) // not on the stack, which may move
		text := [][]byte{all[:2], all[2:]}
		r.add(fd, text[0], 7)
		r.add(gone, text[0], 8)
		r.add(fd, text[1], 9)
		if n, e := r.submit(); n != 3 || e != 0 {
			t.Fatalf("round %d: %d, %v", i, n, e)
		}
		for _, want := range []struct {
			name, n int
			e       unix.Errno
		}{{7, 2, 0}, {8, 0, unix.EBADF}, {9, 3, 0}} {
			if name, n, e := r.result(); name != want.name || n != want.n || e != want.e {
				t.Fatalf("round %d: %d, %d, %v instead of %v", i, name, n, e, want)
			}
		}
		if got := received(t, b); got != string(all) {
			t.Fatalf("round %d: %q", i, got)
		}
	}
}

// A send that the kernel is not done with when it returns has a result later.
func TestRingWaits(t *testing.T) {
	r := openRing(t, 2)
	a, b := ends(t)
	much := bytes.Repeat([]byte("x"), 4<<20)
	r.add(int32(a.Fd()), much, 5)
	r.subs[*r.sqTail&r.sqMask].msgFlags = unix.MSG_WAITALL
	if err := unix.SetNonblock(int(a.Fd()), false); err != nil {
		t.Fatal(err)
	}
	if n, e := r.submit(); n != 1 || e != 0 {
		t.Fatal(n, e)
	}
	read := make(chan int)
	go func() {
		n, buf := 0, make([]byte, 1<<16)
		for n < len(much) {
			k, err := b.Read(buf)
			if err != nil {
				break
			}
			n += k
		}
		read <- n
	}()
	if name, n, e := r.result(); name != 5 || n != len(much) || e != 0 {
		t.Errorf("%d, %d, %v", name, n, e)
	}
	_ = a.Close()
	if n := <-read; n != len(much) {
		t.Errorf("%d bytes read", n)
	}
}

// What the kernel does not take as a batch is sent all the same, in its order.
func TestRingFails(t *testing.T) {
	withRing(t)
	for name, c := range map[string]struct {
		spoil  func(l *Loop)
		broken int // this one ends
		ring   bool
	}{
		"an entry is refused":  {func(l *Loop) { l.ring.subs[(*l.ring.sqTail+1)&l.ring.sqMask].prio = 1 << 15 }, 1, true},
		"the ring is taken":    {func(l *Loop) { _ = unix.Close(l.ring.fd); l.ring.fd = -1 }, -1, false},
		"nothing is submitted": {func(l *Loop) { l.ring.added = 0 }, -1, true},
		"sends are disturbed":  {func(l *Loop) { disturb(l.ring) }, -1, true},
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			l := handLoop(t, Options{RingLost: func(error) { told++ }})
			l.ring.beforeSubmit = func() { c.spoil(l); l.ring.beforeSubmit = nil }
			all, peers, start := crowdOf(t, l, 4, func(all []*probe) {
				for _, p := range all {
					p.c.Send(spans("one "))
				}
				for _, p := range all {
					p.c.Send(spans("two"))
				}
			})
			start()
			for i, p := range peers {
				want := "one two"
				if i == c.broken {
					want = "one "
				}
				if s := received(t, p); s != want {
					t.Errorf("%d: %q", i, s)
				}
				if ended := all[i].saw("end reset") == 1; ended != (i == c.broken) {
					t.Errorf("%d: %v", i, all[i].log)
				}
			}
			if (l.ring != nil) != c.ring || (told == 0) != c.ring || told > 1 {
				t.Error("ring:", l.ring, "told", told)
			}
		})
	}
}

// disturb has all sends that were added end with EINTR, and none of them be done.
func disturb(r *ring) {
	tail, n := r.cqTail, r.added
	for i := range n {
		e := &r.subs[(*r.sqTail+i)&r.sqMask]
		e.fd = -1
		r.results[(*tail+i)&r.cqMask] = uringResult{name: e.name, res: -int32(unix.EINTR)}
	}
	head := *tail + n
	r.results, r.cqTail = slices.Clone(r.results), &head // what the kernel says is not looked at
}

// A ring whose descriptor somebody else has closed is given up, and whatever has its number by then
// is left alone.
func TestRingIsSomethingElse(t *testing.T) {
	withRing(t)
	l := handLoop(t, Options{})
	fd := l.ring.fd
	other, _ := ends(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	l.ring.beforeSubmit = func() {
		if err := unix.Dup3(int(other.Fd()), fd, unix.O_CLOEXEC); err != nil {
			t.Error(err)
		}
	}
	_, peers, start := crowdOf(t, l, 2, func(all []*probe) {
		for _, p := range all {
			p.c.Send(spans("x"))
		}
	})
	start()
	for i, p := range peers {
		if s := received(t, p); s != "x" {
			t.Errorf("%d: %q", i, s)
		}
	}
	if l.ring != nil {
		t.Error("a ring")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		t.Error("closed:", err)
	}
}

// A loop says whether it has a ring, and counts what it did with it.
func TestRingIsTold(t *testing.T) {
	bothWays(t, func(t *testing.T, o Options) {
		l := handLoop(t, o)
		if (l.Ring() == nil) == o.NoRing {
			t.Error(l.Ring())
		}
		_, _, start := crowdOf(t, l, 3, func(all []*probe) {
			for _, p := range all {
				p.c.Send(spans("x"))
			}
		})
		was := l.count
		start()
		batches := uint64(1)
		if o.NoRing {
			batches = 0
		}
		if w, b := l.count.Writes-was.Writes, l.count.Batches-was.Batches; w != 3 || b != batches {
			t.Errorf("%d writes, %d batches", w, b)
		}
	})
	if _, err := newRing(0); err == nil {
		t.Error("a ring for nothing")
	}
}
