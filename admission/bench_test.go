package admission

import "testing"

// flat is a Supply of one key without a record: it allocates nothing.
type flat struct{ idle int }

func (s *flat) Reserve(Key, int64) (uint32, bool) {
	if s.idle == 0 {
		return 0, false
	}
	s.idle--
	return 1, true
}
func (s *flat) Demand(Key, int, int, int64) {}
func (s *flat) Steal(Key, int64) bool       { return false }

// cycle is a transaction that finds a slot and a server.
func cycle(g *Gate, s *flat, w *Waiter, now int64, out []Verdict) []Verdict {
	if v := g.Admit(now, w); v.Outcome != Granted {
		panic("not granted")
	}
	s.idle++
	out = g.Supplied(now, w.Key, out[:0])
	return g.Done(now, Ticket{}, 1000, out)
}

// crowd fills a gate whose slots are all busy with n waiters.
func crowd(n, slots, keys int) (*Gate, *flat, []Waiter) {
	s := &flat{idle: slots}
	g := New(Plan{Slots: slots, Workloads: []Workload{{MaxWaiting: n}}}, s, nil)
	waiters := make([]Waiter, n+slots)
	for i := range waiters {
		waiters[i].Key = Key(i % keys)
		waiters[i].Owner = i
		g.Admit(0, &waiters[i])
	}
	return g, s, waiters
}

// turn ends a ticket, which grants the next waiter; who is granted waits again.
func turn(g *Gate, s *flat, now int64, out []Verdict) []Verdict {
	s.idle++
	out = g.Supplied(now, 0, out[:0])
	out = g.Done(now, Ticket{}, 1000, out)
	if len(out) != 1 || out[0].Outcome != Granted {
		panic("nobody granted")
	}
	return out
}

func TestNothingAllocates(t *testing.T) {
	s := &flat{idle: 1}
	g := New(Plan{Slots: 1}, s, nil)
	w, out := &Waiter{}, make([]Verdict, 0, 4)
	if n := testing.AllocsPerRun(100, func() { out = cycle(g, s, w, 0, out) }); n != 0 {
		t.Errorf("Admit, Done: %v allocations", n)
	}

	g, s, waiters := crowd(50, 4, 1)
	served := &waiters[0]
	if n := testing.AllocsPerRun(100, func() {
		out = turn(g, s, 0, out)
		g.Admit(0, served)
		served = out[0].W
	}); n != 0 {
		t.Errorf("queue, grant: %v allocations", n)
	}

	probe := &Waiter{Probe: true}
	if n := testing.AllocsPerRun(100, func() {
		g.Admit(0, probe)
		g.Withdraw(0, probe)
	}); n != 0 {
		t.Errorf("queue, withdraw: %v allocations", n)
	}
}

func BenchmarkAdmitDone(b *testing.B) {
	s := &flat{idle: 1}
	g := New(Plan{Slots: 1}, s, nil)
	w, out := &Waiter{}, make([]Verdict, 0, 4)
	b.ReportAllocs()
	for b.Loop() {
		out = cycle(g, s, w, 0, out)
	}
}

func BenchmarkQueueGrant(b *testing.B) {
	g, s, waiters := crowd(1000, 16, 1)
	served, out := &waiters[0], make([]Verdict, 0, 4)
	b.ReportAllocs()
	for b.Loop() {
		out = turn(g, s, 0, out)
		g.Admit(0, served)
		served = out[0].W
	}
}

func BenchmarkQueueWithdraw(b *testing.B) {
	g, _, waiters := crowd(1000, 16, 100)
	w := &waiters[500]
	b.ReportAllocs()
	for b.Loop() {
		g.Withdraw(0, w)
		g.Admit(0, w)
	}
}

func BenchmarkRefuse(b *testing.B) {
	g, _, _ := crowd(1000, 16, 100)
	w := &Waiter{}
	b.ReportAllocs()
	for b.Loop() {
		g.Admit(0, w)
	}
}
