package admission

import (
	"testing"

	"pgregory.net/rapid"
)

// shop is a gate in front of which everybody always waits: who is served comes again at once.
type shop struct {
	t       *rapid.T
	g       *Gate
	now     int64
	running []Verdict
	begun   []int64
	cost    func(w *Waiter) (expected, held int64)
	served  func(v Verdict)
}

func newShop(t *rapid.T, slots int) *shop {
	s := &shop{t: t}
	s.g = New(Plan{Slots: slots, Workloads: []Workload{{MaxWait: never / 2, MaxWaiting: 1 << 20}}}, endless{}, nil)
	s.cost = func(*Waiter) (int64, int64) { return ms, ms }
	return s
}

func (s *shop) come(w *Waiter) {
	w.Expected, _ = s.cost(w)
	if v := s.g.Admit(s.now, w); v.Outcome == Granted {
		s.grant(v)
	} else if v.Outcome == Refused {
		s.t.Fatalf("%s was refused: %v", name(w), v.Reason)
	}
}

func (s *shop) grant(v Verdict) {
	s.running, s.begun = append(s.running, v), append(s.begun, s.now)
	if s.served != nil {
		s.served(v)
	}
}

// end ends the i-th of those who run, whose client waits again.
func (s *shop) end(i int) {
	v := s.running[i]
	s.running = append(s.running[:i:i], s.running[i+1:]...)
	_, held := s.cost(v.W)
	s.now++
	out := s.g.Done(s.now, v.Ticket, held, nil)
	for _, o := range out {
		s.grant(o)
	}
	s.come(&Waiter{Key: v.W.Key, Class: v.W.Class, Role: v.W.Role, Tenant: v.W.Tenant})
	if err := s.g.Check(); err != nil {
		s.t.Fatal(err)
	}
}

// TestShares: of two roles, and of two tenants of a role, that always wait neither is ahead of
// the other by more than what one is expected to need, and what all who run may need beside.
// With equal costs that is one grant.
func TestShares(t *testing.T) {
	many(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 3).Draw(t, "slots")
		s := newShop(t, slots)
		equal := rapid.Bool().Draw(t, "equal")
		most, off := ms, int64(0)
		if !equal {
			s.cost = func(w *Waiter) (expected, held int64) {
				expected = rapid.Int64Range(1, 20).Draw(t, "expected") * ms
				if w.Expected > 0 { // it has been asked for already
					expected = w.Expected
				}
				held = rapid.Int64Range(0, 40).Draw(t, "held") * ms
				return expected, held
			}
			most, off = 20*ms, 40*ms
		}
		roles := make([]int64, rapid.IntRange(1, 3).Draw(t, "roles"))
		tenants := make([][]int64, len(roles))
		keys := rapid.IntRange(1, 3).Draw(t, "keys")
		charge := func(w *Waiter, ns int64) {
			roles[w.Role] += ns
			tenants[w.Role][w.Tenant] += ns
		}
		s.come(&Waiter{}) // those before the queue forms pay nothing
		for range slots - 1 {
			s.come(&Waiter{})
		}
		s.served = func(v Verdict) { charge(v.W, v.W.expected) }
		for r := range roles {
			tenants[r] = make([]int64, rapid.IntRange(1, 3).Draw(t, "tenants"))
			for n := range tenants[r] {
				for i := range slots + 1 {
					s.come(&Waiter{Key: Key(r*keys + i%keys), Role: uint32(r), Tenant: uint32(n)})
				}
			}
		}
		bound := most + int64(slots)*off
		for range rapid.IntRange(1, 40).Draw(t, "ends") {
			i := rapid.IntRange(0, len(s.running)-1).Draw(t, "which")
			v := s.running[i]
			cost := s.cost
			expected, held := cost(v.W)
			s.cost = func(w *Waiter) (int64, int64) {
				if w == v.W {
					return expected, held
				}
				return cost(w)
			}
			if v.Ticket.tenant != nil {
				charge(v.W, held-v.W.expected)
			}
			s.end(i)
			s.cost = cost
			apart(t, roles, bound)
			for r := range roles {
				apart(t, tenants[r], bound)
			}
		}
	})
}

func apart(t *rapid.T, served []int64, bound int64) {
	for i := range served {
		for j := range i {
			if d := served[i] - served[j]; d > bound || -d > bound {
				t.Fatalf("%d and %d have been served %d and %d, more than %d apart", i, j, served[i], served[j], bound)
			}
		}
	}
}

// TestFloor: while work of a class waits that could be served, at most 23 others are served
// before it.
func TestFloor(t *testing.T) {
	many(t, func(t *rapid.T) {
		s := newShop(t, rapid.IntRange(1, 2).Draw(t, "slots"))
		var passed [Classes]int
		s.served = func(v Verdict) {
			for i := range passed {
				passed[i]++
				if i == v.W.Class.index() || s.g.loads[0].lines[slots].ranks[i].n == 0 {
					passed[i] = 0
				}
				if passed[i] > 23 {
					t.Fatalf("%d were served while %v waited", passed[i], ClassAt(i))
				}
			}
		}
		for range s.g.plan.Slots {
			s.come(&Waiter{Class: Sheddable})
		}
		classes := rapid.SliceOfNDistinct(rapid.IntRange(0, Classes-1), 1, 4, rapid.ID).Draw(t, "classes")
		for _, c := range classes {
			s.come(&Waiter{Class: ClassAt(c), Tenant: uint32(c)})
		}
		for range rapid.IntRange(30, 60).Draw(t, "ends") {
			s.end(0)
		}
	})
}
