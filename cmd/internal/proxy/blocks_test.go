package proxy

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/wire"
)

// leftOf is for how long a role is blocked.
func leftOf(l *blockList, address netip.Addr, role string) time.Duration {
	left, _ := l.left(address, role)
	return left
}

func TestBlockList(t *testing.T) {
	var l blockList
	here, there := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	if leftOf(&l, here, "app") != 0 {
		t.Error("an empty list blocks")
	}
	l.add(quota.Party{Address: here, Role: "app"}, time.Now().Add(time.Hour))
	l.add(quota.Party{Address: there, Role: "app"}, time.Now().Add(-time.Second))
	if left := leftOf(&l, here, "app"); left <= 0 || left > time.Hour {
		t.Errorf("%s left", left)
	}
	if leftOf(&l, here, "other") != 0 || leftOf(&l, there, "app") != 0 || leftOf(&l, netip.Addr{}, "app") != 0 {
		t.Error("somebody else is blocked, or a block that is over")
	}
	if e := blockedLogin(1500 * time.Microsecond); e.Severity != "FATAL" || e.Code != "53400" || e.Detail != "reason=blocked left_ms=2" || !strings.Contains(e.Hint, "retry=no") {
		t.Errorf("%+v", e)
	}
	for i := range 2 * mostBlocked {
		l.add(quota.Party{Role: fmt.Sprint(i)}, time.Now().Add(time.Hour))
	}
	if len(l.until) != mostBlocked || leftOf(&l, here, "app") == 0 {
		t.Errorf("%d blocked, of at most %d", len(l.until), mostBlocked)
	}
	l.clear()
	if leftOf(&l, here, "app") != 0 || l.only(here) != 0 {
		t.Error("blocked after all")
	}
}

// The more often somebody comes, the longer it is held back, but not past its block.
func TestHoldGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l blockList
		l.add(quota.Party{Role: "app"}, time.Now().Add(6*time.Second))
		for i := range 100 {
			want := min(time.Second<<(i/holdDouble), holdLongest)
			if left, hold := l.left(netip.Addr{}, "app"); left != 6*time.Second || hold != want {
				t.Fatalf("login %d is held back for %v of %v, want %v", i, hold, left, want)
			}
		}
		wait(3 * time.Second)
		if left, hold := l.left(netip.Addr{}, "app"); hold != left || left != 3*time.Second {
			t.Errorf("held back for %v of %v", hold, left)
		}
	})
}

// An address is blocked as a whole until somebody comes from there who is not.
func TestBlockedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l blockList
		here, there := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		l.add(quota.Party{Address: here, Role: "a"}, time.Now().Add(10*time.Second))
		l.add(quota.Party{Address: here, Role: "b"}, time.Now().Add(5*time.Second))
		if leftOf(&l, here, "a") != 10*time.Second || l.only(here) != 10*time.Second || l.only(there) != 0 {
			t.Errorf("blocked for %v, another address for %v", l.only(here), l.only(there))
		}
		wait(6 * time.Second)
		if leftOf(&l, here, "a") != 4*time.Second || l.only(here) != 4*time.Second {
			t.Errorf("blocked for %v", l.only(here))
		}
		if leftOf(&l, here, "b") != 0 || l.only(here) != 0 { // its block is over: it is somebody else
			t.Error("nobody else may come from there")
		}
		l.add(quota.Party{Address: here, Role: "b"}, time.Now().Add(time.Second))
		if l.only(here) != 0 {
			t.Error("it was forgotten that others come from there")
		}
		wait(5 * time.Second)
		l.add(quota.Party{Address: here, Role: "a"}, time.Now().Add(time.Second))
		if l.only(here) != time.Second {
			t.Error("what was before the block counts")
		}
	})
}

// told is a connection that remembers what was written and when it was closed.
type told struct {
	net.Conn
	got    bytes.Buffer
	closed time.Time
}

func (c *told) Write(b []byte) (int, error)  { return c.got.Write(b) }
func (c *told) SetDeadline(time.Time) error  { return nil }
func (c *told) Close() error                 { c.closed = time.Now(); return nil }
func (c *told) after(from time.Time) float64 { return c.closed.Sub(from).Seconds() }
func (c *told) open() bool                   { return c.closed.IsZero() && c.got.Len() == 0 }
func (c *told) was(e *wire.Error) bool       { return bytes.Equal(c.got.Bytes(), wire.AppendError(nil, e)) }

func newTold(n int) (list []*told) {
	for range n {
		list = append(list, &told{})
	}
	return list
}

// Who is held back is told when its time has come, in order; no more are than may be.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h held
		begin, e, list := time.Now(), blockedLogin(time.Second), newTold(5)
		if h.hold(list[0], e, time.Second) {
			t.Fatal("held although nobody may be")
		}
		h.limit(3)
		for i, c := range list[:4] {
			if ok := h.hold(c, e, time.Second); ok != (i < 3) || h.full() != (i >= 2) {
				t.Fatalf("%d: held %v, full %v", i, ok, h.full())
			}
			wait(200 * time.Millisecond)
		}
		wait(300 * time.Millisecond) // 1.1 s after the first came, and 0.9 s after the second
		synctest.Wait()
		if !list[0].was(e) || list[0].after(begin) != 1 || !list[1].open() || !list[3].open() || h.full() {
			t.Errorf("the first was told after %v s, the second is open: %v", list[0].after(begin), list[1].open())
		}
		if !h.hold(list[4], e, time.Second) {
			t.Error("no room for another one")
		}
		wait(time.Second)
		synctest.Wait()
		for i, want := range map[int]float64{1: 1.2, 2: 1.4, 4: 2.1} {
			if !list[i].was(e) || list[i].after(begin) != want {
				t.Errorf("%d was told %q after %v s, want %v", i, list[i].got.String(), list[i].after(begin), want)
			}
		}
		// Who is due sooner is told sooner.
		late, soon := &told{}, &told{}
		from := time.Now()
		h.hold(late, e, 5*time.Second)
		h.hold(soon, e, time.Second)
		wait(6 * time.Second)
		synctest.Wait()
		if late.after(from) != 5 || soon.after(from) != 1 {
			t.Errorf("told after %v and %v s", late.after(from), soon.after(from))
		}
		// And once more from an empty queue, until the end.
		last := newTold(2)
		h.hold(last[0], e, time.Second)
		h.end()
		if !last[0].was(e) || last[0].after(begin) != time.Since(begin).Seconds() || h.hold(last[1], e, time.Second) {
			t.Error("somebody is held back after the end")
		}
	})
}
