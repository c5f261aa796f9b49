package proxy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// crowded returns a proxy that knows so many databases, roles of each and workloads. It does
// not run.
func crowded(t testing.TB, databases, roles, workloads int) *Proxy {
	t.Helper()
	s := &plan.Settings{
		MaxClients: 10, Upstreams: []plan.Upstream{{Name: "main", Budget: 10, Slots: 10, Reserve: 1}},
		WorkloadOf: func(string, string, string, netip.Addr) int { return 0 },
	}
	for i := range workloads {
		s.Workloads = append(s.Workloads, plan.Workload{Name: fmt.Sprintf("workload_%d", i), Share: 1 / float64(workloads), MaxWait: time.Second})
	}
	for i := range databases {
		s.Databases = append(s.Databases, plan.Database{Name: fmt.Sprintf("db_%d", i), Upstream: "main"})
	}
	px, err := New(Options{MaxLogins: 1, TextLimit: 1 << 20, StatementMemory: 1 << 20, Settings: s, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		px.loop.Stop()
		if err := px.loop.Run(); err != nil { // which gives its descriptors back
			t.Error(err)
		}
	})
	up := px.upstreams["main"]
	for d := range databases {
		for r := range roles {
			database, role := fmt.Sprintf("db_%d", d), fmt.Sprintf("role_%d", r)
			g := up.core.Group(up.core.Key(database, role), database, role, up.workloads[(d*roles+r)%workloads][0])
			g.Traffic = session.Traffic{Transactions: uint64(d + r), Received: 1}
		}
	}
	return px
}

// A snapshot of many is taken in many turns of the loop, and nothing is lost or counted twice.
func TestSnapshotInSlices(t *testing.T) {
	const databases, roles, workloads = 3, 1500, 7
	px := crowded(t, databases, roles, workloads)
	turns := 0
	do := func(_ context.Context, f func(int64)) error {
		turns++
		f(1)
		return nil
	}
	s := &state.Snapshot{}
	f, err := px.gather(t.Context(), do, s)
	if err != nil {
		t.Fatal(err)
	}
	px.compile(f, s)
	if least := 2 * databases * roles / sliceSize; turns < least {
		t.Errorf("%d turns, want %d or more", turns, least)
	}
	if len(s.Pools) != databases*roles || len(s.Databases) != databases || len(s.Roles) != roles || len(s.Workloads) != workloads {
		t.Errorf("%d pools, %d databases, %d roles, %d workloads", len(s.Pools), len(s.Databases), len(s.Roles), len(s.Workloads))
	}
	if !slices.IsSortedFunc(s.Pools, func(a, b state.Pool) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Role, b.Role))
	}) {
		t.Error("the pools are in no order")
	}
	var sums [5]uint64
	for i := range s.Pools {
		sums[0] += s.Pools[i].Traffic.Transactions
	}
	for i := range s.Databases {
		sums[1] += s.Databases[i].Traffic.Transactions
	}
	for i := range s.Roles {
		sums[2] += s.Roles[i].Traffic.Transactions
	}
	for i := range s.Workloads {
		sums[3] += s.Workloads[i].Traffic.Transactions
	}
	sums[4] = s.Traffic.Transactions
	want := uint64(databases*roles*(roles-1)/2 + roles*databases*(databases-1)/2)
	for i, sum := range sums {
		if sum != want {
			t.Errorf("sum %d is %d, want %d", i, sum, want)
		}
	}
}

// BenchmarkSnapshot measures what a scrape costs, and for how long at most it holds up the
// event loop.
func BenchmarkSnapshot(b *testing.B) {
	for _, size := range []struct{ databases, roles, workloads int }{{1, 10, 3}, {1, 5000, 1000}, {1000, 5, 1000}, {2000, 20, 10}} {
		b.Run(fmt.Sprintf("%d databases, %d roles, %d workloads", size.databases, size.roles, size.workloads), func(b *testing.B) {
			px := crowded(b, size.databases, size.roles, size.workloads)
			var longest, all time.Duration // of one snapshot
			var stalls, sums []time.Duration
			do := func(_ context.Context, f func(int64)) error {
				start := time.Now()
				f(1)
				turn := time.Since(start)
				longest, all = max(longest, turn), all+turn
				return nil
			}
			b.ReportAllocs()
			for b.Loop() {
				longest, all = 0, 0
				out := &state.Snapshot{}
				f, err := px.gather(b.Context(), do, out)
				if err != nil {
					b.Fatal(err)
				}
				px.compile(f, out)
				stalls, sums = append(stalls, longest), append(sums, all)
			}
			median := func(list []time.Duration) float64 {
				slices.Sort(list)
				return float64(list[len(list)/2].Microseconds())
			}
			b.ReportMetric(median(stalls), "longest-turn-us")
			b.ReportMetric(median(sums), "loop-us")
		})
	}
}

// BenchmarkReconfigure measures for how long a reload holds up the event loop.
func BenchmarkReconfigure(b *testing.B) {
	for _, size := range []struct{ databases, roles, workloads int }{{1, 5000, 1000}, {1000, 5, 1000}} {
		b.Run(fmt.Sprintf("%d databases, %d roles, %d workloads", size.databases, size.roles, size.workloads), func(b *testing.B) {
			px := crowded(b, size.databases, size.roles, size.workloads)
			s := px.settings.Load()
			for b.Loop() {
				px.upstreams["main"].reconfigure(1, &s.Upstreams[0], s)
			}
		})
	}
}
