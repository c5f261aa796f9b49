package admission

import (
	"fmt"
	"math"
	"slices"
)

// naive is what the gate's choices must be equal to, by walking over everybody: whose turn it
// is among the workloads and the lanes, with the order inside a workload from its ledger. Its
// supply has counted servers by key, and every one is reported at once.
type naive struct {
	ledger
	plan     Plan
	idle     map[Key]int
	line     []*Waiter // oldest first
	newcomer *Waiter   // stands there only to be granted at once
	used     [2][]int  // by side and workload
	lane     int
	extra    int
	tickets  map[*Waiter]Ticket
	mixed    bool
}

func newNaive(g *Gate) *naive {
	n := &naive{plan: g.plan, idle: map[Key]int{}, tickets: map[*Waiter]Ticket{}}
	n.ledger = ledger{gate: g, n: n, ranks: map[rankName]*entries{}, credit: map[rankName]float64{}}
	n.used = [2][]int{make([]int, len(g.plan.Workloads)), make([]int, len(g.plan.Workloads))}
	return n
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
		return part > 0 && n.used[side][load] < max(1, int(part+1e-6))
	}
	return float64(n.used[side][load]) < part-1e-6
}

// most is how many permits a workload may have.
func (n *naive) most(side, load int) float64 {
	l := n.plan.Workloads[load]
	return (l.Share + l.Borrow) * n.total(side)
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
	return free > kept && float64(n.used[side][load]) < n.most(side, load)-1e-6
}

// oldest is the oldest waiter of a workload on a side.
func (n *naive) oldest(side, load int) *Waiter {
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
	ha, hb := n.oldest(side, a), n.oldest(side, b)
	return ha != nil && (hb == nil || ha.seq < hb.seq)
}

func (n *naive) served(w *Waiter) bool { return w.Want == Slot || n.idle[w.Key] > 0 }

// best is who is next on a side; nil if nobody.
func (n *naive) best(side int) *Waiter {
	load, able := -1, []*Waiter(nil)
	for i := range n.plan.Workloads {
		if !n.may(side, i) || load >= 0 && !n.before(side, i, load) {
			continue
		}
		mine := slices.Clone(n.line)
		mine = slices.DeleteFunc(mine, func(w *Waiter) bool {
			return int(w.Workload) != i || n.side(w) != side || !n.served(w)
		})
		if len(mine) > 0 {
			load, able = i, mine
		}
	}
	switch {
	case load < 0:
		return nil
	case side == sessions:
		return able[0]
	}
	return n.next(load, able)
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
		if p := n.first(func(w *Waiter) bool { return w.Probe && !w.Reserved && w.Want != Session }); p != nil && p != w {
			return p, probes
		}
	}
	if w == nil && n.extra < n.plan.Extra {
		w, kind = n.first(func(w *Waiter) bool { return w.Reserved && w.Want != Session }), extras
	}
	if s := n.best(sessions); s != nil && (w == nil || s.seq < n.ages(w, kind)) {
		w, kind = s, sessions
	}
	return w, kind
}

// ages is the age of those with whom w stands.
func (n *naive) ages(w *Waiter, kind int) uint64 {
	if kind == extras {
		return w.seq
	}
	return n.flowOf(w)[0].seq
}

// follow grants what the gate has granted, if it is what is next. The gate learns only when it
// comes to them that keys have no servers: a probe that is next by the order may go by the
// lane instead, and a session's login before a transaction, or after it, that it is to be
// compared with.
func (n *naive) follow(v Verdict) bool {
	w, kind := n.pick()
	if w != v.W || kind == probes && !v.Ticket.Lane { // among several grants at a time, a queue may have begun or ceased to stand
		n.flip = true
		w, kind = n.pick()
		n.flip = false
	}
	if s := n.best(sessions); s == v.W {
		w, kind = s, sessions
	} else {
		for kind == sessions {
			n.line = slices.DeleteFunc(n.line, func(o *Waiter) bool { return o == w })
			defer n.join(w)
			w, kind = n.pick()
		}
	}
	if w != v.W {
		return false
	}
	if kind == slots && v.Ticket.Lane && n.lane == 0 && w.Probe && !w.Reserved {
		kind = probes
	}
	n.take(w, kind)
	got, want := v.Ticket, n.tickets[w]
	return got.Workload == want.Workload && got.Want == want.Want && got.Lane == want.Lane && got.Extra == want.Extra &&
		(got.tenant != nil) == n.charged(w)
}

// take grants w a permit of a kind.
func (n *naive) take(w *Waiter, kind int) {
	if i := slices.Index(n.line, w); n.newcomer == w {
		n.line = slices.Delete(n.line, i, i+1)
	}
	if n.side(w) == slots {
		n.pay(w, kind)
	}
	n.leave(w)
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

// join puts w into the line, by age.
func (n *naive) join(w *Waiter) {
	n.enter(w)
	i, _ := slices.BinarySearchFunc(n.line, w, func(a, b *Waiter) int { return int(a.seq) - int(b.seq) })
	n.line = slices.Insert(n.line, i, w)
}

// leave takes w out of the line, if it is there.
func (n *naive) leave(w *Waiter) {
	i := slices.Index(n.line, w)
	if i < 0 {
		return
	}
	n.exit(w)
	n.line = slices.Delete(n.line, i, i+1)
	n.emptied(w)
}

// end gives back the ticket of w, after it was held for so long.
func (n *naive) end(w *Waiter, held int64) {
	t := n.tickets[w]
	delete(n.tickets, w)
	switch {
	case t.Want == Session:
		n.used[sessions][t.Workload]--
		return
	case t.Extra:
		n.extra--
	default:
		if t.Lane {
			n.lane--
		}
		n.used[slots][t.Workload]--
	}
	n.paid(w, held)
}

// reconfigure puts p into force, and moves those whose order changes.
func (n *naive) reconfigure(p Plan) {
	p = p.withDefaults()
	var moved []*Waiter
	for _, w := range slices.Clone(n.line) {
		if w.Want != Session && p.Workloads[w.Workload].Policy != n.plan.Workloads[w.Workload].Policy {
			n.leave(w)
			moved = append(moved, w)
		}
	}
	n.plan = p
	for _, w := range moved {
		n.join(w)
	}
	n.mixed = slices.ContainsFunc(n.line, func(w *Waiter) bool { return w.Want != Session })
}

func name(w *Waiter) string {
	if w == nil {
		return "nobody"
	}
	return fmt.Sprintf("%d (key %d, workload %d, %v, %v, tenant %d)", w.seq, w.Key, w.Workload, w.Want, w.Class, w.Tenant)
}
