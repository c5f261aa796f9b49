package admission

import (
	"flag"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// many runs a property on ten thousand cases, or as many as -rapid.checks says.
func many(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue {
		n := "10000"
		if testing.Short() {
			n = "500"
		}
		if err := checks.Value.Set(n); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
	}
	rapid.Check(t, property)
}

// stock is a Supply of counted servers whose keys can be away or warming.
type stock struct {
	idle       map[Key]int
	away, warm map[Key]bool
	changes    uint64
	steals     bool
}

func (s *stock) Reserve(k Key, _ int64) (uint32, bool) {
	if s.idle[k] == 0 {
		return 0, false
	}
	s.idle[k]--
	return 1, true
}

func (s *stock) Demand(_ Key, waiting, usable int, _ int64) {
	if waiting < 0 || usable < 0 {
		panic("a demand of less than nothing")
	}
}

func (s *stock) Steal(k Key, _ int64, _ bool) bool {
	for o := range Key(worldKeys) {
		if o != k && s.steals && s.idle[o] > 0 {
			s.idle[o]--
			return true
		}
	}
	return false
}
func (s *stock) Down(k Key) bool    { return s.away[k] }
func (s *stock) Warming(k Key) bool { return s.warm[k] }
func (s *stock) Changes() uint64    { return s.changes }

const worldKeys = 4

// world is a gate with everything that can happen to one, and what has to hold after it.
type world struct {
	t      *rapid.T
	g      *Gate
	n      *naive
	supply *stock
	now    int64
	out    []Verdict

	state   map[*Waiter]*state
	waiting []*Waiter // the halted included, oldest first
	running []*Waiter
	ordered bool // the naive gate follows
	drained bool
	admits  int
	crowded bool // all come to one workload under the guard, which has too much to do
}

// state is what is known of one Admit.
type state struct {
	at      int64 // when it came
	granted int64
	ticket  Ticket
	muddled bool  // its clock may have stood still, or its limit have changed
	counted int64 // what counts towards its bound: but for pauses, also of its waits before
}

func newWorld(t *rapid.T) *world {
	s := &stock{idle: map[Key]int{}, away: map[Key]bool{}, warm: map[Key]bool{}}
	w := &world{t: t, supply: s, now: 1e9, state: map[*Waiter]*state{}}
	w.ordered = rapid.IntRange(0, 3).Draw(t, "steals") > 0
	s.steals = !w.ordered
	p := drawPlan(t)
	w.crowded = rapid.Bool().Draw(t, "crowded")
	if w.crowded {
		l := &p.Workloads[0]
		l.Policy, l.Mode, l.Patient, l.Borrow, l.MaxWait, l.MaxWaiting = Guard, Enforce, false, 1, 2000*ms, 0
		p.Slots = min(p.Slots, 3)
	}
	w.g = New(p, s, func() float64 { return 0.5 })
	w.n = newNaive(w.g)
	if w.crowded || rapid.Bool().Draw(t, "known") {
		mean := float64(rapid.SampledFrom([]int{1, 5, 50}).Draw(t, "mean")) * 1e6
		for _, d := range w.g.loads {
			d.drain = drainRate{mean, window}
		}
	}
	return w
}

// drawPlan draws up to three workloads of any policy.
func drawPlan(t *rapid.T) Plan {
	p := Plan{
		Slots: rapid.IntRange(0, 6).Draw(t, "slots"), Extra: rapid.IntRange(0, 1).Draw(t, "extra"),
		Connections: rapid.IntRange(1, 5).Draw(t, "connections"), ProbeWaiting: rapid.IntRange(1, 5).Draw(t, "probes"),
	}
	left := 10
	for i := range 3 {
		share := rapid.IntRange(0, left).Draw(t, "share")
		if i == 0 {
			share = max(share, 1) // without any share all have equal ones
		}
		left -= share
		l := Workload{
			MaxWaiting: rapid.SampledFrom([]int{0, 3, 1000}).Draw(t, "bound"), Share: float64(share) / 10,
			MaxWait:      int64(rapid.SampledFrom([]int{60, 500, 100_000}).Draw(t, "wait")) * ms,
			NoServerWait: int64(rapid.SampledFrom([]int{0, 100}).Draw(t, "away")) * ms,
			Lendable:     rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "lendable"),
			Borrow:       rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "borrow"),
			Patient:      rapid.IntRange(0, 4).Draw(t, "patient") == 0,
		}
		if rapid.Bool().Draw(t, "other") {
			l.Policy = Policy(rapid.IntRange(0, Policies-1).Draw(t, "policy"))
		}
		l.Mode = Mode(max(0, rapid.IntRange(-3, 2).Draw(t, "mode")))
		if rapid.Bool().Draw(t, "class waits") {
			l.ClassWait[2] = 100 * ms
		}
		p.Workloads = append(p.Workloads, l)
	}
	return p
}

func (w *world) waiter() *Waiter {
	k := rapid.IntRange(0, worldKeys-1).Draw(w.t, "key")
	x := &Waiter{
		Key: Key(k), Role: uint32(rapid.IntRange(0, 2).Draw(w.t, "role")), Tenant: uint32(rapid.IntRange(0, 2).Draw(w.t, "tenant")),
		Workload: uint16(rapid.IntRange(0, 2).Draw(w.t, "workload")),
		Class:    Class(rapid.IntRange(-1, 2).Draw(w.t, "class")),
		Want:     Want(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(w.t, "want")),
	}
	if w.crowded {
		x.Workload, x.Want, x.Class = 0, Slot, max(x.Class, Critical)
	}
	more := rapid.IntRange(0, 255).Draw(w.t, "more")
	x.Continuing = more&7 == 1
	x.Since = max(0, w.now-int64(more>>3)*50*ms)
	x.Reserved = more>>3&7 == 1
	x.Probe = x.Want == Transaction && more>>6 == 1
	if d := rapid.IntRange(0, 3).Draw(w.t, "extras"); d == 1 {
		x.Deadline = w.now + rapid.Int64Range(-10, 300).Draw(w.t, "deadline")*ms
		x.Attempt = uint8(rapid.IntRange(0, 3).Draw(w.t, "attempt"))
	} else if d == 2 {
		x.Expected = rapid.Int64Range(1, 100).Draw(w.t, "expected") * ms / 2
	}
	return x
}

func (w *world) admit() {
	w.ask(w.waiter(), 0)
}

// ask admits x, which has waited for so long already for the same.
func (w *world) ask(x *Waiter, before int64) {
	x.seq = 0
	w.admits++
	w.state[x] = &state{at: w.now, muddled: w.muddy(x), counted: before}
	v := w.g.Admit(w.now, x)
	out := w.g.Displaced(nil)
	w.n.mixed = w.n.mixed || x.Want == Transaction && (!w.drained)
	queued := v.Outcome == Queued || v.Reason == Displaced
	if x.seq == 0 {
		x.seq = w.g.seq + 1 // at the door it got none
	}
	// Who was displaced for the door was gone before x came in, others after it.
	late := slices.DeleteFunc(slices.Clone(out), func(d Verdict) bool { return d.W.class > x.class })
	for _, d := range out {
		w.sacrificed(d)
		if d.W.class > x.class {
			w.final(d)
		}
	}
	w.waiting = append(w.waiting, x)
	if queued && !w.g.Paused(x.Key) {
		w.n.join(x)
	}
	for _, d := range late {
		w.final(d)
	}
	if v.Outcome == Granted {
		w.n.line, w.n.newcomer = append(w.n.line, x), x
		w.final(v)
		w.n.newcomer = nil
	} else if v.Outcome == Refused {
		if v.Reason == Displaced {
			w.sacrificed(v)
		}
		w.final(v)
	}
}

// sacrificed verifies that it was right to make room at v's cost.
func (w *world) sacrificed(v Verdict) {
	x, l := v.W, w.g.plan.Workloads[v.W.Workload]
	if v.Reason != Displaced || x.Continuing || x.Probe || x.Reserved || x.Want == Session || l.Patient ||
		ClassAt(int(x.class)) == CriticalPlus || l.Policy != Guard || l.Mode != Enforce {
		w.t.Fatalf("%s was displaced: %v", name(x), v.Reason)
	}
}

// muddy reports whether x's clock may stand still now.
func (w *world) muddy(x *Waiter) bool {
	return w.supply.away[x.Key] || w.supply.warm[x.Key] || w.g.Paused(x.Key)
}

// final accounts for a final verdict and verifies what has to hold of it by itself.
func (w *world) final(v Verdict) {
	x := v.W
	i := slices.Index(w.waiting, x)
	if i < 0 || x.Waiting() {
		w.t.Fatalf("%v to %s, which does not wait", v.Outcome, name(x))
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	switch v.Outcome {
	case Granted:
		w.granted(v)
	case Refused:
		w.refused(v)
	default:
		w.t.Fatalf("%+v is not final", v)
	}
}

func (w *world) granted(v Verdict) {
	x, p := v.W, w.g.plan.Workloads[v.W.Workload]
	s := w.state[x]
	if w.ordered {
		want, kind := w.n.pick()
		if !w.n.follow(v) {
			w.t.Fatalf("granted to %s as %+v, want %s, kind %d", name(x), v.Ticket, name(want), kind)
		}
	} else {
		kind := w.n.side(x)
		switch {
		case v.Ticket.Lane:
			kind = probes
		case v.Ticket.Extra:
			kind = extras
		}
		w.n.take(x, kind)
	}
	waited := w.now - s.at
	limit := w.limit(x)
	knows := p.Policy == FIFODeadline || p.Policy == Bounded || p.Policy == LIFODeadline || p.Policy == Guard && p.Mode == Enforce
	switch {
	case v.Waited != waited:
		w.t.Fatalf("%s waited for %d, not %d", name(x), waited, v.Waited)
	case w.g.Paused(x.Key):
		w.t.Fatalf("granted to %s, whose key is paused", name(x))
	case !s.muddled && waited > 0 && waited >= limit:
		w.t.Fatalf("granted to %s, which has waited for %d of %d", name(x), waited, limit)
	case waited > 0 && s.counted >= w.bound(x):
		w.t.Fatalf("granted to %s, which has waited for %d of at most %d", name(x), s.counted, w.bound(x))
	case x.Want != Session && knows && x.Deadline != 0 && w.now > x.Deadline:
		w.t.Fatalf("granted to %s after its deadline", name(x))
	case x.Want != Session && knows && x.Deadline != 0 && waited > 0 && w.now+x.needs > x.Deadline:
		w.t.Fatalf("granted to %s too late for its deadline", name(x))
	}
	w.limits(v)
	s.granted, s.ticket = w.now, v.Ticket
	w.running = append(w.running, x)
}

// limit is the longest wait of x by the plan.
func (w *world) limit(x *Waiter) int64 {
	p := w.g.plan.Workloads[x.Workload]
	limit := p.MaxWait
	if c := p.ClassWait[x.class]; c > 0 && p.Policy == Guard {
		limit = c
	}
	switch {
	case x.Want == Session:
		return p.SessionWait
	case x.Probe:
		return max(limit, defaultMaxWait)
	}
	return limit
}

// bound is how long x may wait in any case, but for pauses.
func (w *world) bound(x *Waiter) int64 {
	if x.Want == Slot {
		return w.limit(x)
	}
	return w.limit(x) + w.g.plan.Workloads[x.Workload].NoServerWait
}

// limits verifies that no more run than may.
func (w *world) limits(v Verdict) {
	load, side := int(v.W.Workload), w.n.side(v.W)
	if v.Ticket.Extra {
		if w.n.extra > w.g.plan.Extra {
			w.t.Fatalf("%d on extra slots", w.n.extra)
		}
		return
	}
	used := 0
	for _, n := range w.n.used[side] {
		used += n
	}
	if float64(used) > w.n.total(side) {
		w.t.Fatalf("%d of %v run", used, w.n.total(side))
	}
	if v.Ticket.Lane { // beyond its workload's limit, but alone
		if w.n.lane > 1 {
			w.t.Fatalf("%d in the lane", w.n.lane)
		}
		return
	}
	most := max(math.Ceil(w.n.most(side, load)-1e-6), 1)
	if n := w.n.used[side][load]; float64(n-w.n.lane) > most {
		w.t.Fatalf("%d of at most %v of workload %d", n, most, load)
	}
}

func (w *world) refused(v Verdict) {
	x, p := v.W, w.g.plan.Workloads[v.W.Workload]
	w.n.leave(x)
	knows := p.Policy == FIFODeadline || p.Policy == Bounded || p.Policy == LIFODeadline
	switch guards := p.Policy == Guard && p.Mode == Enforce; {
	case v.RetryAfter < 50*ms:
		w.t.Fatalf("%s shall come back after %d", name(x), v.RetryAfter)
	case v.Reason == QueueWait || v.Reason == Displaced:
		if !guards || p.Patient {
			w.t.Fatalf("%s was refused by the guard: %v", name(x), v.Reason)
		}
		if l := w.g.loads[x.Workload].line(x); v.Reason == QueueWait && l.n < l.side.allows(l) {
			w.t.Fatalf("%s was turned away, but %d more may run and %d wait", name(x), l.side.allows(l), l.n)
		}
	case v.Reason == Deadline:
		if !guards && !knows || x.Deadline == 0 {
			w.t.Fatalf("%s was refused for its deadline %d", name(x), x.Deadline)
		}
	case v.Reason == Draining:
		if !w.drained {
			w.t.Fatalf("%s was refused for a drain", name(x))
		}
	case v.Reason == NoServer, v.Reason == QueueFull, v.Reason == QueueAge:
	default:
		w.t.Fatalf("%s was refused: %v", name(x), v.Reason)
	}
}

// deliver accounts for what the gate has said, and verifies the state that it is in.
func (w *world) deliver() {
	for _, v := range w.out {
		w.final(v)
	}
	w.out = w.out[:0]
	w.verify()
}

func (w *world) verify() {
	if !w.ordered {
		for k := range Key(worldKeys) {
			w.n.idle[k] = w.supply.idle[k]
		}
	}
	if err := w.g.Check(); err != nil {
		w.t.Fatal(err)
	}
	if x, _ := w.n.pick(); x != nil {
		w.t.Fatalf("%s waits, but may have a permit and a server", name(x))
	}
	if w.g.Waiting() != len(w.waiting) {
		w.t.Fatalf("%d wait, the gate counts %d", len(w.waiting), w.g.Waiting())
	}
	for _, x := range w.waiting {
		if !x.Waiting() {
			w.t.Fatalf("%s was forgotten", name(x))
		}
		if s := w.state[x]; s.counted >= w.bound(x) && s.at < w.now && !w.g.Paused(x.Key) {
			w.t.Fatalf("%s still waits, after %d of at most %d", name(x), s.counted, w.bound(x))
		}
	}
	for _, d := range w.g.loads {
		for i := range d.lines[slots].ranks {
			if d.lines[slots].ranks[i].on && d.plan.Policy != CoDel && (d.plan.Policy != Guard || d.plan.Patient) {
				w.t.Fatalf("a queue under %v stands, patient: %v", d.plan.Policy, d.plan.Patient)
			}
		}
	}
	for k := range Key(worldKeys) {
		if w.n.idle[k] != w.supply.idle[k] {
			w.t.Fatalf("%d servers of key %d, not %d", w.supply.idle[k], k, w.n.idle[k])
		}
	}
}

// come is a server that becomes idle.
func (w *world) come(k Key) {
	w.supply.idle[k]++
	w.n.idle[k]++
	w.out = w.g.Supplied(w.now, k, w.out)
}

// end is the end of a ticket, with its server or without.
func (w *world) end(i int, back bool) {
	x := w.running[i]
	w.running = slices.Delete(w.running, i, i+1)
	t, held := w.state[x].ticket, w.now-w.state[x].granted
	switch {
	case x.Want == Slot || !back:
	case t.Want != Session && i%2 == 0:
		w.supply.idle[x.Key]++
		w.n.idle[x.Key]++
		w.g.Returned(x.Key)
	default:
		w.come(x.Key)
		w.deliver()
	}
	w.n.end(x, held)
	if t.Want == Session {
		w.out = w.g.Release(w.now, t.Workload, w.out)
	} else {
		w.out = w.g.Done(w.now, t, held, w.out)
	}
}

// retry has x, whose server has ended, ask for another one.
func (w *world) retry(x *Waiter) {
	w.deliver()
	x.Again(w.now)
	w.ask(x, w.state[x].counted+w.now-w.state[x].granted)
	w.verify()
}

// empty takes everybody away and verifies that nothing is left of them.
func (w *world) empty() {
	w.resume([]Key{0, 1, 2, 3})
	w.deliver()
	for len(w.waiting) > 0 {
		w.withdraw(0)
		w.verify()
	}
	for len(w.running) > 0 {
		w.end(0, false)
		w.deliver()
	}
	b := &w.g.book
	if len(b.roles)+len(b.tenants)+len(w.g.flows)+len(w.g.late.items)+len(w.g.byTime.items)+len(w.g.active)+len(w.g.hot) > 0 {
		w.t.Fatalf("left are %d roles, %d tenants, %d flows, %d deadlines, %d dues, %d keys and %d",
			len(b.roles), len(b.tenants), len(w.g.flows), len(w.g.late.items), len(w.g.byTime.items), len(w.g.active), len(w.g.hot))
	}
	st := w.g.Stats()
	ended := st.Granted + st.Withdrawn
	for _, n := range st.Refused {
		ended += n
	}
	if ended != uint64(w.admits) {
		w.t.Fatalf("%d have come, %d have ended", w.admits, ended)
	}
}
