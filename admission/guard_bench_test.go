package admission

import "testing"

// busy is a gate of one workload under the guard, whose slots are taken for good by work that
// is known to take 50 ms each.
func busy(slots int, l Workload) *Gate {
	g := New(Plan{Slots: slots, Workloads: []Workload{l}}, plenty{}, nil)
	g.loads[0].drain = drainRate{50e6, window}
	g.drain = g.loads[0].drain
	for range slots {
		g.Admit(0, &Waiter{Want: Slot})
	}
	return g
}

// tenantry is a gate with waiters of many roles, tenants and keys, of which one after the other
// is served and comes again.
type tenantry struct {
	g      *Gate
	served *Waiter
	ticket Ticket
	out    []Verdict
}

func newTenantry(roles, tenants, keys int) *tenantry {
	t := &tenantry{g: busy(4, Workload{MaxWaiting: 1 << 20, MaxWait: never / 2}), out: make([]Verdict, 0, 4)}
	t.ticket = Ticket{Want: Slot}
	all := make([]Waiter, 2*roles*tenants)
	for i := range all {
		w := &all[i]
		w.Role, w.Tenant, w.Key = uint32(i%roles), uint32(i/roles%tenants), Key(i%roles*keys+i%keys)
		w.Expected = int64(1+i%7) * ms
		t.g.Admit(0, w)
	}
	t.served = &Waiter{Want: Slot}
	return t
}

func (t *tenantry) turn() {
	t.out = t.g.Done(0, t.ticket, 3*ms, t.out[:0])
	if len(t.out) != 1 {
		panic("nobody granted")
	}
	t.g.Admit(0, t.served)
	t.served, t.ticket = t.out[0].W, t.out[0].Ticket
}

// stander is a gate whose queue stands, so that who comes displaces another one.
type stander struct {
	g       *Gate
	waiting []*Waiter // who is displaced comes again
	out     []Verdict
}

func newStander() *stander {
	s := &stander{g: busy(4, Workload{}), out: make([]Verdict, 0, 4)}
	for i := range 40 {
		s.g.Admit(0, &Waiter{Tenant: uint32(i % 8)})
	}
	s.g.Fire(700*ms, nil)
	r := &s.g.loads[0].lines[slots].ranks[Critical.index()]
	for range manyPains + 1 {
		s.g.hurts(700*ms, r)
	}
	if !r.on {
		panic("it does not stand")
	}
	s.waiting = append(s.waiting, &Waiter{})
	return s
}

func (s *stander) turn() {
	w := s.waiting[len(s.waiting)-1]
	v := s.g.Admit(700*ms, w)
	s.out = s.g.Displaced(s.out[:0])
	switch {
	case v.Outcome == Refused: // it was displaced itself
	case len(s.out) == 1:
		s.waiting[len(s.waiting)-1] = s.out[0].W
	default:
		panic("nobody displaced")
	}
}

// doorkeeper is a gate before which the predicted wait is too long.
func doorkeeper() (*Gate, *Waiter) {
	g := busy(4, Workload{MaxWait: 1000 * ms, MaxWaiting: 1 << 20})
	for i := range 1000 {
		g.Admit(0, &Waiter{Tenant: uint32(i % 10), Role: uint32(i % 3), Class: Critical})
	}
	return g, &Waiter{Tenant: 1, Role: 1}
}

func turnAway(g *Gate, w *Waiter) {
	if v := g.Admit(0, w); v.Reason != QueueWait {
		panic(v.Reason.String())
	}
}

// TestGuardAllocatesNothing, once it has seen as many as there are.
func TestGuardAllocatesNothing(t *testing.T) {
	few, many := newTenantry(3, 5, 1), newTenantry(50, 40, 3)
	s := newStander()
	g, w := doorkeeper()
	for name, turn := range map[string]func(){
		"few tenants": few.turn, "many tenants": many.turn, "displacement": s.turn, "the door": func() { turnAway(g, w) },
	} {
		for range 5000 {
			turn()
		}
		if n := testing.AllocsPerRun(2000, turn); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkGuardTenants(b *testing.B) {
	for _, c := range []struct {
		name                 string
		roles, tenants, keys int
	}{
		{"1x1", 1, 1, 1},
		{"10x10", 10, 10, 1},
		{"100x100", 100, 100, 1},
		{"1x10000", 1, 10_000, 1},
		{"100x10/keys=50", 100, 10, 50},
	} {
		b.Run(c.name, func(b *testing.B) {
			t := newTenantry(c.roles, c.tenants, c.keys)
			b.ReportAllocs()
			for b.Loop() {
				t.turn()
			}
		})
	}
}

func BenchmarkGuardDisplace(b *testing.B) {
	s := newStander()
	b.ReportAllocs()
	for b.Loop() {
		s.turn()
	}
}

func BenchmarkGuardDoorRefusal(b *testing.B) {
	g, w := doorkeeper()
	b.ReportAllocs()
	for b.Loop() {
		turnAway(g, w)
	}
}
