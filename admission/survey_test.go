package admission

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// tenants asks for the most important, a piece at a time.
func tenants(g *Gate, limit, piece int) (top []TenantStats) {
	for at := 0; at >= 0; {
		at, top = g.Accounts(top, limit, at, piece)
	}
	return Rank(top)
}

func TestPiecesMakeTheWhole(t *testing.T) {
	r := newRig(t, Plan{Slots: 5, Workloads: []Workload{{Share: 0.5, Lendable: 1, Borrow: 1}, {Share: 0.4, Lendable: 1, Borrow: 1}, {Share: 0.1, Lendable: 1, Borrow: 1}}})
	for i := range 12 {
		r.now = int64(i+1) * ms
		r.ask(uint16(i/6), 1)
	}
	whole := r.Stats()
	if whole.Totals != r.Totals() || len(whole.Workloads) != r.Workloads() || whole.Running != 5 {
		t.Errorf("%+v is not %+v with %d workloads", whole.Totals, r.Totals(), r.Workloads())
	}
	var pieces []WorkloadStats
	for i := range r.Workloads() {
		pieces = append(pieces, r.Workload(i))
	}
	if reflect.DeepEqual(pieces, whole.Workloads) {
		t.Error("nothing is lent")
	}
	Lend(pieces)
	if !reflect.DeepEqual(pieces, whole.Workloads) {
		t.Errorf("%+v\nis not\n%+v", pieces, whole.Workloads)
	}
	if w := r.Workload(3); w.Slots != 0 || w.MaxWaiting != 0 {
		t.Errorf("a workload that there is not: %+v", w)
	}
}

// The oldest of a workload may be one whose key is paused.
func TestOldestOfThePaused(t *testing.T) {
	g := New(Plan{Slots: 1, Workloads: []Workload{{}, {}}}, absent{}, nil)
	waiters := make([]*Waiter, 6)
	for i := range waiters {
		waiters[i] = &Waiter{Key: Key(i % 3), Workload: uint16(i % 2)}
		g.Admit(int64(i+1), waiters[i])
	}
	want := func(first, second int64) {
		t.Helper()
		if a, b, s := g.Workload(0).Oldest, g.Workload(1).Oldest, g.Stats(); a != first || b != second || s.Oldest != min(first, second) {
			t.Errorf("the oldest came at %d and %d, of all at %d; want %d and %d", a, b, s.Oldest, first, second)
		}
		if err := g.Check(); err != nil {
			t.Error(err)
		}
	}
	want(1, 2)
	g.Pause(10, []Key{2, 0}) // 1, 4 and 3, 6
	want(1, 2)
	g.Withdraw(11, waiters[0])
	g.Withdraw(11, waiters[1])
	want(3, 4)
	g.Withdraw(12, waiters[3])
	g.Resume(12, []Key{2, 0}, nil)
	want(3, 6)
}

func TestMostImportantTenants(t *testing.T) {
	const n = 500
	r := rand.New(rand.NewPCG(1, 2))
	s := &flat{idle: 1}
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWaiting: 1 << 20, MaxWait: 3600e9}}}, s, nil)
	waiting := make(map[uint32][]*Waiter)
	for range 10 * n {
		w := &Waiter{Tenant: uint32(r.IntN(n)), Role: 3}
		w.Class = Class(w.Tenant % 2)
		if g.Admit(1, w); w.Waiting() {
			waiting[w.Tenant] = append(waiting[w.Tenant], w)
		}
	}
	counts := func() (list []int) {
		for _, ws := range waiting {
			list = append(list, len(ws))
		}
		slices.Sort(list)
		slices.Reverse(list)
		return list
	}
	verify := func(top []TenantStats, limit int) {
		t.Helper()
		want := counts()
		if len(top) != min(limit, len(want)) {
			t.Fatalf("%d of %d tenants", len(top), len(want))
		}
		for i, x := range top {
			if x.Waiting != want[i] || x.Waiting != len(waiting[x.Tenant]) || x.Role != 3 || x.Class != Class(x.Tenant%2) {
				t.Fatalf("place %d: %+v, want %d waiting", i, x, want[i])
			}
		}
	}
	verify(tenants(g, 10, 7), 10)
	verify(tenants(g, 1, 1), 1)
	verify(tenants(g, 2*n, 64), 2*n)
	verify(tenants(g, n/2, 4*n), n/2)
	if top := tenants(g, 0, 100); len(top) != 0 {
		t.Errorf("%d tenants of none", len(top))
	}
	// Some leave; their places in the list are taken by others.
	for id := range uint32(n) {
		for ; id%3 == 0 && len(waiting[id]) > 0; waiting[id] = waiting[id][1:] {
			g.Withdraw(1, waiting[id][0])
		}
		if len(waiting[id]) == 0 {
			delete(waiting, id)
		}
	}
	verify(tenants(g, 2*n, 64), 2*n)
	// While the caller looks, half of the first ones leave and come back: nobody is there twice.
	at, top := g.Accounts(nil, n, 0, n/4)
	for _, x := range slices.Clone(top)[:n/8] {
		for i, w := range waiting[x.Tenant] {
			g.Withdraw(2, w)
			waiting[x.Tenant][i] = &Waiter{Tenant: w.Tenant, Role: 3, Class: w.Class}
		}
		for _, w := range waiting[x.Tenant] {
			g.Admit(2, w)
		}
	}
	for at >= 0 {
		at, top = g.Accounts(top, 2*n, at, n/4)
	}
	n1 := len(top)
	top = Rank(top)
	if n1 == len(top) {
		t.Error("nobody has come back")
	}
	seen := make(map[uint32]bool)
	for _, x := range top {
		if seen[x.Tenant] {
			t.Errorf("tenant %d is there twice", x.Tenant)
		}
		seen[x.Tenant] = true
	}
	room := make([]TenantStats, 0, 20)
	if n := testing.AllocsPerRun(10, func() { _, room = g.Accounts(room[:0], 20, 0, 4*n) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAccounts(b *testing.B) {
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWaiting: 1 << 20}}}, absent{}, nil)
	for i := range mostAccounts {
		g.Admit(1, &Waiter{Tenant: uint32(i * 7919 % 100_000)})
	}
	top := make([]TenantStats, 0, 1000)
	b.ReportAllocs()
	for b.Loop() {
		_, top = g.Accounts(top[:0], 1000, 0, 1024)
	}
}

func BenchmarkWorkload(b *testing.B) {
	g := New(Plan{Slots: 1000, Workloads: make([]Workload, 1000)}, absent{}, nil)
	list := make([]WorkloadStats, 1000)
	b.ReportAllocs()
	for b.Loop() {
		for i := range 32 {
			list[i] = g.Workload(i)
		}
	}
}
