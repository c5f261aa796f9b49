package pool

import (
	"testing"

	"github.com/pgweir/pgweir/admission"
)

// dialOf is the dial that the set wants now, or nil.
func dialOf(s *Set) *Server {
	for _, a := range s.Actions(nil) {
		if a.Kind == Dial {
			return a.Server
		}
	}
	return nil
}

// What has failed before a Forgive, or began before it, keeps nobody from the next dial.
func TestForgive(t *testing.T) {
	const k = admission.Key(3)
	s := New(Options{Budget: 4})
	s.Demand(k, 1, 4, 0)
	first := dialOf(s)
	s.Dialed(10e6, first, false, true)
	if s.Fire(20e6); dialOf(s) != nil || !s.Down(k) {
		t.Fatal("a failure that lasts is no reason to wait")
	}
	s.Forgive(30e6)
	second := dialOf(s)
	if second == nil || s.Down(k) {
		t.Fatal("what was forgiven still counts")
	}
	if s.Forgive(40e6); !s.Forgiven(second) {
		t.Fatal("a dial from before was not forgiven")
	}
	s.Dialed(50e6, second, false, true)
	third := dialOf(s)
	if third == nil || s.Down(k) || s.Forgiven(third) {
		t.Fatal("a dial from before the last Forgive was taken against its key")
	}
	s.Dialed(60e6, third, false, true)
	if s.Fire(70e6); dialOf(s) != nil || !s.Down(k) {
		t.Fatal("a dial from after it was forgiven, too")
	}
}

// What is charged is not there for the set's own dials.
func TestCharge(t *testing.T) {
	s := New(Options{Budget: 9, ConnectParallel: 2, ConnectRate: 2})
	for range 2 {
		if ok, _ := s.Charge(0); !ok {
			t.Fatal("nothing to start with")
		}
	}
	ok, again := s.Charge(0)
	if ok || again <= 0 || again > 500e6+1 {
		t.Fatalf("%v, again at %d", ok, again)
	}
	s.Demand(1, 1, 9, 0)
	if dialOf(s) != nil {
		t.Error("a dial beyond the rate")
	}
	if s.Fire(again); dialOf(s) == nil {
		t.Error("no dial when there was enough again")
	}
	s.Hush(again, again+5e9)
	if ok, later := s.Charge(again + 1e9); ok || later != again+5e9 {
		t.Errorf("hushed: %v, again at %d", ok, later)
	}
}
