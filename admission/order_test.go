package admission

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive is what the gate's order must be equal to, by walking over everybody.
// Its supply has counted servers by key, and every one is reported at once.
type naive struct {
	plan    Plan
	idle    map[Key]int
	line    []*Waiter // oldest first
	used    [2][]int  // by side and workload
	lane    int
	extra   int
	tickets map[*Waiter]Ticket
	now     int64
	mixed   bool
}

func (n *naive) side(w *Waiter) int {
	if w.Want == Session {
		return sessions
	}
	return slots
}

func (n *naive) limit(side int) int {
	if side == sessions {
		if n.mixed {
			return max(n.plan.Connections-1, 0)
		}
		return n.plan.Connections
	}
	return n.plan.Slots
}

func (n *naive) free(side int) int {
	free := n.limit(side)
	for _, u := range n.used[side] {
		free -= u
	}
	return max(free, 0)
}

// total is the number of permits that shares are of.
func (n *naive) total(side int) float64 {
	if side == sessions {
		return float64(n.plan.Connections)
	}
	return float64(n.plan.Slots)
}

func (n *naive) owns(side, load int) bool {
	part := n.plan.Workloads[load].Share * n.total(side)
	if side == sessions {
		return n.plan.Workloads[load].Share > 0 && n.used[side][load] < max(1, int(part+1e-6))
	}
	return float64(n.used[side][load]) < part-1e-6
}

func (n *naive) may(side, load int) bool {
	free, kept := n.free(side), 0
	if free == 0 {
		return false
	}
	if n.owns(side, load) {
		return true
	}
	for v, l := range n.plan.Workloads {
		if v != load {
			kept += max(0, int(math.Floor((1-l.Lendable)*l.Share*n.total(side)+1e-6))-n.used[side][v])
		}
	}
	l := n.plan.Workloads[load]
	return free > kept && float64(n.used[side][load]) < (l.Share+l.Borrow)*n.total(side)-1e-6
}

// head is the oldest waiter of a workload on a side.
func (n *naive) head(side, load int) *Waiter {
	for _, w := range n.line {
		if int(w.Workload) == load && n.side(w) == side {
			return w
		}
	}
	return nil
}

// before is the order of two workloads.
func (n *naive) before(side, a, b int) bool {
	oa, ob := n.owns(side, a), n.owns(side, b)
	ra := float64(n.used[side][a]) / max(n.plan.Workloads[a].Share, 1e-9)
	rb := float64(n.used[side][b]) / max(n.plan.Workloads[b].Share, 1e-9)
	switch {
	case oa != ob:
		return oa
	case ra != rb:
		return ra < rb
	}
	ha, hb := n.head(side, a), n.head(side, b)
	return ha != nil && (hb == nil || ha.seq < hb.seq)
}

func (n *naive) served(w *Waiter) bool { return w.Want == Slot || n.idle[w.Key] > 0 }

// best is who is next on a side.
func (n *naive) best(side int) *Waiter {
	var best *Waiter
	for _, w := range n.line {
		if n.side(w) != side || !n.served(w) || !n.may(side, int(w.Workload)) {
			continue
		}
		if best == nil || w.Workload != best.Workload && n.before(side, int(w.Workload), int(best.Workload)) {
			best = w
		}
	}
	return best
}

func (n *naive) first(ok func(*Waiter) bool) *Waiter {
	for _, w := range n.line {
		if n.served(w) && ok(w) {
			return w
		}
	}
	return nil
}

// pick is who is granted next, and how.
func (n *naive) pick() (w *Waiter, kind int) {
	w, kind = n.best(slots), slots
	if n.free(slots) > 0 && n.lane == 0 {
		if p := n.first(func(w *Waiter) bool { return w.Probe && !w.Reserved }); p != nil && p != w {
			return p, probes
		}
	}
	if w == nil && n.extra < n.plan.Extra {
		w, kind = n.first(func(w *Waiter) bool { return w.Reserved && w.Want != Session }), extras
	}
	if s := n.best(sessions); s != nil && (w == nil || s.seq < w.seq) {
		w, kind = s, sessions
	}
	return w, kind
}

// follow grants what the gate has granted, if it is what is next. A probe that
// is next by the order may go by the lane instead: the gate learns only later
// that another one's key has no server.
func (n *naive) follow(v Verdict) bool {
	w, kind := n.pick()
	if w != v.W {
		return false
	}
	if kind == slots && v.Ticket.Lane && n.lane == 0 && w.Probe && !w.Reserved {
		kind = probes
	}
	n.take(w, kind)
	return v.Ticket == n.tickets[w]
}

func (n *naive) take(w *Waiter, kind int) {
	n.remove(w)
	if w.Want != Slot {
		n.idle[w.Key]--
	}
	switch kind {
	case extras:
		n.extra++
	case probes:
		n.lane++
		n.used[slots][w.Workload]++
	default:
		n.used[kind][w.Workload]++
	}
	n.tickets[w] = Ticket{Workload: w.Workload, Want: w.Want, Lane: kind == probes, Extra: kind == extras}
}

func (n *naive) remove(w *Waiter) {
	n.line = slices.DeleteFunc(n.line, func(x *Waiter) bool { return x == w })
}

func (n *naive) end(t Ticket) {
	switch {
	case t.Want == Session:
		n.used[sessions][t.Workload]--
	case t.Extra:
		n.extra--
	default:
		if t.Lane {
			n.lane--
		}
		n.used[slots][t.Workload]--
	}
}

// counted is a Supply that has what the naive gate has.
type counted map[Key]int

func (c counted) Reserve(k Key, _ int64) (uint32, bool) {
	if c[k] == 0 {
		return 0, false
	}
	c[k]--
	return 1, true
}
func (counted) Demand(Key, int, int, int64) {}
func (counted) Steal(Key, int64) bool       { return false }

// TestOrderEqualsNaive: who is granted, on which permit and in which order is
// what a walk over all waiters finds, after any sequence of changes.
func TestOrderEqualsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		supply := counted{}
		n := &naive{plan: p, idle: map[Key]int{}, tickets: map[*Waiter]Ticket{}}
		n.used = [2][]int{make([]int, len(p.Workloads)), make([]int, len(p.Workloads))}
		g := New(p, supply, nil)
		var out []Verdict
		compare := func(t *rapid.T) {
			for _, v := range out {
				want, kind := n.pick()
				if !n.follow(v) {
					t.Fatalf("granted to %s as %+v, want %s, kind %d", name(v.W), v.Ticket, name(want), kind)
				}
			}
			if w, _ := n.pick(); w != nil {
				t.Fatalf("not granted to %s", name(w))
			}
			out = out[:0]
			if err := g.Check(); err != nil {
				t.Fatal(err)
			}
			for _, w := range n.line {
				if !w.Waiting() {
					t.Fatalf("waiter %d does not wait", w.seq)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n.now++
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				w := &Waiter{
					Key: Key(rapid.IntRange(0, 3).Draw(t, "key")), Workload: uint16(rapid.IntRange(0, len(p.Workloads)-1).Draw(t, "workload")),
					Want: Want(rapid.IntRange(0, 2).Draw(t, "want")), Reserved: rapid.IntRange(0, 4).Draw(t, "reserved") == 0,
				}
				w.Probe = w.Want == Transaction && rapid.IntRange(0, 3).Draw(t, "probe") == 0
				n.mixed = n.mixed || w.Want == Transaction
				n.line = append(n.line, w)
				v := g.Admit(n.now, w)
				if v.Outcome == Granted {
					w.seq = g.seq + 1 // at the door it got none
					out = append(out, v)
				}
			case 3: // a server appears
				k := Key(rapid.IntRange(0, 3).Draw(t, "key"))
				supply[k]++
				n.idle[k]++
				out = g.Supplied(n.now, k, out)
			case 4:
				if len(n.line) > 0 {
					w := n.line[rapid.IntRange(0, len(n.line)-1).Draw(t, "which")]
					n.remove(w)
					if !g.Withdraw(n.now, w) {
						t.Fatal("not withdrawn")
					}
				}
			case 5:
				if w := oldest(n.tickets); w != nil {
					tk := n.tickets[w]
					delete(n.tickets, w)
					n.end(tk)
					if tk.Want == Session {
						out = g.Release(n.now, tk.Workload, out)
					} else {
						out = g.Done(n.now, tk, 1, out)
					}
				}
			}
			compare(t)
		}
	})
}

func drawPlan(t *rapid.T) Plan {
	p := Plan{
		Slots: rapid.IntRange(0, 6).Draw(t, "slots"), Extra: rapid.IntRange(0, 1).Draw(t, "extra"),
		Connections: rapid.IntRange(1, 5).Draw(t, "connections"),
	}
	left := 10
	for i := range rapid.IntRange(1, 4).Draw(t, "workloads") {
		share := rapid.IntRange(0, left).Draw(t, "share")
		if i == 0 {
			share = max(share, 1) // without any share all have equal ones
		}
		left -= share
		p.Workloads = append(p.Workloads, Workload{
			Policy: FIFOGone, MaxWaiting: 1000, Share: float64(share) / 10,
			Lendable: rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "lendable"),
			Borrow:   rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "borrow"),
		})
	}
	return p
}

// oldest is the waiter that has a ticket and came first.
func oldest(tickets map[*Waiter]Ticket) (first *Waiter) {
	for w := range tickets {
		if first == nil || w.seq < first.seq {
			first = w
		}
	}
	return first
}

func name(w *Waiter) string {
	if w == nil {
		return "nobody"
	}
	return fmt.Sprintf("%d (key %d, workload %d, %v)", w.seq, w.Key, w.Workload, w.Want)
}
