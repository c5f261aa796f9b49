package admission

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ms = int64(1e6)

// shelf is a Supply of idle servers by key that keeps a record of what the
// gate asked of it.
type shelf struct {
	idle     map[Key]int
	stealing bool // Steal succeeds
	down     map[Key]bool
	next     uint32
	asked    []string
}

func newShelf() *shelf { return &shelf{idle: map[Key]int{}, down: map[Key]bool{}} }

func (s *shelf) Reserve(k Key, _ int64) (uint32, bool) {
	if s.idle[k] == 0 {
		return 0, false
	}
	s.idle[k]--
	s.next++
	return s.next, true
}

func (s *shelf) Demand(k Key, waiting, free int, _ int64) {
	s.asked = append(s.asked, fmt.Sprintf("demand %d: %d waiting, %d usable", k, waiting, free))
}

func (s *shelf) Steal(k Key, now int64, urgent bool) bool {
	how := ""
	if urgent {
		how = " at once"
	}
	s.asked = append(s.asked, fmt.Sprintf("steal %d at %d%s", k, now/ms, how))
	return s.stealing
}

func (s *shelf) Down(k Key) bool { return s.down[k] }

// drain returns the record since the last call.
func (s *shelf) drain() []string {
	asked := s.asked
	s.asked = nil
	return asked
}

// admit is Admit of a new waiter, with the gate's invariants checked.
func admit(t *testing.T, g *Gate, now int64, k Key, probe bool) (*Waiter, Verdict) {
	t.Helper()
	w := &Waiter{Key: k, Probe: probe}
	v := g.Admit(now, w)
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	if v.W != w || w.Waiting() != (v.Outcome == Queued) {
		t.Fatalf("waiting %v after %+v", w.Waiting(), v)
	}
	return w, v
}

func TestDemandFollowsEveryChange(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 2}, s, nil)
	expect := func(want ...string) {
		t.Helper()
		if d := cmp.Diff(want, s.drain()); d != "" {
			t.Error(d)
		}
	}
	a, _ := admit(t, g, 0, 3, false)
	expect("demand 3: 1 waiting, 1 usable")
	_, _ = admit(t, g, 0, 3, false)
	expect("demand 3: 2 waiting, 2 usable")
	s.idle[5] = 1
	admit(t, g, 0, 5, false) // granted: one slot less for those who wait
	expect("demand 3: 2 waiting, 1 usable")
	if !g.Withdraw(0, a) || g.Withdraw(0, a) {
		t.Error("withdraw")
	}
	expect("demand 3: 1 waiting, 1 usable")
	if out := g.Done(0, Ticket{}, 1, nil); len(out) > 0 {
		t.Error(out)
	}
	expect() // still one server more could be used
	s.idle[3] = 1
	out := g.Supplied(0, 3, nil)
	if len(out) != 1 || out[0].Outcome != Granted || out[0].Grant != 2 {
		t.Error(out)
	}
	expect("demand 3: 0 waiting, 0 usable")
	g.Done(0, Ticket{}, 1, nil) // nobody waits, nobody is told
	expect()
}

// A server is back but not yet reported: neither a newcomer nor another key's
// release may hand it out past those who wait for it.
func TestNewcomerDoesNotJumpItsKeysLine(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 3}, s, nil)
	first, _ := admit(t, g, 0, 0, false)
	s.idle[0] = 1
	if _, v := admit(t, g, 0, 0, false); v.Outcome != Queued || v.Queued != 2 {
		t.Fatalf("jumped: %+v", v)
	}
	out := g.Supplied(0, 0, nil)
	if len(out) != 1 || out[0].W != first {
		t.Fatalf("%+v", out)
	}
}

func TestProbeTakesItsLaneAtTheDoor(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 3}, s, nil)
	admit(t, g, 0, 0, false)
	s.idle[0] = 2 // back, not reported
	if _, v := admit(t, g, 0, 0, true); v.Outcome != Granted || !v.Ticket.Lane {
		t.Fatalf("the lane is free: %+v", v)
	}
	if _, v := admit(t, g, 0, 0, true); v.Outcome != Queued {
		t.Fatalf("the lane is taken: %+v", v)
	}
	s.idle[0]++
	out := g.Done(0, Ticket{Lane: true}, 1, nil)
	if len(out) != 0 {
		t.Fatalf("not reported, but %+v", out)
	}
	out = g.Supplied(0, 0, nil)
	if len(out) != 2 || !out[0].Ticket.Lane || out[1].Ticket.Lane {
		t.Fatalf("%+v", out)
	}
	if st := g.Stats(); st.Lane != 1 || st.Running != 2 {
		t.Fatalf("%+v", st)
	}
}

func TestProbeDoesNotJumpItsLane(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 3}, s, nil)
	first, _ := admit(t, g, 0, 0, true)
	s.idle[0] = 1 // back, not reported
	if _, v := admit(t, g, 0, 0, true); v.Outcome != Queued {
		t.Fatalf("%+v", v)
	}
	if out := g.Supplied(0, 0, nil); len(out) != 1 || out[0].W != first {
		t.Fatalf("%+v", out)
	}
}

func TestHeadIsFavouredAfterFiftyMilliseconds(t *testing.T) {
	s := newShelf()
	s.stealing = true
	g := New(Plan{Slots: 4}, s, nil)
	// pass lets key 1 be served while key 0 waits.
	pass := func(now int64) {
		s.idle[1]++
		_, v := admit(t, g, now, 1, false)
		g.Done(now, v.Ticket, 1, nil)
	}
	steals := func() (n []string) {
		for _, a := range s.drain() {
			if a[0] == 's' {
				n = append(n, a)
			}
		}
		return n
	}
	head, _ := admit(t, g, 0, 0, false)
	next, _ := g.Fire(70*ms, nil)
	if next != 2000*ms || len(steals()) > 0 {
		t.Fatalf("nobody went before it, yet next = %d", next/ms)
	}
	pass(70 * ms)
	pass(100 * ms)
	if next, _ = g.Fire(100*ms, nil); next != 120*ms {
		t.Fatalf("first passed over at 70, next = %d", next/ms)
	}
	pass(119 * ms)
	if n := steals(); len(n) > 0 {
		t.Fatal(n)
	}
	if next, _ = g.Fire(120*ms, nil); next != 220*ms {
		t.Fatalf("next move at %d", next/ms)
	}
	pass(400 * ms)
	if n := steals(); !slices.Equal(n, []string{"steal 0 at 120", "steal 0 at 400"}) {
		t.Fatal(n)
	}
	// The next head was passed over long ago as well. Moves are rare, but nobody of its key
	// was ever served.
	admit(t, g, 401*ms, 2, false)
	g.Withdraw(402*ms, head)
	pass(403 * ms)
	pass(619 * ms)
	pass(620 * ms)
	if n := steals(); !slices.Equal(n, []string{"steal 2 at 619"}) {
		t.Fatal(n)
	}
	if st := g.Stats(); st.Moves != 3 {
		t.Errorf("%d moves", st.Moves)
	}
}

// A supply that has nothing to give up is asked again at the next occasion.
func TestRefusedStealCostsNoMove(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 4}, s, nil)
	admit(t, g, 0, 0, false)
	s.idle[1] = 3
	admit(t, g, 0, 1, false)
	for now := 50 * ms; now < 53*ms; now += ms {
		if next, _ := g.Fire(now, nil); next != 2000*ms {
			t.Fatalf("next %d", next)
		}
	}
	s.drain()
	s.stealing = true
	g.Supplied(53*ms, 1, nil)
	if asked := s.drain(); !slices.Contains(asked, "steal 0 at 53") {
		t.Fatal(asked)
	}
}

func TestExpiry(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: 100 * ms}}}, s, nil)
	s.down[1] = true
	admit(t, g, 0, 0, false)
	admit(t, g, 10*ms, 1, true)
	admit(t, g, 50*ms, 0, false)
	next, out := g.Fire(99*ms, nil)
	if next != 100*ms || len(out) > 0 {
		t.Fatalf("%d %v", next, out)
	}
	// The server comes too late for two of them, by whatever call.
	s.idle[0], s.idle[1] = 5, 5
	out = g.Supplied(110*ms, 0, nil)
	if len(out) != 3 {
		t.Fatalf("%+v", out)
	}
	for i, want := range []struct {
		o Outcome
		r Reason
	}{{Refused, QueueAge}, {Refused, NoServer}, {Granted, None}} {
		if out[i].Outcome != want.o || out[i].Reason != want.r {
			t.Errorf("%d: %+v", i, out[i])
		}
	}
	st := g.Stats()
	if st.Refused[QueueAge] != 1 || st.Refused[NoServer] != 1 || st.Granted != 1 || st.Waiting != 0 || st.Probes != 0 {
		t.Errorf("%+v", st)
	}
	if st.GrantWaits.Count() != 1 || st.GrantWaits.Sum != 60*ms || st.RefusalWaits.Count() != 2 || st.RefusalWaits.Sum != 210*ms {
		t.Errorf("waits: %+v %+v", st.GrantWaits, st.RefusalWaits)
	}
}

func TestUnsuppliedRefusesOnlyItsKey(t *testing.T) {
	g := New(Plan{Slots: 1}, newShelf(), nil)
	admit(t, g, 0, 0, false)
	admit(t, g, 0, 1, false)
	admit(t, g, 0, 0, true)
	out := g.Unsupplied(5*ms, 0, nil)
	if len(out) != 2 || out[0].Reason != NoServer || out[1].Reason != NoServer || out[0].Waited != 5*ms {
		t.Fatalf("%+v", out)
	}
	if st := g.Stats(); st.Waiting != 1 || st.Probes != 0 {
		t.Fatalf("%+v", st)
	}
	if out = g.Unsupplied(5*ms, 77, nil); len(out) != 0 {
		t.Fatalf("%+v", out)
	}
}

func TestDrainRefusesNowAndLater(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 1}, s, nil)
	s.idle[0] = 2
	admit(t, g, 0, 0, false)
	admit(t, g, 0, 0, false)
	if out := g.Drain(0, nil); len(out) != 1 || out[0].Reason != Draining {
		t.Fatalf("%+v", out)
	}
	if _, v := admit(t, g, 0, 0, false); v.Reason != Draining {
		t.Fatalf("%+v", v)
	}
	if out := g.Done(0, Ticket{}, 1, nil); len(out) != 0 || g.Stats().Running != 0 {
		t.Fatalf("%+v", out)
	}
}

// A transaction that its client has begun is served also while the gate drains, whether it
// waits already, comes later or is paused.
func TestDrainLetsTransactionsGoOn(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 1}, s, nil)
	s.idle[0] = 2
	admit(t, g, 0, 0, false)
	g.Pause(0, []Key{1})
	waiting := []*Waiter{{Begun: true}, {}, {Key: 1, Begun: true}, {Key: 1}}
	for _, w := range waiting {
		if v := g.Admit(0, w); v.Outcome != Queued {
			t.Fatalf("%+v", v)
		}
	}
	if out := g.Drain(0, nil); len(out) != 2 || out[0].W != waiting[1] || out[1].W != waiting[3] {
		t.Fatalf("%+v", out)
	}
	late := &Waiter{Begun: true}
	if v := g.Admit(0, late); v.Outcome != Queued {
		t.Fatalf("%+v", v)
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	s.idle[1] = 1
	out := g.Resume(0, []Key{1}, nil)
	for _, want := range []*Waiter{waiting[0], waiting[2], late} {
		out = g.Done(0, Ticket{}, 1, out)
		s.idle[0] = 1
		if len(out) != 1 || out[0].W != want || out[0].Outcome != Granted {
			t.Fatalf("%+v", out)
		}
		out = out[:0]
	}
}

// The automatic bound follows what drains within the maximum wait.
func TestAutomaticBound(t *testing.T) {
	for _, tc := range []struct {
		name            string
		slots, tickets  int
		held, wait      int64
		explicit, bound int
	}{
		{"unknown", 10, enough - 1, ms, 2000 * ms, 0, 1000},
		{"fast", 10, enough, ms, 2000 * ms, 0, 1000},
		{"middling", 10, 1000, 100 * ms, 2000 * ms, 0, 200},
		{"slow", 10, 1000, 5000 * ms, 2000 * ms, 0, 40},
		{"many slots", 500, 1000, ms, 2000 * ms, 0, 2000},
		{"none", 0, 0, 0, 2000 * ms, 0, 1000},
		{"explicit", 10, 1000, ms, 2000 * ms, 7, 7},
	} {
		s := newShelf()
		g := New(Plan{Slots: tc.slots, Workloads: []Workload{{Policy: FIFOGone, MaxWait: tc.wait, MaxWaiting: tc.explicit}}}, s, nil)
		for range tc.tickets {
			s.idle[0] = 1
			admit(t, g, 0, 0, false)
			g.Done(0, Ticket{}, tc.held, nil)
		}
		if got := g.Stats().MaxWaiting; got != tc.bound {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.bound)
		}
		n := 0
		// Nobody runs any more; the bound stays that of the plan.
		g.Reconfigure(0, Plan{Workloads: []Workload{{Policy: FIFOGone, MaxWaiting: tc.bound}}}, nil)
		for {
			if _, v := admit(t, g, 0, 0, false); v.Reason == QueueFull {
				break
			}
			n++
		}
		if n != tc.bound {
			t.Errorf("%s: %d waited, want %d", tc.name, n, tc.bound)
		}
	}
}

// The hint is twice the time that the queue needs, bounded and spread.
func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		held    int64
		waiting int
		rnd     float64
		want    int64
	}{
		{ms, 5, 0.5, 100 * ms},       // 2 x 5 x 1 / 2 = 5 ms, but not below 100
		{100 * ms, 8, 0.5, 800 * ms}, // 2 x 8 x 100 / 2
		{100 * ms, 8, 0, 400 * ms},
		{100 * ms, 8, 1, 1200 * ms},
		{9000 * ms, 50, 0.5, 5000 * ms},
	} {
		s := newShelf()
		g := New(Plan{Slots: 2, Workloads: []Workload{{Policy: FIFOGone, MaxWaiting: tc.waiting}}}, s, func() float64 { return tc.rnd })
		for range 200 {
			s.idle[0] = 1
			admit(t, g, 0, 0, false)
			g.Done(0, Ticket{}, tc.held, nil)
		}
		for range tc.waiting {
			admit(t, g, 0, 0, false)
		}
		_, v := admit(t, g, 0, 0, false)
		if v.Reason != QueueFull || v.RetryAfter != tc.want || v.Queued != tc.waiting || v.Slots != 2 {
			t.Errorf("%+v: %+v", tc, v)
		}
	}
}

func TestReconfigure(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: 1000 * ms}}}, s, nil)
	s.idle[0] = 3
	admit(t, g, 0, 0, false)
	admit(t, g, 0, 0, false)
	admit(t, g, 60*ms, 0, false)
	out := g.Reconfigure(100*ms, Plan{Slots: 2, Workloads: []Workload{{MaxWait: 100 * ms}}}, nil)
	if len(out) != 2 || out[0].Reason != QueueAge || out[1].Outcome != Granted {
		t.Fatalf("%+v", out)
	}
	out = g.Reconfigure(100*ms, Plan{Slots: -1}, nil)
	if st := g.Stats(); len(out) != 0 || st.Running != 2 || st.Slots != 0 {
		t.Fatalf("%+v", st)
	}
	if _, v := admit(t, g, 100*ms, 0, false); v.Outcome != Queued {
		t.Fatalf("%+v", v)
	}
	if next, _ := g.Fire(100*ms, nil); next != 2100*ms { // the default of 2 s
		t.Fatalf("next %d", next)
	}
}

// Who waits for a slot alone is judged by a new plan as well.
func TestReconfigureSlotWaiters(t *testing.T) {
	g := New(Plan{Workloads: []Workload{{MaxWait: 1000 * ms}}}, newShelf(), nil)
	g.Admit(0, &Waiter{Want: Slot})
	if out := g.Reconfigure(60*ms, Plan{Workloads: []Workload{{MaxWait: 50 * ms}}}, nil); len(out) != 1 || out[0].Reason != QueueAge {
		t.Fatalf("%+v", out)
	}
}

func TestMisusePanics(t *testing.T) {
	for name, f := range map[string]func(){
		"admit twice": func() {
			g, w := New(Plan{}, newShelf(), nil), &Waiter{}
			g.Admit(0, w)
			g.Admit(0, w)
		},
		"done without ticket":       func() { New(Plan{}, newShelf(), nil).Done(0, Ticket{}, 0, nil) },
		"release without session":   func() { New(Plan{}, newShelf(), nil).Release(0, 0, nil) },
		"done of a session":         func() { New(Plan{}, newShelf(), nil).Done(0, Ticket{Want: Session}, 0, nil) },
		"done of an extra slot":     func() { New(Plan{}, newShelf(), nil).Done(0, Ticket{Extra: true}, 0, nil) },
		"unknown workload":          func() { New(Plan{}, newShelf(), nil).Done(0, Ticket{Workload: 7}, 0, nil) },
		"done probe without ticket": func() { New(Plan{}, newShelf(), nil).Done(0, Ticket{Lane: true}, 0, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestWithdrawFromAnotherGate(t *testing.T) {
	a, b := New(Plan{}, newShelf(), nil), New(Plan{}, newShelf(), nil)
	w, _ := admit(t, a, 0, 0, false)
	if b.Withdraw(0, w) || !a.Withdraw(0, w) || a.Stats().Withdrawn != 1 {
		t.Error("withdrawn from the wrong gate")
	}
}

func TestLabels(t *testing.T) {
	var got []string
	for r := range reasons + 1 {
		got = append(got, r.String())
	}
	for o := Queued; o <= Refused+1; o++ {
		got = append(got, o.String())
	}
	want := []string{
		"none", "queue_full", "queue_age", "no_server", "draining",
		"queue_wait", "displaced", "deadline", "attempts", "rate", "blocked", "pins", "unknown",
		"queued", "granted", "refused", "unknown",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestWaitBuckets(t *testing.T) {
	var w Waits
	for _, ns := range []int64{-1, 0, 999, 1000, 1999, 2000, 1 << 62} {
		w.add(ns)
	}
	if w.Buckets[0] != 3 || w.Buckets[1] != 2 || w.Buckets[2] != 1 || w.Buckets[WaitBuckets-1] != 1 || w.Count() != 7 {
		t.Errorf("%v", w.Buckets)
	}
}

// absent is a supply without servers whose databases with even keys are away.
type absent struct{}

func (absent) Reserve(Key, int64) (uint32, bool) { return 0, false }
func (absent) Demand(Key, int, int, int64)       {}
func (absent) Steal(Key, int64, bool) bool       { return false }
func (absent) Down(k Key) bool                   { return k%2 == 0 }

func TestDatabaseThatIsAwayHasItsOwnWait(t *testing.T) {
	for _, noServer := range []int64{50, 200} { // shorter and longer than max_wait
		g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: 100, NoServerWait: noServer}}}, absent{}, nil)
		var w [4]Waiter
		for i := range w {
			w[i].Key = Key(i)
			if v := g.Admit(int64(i), &w[i]); v.Outcome != Queued {
				t.Fatalf("waiter %d: %v", i, v.Outcome)
			}
		}
		refused := make(map[Key]int64)
		for now := int64(0); len(refused) < len(w); {
			next, out := g.Fire(now, nil)
			for _, v := range out {
				refused[v.W.Key] = now
				want := QueueAge
				if v.W.Key%2 == 0 {
					want = NoServer
				}
				if v.Reason != want {
					t.Errorf("key %d: %v", v.W.Key, v.Reason)
				}
			}
			if next <= now && len(refused) < len(w) {
				t.Fatalf("at %d the next time is %d", now, next)
			}
			now = next
		}
		for i := range w {
			limit := int64(100)
			if i%2 == 0 {
				limit = noServer
			}
			if got := refused[Key(i)] - int64(i); got != limit {
				t.Errorf("no_server_wait %d: key %d was refused after %d, want %d", noServer, i, got, limit)
			}
		}
	}
}
