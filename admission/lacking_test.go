package admission

import "testing"

// Work that takes longer than it may wait is not turned away while slots are free: it is
// whom a server is opened for, after a restart of the database or a long silence.
func TestLongWorkIsNotTurnedAwayFromFreeSlots(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 2, Workloads: []Workload{{Share: 1, MaxWait: 200 * ms}}}, s, nil)
	for i := range int64(enough) {
		s.idle[0] = 1
		if _, v := admit(t, g, i, 0, false); v.Outcome != Granted {
			t.Fatalf("%+v", v)
		}
		g.Done(i, Ticket{}, 60_000*ms, nil)
	}
	for _, down := range []bool{false, true} {
		s.down[0] = down
		a, v := admit(t, g, 1000*ms, 0, false)
		b, u := admit(t, g, 1000*ms, 0, false)
		if v.Outcome != Queued || u.Outcome != Queued {
			t.Fatalf("down %v: %+v, %+v", down, v, u)
		}
		if _, v := admit(t, g, 1000*ms, 0, false); v.Reason != QueueWait {
			t.Fatalf("down %v: there is no slot for a third one: %+v", down, v)
		}
		g.Withdraw(1000*ms, a)
		g.Withdraw(1000*ms, b)
	}
}

// Nor is work that took longer than its deadline leaves, when slots are free: what made it
// slow may be over, which only a server can tell.
func TestSlowWorkIsNotTooLateForFreeSlots(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 2, Workloads: []Workload{{Share: 1}}}, s, nil)
	for i := range int64(enough) {
		s.idle[0] = 1
		admit(t, g, i, 0, false)
		g.Done(i, Ticket{}, 300*ms, nil)
	}
	hurried := func(now int64) (*Waiter, Verdict) {
		w := &Waiter{Deadline: now + 300*ms}
		return w, g.Admit(now, w)
	}
	a, v := hurried(1000 * ms)
	b, u := hurried(1000 * ms)
	if v.Outcome != Queued || u.Outcome != Queued {
		t.Fatalf("%+v, %+v", v, u)
	}
	if _, v := hurried(1000 * ms); v.Reason != Deadline {
		t.Fatalf("there is no slot for a third one: %+v", v)
	}
	s.idle[0] = 1
	if out := g.Supplied(1100*ms, 0, nil); len(out) != 1 || out[0].W != a || out[0].Outcome != Granted {
		t.Fatalf("a server came in time: %+v", out)
	}
	if _, out := g.Fire(1301*ms, nil); len(out) != 1 || out[0].W != b || out[0].Reason != Deadline {
		t.Fatalf("none came: %+v", out)
	}
}
