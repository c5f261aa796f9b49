package admission

import (
	"testing"

	"pgregory.net/rapid"
)

// TestGateProperties: whatever happens to a gate, nobody is granted beyond the limits, after
// his time or while his key is paused, everybody's Admit ends once, nobody waits who could go,
// nobody is displaced who must not be, nothing is left of those who have gone; and each grant
// goes to whom a walk over all waiters finds.
func TestGateProperties(t *testing.T) {
	many(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			w.step()
			w.deliver()
		}
		w.empty()
	})
}

// step does one thing.
func (w *world) step() {
	step := rapid.IntRange(0, 15).Draw(w.t, "step")
	if w.crowded && step >= 13 {
		step -= 6 // rather an end
	}
	switch step {
	case 0, 1, 2, 3, 4:
		for range rapid.IntRange(1, 3).Draw(w.t, "burst") {
			w.admit()
			w.verify()
		}
	case 5, 6:
		w.come(w.key())
	case 7, 8, 9:
		if len(w.running) > 0 {
			i, how := rapid.IntRange(0, len(w.running)-1).Draw(w.t, "which"), rapid.IntRange(0, 4).Draw(w.t, "back")
			x := w.running[i]
			if w.end(i, how > 1); how == 0 && x.Want != Slot {
				w.retry(x)
			}
		}
	case 10:
		if len(w.waiting) > 0 {
			w.withdraw(rapid.IntRange(0, len(w.waiting)-1).Draw(w.t, "which"))
		}
	case 11, 12:
		w.pass()
	case 13:
		w.weather()
	case 14:
		w.command()
	case 15:
		if k := w.key(); w.supply.idle[k] > 0 { // a server ends
			w.supply.idle[k]--
			w.n.idle[k]--
		}
	}
}

func (w *world) key() Key { return Key(rapid.IntRange(0, worldKeys-1).Draw(w.t, "key")) }

func (w *world) withdraw(i int) {
	x := w.waiting[i]
	w.waiting = append(w.waiting[:i:i], w.waiting[i+1:]...)
	w.n.leave(x)
	if !w.g.Withdraw(w.now, x) || w.g.Withdraw(w.now, x) {
		w.t.Fatalf("%s was not withdrawn once", name(x))
	}
}

// pass lets time go on: to somewhere before the gate wants to be called, when it must have
// nothing to say, or beyond.
func (w *world) pass() {
	next, out := w.g.Fire(w.now, w.out)
	w.out = out
	w.deliver()
	if next <= w.now {
		w.t.Fatalf("to be called at %d, it is %d", next, w.now)
	}
	d := rapid.SampledFrom([]int64{1, ms / 10, ms, 7 * ms, 40 * ms, 120 * ms, 700 * ms}).Draw(w.t, "time")
	w.now += d
	for _, x := range w.waiting {
		if !w.g.Paused(x.Key) {
			w.state[x].counted += d
		}
	}
	_, w.out = w.g.Fire(w.now, w.out)
	if len(w.out) > 0 && w.now < next {
		w.t.Fatalf("%+v, %d before its time", w.out[0], next-w.now)
	}
}

// weather changes how it stands with a key's servers.
func (w *world) weather() {
	k := w.key()
	switch rapid.IntRange(0, 2).Draw(w.t, "weather") {
	case 0:
		w.supply.away[k], w.supply.warm[k] = false, false
	case 1:
		w.supply.away[k] = true
	case 2:
		w.supply.warm[k] = true
	}
	w.supply.changes++
	w.muddle(func(x *Waiter) bool { return x.Key == k })
	_, w.out = w.g.Fire(w.now, w.out)
}

func (w *world) muddle(which func(*Waiter) bool) {
	for _, x := range w.waiting {
		if which(x) {
			w.state[x].muddled = true
		}
	}
}

// command is one of an administrator's.
func (w *world) command() {
	switch rapid.IntRange(0, 9).Draw(w.t, "command") {
	case 0, 1:
		w.pause(w.key())
	case 2, 3, 4:
		w.resume([]Key{w.key()})
	case 5, 6, 7:
		p := drawPlan(w.t)
		w.muddle(func(*Waiter) bool { return true })
		w.n.reconfigure(p)
		w.out = w.g.Reconfigure(w.now, p, w.out)
	case 8:
		w.out = w.g.Unsupplied(w.now, w.key(), w.out)
	case 9:
		if rapid.IntRange(0, 9).Draw(w.t, "drain") == 0 {
			w.drained = true
			w.out = w.g.Drain(w.now, w.out)
		}
	}
}

func (w *world) pause(k Key) {
	if w.g.Paused(k) {
		return
	}
	for _, x := range w.waiting {
		if x.Key == k {
			w.n.leave(x)
			w.state[x].muddled = true
		}
	}
	w.g.Pause(w.now, []Key{k})
}

func (w *world) resume(keys []Key) {
	for _, k := range keys {
		if !w.g.Paused(k) {
			continue
		}
		for _, x := range w.waiting {
			if x.Key == k {
				w.n.join(x)
			}
		}
	}
	w.out = w.g.Resume(w.now, keys, w.out)
}
