package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rig is a gate whose every key has servers without end.
type rig struct {
	t testing.TB
	*Gate
	shelf *shelf
	out   map[uint16][]Ticket
}

func newRig(t testing.TB, p Plan) *rig {
	s := newShelf()
	for k := range Key(10) {
		s.idle[k] = 1000
	}
	return &rig{t: t, Gate: New(p, s, nil), shelf: s, out: map[uint16][]Ticket{}}
}

// ask admits n waiters of a workload and returns how many were granted.
func (r *rig) ask(load uint16, n int) (granted int) {
	r.t.Helper()
	for range n {
		v := r.Admit(0, &Waiter{Key: Key(load % 10), Workload: load})
		if v.Outcome == Granted {
			r.out[load] = append(r.out[load], v.Ticket)
			granted++
		}
	}
	r.check()
	return granted
}

// end ends n tickets of a workload and returns who got their slots, in order.
func (r *rig) end(load uint16, n int) (granted []uint16) {
	r.t.Helper()
	for range n {
		t := r.out[load][0]
		r.out[load] = r.out[load][1:]
		for _, v := range r.Done(0, t, 1, nil) {
			r.out[v.Ticket.Workload] = append(r.out[v.Ticket.Workload], v.Ticket)
			granted = append(granted, v.Ticket.Workload)
		}
		r.check()
	}
	return granted
}

func (r *rig) check() {
	r.t.Helper()
	if err := r.Check(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) expect(got, want any) {
	r.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		r.t.Error(d)
	}
}

func TestIdlePartsAreLent(t *testing.T) {
	r := newRig(t, Plan{Slots: 10, Workloads: []Workload{
		{Share: 0.6, Lendable: 0.5, Borrow: 1},
		{Share: 0.4, Lendable: 1, Borrow: 0.2},
	}})
	r.expect(r.ask(1, 20), 6) // its four, and two more; that leaves the others' half
	r.expect(r.ask(0, 20), 4)
	st := r.Stats()
	r.expect([]int{st.Workloads[0].Running, st.Workloads[1].Running, st.Workloads[1].Borrowed, st.Workloads[0].Lent}, []int{4, 6, 2, 2})
	// What was lent comes back first, and then each keeps its own.
	r.expect(r.end(1, 2), []uint16{0, 0})
	r.expect(r.end(0, 2), []uint16{0, 0})
	r.expect(r.end(1, 2), []uint16{1, 1})
	if st = r.Stats(); st.Workloads[0].Running != 6 || st.Workloads[1].Running != 4 || st.Workloads[1].Borrowed != 0 {
		t.Errorf("%+v", st.Workloads)
	}
}

// What a workload does not lend is there for it at once.
func TestWhatIsNotLentIsKeptBack(t *testing.T) {
	r := newRig(t, Plan{Slots: 10, Workloads: []Workload{
		{Share: 0.5, Lendable: 0.4, Borrow: 1},
		{Share: 0.5, Lendable: 1, Borrow: 1},
	}})
	r.expect(r.ask(1, 20), 7)
	r.expect(r.ask(0, 3), 3)
	r.expect(r.Stats().Running, 10)
	// It runs 3, so nothing is kept back any more; those who wait for more than
	// their part share what comes free by what they use.
	r.ask(0, 10)
	r.expect(r.end(1, 3), []uint16{0, 0, 1})
}

func TestWeightedShares(t *testing.T) {
	r := newRig(t, Plan{Slots: 10, Workloads: []Workload{
		{Share: 0.5, Lendable: 1, Borrow: 1},
		{Share: 0.3, Lendable: 1, Borrow: 1},
		{Share: 0.2, Lendable: 1, Borrow: 1},
		{Lendable: 1, Borrow: 1}, // only borrows
	}})
	r.expect(r.ask(3, 30), 10)
	for load := range uint16(3) {
		r.expect(r.ask(load, 30), 0)
	}
	r.end(3, 10)
	var got []int
	for _, w := range r.Stats().Workloads {
		got = append(got, w.Running)
	}
	r.expect(got, []int{5, 3, 2, 0})
}

// A part of less than one slot is one slot, for who comes first.
func TestSmallPartsAreOneSlot(t *testing.T) {
	p := Plan{Slots: 2}
	for range 100 {
		p.Workloads = append(p.Workloads, Workload{Share: 0.01})
	}
	r := newRig(t, p)
	r.expect([]int{r.ask(7, 2), r.ask(50, 2), r.ask(60, 1)}, []int{1, 1, 0})
	r.expect(r.end(7, 1), []uint16{7}) // its second is older than that of 60
	r.expect(r.end(50, 1), []uint16{50})
	r.expect(r.end(7, 1), []uint16{60})
	r.expect(r.Stats().Workloads[7].Slots, 1)
}

func TestBoundIsPerWorkload(t *testing.T) {
	r := newRig(t, Plan{Slots: 4, Workloads: []Workload{{Share: 0.5, MaxWaiting: 2}, {Share: 0.5, MaxWaiting: 3}}})
	r.ask(0, 2)
	r.ask(0, 5)
	r.ask(1, 2)
	r.ask(1, 2)
	st := r.Stats()
	r.expect([]int{st.Workloads[0].Waiting, st.Workloads[1].Waiting, st.MaxWaiting, r.Bound(1), r.Bound(9)}, []int{2, 2, 5, 3, 0})
	r.expect(st.Workloads[0].Refused[QueueFull], uint64(3))
	v := r.Admit(0, &Waiter{Workload: 0})
	if v.Reason != QueueFull || v.Queued != 2 || v.Slots != 2 {
		t.Errorf("%+v", v)
	}
	// Each learns its own rate of draining.
	for range 200 {
		r.shelf.idle[1]++
		r.end(1, 1)
		r.ask(1, 1)
	}
	if st = r.Stats(); st.Workloads[1].DrainRate == 0 || st.Workloads[0].DrainRate != 0 {
		t.Errorf("%v %v", st.Workloads[1].DrainRate, st.Workloads[0].DrainRate)
	}
}

func TestSessionsKeepServers(t *testing.T) {
	r := newRig(t, Plan{Slots: 4, Connections: 6, Workloads: []Workload{
		{Share: 0.5, Lendable: 1, Borrow: 1},
		{Share: 0.5, Lendable: 0, Borrow: 0, SessionWait: 300 * ms},
	}})
	login := func(load uint16) (*Waiter, Verdict) {
		w := &Waiter{Workload: load, Want: Session}
		v := r.Admit(0, w)
		r.check()
		return w, v
	}
	for range 3 {
		if _, v := login(1); v.Outcome != Granted || v.Ticket.Want != Session || v.Grant == 0 {
			t.Fatalf("%+v", v)
		}
	}
	w, v := login(1) // its part is half of the connections
	if v.Outcome != Queued || r.Stats().Workloads[1].Connections != 3 {
		t.Fatalf("%+v", v)
	}
	r.expect(r.Stats().Running, 0) // none of them needs a slot
	for range 3 {
		if _, v = login(0); v.Outcome != Granted {
			t.Fatalf("%+v", v)
		}
	}
	// Their transactions need one, and no server.
	idle := r.shelf.idle[0]
	slot := &Waiter{Workload: 1, Want: Slot}
	if v = r.Admit(0, slot); v.Outcome != Granted || v.Grant != 0 || r.shelf.idle[0] != idle {
		t.Fatalf("%+v", v)
	}
	r.Done(0, v.Ticket, 1, nil)
	if out := r.Release(0, 0, nil); len(out) != 0 {
		t.Fatalf("lent: %+v", out)
	}
	if out := r.Release(0, 1, nil); len(out) != 1 || out[0].W != w {
		t.Fatalf("%+v", out)
	}
	login(1)
	if next, out := r.Fire(300*ms, nil); len(out) != 1 || out[0].Reason != QueueAge || next != never {
		t.Fatalf("%+v", out)
	}
	r.check()
	st := r.Stats()
	r.expect([]uint64{st.Workloads[1].Granted[Session], st.Workloads[1].Granted[Slot], st.Workloads[0].Granted[Session]}, []uint64{4, 1, 3})
}

// Sessions never keep the last server from transactions.
func TestSessionsLeaveOneForTransactions(t *testing.T) {
	r := newRig(t, Plan{Slots: 2, Connections: 2, Workloads: []Workload{{Lendable: 1, Borrow: 1}, {Lendable: 1, Borrow: 1}}})
	r.ask(0, 1)
	for i, want := range []Outcome{Granted, Queued} {
		if v := r.Admit(0, &Waiter{Workload: 1, Want: Session}); v.Outcome != want {
			t.Errorf("%d: %+v", i, v)
		}
	}
	r.check()
}

// A queue that is full of others does not keep the reserved out: their first one has to
// wait for a server.
func TestAFullQueueDoesNotRefuseTheReserved(t *testing.T) {
	g := New(Plan{Slots: 1, Extra: 1, Workloads: []Workload{{MaxWaiting: 1}}}, absent{}, nil)
	ordinary := [3]Waiter{}
	for i, want := range []Outcome{Queued, Refused, Refused} {
		if v := g.Admit(1, &ordinary[i]); v.Outcome != want {
			t.Errorf("ordinary %d: %v", i, v.Outcome)
		}
	}
	w := Waiter{Key: 1, Reserved: true}
	if v := g.Admit(1, &w); v.Outcome != Queued {
		t.Errorf("the reserved: %+v", v)
	}
}

// Lent is what is borrowed, and nothing when nobody runs.
func TestLentIsWhatIsBorrowed(t *testing.T) {
	g := New(Plan{Slots: 7, Workloads: []Workload{{Share: 0.35, Lendable: 1, Borrow: 1}, {Share: 0.35, Lendable: 1, Borrow: 1}, {Share: 0.3, Lendable: 1, Borrow: 1}}}, endless{}, nil)
	for running := range 8 {
		lent, borrowed := 0, 0
		for _, w := range g.Stats().Workloads {
			lent, borrowed = lent+w.Lent, borrowed+w.Borrowed
		}
		if lent != borrowed || running == 0 && lent > 0 {
			t.Errorf("%d run, %d lent, %d borrowed", running, lent, borrowed)
		}
		g.Admit(1, &Waiter{})
	}
}

// endless is a supply with a server for everybody.
type endless struct{ absent }

func (endless) Reserve(Key, int64) (uint32, bool) { return 1, true }

func TestExtraSlotsAreForTheReserved(t *testing.T) {
	r := newRig(t, Plan{Slots: 2, Extra: 1})
	r.ask(0, 2)
	r.ask(0, 1)
	var tickets []Ticket
	dba := func(want Outcome) *Waiter {
		t.Helper()
		w := &Waiter{Key: 1, Reserved: true}
		v := r.Admit(0, w)
		if v.Outcome != want || v.Ticket.Extra != (want == Granted) {
			t.Fatalf("%+v", v)
		}
		if want == Granted {
			tickets = append(tickets, v.Ticket)
		}
		r.check()
		return w
	}
	dba(Granted)
	second := dba(Queued)
	st := r.Stats()
	r.expect([]int{st.Running, st.Reserved, st.Workloads[0].Reserved}, []int{3, 1, 1})
	// The extra slot comes free: no ordinary waiter gets it, though one is older.
	out := r.Done(0, tickets[0], 1, nil)
	if len(out) != 1 || out[0].W != second || !out[0].Ticket.Extra {
		t.Fatalf("%+v", out)
	}
	// An ordinary one goes by age.
	dba(Queued)
	if out = r.Done(0, r.out[0][0], 1, nil); len(out) != 1 || out[0].W.Reserved {
		t.Fatalf("%+v", out)
	}
	r.check()
}

// Who waits or runs in a workload that a plan does not know any more goes on,
// on what others lend.
func TestRetiredWorkload(t *testing.T) {
	r := newRig(t, Plan{Slots: 4, Workloads: []Workload{{}, {}, {MaxWaiting: 7}}})
	r.ask(2, 2)
	r.ask(2, 2)
	r.Reconfigure(0, Plan{Slots: 2, Workloads: []Workload{{Lendable: 1}}}, nil)
	r.check()
	if st := r.Stats(); len(st.Workloads) != 3 || st.Workloads[2].Running != 2 || st.Workloads[2].Waiting != 2 {
		t.Fatalf("%+v", st.Workloads)
	}
	r.ask(0, 1)
	r.expect(r.end(2, 2), []uint16{0, 2})
	r.expect(r.end(2, 1), []uint16{2})
}

// A head of a workload that has a claim to the slots is not left without a
// server because another workload's waiters take every one that comes back.
func TestHeadOfAnotherWorkloadIsFavoured(t *testing.T) {
	s := newShelf()
	s.stealing = true
	s.idle[0] = 2
	g := New(Plan{Slots: 2, Workloads: []Workload{{Lendable: 1, Borrow: 1}, {Lendable: 1, Borrow: 1}}}, s, nil)
	var out []Verdict
	for range 10 {
		if v := g.Admit(0, &Waiter{Key: 0, Workload: 0}); v.Outcome == Granted {
			out = append(out, v)
		}
	}
	g.Admit(ms, &Waiter{Key: 1, Workload: 1})
	turn := func(now int64) {
		t.Helper()
		s.idle[0]++
		n := len(out)
		out = g.Supplied(now, 0, out)
		out = g.Done(now, Ticket{}, 1, out)
		if len(out) != n+1 || out[n].W.Key != 0 {
			t.Fatalf("%+v", out[n:])
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
	}
	// moves are the times at which a server was given up for key 1.
	moves := func() (n int) {
		for _, a := range s.drain() {
			if a[0] == 's' {
				n++
			}
		}
		return n
	}
	turn(2 * ms)
	turn(51 * ms)
	if n := moves(); n != 0 {
		t.Fatalf("%d moves", n)
	}
	turn(52 * ms)
	if n := moves(); n != 1 {
		t.Fatalf("%d moves", n)
	}
	// The other workload uses more than its part, so the next move is soon.
	turn(101 * ms)
	if n := moves(); n != 0 {
		t.Fatalf("%d moves", n)
	}
	turn(102 * ms)
	if n := moves(); n != 1 {
		t.Fatalf("%d moves", n)
	}
}

// A login waits for a server of a role that has none, and transactions take
// every one that comes back: they pass it over like one of their own.
func TestLoginIsFavouredAmongTransactions(t *testing.T) {
	s := newShelf()
	s.stealing = true
	s.idle[0] = 1
	g := New(Plan{Slots: 1, Connections: 5}, s, nil)
	for range 5 {
		g.Admit(0, &Waiter{})
	}
	g.Admit(0, &Waiter{Key: 1, Want: Session})
	g.Admit(0, &Waiter{})
	for i := range int64(6) { // the last one is younger than the login
		s.idle[0]++
		out := g.Supplied(i*ms, 0, nil)
		if out = g.Done(i*ms, Ticket{}, 1, out); i < 5 && (len(out) != 1 || out[0].W.Key != 0) {
			t.Fatalf("%+v", out)
		}
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	s.drain()
	g.Fire(53*ms, nil)
	if asked := s.drain(); len(asked) != 0 {
		t.Fatal(asked)
	}
	g.Fire(54*ms, nil)
	if asked := s.drain(); len(asked) != 1 || asked[0] != "steal 1 at 54" {
		t.Fatal(asked)
	}
}

// How long a queue may be, how fast it drains, and when those who are refused shall come again,
// goes by the slots that a workload has, those included that others lend it.
func TestLoansCountForTheQueue(t *testing.T) {
	queue := func(lend float64) (s WorkloadStats, again int64) {
		g := New(Plan{Slots: 10, Workloads: []Workload{
			{Share: 0.2, Borrow: 1, MaxWait: 1000 * ms}, {Share: 0.8, Lendable: lend},
		}}, endless{}, func() float64 { return 0.5 })
		for range enough {
			g.loads[0].drain.add(50 * ms)
		}
		for range 40 {
			g.Admit(1, &Waiter{})
		}
		return g.Stats().Workloads[0], g.Refuse(1, &Waiter{}, QueueFull).RetryAfter
	}
	own, late := queue(0)
	more, soon := queue(1)
	if own.Running != 2 || own.MaxWaiting != 40 || own.DrainRate != 40 {
		t.Errorf("without loans: %+v", own)
	}
	if more.Running != 10 || more.MaxWaiting != 200 || more.DrainRate != 200 {
		t.Errorf("with loans: %+v", more)
	}
	if late < 4*soon {
		t.Errorf("to come again after %d ms without loans and %d ms with", late/ms, soon/ms)
	}
}
