package admission

import (
	"testing"

	"pgregory.net/rapid"
)

// shop is a gate in front of which everybody always waits: who is served comes again at once.
type shop struct {
	g       *Gate
	now     int64
	running []Verdict
	begun   []int64
	cost    func(w *Waiter) (expected, held int64)
	served  func(v Verdict)
}

func newShop(slots int) *shop {
	s := &shop{}
	s.g = New(Plan{Slots: slots, Workloads: []Workload{{MaxWait: never / 2, MaxWaiting: 1 << 20}}}, plenty{}, nil)
	s.cost = func(*Waiter) (int64, int64) { return ms, ms }
	return s
}

func (s *shop) come(w *Waiter) {
	w.Expected, _ = s.cost(w)
	if v := s.g.Admit(s.now, w); v.Outcome == Granted {
		s.grant(v)
	} else if v.Outcome == Refused {
		panic(name(w) + " was refused: " + v.Reason.String())
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
		panic(err)
	}
}

// TestShares: of two roles, and of two tenants of a role, that always wait neither is ahead of
// the other by more than what one is expected to need, and what all who run may need beside.
// With equal costs that is one grant.
func TestShares(t *testing.T) {
	many(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 3).Draw(t, "slots")
		s := newShop(slots)
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
		s := newShop(rapid.IntRange(1, 2).Draw(t, "slots"))
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

// TestNewNamesAreNotAlwaysFirst: a tenant that always waits has its turns, however many come
// that nobody has heard of before.
func TestNewNamesAreNotAlwaysFirst(t *testing.T) {
	for _, roles := range []bool{false, true} {
		s := newShop(1)
		name := uint32(1)
		stranger := func() *Waiter {
			name++
			if roles {
				return &Waiter{Role: name}
			}
			return &Waiter{Tenant: name}
		}
		const waiting = 50
		for range waiting {
			s.come(stranger())
		}
		s.come(&Waiter{})
		own, last := 0, 0
		for i := range 5000 {
			v := s.running[0]
			s.running = s.running[:0]
			s.now++
			for _, o := range s.g.Done(s.now, v.Ticket, ms, nil) {
				s.grant(o)
			}
			if v.W.Role == 0 && v.W.Tenant == 0 {
				s.come(&Waiter{})
				own, last = own+1, i
			} else {
				s.come(stranger())
			}
			if i-last > waiting+mostAsleep+2 {
				t.Fatalf("roles %v: nothing for %d turns after %d", roles, i-last, own)
			}
		}
		if n := len(s.g.book.tenants); n > waiting+mostAsleep+3 {
			t.Errorf("%d tenants are remembered", n)
		}
		if err := s.g.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestWhoWasAwayHasSavedNothing: a tenant that runs something for long, and comes again when
// others have been served for a while, shares with them from then on.
func TestWhoWasAwayHasSavedNothing(t *testing.T) {
	s := newShop(2)
	for range 2 {
		s.come(&Waiter{Tenant: 2})
	}
	s.come(&Waiter{Tenant: 1})
	for range 60 {
		s.come(&Waiter{Tenant: 2})
	}
	s.end(0) // serves tenant 1, which goes on for long
	s.running[0], s.running[1] = s.running[1], s.running[0]
	if w := s.running[0].W; w.Tenant != 1 {
		t.Fatalf("%s runs", name(w))
	}
	for range 50 {
		s.end(1)
	}
	for range 60 {
		s.come(&Waiter{Tenant: 1})
	}
	var served [3]int
	s.served = func(v Verdict) { served[v.W.Tenant]++ }
	for range 40 {
		s.end(1)
	}
	if d := served[1] - served[2]; d < -2 || d > 2 {
		t.Errorf("who came back was served %d times, the other %d", served[1], served[2])
	}
}

// TestManyDatabasesAreOneRole: a role that waits for a hundred keys gets as much as one that
// waits for one.
func TestManyDatabasesAreOneRole(t *testing.T) {
	s := newShop(1)
	s.come(&Waiter{Role: 9})
	for k := range Key(100) {
		s.come(&Waiter{Key: 1 + k, Role: 1})
		s.come(&Waiter{Key: 0, Role: 0})
	}
	var served [10]int
	s.served = func(v Verdict) { served[v.W.Role]++ }
	for range 100 {
		s.end(0)
	}
	if d := served[0] - served[1]; d < -1 || d > 1 {
		t.Errorf("one key was served %d times, a hundred %d", served[0], served[1])
	}
}

// TestCrowdedBook: where too many are told apart, they share accounts, and nothing is lost.
func TestCrowdedBook(t *testing.T) {
	s := newShop(2)
	s.g.book.most = 3
	for i := range uint32(40) {
		s.come(&Waiter{Key: Key(i), Role: i * 131, Tenant: i * 257})
		s.come(&Waiter{Key: Key(i), Role: i * 131, Tenant: i * 3})
		if err := s.g.Check(); err != nil {
			t.Fatal(err)
		}
		if i%4 == 3 {
			s.end(0)
		}
		s.g.book.most = 3 + int(i%3)*100 // it is full now and then
	}
	for s.g.Waiting() > 0 {
		v := s.running[0]
		s.running = s.running[1:]
		for _, o := range s.g.Done(s.now, v.Ticket, ms, nil) {
			s.grant(o)
		}
		if err := s.g.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range s.running {
		s.g.Done(s.now, v.Ticket, ms, nil)
	}
	if n := len(s.g.book.roles) + len(s.g.book.tenants); n > 0 {
		t.Errorf("%d accounts are left", n)
	}
}
