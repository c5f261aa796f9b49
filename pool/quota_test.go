package pool

import (
	"testing"

	"github.com/pgweir/pgweir/admission"
)

// together puts all keys under one quota.
func together(limit int) func(admission.Key) [2]Quota {
	return func(admission.Key) [2]Quota { return [2]Quota{{ID: 1, Limit: limit}} }
}

// acted is what is done now, and for which keys.
func acted(s *Set) (list []string) {
	for _, a := range s.Actions(nil) {
		kind := "close"
		if a.Kind == Dial {
			kind = "dial"
		}
		list = append(list, kind+string(rune('0'+a.Server.Key)))
	}
	return list
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("did %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("did %v, want %v", got, want)
		}
	}
}

// A quota that is full gives the place of an unused server to the key that waits, and tells
// when it will.
func TestQuotaIsShared(t *testing.T) {
	s := New(Options{Budget: 10, ConnectRate: 1e9, Quotas: together(2)})
	s.Demand(1, 3, 3, 0)
	list := s.Actions(nil)
	if len(list) != 2 || list[0].Kind != Dial || list[1].Kind != Dial {
		t.Fatalf("%d dials for three waiters, want 2", len(list))
	}
	for _, a := range list {
		s.Dialed(0, a.Server, true, false)
	}
	s.Demand(1, 0, 3, 0)
	s.Demand(2, 1, 3, unused-1)
	want(t, acted(s)) // they are in use, as far as that can be known
	if next := s.Fire(unused - 1); next != unused {
		t.Fatalf("next look at %d, want %d", next, int64(unused))
	}
	s.Fire(unused)
	want(t, acted(s), "close1")
	s.Fire(10 * unused)
	want(t, acted(s))
	if s.Stats().Closing != 1 {
		t.Fatalf("%+v", s.Stats())
	}
	for _, sv := range s.Servers(nil) {
		if sv.State() == Closing {
			s.Gone(20*unused, sv)
		}
	}
	want(t, acted(s), "dial2")
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// A lower quota closes what is idle above it, and what is busy when it is put.
func TestQuotaShrinks(t *testing.T) {
	s := New(Options{Budget: 10, ConnectRate: 1e9, Quotas: together(3)})
	s.Demand(1, 3, 3, 0)
	for _, a := range s.Actions(nil) {
		s.Dialed(0, a.Server, true, false)
	}
	s.Demand(1, 0, 3, 0)
	grant, _ := s.Reserve(1, 1)
	other, _ := s.Reserve(1, 1)
	s.Reconfigure(2, Options{Budget: 10, ConnectRate: 1e9, Quotas: together(1)})
	want(t, acted(s), "close1")
	if s.Put(3, s.Server(grant)) {
		t.Error("a server above the quota is idle")
	}
	if !s.Put(4, s.Server(other)) {
		t.Error("the one that may stay was closed")
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// What others have of a quota is not for the set, and one that has too much of it by then gives
// that back.
func TestQuotaOfOthers(t *testing.T) {
	o := Options{Budget: 10, ConnectRate: 1e9, Quotas: together(2)}
	s := New(o)
	s.Demand(1, 2, 2, 0)
	for _, a := range s.Actions(nil) {
		s.Dialed(0, a.Server, true, false)
	}
	s.Demand(1, 0, 2, 0)
	one := [2]Quota{{ID: 1, Limit: 2, Others: 1}}
	if s.OverQuotas([2]Quota{{ID: 1, Limit: 2}}) || !s.OverQuotas(one) || s.OverQuotas([2]Quota{{ID: 7, Limit: 2, Others: 2}}) {
		t.Error("two servers are too many with another one, and not by themselves")
	}
	o.Quotas = func(admission.Key) [2]Quota { return one }
	s.Reconfigure(1e9, o)
	list := s.Actions(nil)
	if len(list) != 1 || list[0].Kind != Close {
		t.Fatalf("%d actions, want the end of one server", len(list))
	}
	if !s.OverQuotas(one) {
		t.Error("a server that is being closed has its place")
	}
	s.Gone(1e9, list[0].Server)
	if s.OverQuotas(one) {
		t.Error("one is left to the set")
	}
	s.Demand(1, 3, 3, 2e9)
	want(t, acted(s))
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
