package pool

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pgweir/pgweir/admission"
)

const ms = int64(1e6)

// dial opens n servers of k, as far as the set lets it.
func dial(t testing.TB, s *Set, now int64, k admission.Key, n int) []*Server {
	t.Helper()
	s.Demand(k, n+s.key(k).count[Idle], n, now)
	var out []*Server
	for _, a := range s.Actions(nil) {
		if a.Kind != Dial || a.Server.Key != k {
			t.Fatalf("%v of key %d", a.Kind, a.Server.Key)
		}
		if !s.Dialed(now, a.Server, true, false) || a.Server.State() != Idle {
			t.Fatalf("%v", a.Server.State())
		}
		out = append(out, a.Server)
	}
	s.Demand(k, 0, n, now)
	check(t, s)
	return out
}

func check(t testing.TB, s *Set) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestHandlesOfTheDeadFindNobody(t *testing.T) {
	s := New(Options{Budget: 2, ConnectRate: 1e9})
	seen := map[uint32]bool{}
	for range 3 {
		sv := dial(t, s, 0, 1, 1)[0]
		if sv.ID == 0 || seen[sv.ID] || s.Server(sv.ID) != sv {
			t.Fatalf("handle %#x", sv.ID)
		}
		seen[sv.ID] = true
		s.Gone(0, sv)
		s.Gone(0, sv) // twice is once
		if s.Server(sv.ID) != nil || sv.State() != Gone {
			t.Fatalf("handle %#x of %v", sv.ID, sv.State())
		}
		check(t, s)
	}
	if s.Server(0) != nil || s.Server(99) != nil {
		t.Error("found a server that never was")
	}
	// A generation that wraps skips 0, so that no handle is 0.
	s.gens[0] = 0xffff
	if sv := dial(t, s, 0, 1, 1)[0]; sv.ID>>16 != 1 {
		t.Errorf("handle %#x", sv.ID)
	}
}

func TestReserveTakesTheOneUsedLast(t *testing.T) {
	s := New(Options{Budget: 3, ConnectRate: 1e9})
	all := dial(t, s, 0, 0, 3)
	s.Demand(0, 3, 0, 0)
	for _, want := range []*Server{all[2], all[1]} {
		if id, ok := s.Reserve(0, ms); !ok || id != want.ID || want.State() != Busy || want.Since() != ms {
			t.Fatalf("%#x, want %#x", id, want.ID)
		}
		check(t, s)
	}
	s.Put(2*ms, all[2])
	if id, _ := s.Reserve(0, 3*ms); id != all[2].ID {
		t.Errorf("%#x", id)
	}
	if _, ok := s.Reserve(7, 3*ms); ok {
		t.Error("a server of a key that has none")
	}
	check(t, s)
}

func TestPutTwiceIsOnce(t *testing.T) {
	s := New(Options{Budget: 1})
	sv := dial(t, s, 0, 0, 1)[0]
	if s.Put(0, sv) {
		t.Error("was idle")
	}
	s.Reserve(0, 0)
	s.Hold(sv)
	for range 2 {
		if s.Put(0, sv) || !sv.Held() {
			t.Error("idle while held")
		}
	}
	if !s.Unhold(0, sv) || s.Put(0, sv) {
		t.Error("not idle after the hold, or idle twice")
	}
	check(t, s)
}

func TestHoldOutlivesItsServer(t *testing.T) {
	s := New(Options{Budget: 1, ConnectRate: 1e9})
	sv := dial(t, s, 0, 0, 1)[0]
	s.Hold(sv)
	s.Gone(0, sv)
	s.Hold(sv)
	if s.Unhold(0, sv) || s.Stats().Held != 0 {
		t.Errorf("%+v", s.Stats())
	}
	check(t, s)
	sv = dial(t, s, 0, 0, 1)[0]
	defer func() {
		if recover() == nil {
			t.Error("Unhold without Hold passed")
		}
	}()
	s.Unhold(0, sv)
}

// The waits between failed dials double from 100 ms to 500 ms, each times a random
// 0.5 to 1.
func TestBackoff(t *testing.T) {
	for _, rnd := range []float64{0, 0.5, 1} {
		s := New(Options{Budget: 1, ConnectRate: 1e9, Rand: func() float64 { return rnd }})
		s.Demand(0, 1, 1, 0)
		now := int64(0)
		var waits []int64
		for range 7 {
			a := s.Actions(nil)
			if len(a) != 1 {
				t.Fatalf("%v", a)
			}
			s.Dialed(now, a[0].Server, false, false)
			if !s.Down(0) || len(s.Actions(nil)) > 0 {
				t.Fatal("not down, or dials at once")
			}
			next := s.Fire(now)
			waits = append(waits, int64(float64(next-now)/(0.5+rnd/2))/ms)
			now = next
			s.Fire(now)
			check(t, s)
		}
		if d := cmp.Diff([]int64{100, 200, 400, 500, 500, 500, 500}, waits); d != "" {
			t.Errorf("random %v: %s", rnd, d)
		}
		// A success forgets all of it.
		a := s.Actions(nil)
		s.Dialed(now, a[0].Server, true, false)
		if s.Down(0) {
			t.Error("down with a server")
		}
		s.Gone(now, a[0].Server)
		if s.Down(0) || len(s.Actions(nil)) != 1 {
			t.Error("the failures are not forgotten")
		}
	}
}

func TestDownNeedsAFailureAndNoServer(t *testing.T) {
	s := New(Options{Budget: 2, ConnectRate: 1e9})
	if s.Down(0) || s.Down(5) || s.Failing(0) || s.Failing(5) {
		t.Error("down without a failure")
	}
	sv := dial(t, s, 0, 0, 1)[0]
	s.Demand(0, 2, 2, 0)
	s.Dialed(0, s.Actions(nil)[0].Server, false, false)
	if s.Down(0) || !s.Failing(0) {
		t.Error("down with an idle server, or no failure seen")
	}
	s.Break(0, sv)
	if !s.Down(0) {
		t.Error("not down with only a closing one")
	}
}

func TestLifetimeIsSpread(t *testing.T) {
	i, rnds := 0, []float64{0, 0.5, 0.75, 1}
	s := New(Options{Budget: 4, Lifetime: 1000 * ms, ConnectRate: 1e9, Rand: func() float64 { i++; return rnds[i-1] }})
	var ages []int64
	for range 4 {
		sv := dial(t, s, 0, 0, 1)[0]
		ages = append(ages, (sv.expires-sv.Born())/ms)
	}
	if !slices.Equal(ages, []int64{800, 1000, 1100, 1200}) {
		t.Error(ages)
	}
	// One that is too old ends when it is put.
	s.Reserve(0, 0) // the fourth
	sv := s.Server(uint32(1)<<16 | 3)
	if s.Put(1200*ms, sv) || sv.State() != Closing {
		t.Errorf("%v", sv.State())
	}
	// Another one of its key not within 100 ms.
	s.Reserve(0, 0)
	sv = s.Server(uint32(1)<<16 | 2)
	if !s.Put(1250*ms, sv) {
		t.Errorf("%v", sv.State())
	}
	if next := s.Fire(1250 * ms); next != 1300*ms {
		t.Errorf("next at %d", next/ms)
	}
}

// The token bucket holds as many dials as may be under way, or one second's.
func TestDialRate(t *testing.T) {
	for _, tc := range []struct {
		parallel int
		rate     float64
		burst    int
	}{{8, 2, 8}, {2, 5, 5}, {0, 0, 20}} {
		s := New(Options{Budget: 20, ConnectParallel: tc.parallel, ConnectRate: tc.rate})
		s.Demand(0, 20, 20, 0)
		n := 0
		for {
			a := s.Actions(nil)
			if len(a) == 0 {
				break
			}
			for _, a := range a {
				s.Dialed(0, a.Server, true, false)
				s.Reserve(0, 0)
				n++
			}
		}
		if n != tc.burst {
			t.Errorf("%+v: %d at once", tc, n)
		}
		if n == 20 {
			continue
		}
		next := s.Fire(0)
		if want := int64(1e9 / tc.rate); next < want || next > want+10 {
			t.Errorf("%+v: next at %d", tc, next)
		}
		s.Fire(next)
		if len(s.Actions(nil)) != 1 {
			t.Errorf("%+v: no dial when due", tc)
		}
	}
}

func TestStealRefuses(t *testing.T) {
	fresh := func(o Options) *Set {
		o.Budget, o.ConnectRate = 2, 1e9
		s := New(o)
		dial(t, s, 0, 0, 2)
		s.Demand(0, 5, 0, 0) // they are waited for
		s.Actions(nil)
		return s
	}
	s := fresh(Options{})
	if s.Steal(1, 0, false) {
		t.Error("for a key that nobody waits for")
	}
	s.Demand(1, 3, 0, 0)
	if !s.Steal(1, 0, false) || s.Steal(1, 0, false) {
		t.Error("not once, or again while one is on its way")
	}
	a := s.Actions(nil)
	if len(a) != 1 || a[0].Kind != Close || a[0].Server.Key != 0 || s.Stats().Moved != 1 {
		t.Fatalf("%+v", a)
	}
	s.Gone(0, a[0].Server)
	if a = s.Actions(nil); len(a) != 1 || a[0].Kind != Dial || a[0].Server.Key != 1 {
		t.Fatalf("the place went elsewhere: %+v", a)
	}
	s.Dialed(0, a[0].Server, false, false)
	if s.Steal(1, 0, false) {
		t.Error("for a key in back-off")
	}
	check(t, s)

	s = fresh(Options{KeyLimit: func(k admission.Key) int { return int(k) }})
	s.Demand(2, 5, 0, 0)
	s.Reserve(0, 0)
	s.Reserve(0, 0)
	if s.Steal(2, 0, false) {
		t.Error("with nothing idle")
	}
	s = fresh(Options{ConnectParallel: 1})
	s.Demand(1, 1, 0, 0)
	s.Demand(2, 1, 0, 0)
	if !s.Steal(1, 0, false) || s.Steal(2, 0, false) {
		t.Error("more than may be dialled at once")
	}
	check(t, s)
}

// Among keys that have about as many servers each they do not go round, unless it is urgent.
func TestUrgentStealIsNotPutOff(t *testing.T) {
	s := New(Options{Budget: 3, ConnectRate: 1e9})
	dial(t, s, 0, 0, 2)
	dial(t, s, 0, 1, 1)
	s.Reserve(1, 0)
	steal := func(urgent bool) bool {
		s.Demand(0, 5, 0, ms)
		s.Demand(1, 5, 0, ms)
		return s.Steal(1, ms, urgent)
	}
	s.rotated = rotateEvery
	if steal(false) {
		t.Error("too soon after another one")
	}
	if !steal(true) {
		t.Error("not even when it is urgent")
	}
	check(t, s)
}

// Where dials are scarce, the last one is not spent on the place of an unused server.
func TestReplaceLeavesOneDial(t *testing.T) {
	s := New(Options{Budget: 2, ConnectRate: 2, ConnectParallel: 2})
	dial(t, s, 0, 0, 2) // both that may be had at once
	now := int64(600 * ms)
	s.Demand(1, 1, 1, now)
	if a := s.Actions(nil); len(a) != 0 {
		t.Fatalf("with one dial left: %+v", a)
	}
	next := s.Fire(now)
	if next < 1000*ms || next > 1001*ms {
		t.Errorf("it wants to be called at %d ms, not when two may be had", next/ms)
	}
	s.Fire(next)
	if a := s.Actions(nil); len(a) != 1 || a[0].Kind != Close {
		t.Errorf("with two: %+v", a)
	}
	check(t, s)
}

// A place that comes free goes to whom a server was given up for, though the
// key that lost it wants it too and would be first in turn.
func TestPlaceGoesToTheHeir(t *testing.T) {
	s := New(Options{Budget: 2, ConnectRate: 1e9})
	dial(t, s, 0, 0, 2)
	s.Reserve(0, 0)
	s.Demand(0, 5, 1, 0)
	s.Demand(1, 1, 0, 0)
	s.Demand(2, 1, 0, 0)
	if !s.Steal(2, 0, false) {
		t.Fatal("no steal")
	}
	s.Gone(0, s.Actions(nil)[0].Server)
	a := s.Actions(nil)
	if len(a) != 1 || a[0].Server.Key != 2 {
		t.Fatalf("%+v", a)
	}
	check(t, s)
}

func TestStatsAndKeys(t *testing.T) {
	s := New(Options{Budget: 4, ConnectRate: 1e9})
	all := dial(t, s, 0, 0, 2)
	s.Reserve(0, 0)
	s.Hold(all[1])
	s.Demand(3, 2, 4, 0)
	a := s.Actions(nil)
	s.Dialed(0, a[0].Server, false, false)
	if d := cmp.Diff(Stats{Budget: 4, Dialling: 1, Idle: 1, Busy: 1, Held: 1, Ordinary: 3, Dials: 4, Failures: 1}, s.Stats()); d != "" {
		t.Error(d)
	}
	want := []KeyStats{
		{Key: 0, Idle: 1, Busy: 1},
		{Key: 3, Dialling: 1, Waiting: 2, Failures: 1, RetryAt: 75 * ms},
	}
	if d := cmp.Diff(want, s.Keys(nil)); d != "" {
		t.Error(d)
	}
	if got := s.Servers(nil); len(got) != 3 || !slices.Contains(got, a[1].Server) {
		t.Errorf("%v", got)
	}
	var names []string
	for st := Dialling; st <= states; st++ {
		names = append(names, st.String())
	}
	names = append(names, Dial.String(), Close.String())
	if d := cmp.Diff([]string{"dialling", "idle", "busy", "closing", "gone", "unknown", "dial", "close"}, names); d != "" {
		t.Error(d)
	}
}

// A smaller budget takes no more than it must, and first what nobody waits for.
func TestResizeClosesUnwantedFirst(t *testing.T) {
	s := New(Options{Budget: 6, ConnectRate: 1e9})
	wanted, unwanted := dial(t, s, 0, 0, 2), dial(t, s, ms, 1, 3)
	s.Break(ms, unwanted[0])
	s.Demand(0, 3, 0, ms)
	closed := func() (out []*Server) {
		for _, a := range s.Actions(nil) {
			out = append(out, a.Server)
		}
		return out
	}
	closed()
	s.Resize(ms, 3) // four are to stay, one is on its way out
	if got := closed(); !slices.Equal(got, unwanted[1:2]) {
		t.Errorf("%v", got)
	}
	s.Resize(ms, 1)
	if got := closed(); !slices.Equal(got, []*Server{unwanted[2], wanted[0]}) {
		t.Errorf("%v", got)
	}
	check(t, s)
}

func TestBudgetIsBounded(t *testing.T) {
	s := New(Options{Budget: 1 << 20})
	if s.Stats().Budget != maxPlaces {
		t.Error(s.Stats().Budget)
	}
	s.Resize(0, -5)
	if s.Stats().Budget != 0 {
		t.Error(s.Stats().Budget)
	}
}

// TestCheckFindsDamage: a check that accepts everything checks nothing.
func TestCheckFindsDamage(t *testing.T) {
	for name, damage := range map[string]func(*Set){
		"over budget":   func(s *Set) { s.ceiling = 2 },
		"ordinary":      func(s *Set) { s.ordinary++ },
		"leaving":       func(s *Set) { s.leaving-- },
		"over reserve":  func(s *Set) { s.most = 2 },
		"minimum":       func(s *Set) { s.keys[0].minimum = 4 },
		"wrong list":    func(s *Set) { s.enlist(1, listMinimum) },
		"count":         func(s *Set) { s.count[Idle]++; s.count[Busy]-- },
		"held":          func(s *Set) { s.held++ },
		"heirs":         func(s *Set) { s.heirs++ },
		"slot":          func(s *Set) { s.places[0], s.places[1] = s.places[1], s.places[0] },
		"gone":          func(s *Set) { s.places[0].state = Gone },
		"held idle":     func(s *Set) { s.idle.oldest.holds = 1 },
		"parked":        func(s *Set) { s.idle.oldest.parked = true },
		"vacant":        func(s *Set) { s.vacant = append(s.vacant, 0) },
		"idle list":     func(s *Set) { s.idle.newest = s.idle.oldest },
		"idle links":    func(s *Set) { s.idle.newest.older = nil },
		"stack":         func(s *Set) { s.keys[0].top = s.keys[0].top.below },
		"stack links":   func(s *Set) { s.keys[0].top.above = s.idle.oldest },
		"key count":     func(s *Set) { s.keys[0].count[Idle]++ },
		"promised":      func(s *Set) { s.keys[0].promised++ },
		"useful":        func(s *Set) { s.keys[1].useful++ },
		"useful sum":    func(s *Set) { s.useful++ },
		"not listed":    func(s *Set) { s.delist(1) },
		"listed":        func(s *Set) { s.enlist(0, listWanting) },
		"list length":   func(s *Set) { s.lists[listBare].n++ },
		"list elements": func(s *Set) { s.keys[1].list = listWanting },
	} {
		s := New(Options{Budget: 3})
		dial(t, s, 0, 0, 3)
		s.Reserve(0, 0)
		s.Demand(1, 1, 1, 0)
		check(t, s)
		damage(s)
		if s.Check() == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

func TestReserveAndPutAllocateNothing(t *testing.T) {
	s := New(Options{Budget: 8, Lifetime: 3600e9, IdleTimeout: 600e9})
	dial(t, s, 0, 0, 8)
	var actions []Action
	if n := testing.AllocsPerRun(100, func() {
		id, _ := s.Reserve(0, 0)
		s.Demand(0, 1, 0, 0)
		s.Put(0, s.Server(id))
		s.Demand(0, 0, 1, 0)
		actions = s.Actions(actions[:0])
		s.Fire(0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReservePut(b *testing.B) {
	s := New(Options{Budget: 16, Lifetime: 3600e9, IdleTimeout: 600e9})
	dial(b, s, 0, 0, 16)
	var actions []Action
	b.ReportAllocs()
	for b.Loop() {
		id, _ := s.Reserve(0, 0)
		s.Put(0, s.Server(id))
		actions = s.Actions(actions[:0])
	}
}

// BenchmarkTransaction is what a transaction costs in gate and set together
// while others queue for 16 servers.
func BenchmarkTransaction(b *testing.B) {
	const servers, waiting = 16, 64
	s := New(Options{Budget: servers})
	dial(b, s, 0, 0, servers)
	g := admission.New(admission.Plan{Slots: servers}, s, nil)
	waiters := make([]admission.Waiter, servers+waiting)
	running := make([]admission.Verdict, 0, servers)
	for i := range waiters {
		if v := g.Admit(0, &waiters[i]); v.Outcome == admission.Granted {
			running = append(running, v)
		}
	}
	var out []admission.Verdict
	var actions []Action
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		v := running[i]
		sv := s.Server(v.Grant)
		if s.Put(0, sv) {
			out = g.Supplied(0, sv.Key, out[:0])
		}
		out = g.Done(0, v.Ticket, 1000, out)
		running[i] = out[0]
		g.Admit(0, v.W)
		actions = s.Actions(actions[:0])
		i = (i + 1) % servers
	}
}
