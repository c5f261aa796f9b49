package admission

import (
	"slices"
	"testing"
)

// weather is a Supply that says how it stands with its keys.
type weather struct {
	shelf
	warm    map[Key]bool
	failing bool
	changes uint64
	asked   int
}

func newWeather() *weather { return &weather{shelf: *newShelf(), warm: map[Key]bool{}} }

func (s *weather) Warming(k Key) bool { s.asked++; return s.warm[k] }
func (s *weather) Failing(Key) bool   { return s.failing }
func (s *weather) Changes() uint64    { return s.changes }

func (s *weather) set(k Key, down, warm bool) {
	s.down[k], s.warm[k] = down, warm
	s.changes++
}

func refusals(out []Verdict) (keys []Key) {
	for _, v := range out {
		if v.Outcome == Refused {
			keys = append(keys, v.W.Key)
		}
	}
	return keys
}

func TestClockStandsStillWhileServersAreOpened(t *testing.T) {
	s := newWeather()
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: 100 * ms, NoServerWait: 10_000 * ms}}}, s, nil)
	fire := func(now, wantNext int64, want ...Key) {
		t.Helper()
		next, out := g.Fire(now, nil)
		if next != wantNext || !slices.Equal(refusals(out), want) {
			t.Fatalf("at %d: next %d, want %d; %+v", now/ms, next/ms, wantNext/ms, out)
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
	}
	s.set(1, false, true)
	g.Admit(0, &Waiter{Key: 0})
	g.Admit(0, &Waiter{Key: 1})
	fire(60*ms, 100*ms)
	fire(100*ms, 10_100*ms, 0) // key 1 is being served
	fire(900*ms, 10_100*ms)
	s.set(1, false, false)
	fire(900*ms, 1000*ms)
	fire(950*ms, 1000*ms)
	s.set(1, false, true) // again
	fire(950*ms, 10_100*ms)
	// Without a slot it lacks that as well, and time goes on.
	p := g.plan
	p.Slots = 0
	g.Reconfigure(970*ms, p, nil)
	fire(970*ms, 1020*ms)
	p.Slots = 1
	g.Reconfigure(1000*ms, p, nil)
	fire(1010*ms, 10_100*ms)
	s.set(1, false, false)
	fire(1010*ms, 1030*ms)
	fire(1030*ms, never, 1)
}

// What is opened is of no use to a workload that has all that it may have: its clock goes
// on, for transactions and for sessions, or who waits for others of its own to end would
// wait for ever.
func TestClockGoesOnWithoutAPermit(t *testing.T) {
	for want, limit := range map[Want]int64{Transaction: 100 * ms, Session: 200 * ms} {
		for name, plan := range map[string]Workload{
			"at most one":        {Share: 0.25, Lendable: 1},
			"others keep theirs": {Share: 0.25, Borrow: 1, Lendable: 1},
		} {
			t.Run(want.String()+", "+name, func(t *testing.T) {
				s := newWeather()
				plan.MaxWait, plan.SessionWait, plan.NoServerWait = 100*ms, 200*ms, 10_000*ms
				rest := Workload{Share: 0.75} // lends nothing
				g := New(Plan{Slots: 4, Connections: 4, Workloads: []Workload{plan, rest}}, s, nil)
				s.set(0, false, true)
				s.idle[0] = 1
				first, second, third := &Waiter{Want: want}, &Waiter{Want: want}, &Waiter{Want: want}
				v := g.Admit(0, first)
				if v.Outcome != Granted {
					t.Fatalf("%+v", v)
				}
				g.Admit(10*ms, second)
				g.Admit(20*ms, third)
				if next, out := g.Fire(20*ms, nil); next != 10*ms+limit || len(out) != 0 {
					t.Fatalf("next %d, %+v", next/ms, out)
				}
				// The first ends: the clock stands still as long as only a server is missing.
				end := func(now int64) (out []Verdict) {
					if want == Session {
						return g.Release(now, 0, nil)
					}
					return g.Done(now, v.Ticket, 1, nil)
				}
				if out := end(60 * ms); len(out) != 0 {
					t.Fatalf("%+v", out)
				}
				if next, _ := g.Fire(90*ms, nil); next != 10_010*ms+limit {
					t.Fatalf("next %d", next/ms)
				}
				s.idle[0] = 1
				if out := g.Supplied(90*ms, 0, nil); len(out) != 1 || out[0].W != second {
					t.Fatalf("%+v", out)
				}
				if err := g.Check(); err != nil {
					t.Fatal(err)
				}
				next, _ := g.Fire(90*ms, nil)
				if next != 50*ms+limit { // it came at 20 and lost 30
					t.Fatalf("next %d", next/ms)
				}
				if _, out := g.Fire(next, nil); len(out) != 1 || out[0].W != third || out[0].Reason != QueueAge {
					t.Fatalf("%+v", out)
				}
				if err := g.Check(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestSessionsStandStillWhateverTheSlots(t *testing.T) {
	s := newWeather()
	g := New(Plan{Slots: 1, Connections: 3, Workloads: []Workload{{SessionWait: 100 * ms, NoServerWait: 10_000 * ms}}}, s, nil)
	s.idle[2] = 1
	g.Admit(0, &Waiter{Key: 2})
	s.set(1, false, true)
	g.Admit(0, &Waiter{Key: 1, Want: Session})
	if next, _ := g.Fire(0, nil); next != 10_100*ms {
		t.Fatal(next)
	}
	s.set(1, false, false)
	if next, _ := g.Fire(500*ms, nil); next != 600*ms {
		t.Fatal(next)
	}
	// A plan with less patience finds out who had waited for too long already.
	g.Fire(550*ms, nil)
	s.set(1, false, true)
	g.Fire(550*ms, nil)
	out := g.Reconfigure(560*ms, Plan{Slots: 1, Connections: 3, Workloads: []Workload{{SessionWait: 40 * ms}}}, nil)
	if len(refusals(out)) != 1 {
		t.Fatalf("%+v", out)
	}
}

// The database has been away since it went, not since they came; and when it
// is back their patience goes on where it had stopped.
func TestAwayIsMeasuredFromWhenItWent(t *testing.T) {
	s := newWeather()
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: 100 * ms, NoServerWait: 300 * ms}}}, s, nil)
	g.Admit(0, &Waiter{})
	g.Fire(80*ms, nil)
	s.set(0, true, false)
	g.Fire(80*ms, nil)
	g.Admit(200*ms, &Waiter{})
	for _, tc := range []struct {
		now, next int64
		refused   int
	}{{200 * ms, 380 * ms, 0}, {379 * ms, 380 * ms, 0}, {380 * ms, 500 * ms, 1}} {
		next, out := g.Fire(tc.now, nil)
		if next != tc.next || len(out) != tc.refused {
			t.Fatalf("at %d: next %d, %+v", tc.now/ms, next/ms, out)
		}
	}
	g.Admit(410*ms, &Waiter{})
	s.set(0, false, false)
	if next, _ := g.Fire(450*ms, nil); next != 550*ms { // both had stood still since they came
		t.Fatalf("next %d", next/ms)
	}
	if _, out := g.Fire(550*ms, nil); len(out) != 2 || out[0].Reason != QueueAge {
		t.Fatalf("%+v", out)
	}
}

// Between changes of the supply nobody is asked about.
func TestSupplyIsAskedAfterChangesOnly(t *testing.T) {
	s := newWeather()
	g := New(Plan{Slots: 1}, s, nil)
	for k := range Key(100) {
		g.Admit(0, &Waiter{Key: k})
	}
	g.Fire(0, nil)
	s.asked = 0
	for now := range int64(50) {
		g.Fire(now, nil)
	}
	if s.asked != 0 {
		t.Errorf("asked %d times", s.asked)
	}
}

func TestPauseStopsClockAndGrants(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 2, Workloads: []Workload{{MaxWait: 100 * ms, MaxWaiting: 3}}}, s, nil)
	old, _ := admit(t, g, 0, 0, false)
	other, _ := admit(t, g, 0, 1, false)
	probe, _ := admit(t, g, 10*ms, 0, true)
	g.Pause(40*ms, []Key{0})
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	if !g.Paused(0) || g.Paused(1) || g.Paused(77) {
		t.Error("paused")
	}
	s.idle[0] = 5
	if out := g.Supplied(50*ms, 0, nil); len(out) != 0 {
		t.Fatalf("%+v", out)
	}
	// Newcomers of the key wait, over the bound as well; others are judged as ever.
	for range 5 {
		if _, v := admit(t, g, 60*ms, 0, false); v.Outcome != Queued {
			t.Fatalf("%+v", v)
		}
	}
	if next, out := g.Fire(100*ms, nil); len(out) != 1 || out[0].W != other || next != never {
		t.Fatalf("%+v", out)
	}
	if !g.Withdraw(100*ms, probe) {
		t.Error("a paused probe can't leave")
	}
	st := g.Stats()
	if st.Waiting != 6 || st.Paused != 6 || st.Oldest != 0 || st.Workloads[0].Paused != 6 {
		t.Fatalf("%+v", st)
	}
	s.idle[0] = 1
	out := g.Resume(1000*ms, []Key{0, 5}, nil)
	if len(out) != 1 || out[0].W != old || out[0].Waited != 1000*ms {
		t.Fatalf("%+v", out)
	}
	if next, _ := g.Fire(1000*ms, nil); next != 1100*ms {
		t.Fatalf("next %d", next/ms)
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
}

// What was waited before a pause counts.
func TestPauseKeepsWhatWasWaited(t *testing.T) {
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: 100 * ms}}}, newShelf(), nil)
	admit(t, g, 0, 0, false)
	slot := &Waiter{Want: Slot}
	s := g.plan
	s.Slots = 0
	g.Reconfigure(0, s, nil)
	g.Admit(20*ms, slot)
	for i := range int64(3) {
		g.Pause((i*1000+30)*ms, []Key{0})
		if out := g.Resume((i*1000+1000)*ms, []Key{0}, nil); len(out) != 0 {
			t.Fatalf("%+v", out)
		}
	}
	// 30 + 30 + 30 ms, and 10 less for the slot.
	next, _ := g.Fire(3000*ms, nil)
	if next != 3010*ms {
		t.Fatalf("next %d", next/ms)
	}
	if next, out := g.Fire(3010*ms, nil); len(out) != 1 || next != 3030*ms {
		t.Fatalf("%d %+v", next/ms, out)
	}
}

func TestPauseAllAndDrain(t *testing.T) {
	s := newShelf()
	s.idle[7] = 1
	g := New(Plan{Slots: 1}, s, nil)
	admit(t, g, 0, 0, false)
	g.PauseAll(0)
	if _, v := admit(t, g, 0, 7, false); v.Outcome != Queued || !g.Paused(7) || !g.Paused(99) {
		t.Fatalf("%+v", v)
	}
	if out := g.ResumeAll(ms, nil); len(out) != 1 || out[0].W.Key != 7 || g.Paused(99) {
		t.Fatalf("%+v", out)
	}
	g.PauseAll(ms)
	if out := g.Drain(ms, nil); len(out) != 1 || out[0].Reason != Draining {
		t.Fatalf("%+v", out)
	}
	if _, v := admit(t, g, ms, 0, false); v.Reason != Draining {
		t.Fatalf("%+v", v)
	}
}

// A server that is stuck does not hide that no other can be opened: who waits for one with a
// slot free is told so, unless somebody of its key was let in meanwhile.
func TestStuckServerOfADatabaseThatIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		slots   int
		failing bool
		granted int64 // when somebody was let in
		want    Reason
	}{
		"stuck":        {2, true, 10 * ms, NoServer},
		"no failure":   {2, false, 10 * ms, QueueAge},
		"no slot":      {1, true, 10 * ms, QueueAge},
		"serves some":  {3, true, 60 * ms, QueueAge},
		"as they come": {2, true, 20 * ms, QueueAge},
	} {
		s := newWeather()
		s.failing = c.failing
		g := New(Plan{Slots: c.slots, Workloads: []Workload{{MaxWait: 100 * ms}}}, s, nil)
		s.idle[0] = 1
		if c.granted <= 20*ms {
			admit(t, g, c.granted, 0, false)
		}
		waits := &Waiter{}
		s.idle[0] = 0
		if v := g.Admit(20*ms, waits); v.Outcome != Queued {
			t.Fatalf("%s: %+v", name, v)
		}
		if c.granted > 20*ms {
			s.idle[0] = 1
			other := &Waiter{Class: CriticalPlus}
			g.Admit(c.granted, other)
			if out := g.Supplied(c.granted, 0, nil); len(out) != 1 {
				t.Fatalf("%s: %+v", name, out)
			} else if out[0].W == waits {
				waits = other
			}
		}
		_, out := g.Fire(200*ms, nil)
		if len(out) != 1 || out[0].W != waits || out[0].Reason != c.want {
			t.Errorf("%s: %+v, want %v", name, out, c.want)
		}
	}
}

// A pause that is told an old time does not turn clocks back.
func TestPauseInThePast(t *testing.T) {
	s := newWeather()
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: 100 * ms}}}, s, nil)
	g.Admit(1000*ms, &Waiter{})
	s.set(0, false, true)
	g.Pause(0, []Key{7})
	s.set(0, false, false)
	if next, _ := g.Fire(1050*ms, nil); next != 1150*ms {
		t.Fatalf("next %d", next/ms)
	}
}

// Where thousands are too old at once they are refused some hundreds at a time, and nobody who
// is too old is granted meanwhile.
func TestThousandsAreTooOldAtOnce(t *testing.T) {
	const n = 8 * mostEvicted
	for _, deadlines := range []bool{false, true} {
		s := &flat{idle: 1}
		g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWaiting: 2 * n, MaxWait: 1000 * ms, Patient: true}}}, s, nil)
		waiters := make([]Waiter, n+1)
		for i := range waiters {
			if deadlines {
				waiters[i].Deadline = 900 * ms
			}
			g.Admit(0, &waiters[i])
		}
		fresh := &Waiter{}
		g.Admit(900*ms, fresh)
		now, refused, calls := 1000*ms, 0, 0
		for refused < n {
			next, out := g.Fire(now, nil)
			if len(out) == 0 || len(out) > mostEvicted {
				t.Fatalf("%d verdicts at once", len(out))
			}
			refused += len(out)
			if calls++; calls == 2 { // the slot comes free
				s.idle++
				more := g.Supplied(now, 0, nil)
				more = g.Done(now, Ticket{}, 1, more)
				out = append(out, more...)
				refused += len(more)
			}
			for _, v := range out {
				if v.Outcome != Refused || v.W == fresh {
					t.Fatalf("%+v", v)
				}
			}
			if err := g.Check(); err != nil {
				t.Fatal(err)
			}
			if next != now+1 {
				t.Fatalf("after %d: again at %d, not at once", refused, next)
			}
			now = next
		}
		_, out := g.Fire(now, nil)
		if len(out) != 1 || out[0].Outcome != Granted || out[0].W != fresh {
			t.Fatalf("%+v", out)
		}
	}
}
