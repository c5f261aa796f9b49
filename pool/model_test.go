package pool_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
	"pgregory.net/rapid"
)

// pick returns an element that satisfies ok, or skips the step.
func pick[T any](t *rapid.T, from []T, ok func(T) bool) T {
	var fit []T
	for _, x := range from {
		if ok(x) {
			fit = append(fit, x)
		}
	}
	if len(fit) == 0 {
		t.Skip("nothing fits")
	}
	return fit[rapid.IntRange(0, len(fit)-1).Draw(t, "which")]
}

// TestGateAndSetAgreeWithModel: whatever happens, the budget is kept and its
// reserve, each Admit gets one final verdict, no workload has more than the plan
// allows nor less than its part while it waits, held servers are never idle,
// nobody waits beside a server and a slot that are free for it, nobody is
// refused before its time, and at the end everybody who waits is served.
func TestGateAndSetAgreeWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.IntRange(1, 4).Draw(t, "keys")
		workloads := rapid.IntRange(1, 4).Draw(t, "workloads")
		p, o := drawPlan(t, workloads), drawOptions(t)
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		w := newWorld(p, o, rnd.Float64, 16, keys)
		w.crammed = rapid.Bool().Draw(t, "crammed")
		for i, s := range w.sessions {
			s.w.Workload = uint16(rapid.IntRange(0, workloads-1).Draw(t, "workload"))
			s.w.Reserved = w.reserved(s.w.Key) && i%2 == 0
			if rapid.IntRange(0, 3).Draw(t, "mode") == 0 {
				s.w.Want = admission.Session
			}
		}
		steps := w.steps()
		for range 3 { // a single one is short
			t.Repeat(steps)
		}
		w.settle(t)
	})
}

func drawPlan(t *rapid.T, workloads int) admission.Plan {
	p := admission.Plan{
		Slots:        rapid.IntRange(0, 6).Draw(t, "slots"),
		Extra:        rapid.IntRange(0, 2).Draw(t, "extra"),
		Connections:  rapid.IntRange(1, 6).Draw(t, "connections"),
		ProbeWaiting: rapid.IntRange(0, 2).Draw(t, "probe waiting"),
	}
	left := 20
	percent := rapid.SampledFrom([]float64{0, 0.5, 1})
	for i := range workloads {
		share := rapid.IntRange(0, left).Draw(t, "share")
		if i == workloads-1 && left == 20 {
			share = 20 // all of them without a share would have equal ones
		}
		left -= share
		policy := admission.FIFOGone
		if i%2 == 1 {
			policy = admission.Guard
		}
		p.Workloads = append(p.Workloads, admission.Workload{
			Policy:       policy,
			MaxWait:      rapid.Int64Range(20, 2000).Draw(t, "max wait") * ms,
			NoServerWait: rapid.Int64Range(20, 500).Draw(t, "no server wait") * ms,
			SessionWait:  rapid.Int64Range(20, 2000).Draw(t, "session wait") * ms,
			MaxWaiting:   rapid.IntRange(0, 12).Draw(t, "max waiting"),
			Share:        float64(share) / 20,
			Lendable:     percent.Draw(t, "lendable"),
			Borrow:       percent.Draw(t, "borrow"),
		})
	}
	return p
}

func drawOptions(t *rapid.T) pool.Options {
	limit := rapid.IntRange(0, 3).Draw(t, "key limit")
	reserved := rapid.IntRange(0, 5).Draw(t, "reserved key")
	quotas := [2]int{rapid.IntRange(0, 3).Draw(t, "quota"), rapid.IntRange(0, 4).Draw(t, "other quota")}
	return pool.Options{
		Quotas: func(k admission.Key) [2]pool.Quota {
			return [2]pool.Quota{{ID: 1 + int(k%2), Limit: quotas[0]}, {ID: 3, Limit: quotas[1]}}
		},
		Budget:          rapid.IntRange(0, 6).Draw(t, "budget"),
		Reserve:         rapid.IntRange(0, 2).Draw(t, "reserve"),
		ReservedKey:     func(k admission.Key) bool { return int(k) == reserved },
		ConnectParallel: rapid.IntRange(0, 3).Draw(t, "parallel"),
		ConnectRate:     float64(rapid.SampledFrom([]int{0, 10, 1000}).Draw(t, "rate")),
		Lifetime:        rapid.Int64Range(0, 300).Draw(t, "lifetime") * ms,
		IdleTimeout:     rapid.Int64Range(0, 200).Draw(t, "idle timeout") * ms,
		KeyLimit:        func(k admission.Key) int { return limit * int(k%2) },
	}
}

// steps are what can happen. What drives the work comes several times, what
// upsets it is drawn once more before it happens: otherwise nearly nothing
// would ever run.
func (w *world) steps() map[string]func(*rapid.T) {
	steps := map[string]func(*rapid.T){
		"withdraw": func(t *rapid.T) {
			w.withdraw(pick(t, w.sessions, func(s *session) bool { return s.waiting }))
		},
		"hold": func(t *rapid.T) { w.hold(pick(t, w.set.Servers(nil), anyServer)) },
		"upset": func(t *rapid.T) {
			upsets := w.upsets() // a step that is skipped after a draw may end the run
			upsets[rapid.IntRange(0, len(upsets)-1).Draw(t, "upset")](t)
		},
		"long": func(t *rapid.T) {
			w.advance(w.now + rapid.Int64Range(0, 400).Draw(t, "ms")*ms)
			w.fire()
		},
		"timer": func(*rapid.T) {
			if next := w.fire(); next != math.MaxInt64 {
				w.advance(next)
				w.fire()
			}
		},
		"": func(t *rapid.T) {
			if err := w.check(); err != nil {
				t.Fatal(err)
			}
		},
	}
	for i := range 4 {
		for name, step := range w.everyday() {
			steps[fmt.Sprint(name, i)] = step
		}
	}
	return steps
}

func anyServer(*pool.Server) bool { return true }

func running(s *session) bool { return s.running }

// keeps: it is a session that runs nothing.
func keeps(s *session) bool { return s.kept && !s.running }

// everyday are the steps of ordinary work.
func (w *world) everyday() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"admit": func(t *rapid.T) {
			s := pick(t, w.sessions, func(s *session) bool { return !s.waiting && !s.running })
			if s.kept {
				s.w.Want = admission.Slot
			} else if s.w.Want == admission.Slot {
				s.w.Want = admission.Session
			}
			w.admit(s, s.w.Want == admission.Transaction && rapid.IntRange(0, 3).Draw(t, "probe") == 0)
		},
		"done":    func(t *rapid.T) { w.finish(pick(t, w.sessions, running), false) },
		"release": func(t *rapid.T) { w.release(pick(t, w.sessions, keeps), rapid.Bool().Draw(t, "broken")) },
		"dial": func(t *rapid.T) {
			if len(w.dials) == 0 {
				t.Skip("no dial")
			}
			how := rapid.IntRange(0, 19).Draw(t, "how")
			w.dialled(rapid.IntRange(0, len(w.dials)-1).Draw(t, "dial"), how < 18, how == 19)
		},
		"doubt": func(t *rapid.T) {
			if len(w.dials) == 0 {
				t.Skip("no dial")
			}
			w.doubt(w.dials[rapid.IntRange(0, len(w.dials)-1).Draw(t, "dial")])
		},
		"closed": func(t *rapid.T) { w.eof(pick(t, w.closing, anyServer)) },
		"unhold": func(t *rapid.T) {
			if len(w.cancels) == 0 {
				t.Skip("no cancel")
			}
			w.unhold(rapid.IntRange(0, len(w.cancels)-1).Draw(t, "cancel"))
		},
		"time": func(t *rapid.T) {
			w.advance(w.now + rapid.Int64Range(0, 20).Draw(t, "ms")*ms)
			w.fire()
		},
	}
}

// upsets are the rare events that can happen now.
func (w *world) upsets() []func(*rapid.T) {
	u := []func(*rapid.T){
		func(t *rapid.T) { w.setBudget(rapid.IntRange(0, 6).Draw(t, "budget")) },
		func(t *rapid.T) { w.reconfigure(drawPlan(t, len(w.plan.Workloads)), drawOptions(t)) },
		func(t *rapid.T) {
			k := w.drawKey(t)
			w.minimum[k] = rapid.IntRange(0, 2).Draw(t, "minimum")
			w.set.SetMinimum(k, w.minimum[k])
			w.deliver()
		},
		func(t *rapid.T) {
			some := rapid.IntRange(0, 3).Draw(t, "closed")
			w.set.CloseKeys(w.now, func(k admission.Key) bool { return int(k)%3 != some })
			w.deliver()
		},
		func(t *rapid.T) { w.pause(rapid.IntRange(0, 2).Draw(t, "all") == 0, w.drawKey(t), w.drawKey(t)) },
		func(t *rapid.T) { w.resume(true) },
	}
	if !w.all {
		u = append(u, func(t *rapid.T) { w.resume(false, w.drawKey(t)) })
	}
	if slices.ContainsFunc(w.sessions, func(s *session) bool { return s.running && !s.kept }) {
		u = append(u, func(t *rapid.T) {
			w.finish(pick(t, w.sessions, func(s *session) bool { return s.running && !s.kept }), true)
		})
	}
	if len(w.sockets) > 0 {
		u = append(u, w.anyEOF, w.anyEOF, func(t *rapid.T) {
			w.set.Break(w.now, pick(t, w.set.Servers(nil), anyServer))
			w.deliver()
		})
	}
	return u
}

func (w *world) drawKey(t *rapid.T) admission.Key {
	return admission.Key(rapid.IntRange(0, w.keys-1).Draw(t, "key"))
}

func (w *world) anyEOF(t *rapid.T) {
	sv := pick(t, w.set.Servers(nil), anyServer)
	w.lost(sv, rapid.Bool().Draw(t, "break"))
}

// lost ends a socket, and with it what somebody has on it.
func (w *world) lost(sv *pool.Server, broken bool) {
	s := w.owner[sv]
	w.eof(sv)
	if s == nil {
		return
	}
	if s.running {
		w.finish(s, broken)
	}
	if s.kept {
		w.release(s, broken)
	}
}

// settle makes the world kind: dials succeed, sockets end, tickets end, and
// time goes on only as the timers ask. Then everybody who waits must be
// granted, and in the end nothing is left.
func (w *world) settle(t *rapid.T) {
	w.resume(true)
	o := w.opts
	o.Budget, o.Reserve = max(o.Budget, 2), min(o.Reserve, 1)
	p := admission.Plan{Slots: max(1, w.plan.Slots), Connections: 2}
	for range w.plan.Workloads {
		p.Workloads = append(p.Workloads, admission.Workload{
			Policy: admission.FIFOGone, MaxWait: 3600 * 1000 * ms, SessionWait: 3600 * 1000 * ms, MaxWaiting: 100,
			Share: 1 / float64(len(w.plan.Workloads)), Lendable: 1, Borrow: 1,
		})
	}
	w.reconfigure(p, o)
	for k := range w.minimum {
		w.set.SetMinimum(k, 0)
	}
	clear(w.minimum)
	for _, s := range w.sessions {
		if !s.waiting && s.server == nil {
			if s.w.Want == admission.Slot {
				s.w.Want = admission.Session
			}
			w.admit(s, false)
		}
	}
	refused := w.refused
	for i := 0; w.busy(); i++ {
		if i > 10_000 {
			t.Fatalf("does not settle: gate %+v set %+v keys %+v", w.gate.Stats(), w.set.Stats(), w.set.Keys(nil))
		}
		next := w.fire()
		if !w.work() && w.busy() {
			if next-w.now > 3000*ms {
				t.Fatalf("stuck until %d at %d: gate %+v set %+v keys %+v", next, w.now, w.gate.Stats(), w.set.Stats(), w.set.Keys(nil))
			}
			w.advance(next)
		}
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
	}
	if w.refused != refused {
		t.Fatalf("%d were refused in a kind world", w.refused-refused)
	}
	w.empty(t)
}

// empty closes everything and looks that nothing is left.
func (w *world) empty(t *rapid.T) {
	w.set.CloseAll(w.now)
	w.deliver()
	for len(w.closing) > 0 {
		w.eof(w.closing[0])
	}
	if err := w.check(); err != nil {
		t.Fatal(err)
	}
	gs, ss := w.gate.Stats(), w.set.Stats()
	if len(w.sockets) > 0 || gs.Running+gs.Waiting+gs.Lane > 0 || ss.Held > 0 {
		t.Fatalf("left over: %d sockets, gate %+v, set %+v", len(w.sockets), gs, ss)
	}
	var refused uint64
	for _, n := range gs.Refused {
		refused += n
	}
	if int(gs.Granted) != w.granted || int(refused) != w.refused || int(gs.Granted+refused+gs.Withdrawn) != w.admits {
		t.Fatalf("%d admits, %d granted, %d refused; the gate says %+v", w.admits, w.granted, w.refused, gs)
	}
}

func (w *world) busy() bool {
	gs := w.gate.Stats()
	return gs.Running+gs.Sessions+gs.Waiting+len(w.dials)+len(w.closing)+len(w.cancels) > 0
}

// work lets one thing end that is under way; false if nothing is.
func (w *world) work() bool {
	switch {
	case len(w.cancels) > 0:
		w.unhold(0)
	case len(w.closing) > 0:
		w.lost(w.closing[0], false)
	case len(w.dials) > 0:
		w.dialled(0, true, false)
	default:
		for _, s := range w.sessions {
			switch {
			case s.running:
				w.finish(s, false)
				return true
			case s.kept:
				w.release(s, false)
				return true
			}
		}
		return false
	}
	return true
}
