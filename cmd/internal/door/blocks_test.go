package door

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgweir/pgweir/admission/quota"
)

// leftOf is for how long a role is blocked.
func leftOf(l *BlockList, address netip.Addr, role string) time.Duration {
	left, _ := l.Left(address, role)
	return left
}

func TestBlockList(t *testing.T) {
	var l BlockList
	here, there := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	if leftOf(&l, here, "app") != 0 {
		t.Error("an empty list blocks")
	}
	l.Add(quota.Party{Address: here, Role: "app"}, time.Now().Add(time.Hour))
	l.Add(quota.Party{Address: there, Role: "app"}, time.Now().Add(-time.Second))
	if left := leftOf(&l, here, "app"); left <= 0 || left > time.Hour {
		t.Errorf("%s left", left)
	}
	if leftOf(&l, here, "other") != 0 || leftOf(&l, there, "app") != 0 || leftOf(&l, netip.Addr{}, "app") != 0 {
		t.Error("somebody else is blocked, or a block that is over")
	}
	if e := Blocked(1500 * time.Microsecond); e.Severity != "FATAL" || e.Code != "53400" || e.Detail != "reason=blocked left_ms=2" || !strings.Contains(e.Hint, "retry=no") {
		t.Errorf("%+v", e)
	}
	for i := range 2 * mostBlocked {
		l.Add(quota.Party{Role: fmt.Sprint(i)}, time.Now().Add(time.Hour))
	}
	if len(l.until) != mostBlocked || leftOf(&l, here, "app") == 0 {
		t.Errorf("%d blocked, of at most %d", len(l.until), mostBlocked)
	}
	l.Clear()
	if leftOf(&l, here, "app") != 0 || l.Only(here) != 0 {
		t.Error("blocked after all")
	}
}

// The more often somebody comes, the longer it is held back, but not past its block.
func TestHoldGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l BlockList
		l.Add(quota.Party{Role: "app"}, time.Now().Add(6*time.Second))
		for i := range 100 {
			want := min(time.Second<<(i/holdDouble), holdLongest)
			if left, hold := l.Left(netip.Addr{}, "app"); left != 6*time.Second || hold != want {
				t.Fatalf("login %d is held back for %v of %v, want %v", i, hold, left, want)
			}
		}
		<-time.After(3 * time.Second)
		if left, hold := l.Left(netip.Addr{}, "app"); hold != left || left != 3*time.Second {
			t.Errorf("held back for %v of %v", hold, left)
		}
	})
}

// An address is blocked as a whole until somebody comes from there who is not.
func TestBlockedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l BlockList
		here, there := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		l.Add(quota.Party{Address: here, Role: "a"}, time.Now().Add(10*time.Second))
		l.Add(quota.Party{Address: here, Role: "b"}, time.Now().Add(5*time.Second))
		if leftOf(&l, here, "a") != 10*time.Second || l.Only(here) != 10*time.Second || l.Only(there) != 0 {
			t.Errorf("blocked for %v, another address for %v", l.Only(here), l.Only(there))
		}
		<-time.After(6 * time.Second)
		if leftOf(&l, here, "a") != 4*time.Second || l.Only(here) != 4*time.Second {
			t.Errorf("blocked for %v", l.Only(here))
		}
		if leftOf(&l, here, "b") != 0 || l.Only(here) != 0 { // its block is over: it is somebody else
			t.Error("nobody else may come from there")
		}
		l.Add(quota.Party{Address: here, Role: "b"}, time.Now().Add(time.Second))
		if l.Only(here) != 0 {
			t.Error("it was forgotten that others come from there")
		}
		<-time.After(5 * time.Second)
		l.Add(quota.Party{Address: here, Role: "a"}, time.Now().Add(time.Second))
		if l.Only(here) != time.Second {
			t.Error("what was before the block counts")
		}
	})
}
