package admission

import (
	"fmt"
	"testing"
)

// trial is a gate of one workload whose slots are all busy, and which knows its drain rate.
type trial struct {
	*Gate
	t    *testing.T
	plan Plan
	out  []Verdict
}

// newTrial has one slot, which is held for 10 ms each time.
func newTrial(t *testing.T, mode Mode, w Workload) *trial {
	t.Helper()
	w.Mode = mode
	p := Plan{Slots: 1, Workloads: []Workload{w}}
	x := &trial{Gate: New(p, endless{}, nil), t: t, plan: p}
	x.loads[0].drain = drainRate{10e6, window}
	if v := x.Admit(0, &Waiter{Key: 1, Tenant: 99}); v.Outcome != Granted {
		t.Fatalf("%+v", v)
	}
	return x
}

// ask is Admit, in an orderly way.
func (x *trial) ask(now int64, w *Waiter) Verdict {
	x.t.Helper()
	w.Key = 1 // its database is not away
	v := x.Admit(now, w)
	x.out = x.Displaced(x.out)
	x.sane()
	return v
}

func (x *trial) sane() {
	x.t.Helper()
	if err := x.Check(); err != nil {
		x.t.Fatal(err)
	}
}

// turn ends the ticket that is out.
func (x *trial) turn(now int64) (out []Verdict) {
	x.t.Helper()
	out = x.Done(now, Ticket{}, 10*ms, nil)
	x.out = append(x.out, out...)
	x.sane()
	return out
}

// would is what is counted for a class, in words.
func (x *trial) would(c Class) (s string) {
	for r, n := range x.Workload(0).Classes[c.index()].Would {
		if n > 0 {
			s += fmt.Sprintf("%v %d ", Reason(r), n)
		}
	}
	return s
}

// refused is how many were really refused.
func (x *trial) refused() (n int) {
	for _, k := range x.Stats().Refused {
		n += int(k)
	}
	return n
}

// reason plays what the guard refuses for one reason, and says how often.
type reason struct {
	plan  Workload
	class Class
	play  func(x *trial)
	want  string // what would be refused
}

// reasonsToRefuse are played in all modes.
func reasonsToRefuse() map[string]reason {
	return map[string]reason{
		"the wait is too long": {Workload{MaxWait: 35 * ms, MaxWaiting: 100}, Critical, func(x *trial) {
			for i := range 10 {
				x.ask(1, &Waiter{Tenant: uint32(i)})
			}
		}, "queue_wait 7 "},
		"the answer would come too late": {Workload{MaxWaiting: 100}, Critical, func(x *trial) {
			for range 10 {
				x.ask(1, &Waiter{Deadline: 45 * ms})
			}
		}, "deadline 7 "},
		"the deadline is over": {Workload{}, Critical, func(x *trial) {
			x.ask(10*ms, &Waiter{Deadline: 10 * ms})
			x.ask(10*ms, &Waiter{Deadline: 1000 * ms})
		}, "deadline 1 "},
		"it gets too late while it waits": {Workload{Patient: true}, Sheddable, func(x *trial) {
			for range 5 {
				x.ask(1, &Waiter{Deadline: 100 * ms, Class: Sheddable})
			}
			x.Fire(89*ms, nil)
			_, x.out = x.Fire(91*ms, x.out)
			_, x.out = x.Fire(95*ms, x.out)
		}, "deadline 5 "},
		"it is too late when its turn comes": {Workload{Patient: true}, Critical, func(x *trial) {
			x.ask(1, &Waiter{Deadline: 30 * ms})
			x.ask(2, &Waiter{Deadline: 31 * ms, Expected: 30 * ms})
			x.turn(25 * ms)
			if x.Totals().Running > 0 {
				x.turn(26 * ms)
			}
			if x.Waiting() != 0 {
				x.t.Error("somebody waits on")
			}
		}, "deadline 2 "},
		"others come while the queue stands": {Workload{MaxWaiting: 1000}, Sheddable, func(x *trial) {
			x.crowd(Sheddable)
			for i := range 20 {
				x.ask(1000*ms+int64(i), &Waiter{Tenant: uint32(i % 3), Class: Sheddable})
			}
		}, "queue_age 93 displaced 17 "},
		"a higher class needs the place": {Workload{MaxWaiting: 3}, Sheddable, func(x *trial) {
			for i := range 3 {
				x.ask(1, &Waiter{Tenant: uint32(i), Class: Sheddable})
			}
			x.ask(2, &Waiter{})
			x.ask(3, &Waiter{})
		}, "displaced 2 "},
		"it is too old for a queue that stands": {Workload{}, SheddablePlus, func(x *trial) {
			r := &x.loads[0].lines[slots].ranks[SheddablePlus.index()]
			r.until, r.trial = 0, leastTrial // it did a moment ago
			for i := range 4 {
				x.ask(int64(i)*ms, &Waiter{Class: SheddablePlus})
			}
			for now := int64(0); now <= 600*ms; now += ms {
				_, x.out = x.Fire(now, x.out)
				x.sane()
			}
		}, "queue_age 4 "},
	}
}

// crowd has somebody come every 10 ms, for a second; the queue stands then.
func (x *trial) crowd(c Class) {
	x.t.Helper()
	for now := 10 * ms; now <= 1000*ms; now += 10 * ms {
		x.ask(now, &Waiter{Class: c, Tenant: 98})
		_, x.out = x.Fire(now, x.out)
		x.sane()
	}
	if !x.loads[0].lines[slots].ranks[c.index()].on {
		x.t.Fatal("the queue does not stand")
	}
}

// Each refusal of the guard is counted once when it is only tried, and nothing happens.
func TestDryRunCountsWhatWouldBeRefused(t *testing.T) {
	for name, c := range reasonsToRefuse() {
		t.Run(name, func(t *testing.T) {
			enforced := newTrial(t, Enforce, c.plan)
			c.play(enforced)
			was := ""
			for r, n := range enforced.Workload(0).Classes[c.class.index()].Refused {
				if n > 0 {
					was += fmt.Sprintf("%v %d ", Reason(r), n)
				}
			}
			if was != c.want || enforced.would(c.class) != "" {
				t.Errorf("enforced: refused %s, would %s, want %s", was, enforced.would(c.class), c.want)
			}
			tried := newTrial(t, DryRun, c.plan)
			c.play(tried)
			if got := tried.would(c.class); got != c.want {
				t.Errorf("tried: %s, want %s", got, c.want)
			}
			off := newTrial(t, Off, c.plan)
			c.play(off)
			if got := off.would(c.class); got != "" || off.refused() != tried.refused() {
				t.Errorf("off: %s, %d refused, tried %d", got, off.refused(), tried.refused())
			}
			for _, x := range []*trial{tried, off} {
				for r, n := range x.Stats().Refused {
					if n > 0 && Reason(r) != QueueFull {
						t.Errorf("%v: %d refused: %v", x.plan.Workloads[0].Mode, n, Reason(r))
					}
				}
			}
		})
	}
}

// Who was counted is not before those who come: enforced it would be gone. At twice the load
// half of all would be refused, not everybody.
func TestDryRunJudgesAsIfItWereEnforced(t *testing.T) {
	count := func(mode Mode) float64 {
		x := newTrial(t, mode, Workload{MaxWait: 200 * ms, MaxWaiting: 100})
		n := 0
		for now := int64(0); now < 5000*ms; now += 5 * ms {
			n++
			x.ask(now, &Waiter{Tenant: uint32(n % 7)})
			_, x.out = x.Fire(now, x.out)
			if now%(10*ms) == 0 {
				x.turn(now)
			}
		}
		would := uint64(0)
		for _, k := range x.Workload(0).Classes[1].Would {
			would += k
		}
		if mode == Enforce {
			would = uint64(x.refused())
		}
		return float64(would) / float64(n)
	}
	// Those who would be gone take slots from the others all the same.
	if a, b := count(Enforce), count(DryRun); a < 0.4 || a > 0.6 || b < 0.4 || b > 0.8 {
		t.Errorf("of all %.2f are refused, %.2f would be", a, b)
	}
}

// Those who wait only because nothing is enforced are there when it is.
func TestTheModeChangesWhileSomeWouldBeRefused(t *testing.T) {
	x := newTrial(t, DryRun, Workload{MaxWait: 35 * ms, MaxWaiting: 100})
	for i := range 10 {
		x.ask(1, &Waiter{Tenant: uint32(i % 2), Deadline: 1000 * ms})
	}
	x.Pause(2, []Key{1})
	x.ask(3, &Waiter{Deadline: 1000 * ms})
	x.sane()
	for _, mode := range []Mode{Off, DryRun, Enforce} {
		x.plan.Workloads[0].Mode = mode
		x.Reconfigure(4, x.plan, nil)
		x.sane()
		x.Resume(4, []Key{1}, nil)
		x.sane()
		if n := x.loads[0].lines[slots].ranks[1].work; n != 110*ms {
			t.Errorf("%v: %d ms of work, want 110", mode, n/ms)
		}
	}
	if got := x.would(Critical); got != "queue_wait 6 " {
		t.Error(got)
	}
}
