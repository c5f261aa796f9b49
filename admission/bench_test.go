package admission

import (
	"fmt"
	"testing"
)

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
func (s *flat) Steal(Key, int64, bool) bool { return false }

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

// crowds is crowd with waiters in many workloads, as many in each, over many
// keys.
func crowds(each, slots, keys, workloads int) (*Gate, *flat, []Waiter) {
	s := &flat{idle: slots}
	p := Plan{Slots: slots, Workloads: make([]Workload, workloads)}
	for i := range p.Workloads {
		p.Workloads[i] = Workload{MaxWaiting: 1 << 20, Lendable: 1, Borrow: 1}
	}
	g := New(p, s, nil)
	waiters := make([]Waiter, each*workloads+slots)
	for i := range waiters {
		waiters[i].Key, waiters[i].Workload = Key(i%keys), uint16(i/keys%workloads)
		g.Admit(0, &waiters[i])
	}
	return g, s, waiters
}

// round is turn with the right ticket; who is served waits again.
func round(g *Gate, s *flat, w *Waiter, t Ticket, now int64, out []Verdict) (*Waiter, Ticket, []Verdict) {
	s.idle++
	out = g.Supplied(now, w.Key, out[:0])
	out = g.Done(now, t, 1000, out)
	if len(out) != 1 || out[0].Outcome != Granted {
		panic("nobody granted")
	}
	g.Admit(now, w)
	return out[0].W, out[0].Ticket, out
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

	g, s, waiters = crowds(2, 4, 50, 100)
	w, ticket := &waiters[0], Ticket{}
	if n := testing.AllocsPerRun(1000, func() { w, ticket, out = round(g, s, w, ticket, 0, out) }); n != 0 {
		t.Errorf("many workloads, grant: %v allocations", n)
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

func BenchmarkGrant(b *testing.B) {
	for _, c := range []struct{ keys, workloads, each int }{{1, 1, 1000}, {1, 1000, 2}, {5000, 1, 10_000}, {5000, 1000, 10}, {100, 1000, 500}} {
		b.Run(fmt.Sprintf("keys=%d/workloads=%d/waiting=%d", c.keys, c.workloads, c.each*c.workloads), func(b *testing.B) {
			g, s, waiters := crowds(c.each, 16, c.keys, c.workloads)
			w, ticket, out := &waiters[0], Ticket{}, make([]Verdict, 0, 4)
			b.ReportAllocs()
			for b.Loop() {
				w, ticket, out = round(g, s, w, ticket, 0, out)
			}
		})
	}
}

// BenchmarkDryGrant has slots to spare, so that every server that comes back
// leaves all other waiters of its key without one.
func BenchmarkDryGrant(b *testing.B) {
	for _, workloads := range []int{1, 1000} {
		b.Run(fmt.Sprintf("workloads=%d", workloads), func(b *testing.B) {
			g, s, waiters := crowds(2, 16, 1, workloads)
			p := g.plan
			p.Slots = 2000
			g.Reconfigure(0, p, nil)
			w, ticket, out := &waiters[0], Ticket{}, make([]Verdict, 0, 4)
			b.ReportAllocs()
			for b.Loop() {
				w, ticket, out = round(g, s, w, ticket, 0, out)
			}
		})
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

// BenchmarkExpire refuses all who wait: so many came together when nothing moved.
func BenchmarkExpire(b *testing.B) {
	for _, n := range []int{100, 2000, 20_000} {
		for _, keys := range []int{1, 1000} {
			b.Run(fmt.Sprintf("waiting=%d/keys=%d", n, keys), func(b *testing.B) {
				g, _, waiters := crowd(n, 16, keys)
				out := make([]Verdict, 0, n)
				now := int64(0)
				b.ReportAllocs()
				for b.Loop() {
					now += 2 * defaultMaxWait
					for out = out[:0]; len(out) < n; {
						_, out = g.Fire(now, out)
					}
					b.StopTimer()
					for i := range waiters {
						if !waiters[i].Waiting() && i >= 16 {
							g.Admit(now, &waiters[i])
						}
					}
					b.StartTimer()
				}
			})
		}
	}
}
