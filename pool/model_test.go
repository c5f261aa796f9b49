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

// TestGateAndSetAgreeWithModel: whatever happens, the budget is kept, each
// Admit gets one final verdict, held servers are never idle, nobody waits
// beside a server that is free for it, and at the end everybody who waits is
// served.
func TestGateAndSetAgreeWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.IntRange(1, 6).Draw(t, "budget")
		keys := rapid.IntRange(1, 4).Draw(t, "keys")
		p := admission.Plan{
			Slots: rapid.IntRange(1, budget).Draw(t, "slots"),
			Workloads: []admission.Workload{{
				MaxWait:    rapid.Int64Range(20, 2000).Draw(t, "max wait") * ms,
				MaxWaiting: rapid.IntRange(0, 12).Draw(t, "max waiting"),
			}},
			ProbeWaiting: rapid.IntRange(0, 2).Draw(t, "probe waiting"),
		}
		limit := rapid.IntRange(0, 3).Draw(t, "key limit")
		o := pool.Options{
			Budget:          budget,
			ConnectParallel: rapid.IntRange(0, 3).Draw(t, "parallel"),
			ConnectRate:     float64(rapid.SampledFrom([]int{0, 10, 1000}).Draw(t, "rate")),
			Lifetime:        rapid.Int64Range(0, 300).Draw(t, "lifetime") * ms,
			IdleTimeout:     rapid.Int64Range(0, 200).Draw(t, "idle timeout") * ms,
			KeyLimit:        func(k admission.Key) int { return limit * int(k%2) },
		}
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		w := newWorld(p, o, rnd.Float64, 16, keys)
		steps := w.steps()
		for range 3 { // a single one is short
			t.Repeat(steps)
		}
		w.settle(t)
	})
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
			w.now += rapid.Int64Range(0, 400).Draw(t, "ms") * ms
			w.fire()
		},
		"timer": func(*rapid.T) {
			if next := w.fire(); next != math.MaxInt64 {
				w.now = next
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
		for name, step := range w.ordinary() {
			steps[fmt.Sprint(name, i)] = step
		}
	}
	return steps
}

func anyServer(*pool.Server) bool { return true }

func running(s *session) bool { return s.server != nil }

// ordinary are the steps of ordinary work.
func (w *world) ordinary() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"admit": func(t *rapid.T) {
			s := pick(t, w.sessions, func(s *session) bool { return !s.waiting && s.server == nil })
			w.admit(s, rapid.IntRange(0, 3).Draw(t, "probe") == 0)
		},
		"done": func(t *rapid.T) { w.finish(pick(t, w.sessions, running), false) },
		"dial": func(t *rapid.T) {
			if len(w.dials) == 0 {
				t.Skip("no dial")
			}
			how := rapid.IntRange(0, 19).Draw(t, "how")
			w.dialled(rapid.IntRange(0, len(w.dials)-1).Draw(t, "dial"), how < 18, how == 19)
		},
		"closed": func(t *rapid.T) { w.eof(pick(t, w.closing, anyServer)) },
		"unhold": func(t *rapid.T) {
			if len(w.cancels) == 0 {
				t.Skip("no cancel")
			}
			w.unhold(rapid.IntRange(0, len(w.cancels)-1).Draw(t, "cancel"))
		},
		"time": func(t *rapid.T) {
			w.now += rapid.Int64Range(0, 20).Draw(t, "ms") * ms
			w.fire()
		},
	}
}

// upsets are the rare events that can happen now.
func (w *world) upsets() []func(*rapid.T) {
	u := []func(*rapid.T){w.resize, w.reconfigure, func(*rapid.T) {
		w.set.CloseAll(w.now)
		w.deliver()
	}}
	if slices.ContainsFunc(w.sessions, running) {
		u = append(u, func(t *rapid.T) { w.finish(pick(t, w.sessions, running), true) })
	}
	if len(w.sockets) > 0 {
		u = append(u, w.anyEOF, w.anyEOF, func(t *rapid.T) {
			w.set.Break(w.now, pick(t, w.set.Servers(nil), anyServer))
			w.deliver()
		})
	}
	return u
}

func (w *world) anyEOF(t *rapid.T) {
	sv := pick(t, w.set.Servers(nil), anyServer)
	s := w.owner[sv]
	w.eof(sv)
	if s != nil { // the ticket ends with the server
		w.finish(s, rapid.Bool().Draw(t, "break"))
	}
}

func (w *world) resize(t *rapid.T) {
	w.setBudget(rapid.IntRange(0, 6).Draw(t, "budget"))
}

func (w *world) reconfigure(t *rapid.T) {
	w.plan.Slots = rapid.IntRange(0, 6).Draw(t, "slots")
	w.plan.Workloads[0].MaxWait = rapid.Int64Range(20, 2000).Draw(t, "max wait") * ms
	w.pending = w.gate.Reconfigure(w.now, w.plan, w.pending)
	w.deliver()
}

// settle makes the world kind: dials succeed, sockets end, tickets end, and
// time goes on only as the timers ask. Then everybody who waits must be
// granted, and in the end nothing is left.
func (w *world) settle(t *rapid.T) {
	w.setBudget(max(w.budget, 1))
	w.plan = admission.Plan{
		Slots: max(1, w.plan.Slots), Workloads: []admission.Workload{{MaxWait: 3600 * 1000 * ms, MaxWaiting: 100}},
	}
	w.pending = w.gate.Reconfigure(w.now, w.plan, w.pending)
	w.deliver()
	for _, s := range w.sessions {
		if !s.waiting && s.server == nil {
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
			w.now = next
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
	return gs.Running+gs.Waiting+len(w.dials)+len(w.closing)+len(w.cancels) > 0
}

// work lets one thing end that is under way; false if nothing is.
func (w *world) work() bool {
	switch {
	case len(w.cancels) > 0:
		w.unhold(0)
	case len(w.closing) > 0 && w.owner[w.closing[0]] == nil:
		w.eof(w.closing[0])
	case len(w.dials) > 0:
		w.dialled(0, true, false)
	default:
		for _, s := range w.sessions {
			if s.server != nil {
				w.finish(s, false)
				return true
			}
		}
		return false
	}
	return true
}
