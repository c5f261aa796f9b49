package pool

import (
	"slices"
	"testing"

	"github.com/pgweir/pgweir/admission"
)

// answer lets all dials succeed that are asked for, and returns all actions.
func answer(t testing.TB, s *Set, now int64) (dialled, closed []*Server) {
	t.Helper()
	for {
		actions := s.Actions(nil)
		if len(actions) == 0 {
			return dialled, closed
		}
		for _, a := range actions {
			if a.Kind == Dial {
				s.Dialed(now, a.Server, true, false)
				dialled = append(dialled, a.Server)
			} else {
				closed = append(closed, a.Server)
			}
			check(t, s)
		}
	}
}

func odd(k admission.Key) bool { return k%2 == 1 }

// Ordinary keys leave the reserve alone, however many of them lack servers.
func TestReserveIsForItsKeys(t *testing.T) {
	s := New(Options{Budget: 4, Reserve: 2, ReservedKey: odd, ConnectRate: 1e9})
	for k := admission.Key(0); k < 10; k += 2 {
		s.Demand(k, 3, 9, 0)
	}
	dialled, _ := answer(t, s, 0)
	if len(dialled) != 2 {
		t.Fatalf("%d servers of ordinary keys", len(dialled))
	}
	s.Demand(1, 5, 9, 0)
	if dialled, _ = answer(t, s, 0); len(dialled) != 2 || dialled[0].Key != 1 {
		t.Fatalf("%d servers for the reserve's key", len(dialled))
	}
	// One that ends leaves its place to its own kind.
	s.Gone(0, dialled[0])
	s.Demand(1, 0, 9, 0)
	if d, c := answer(t, s, 0); len(d)+len(c) != 0 {
		t.Fatalf("%v %v", d, c)
	}
	if st := s.Stats(); st.Reserve != 2 || st.Ordinary != 2 {
		t.Errorf("%+v", st)
	}
}

// While the ordinary places are full, only a server of their own makes room
// for an ordinary key; a key of the reserve may have anybody's.
func TestReserveWhenPlacesMove(t *testing.T) {
	s := New(Options{Budget: 3, Reserve: 1, ReservedKey: odd, ConnectRate: 1e9})
	reserve := dial(t, s, 0, 1, 1)[0]
	ordinary := dial(t, s, ms, 0, 2)
	s.Demand(2, 1, 1, 100*ms)
	if _, closed := answer(t, s, 100*ms); !slices.Equal(closed, ordinary[:1]) {
		t.Fatalf("closed %v", closed)
	}
	s.Gone(100*ms, ordinary[0])
	answer(t, s, 100*ms) // its heir's dial
	s.Demand(2, 0, 1, 100*ms)
	s.Demand(3, 2, 2, 200*ms)
	if _, closed := answer(t, s, 200*ms); len(closed) != 2 || closed[0] != reserve || closed[1] != ordinary[1] {
		t.Fatalf("closed %v", closed)
	}
	if s.Steal(2, 300*ms, false) {
		t.Error("stolen for a key that lacks nothing")
	}
}

func TestStealForOrdinaryLeavesTheReserve(t *testing.T) {
	s := New(Options{Budget: 2, Reserve: 1, ReservedKey: odd, ConnectRate: 1e9})
	dial(t, s, 0, 1, 1)
	mine := dial(t, s, ms, 0, 1)[0]
	s.Demand(0, 5, 1, 2*ms)
	s.Demand(2, 1, 1, 2*ms)
	if !s.Steal(2, 2*ms, false) || mine.State() != Closing {
		t.Fatal("not stolen from the ordinary key")
	}
	check(t, s)
}

func TestMinimumIsKeptOpen(t *testing.T) {
	s := New(Options{Budget: 5, ConnectRate: 1e9, IdleTimeout: 10 * ms, Lifetime: 100 * ms})
	s.SetMinimum(3, 2)
	dialled, _ := answer(t, s, 0)
	if len(dialled) != 2 || dialled[0].Key != 3 {
		t.Fatalf("%v", dialled)
	}
	extra := dial(t, s, 0, 3, 1)
	next := s.Fire(0)
	if next != 10*ms {
		t.Fatalf("next %d", next/ms)
	}
	// The idle timeout takes the one that is too many, and then leaves off.
	next = s.Fire(10 * ms)
	if _, closed := answer(t, s, 10*ms); len(closed) != 1 || extra[0].State() != Idle {
		t.Fatalf("closed %v", closed)
	}
	if next != 100*ms {
		t.Fatalf("next %d", next/ms)
	}
	check(t, s)
	// Old age is replaced, one at a time.
	s.Fire(100 * ms)
	if d, c := answer(t, s, 100*ms); len(c) != 1 || len(d) != 1 {
		t.Fatalf("%d closed, %d opened", len(c), len(d))
	}
	// Below a lower minimum the timeout is at work again.
	s.SetMinimum(3, 0)
	s.Fire(200 * ms)
	answer(t, s, 200*ms)
	if st := s.Stats(); st.Idle != 0 || st.Dialling != 0 {
		t.Fatalf("%+v", st)
	}
	if ks := s.Keys(nil); len(ks) != 1 || ks[0].Minimum != 0 {
		t.Fatalf("%+v", ks)
	}
}

// A lower minimum lets the idle timeout take what it had to leave.
func TestLowerMinimumLetsGo(t *testing.T) {
	s := New(Options{Budget: 5, ConnectRate: 1e9, IdleTimeout: 10 * ms})
	s.SetMinimum(3, 2)
	answer(t, s, 0)
	if next := s.Fire(50 * ms); next != never {
		t.Fatalf("next %d", next/ms)
	}
	s.SetMinimum(3, 1)
	s.Fire(50 * ms)
	if _, closed := answer(t, s, 50*ms); len(closed) != 1 {
		t.Fatalf("closed %v", closed)
	}
}

// Waiters come before minimums, and may have the place of one.
func TestMinimumYieldsToWaiters(t *testing.T) {
	s := New(Options{Budget: 2, ConnectRate: 1e9})
	s.SetMinimum(0, 9)
	s.Demand(1, 1, 1, 0)
	dialled, _ := answer(t, s, 0)
	if len(dialled) != 2 || dialled[0].Key != 1 || dialled[1].Key != 0 {
		t.Fatalf("%v", dialled)
	}
	s.Demand(2, 1, 1, 100*ms)
	if _, closed := answer(t, s, 100*ms); len(closed) != 1 || closed[0] != dialled[1] {
		t.Fatalf("%v", closed)
	}
	s.Gone(100*ms, dialled[1])
	if d, _ := answer(t, s, 100*ms); len(d) != 1 || d[0].Key != 2 {
		t.Fatalf("%v", d)
	}
	if s.Fire(100*ms) != never {
		t.Error("fires for a minimum without a place")
	}
}

func TestMinimumBacksOff(t *testing.T) {
	s := New(Options{Budget: 2, ConnectRate: 1e9})
	s.SetMinimum(0, 1)
	a := s.Actions(nil)
	s.Dialed(0, a[0].Server, false, false)
	if a = s.Actions(nil); len(a) != 0 {
		t.Fatalf("%v", a)
	}
	next := s.Fire(0)
	if next != 75*ms {
		t.Fatalf("next %d", next/ms)
	}
	s.Fire(next)
	if a = s.Actions(nil); len(a) != 1 {
		t.Fatalf("%v", a)
	}
	check(t, s)
}

func TestCloseKeys(t *testing.T) {
	s := New(Options{Budget: 4, ConnectRate: 1e9})
	kept := dial(t, s, 0, 0, 1)[0]
	both := dial(t, s, 0, 1, 2)
	s.Reserve(1, 0)
	busy := both[1]
	s.Demand(3, 1, 1, 0)
	dialling := s.Actions(nil)[0].Server
	s.CloseKeys(0, odd)
	if both[0].State() != Closing || busy.State() != Busy || kept.State() != Idle {
		t.Fatalf("%v %v %v", both[0].State(), busy.State(), kept.State())
	}
	if s.Put(0, busy) || s.Dialed(0, dialling, true, false) || busy.State() != Closing || dialling.State() != Closing {
		t.Error("a server that was to be closed went back")
	}
	check(t, s)
}

func TestReconfigure(t *testing.T) {
	s := New(Options{Budget: 4, ConnectRate: 1e9})
	a, b := dial(t, s, 0, 0, 2), dial(t, s, 0, 1, 2)
	s.Demand(0, 1, 0, 0)
	s.Reserve(1, 0)
	s.Reconfigure(5*ms, Options{Budget: 3, Reserve: 1, ReservedKey: odd, Lifetime: 50 * ms, IdleTimeout: 20 * ms})
	check(t, s)
	// 4 of 3: the idle one that nobody waits for goes, though it may stay in the
	// reserve.
	if b[0].State() != Closing || a[0].State() != Idle || a[1].State() != Idle {
		t.Fatalf("%v %v %v", b[0].State(), a[0].State(), a[1].State())
	}
	if next := s.Fire(5 * ms); next != 20*ms {
		t.Errorf("next %d", next/ms)
	}
	s.Reconfigure(5*ms, Options{Budget: 3, Reserve: 2, Lifetime: 50 * ms})
	check(t, s)
	if st := s.Stats(); st.Idle != 0 || st.Ordinary != 4 {
		t.Errorf("%+v", st)
	}
	if s.Put(6*ms, b[1]) != true {
		t.Errorf("%+v", s.Stats()) // the one place that is left
	}
	if next := s.Fire(6 * ms); next != 11*ms { // key 0 may have it then
		t.Errorf("next %d", next/ms)
	}
	s.Demand(3, 1, 1, 6*ms)
	s.Reconfigure(6*ms, Options{Budget: 3, Reserve: 2, ReservedKey: odd})
	check(t, s)
	s.Reconfigure(7*ms, Options{})
	check(t, s)
	if st := s.Stats(); st.Idle != 0 || st.Closing != 4 {
		t.Errorf("%+v", st)
	}
}

func TestWarming(t *testing.T) {
	limit := 0
	s := New(Options{Budget: 2, ConnectRate: 1e9, KeyLimit: func(admission.Key) int { return limit }})
	if !s.Warming(0) {
		t.Error("nothing is open yet, and all may be")
	}
	s.Demand(0, 2, 2, 0)
	a := s.Actions(nil)
	if !s.Warming(0) || !s.Warming(7) {
		t.Error("dials are under way")
	}
	s.Dialed(0, a[0].Server, true, false)
	s.Dialed(0, a[1].Server, true, false)
	if s.Warming(0) || s.Warming(7) {
		t.Error("all is open")
	}
	s.Gone(0, a[0].Server)
	if !s.Warming(0) {
		t.Error("a place is free")
	}
	limit = 1
	if s.Warming(0) || !s.Warming(7) {
		t.Error("at its own limit")
	}
	limit = 0
	s.Demand(0, 2, 2, 0)
	a = s.Actions(nil)
	s.Dialed(0, a[0].Server, false, false)
	if s.Warming(0) {
		t.Error("its dials fail")
	}
}

// A workload that has all that it may gets no servers for those who wait, beyond
// the one that the next of them will use; the others' places stay free.
func TestNoServersForWhoMayNotRun(t *testing.T) {
	s := New(Options{Budget: 8, ConnectRate: 1e9})
	g := admission.New(admission.Plan{Slots: 8, Workloads: []admission.Workload{
		{Share: 0.25, Lendable: 1}, {Share: 0.75, Lendable: 1},
	}}, s, nil)
	count := func() (n [3]int) {
		for _, k := range s.Keys(nil) {
			n[k.Key] = k.Dialling + k.Idle + k.Busy
		}
		return n
	}
	waiters := make([]admission.Waiter, 30)
	for i := range waiters {
		waiters[i].Key, waiters[i].Workload = admission.Key(i%3), uint16(i%3+1)/2 // 0, 1, 1
		g.Admit(0, &waiters[i])
		s.Actions(nil)
	}
	check(t, s)
	if n := count(); n[0] != 2 || n[1]+n[2] != 6 {
		t.Fatalf("%v", n)
	}
}
