package door

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func at(address string) Guesser { return Guesser{net: netip.MustParsePrefix(address)} }

func TestFailuresAreAnsweredLaterAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var th Throttle
		evil, good := at("10.0.0.1/32"), at("10.0.0.2/32")
		want := []time.Duration{0, 0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000}
		for i, ms := range want {
			if got := th.Fail(evil); got != ms*time.Millisecond {
				t.Errorf("failure %d: %v", i+1, got)
			}
		}
		if got := th.Fail(good); got != 0 {
			t.Errorf("another address waits %v", got)
		}
		<-time.After(8 * forgetFailure)
		if got := th.Fail(evil); got != 200*time.Millisecond {
			t.Errorf("after a while %v", got)
		}
		for range 1000 {
			th.Fail(evil)
		}
		<-time.After((mostFailures - freeFailures + 1) * forgetFailure)
		if got := th.Fail(evil); got != 0 {
			t.Errorf("it is never forgotten: %v", got)
		}
		if s := th.Stats(); s.Failed != 1015 || s.Delayed != 1010 || s.Addresses != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestGuessesUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var th Throttle
		evil, good := at("10.0.0.1/32"), at("10.0.0.2/32")
		for range freeFailures {
			if _, ok := th.Begin(evil, "app"); !ok {
				t.Fatal("refused too early")
			}
			th.Fail(evil)
		}
		var ends []func()
		for i := range mostAtAddress + 10 {
			role := string(rune('a' + i/mostGuesses))
			end, ok := th.Begin(evil, role)
			if ok != (i < mostAtAddress) {
				t.Fatalf("login %d: %v", i, ok)
			}
			if ok {
				ends = append(ends, end)
			}
			if i == mostGuesses-1 {
				if _, ok := th.Begin(evil, role); ok {
					t.Error("more guesses of a role than are allowed")
				}
			}
		}
		if _, ok := th.Begin(good, "a"); !ok {
			t.Error("another address is refused")
		}
		if s := th.Suspects(10); len(s) != 1 || s[0].Under != mostAtAddress || s[0].Refused != 11 || s[0].Address != "10.0.0.1" {
			t.Errorf("%+v", s)
		}
		for _, end := range ends {
			end()
			end() // twice is once
		}
		if end, ok := th.Begin(evil, "a"); !ok {
			t.Error("refused for ever")
		} else {
			end()
		}
		s := th.from[evil].Value.(*suspect)
		if s.under != 0 || len(s.roles) != 0 {
			t.Errorf("left: %+v", s)
		}
	})
}

func TestRememberedAddressesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var th Throttle
		for i := range mostAddresses + 50 {
			th.Fail(Guesser{net: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)})
			<-time.After(1)
		}
		if n := len(th.from); n != mostAddresses || th.order.Len() != n {
			t.Errorf("%d, %d", n, th.order.Len())
		}
		if th.from[at("10.0.0.1/32")] != nil || th.from[at("10.0.0.60/32")] == nil {
			t.Error("not the oldest has made room")
		}
	})
}

func TestGuesserNames(t *testing.T) {
	for g, want := range map[Guesser]string{at("10.0.0.1/32"): "10.0.0.1", at("fd00:1:2:3::/64"): "fd00:1:2:3::/64", {user: 33}: "unix uid 33"} {
		if got := g.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
