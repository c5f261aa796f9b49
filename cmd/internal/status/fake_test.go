package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/login/roster"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errStuck = errors.New("stuck")

// fake is a Guard whose state is made by a function.
type fake struct {
	mu   sync.Mutex
	make func(n int) *state.Snapshot // n counts the snapshots

	tenants func() []state.Tenant // nil = there are none
	health  state.Health
	err     error
	asked   int
}

func (f *fake) Snapshot(context.Context) (*state.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.err != nil {
		return nil, f.err
	}
	return f.make(f.asked), nil
}

func (f *fake) Health(context.Context) (state.Health, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health, f.err
}

func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func (f *fake) Clients(context.Context, func([]state.Client) error) error { return nil }

func (f *fake) Servers(context.Context) ([]state.Server, error) { return nil, nil }

func (f *fake) Tenants(context.Context) ([]state.Tenant, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.tenants == nil {
		return nil, f.err
	}
	return f.tenants(), nil
}

func (f *fake) Refusals(context.Context) ([]state.Refusal, error) { return nil, nil }

// fakeConfig is a Configurator.
type fakeConfig struct {
	changes  []control.Change
	problems []control.Problem
	warnings []string
	settings []control.Setting
}

func (c *fakeConfig) Reload(context.Context) ([]control.Change, []control.Problem) {
	return c.changes, c.problems
}

func (c *fakeConfig) Set(context.Context, string, string) ([]control.Change, []control.Problem) {
	return nil, nil
}

func (c *fakeConfig) Warnings() []string { return c.warnings }

func (c *fakeConfig) Settings() []control.Setting { return c.settings }

// start serves the options on a public and an admin listener, until the test ends.
func start(t *testing.T, o Options) (public, admin string) {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := New(o)
	public = serveUntilEnd(t, s)
	return public, serveListener(t, s.ServeAdmin)
}

// serveUntilEnd serves the public side of s until the test ends.
func serveUntilEnd(t *testing.T, s *Server) string {
	t.Helper()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return serveListener(t, s.ServePublic)
}

// serveListener serves on a listener of its own. goleak checks that it ends.
func serveListener(t *testing.T, serve func(net.Listener) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := serve(ln); err != nil {
			t.Error(err)
		}
	}()
	return "http://" + ln.Addr().String()
}

// moment is the start of fixed snapshots.
func moment() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// addWaits records n waits of d.
func addWaits(w *admission.Waits, d time.Duration, n int) {
	w.Buckets[min(bits.Len64(uint64(d.Microseconds())), admission.WaitBuckets-1)] += uint64(n)
	w.Sum += int64(n) * int64(d)
}

// fixed is a small snapshot with a number of its own nearly everywhere.
func fixed() *state.Snapshot {
	s := &state.Snapshot{
		Now: moment().Add(time.Hour), Started: moment(),
		Clients: 120, LoggingIn: 3, MaxClients: 10000, MaxLogins: 256,
		Logins:  state.LoginStats{Failed: 31, Delayed: 21, Refused: 11, Addresses: 3},
		Turned:  []state.Count{{Label: "max_client_conn", N: 7}, {Label: "no_database", N: 1}},
		Ended:   []state.Count{{Label: "goodbye", N: 900}, {Label: "server_lost", N: 2}},
		Traffic: traffic(1000),
		TLS:     state.TLS{On: true, Done: 100, Failed: 3, Lost: 5, Loaded: 2, Unusable: 1, NotAfter: moment().Add(1000 * time.Hour), Stale: "x"},
		Loop:    loop.Stats{Turns: 1, Yields: 2, Waits: 3, Sleeps: 4, Events: 5, Reads: 6, ReadEAGAIN: 7, Writes: 8, WriteEAGAIN: 9, Batches: 7, EpollCtl: 10, SockOpts: 11, Bulks: 12, BulkPolls: 13, Adopted: 14, Closed: 15, BytesIn: 16, BytesOut: 17, Tasks: 18, PosterWakes: 19},
		Memory:  []state.Memory{{Name: "session", Size: 512, Used: 120, Free: 8, Bytes: 65536}},
		Upstreams: []state.Upstream{{
			Name: "main", Host: "10.0.0.5:5432", Budget: 20, BudgetSum: "0.7 x (100 - 3 - 0 - 4) = 65", Reserve: 3, Slots: 17, Running: 9, Waiting: 5,
			MaxWait: 2 * time.Second, Dialling: 1, Idle: 4, Active: 9, Closing: 2, Cancelling: 1, Held: 3,
			Logins: 50, LoginFailures: 4, Moved: 6, IdledOut: 7, Outlived: 8, Cancels: 9, Abandoned: 10, Broken: 11, Cleaned: 12, Replanned: 13, CancelsEffective: 6, CancelsLate: 2,
			Stopped: [...]uint64{21, 22, 23, 24},
			Demoted: 13, Roles: roster.Stats{Asked: 44, Failed: 2, Cached: 55, Stale: 1}, Capped: 14, Tenants: 15, SharedTenants: 16, UnknownTags: []state.Count{{Label: "pgweir.class", N: 17}},
		}},
		Pools: []state.Pool{{
			Upstream: "main", Database: "shop", Role: "app", Mode: "transaction",
			ClientsActive: 115, ClientsWaiting: 5, ClientsCancel: 1, ServersActive: 9, ServersIdle: 4, ServersLogin: 1, ServersClosing: 2, ServersCancelled: 1,
			Oldest: 250 * time.Millisecond, Traffic: traffic(2000),
		}},
		Databases: []state.Database{{
			Name: "shop", Upstream: "main", Host: "10.0.0.5", Port: 5432, DBName: "shop", Budget: 20, Reserve: 3, Mode: "transaction",
			Clients: 120, Servers: 17, Traffic: traffic(3000),
		}},
		Roles: []state.Role{{Name: "app", Clients: 120, Servers: 17, Mode: "transaction", Traffic: traffic(4000)}},
		Workloads: []state.Workload{{
			Name: "api", Upstream: "main", Mode: "transaction", Clients: 120, Share: 0.6, Part: 10.2, Running: 9, Held: 3, Pinned: 1, MaxPinned: 2, Pins: 40, Lent: 1.5, Borrowed: 0.5,
			Waiting: 5, MaxWaiting: 68, MaxWait: 2 * time.Second, Oldest: 250 * time.Millisecond, DrainRate: 812.5,
			Granted: 5000, Withdrawn: 6, Traffic: traffic(5000),
		}},
		Refusals: []state.RefusalCount{{Reason: "queue_age", Workload: "api", Database: "shop", Role: "app", Application: "web-1", N: 40, Last: moment()}},
	}
	s.Rates = []state.Rate{{Name: "crawlers", Per: "client", Rate: "150/s", Mode: "enforce", Escalation: "block", Passed: 900, Refused: 34, Would: 5, Keys: 12, Evicted: 3}}
	s.Escalation = session.EscalationState{
		EscalationStats: quota.EscalationStats{Parties: 4, Blocked: 1, Blocks: 6, Violations: 340},
		Parked:          2, MostParked: 500, Delayed: 21, Ended: 31,
	}
	w := &s.Workloads[0]
	w.Refused[admission.QueueAge], w.Refused[admission.QueueFull] = 40, 2
	w.Policy, w.Guard, w.FalseRefusals = "guard", "enforce", 3
	critical := state.Class{Class: admission.Critical, MaxWait: 2 * time.Second, Waiting: 1, Oldest: 20 * time.Millisecond, Granted: 3000, Goodput: 2990}
	batch := state.Class{
		Class: admission.SheddablePlus, MaxWait: 500 * time.Millisecond, Waiting: 4, Standing: true, Oldest: 250 * time.Millisecond,
		Granted: 2000, Goodput: 1900,
	}
	batch.Refused[admission.QueueAge], batch.Refused[admission.QueueFull], batch.Would[admission.Displaced] = 40, 2, 5
	addWaits(&critical.GrantWaits, 3*time.Millisecond, 3000)
	addWaits(&batch.GrantWaits, 300*time.Millisecond, 2000)
	addWaits(&batch.RefusalWaits, 500*time.Millisecond, 42)
	w.Classes = []state.Class{critical, batch}
	addWaits(&w.GrantWaits, 0, 3000)
	addWaits(&w.GrantWaits, 3*time.Millisecond, 1500)
	addWaits(&w.GrantWaits, 300*time.Millisecond, 500)
	addWaits(&w.RefusalWaits, 2*time.Second, 42)
	return s
}

// traffic has every number near n and no two alike.
func traffic(n uint64) state.Traffic {
	return state.Traffic{
		Transactions: n + 1, Queries: n + 2, Assignments: n + 3, Received: n + 4, Sent: n + 5, ToServers: n + 6, FromServers: n + 7,
		ClientParses: n + 8, ServerParses: n + 9, Binds: n + 10, Logins: n + 11, Refused: n + 12,
		TransactionTime: time.Duration(n+13) * time.Second, QueryTime: time.Duration(n+14) * time.Second, WaitTime: time.Duration(n+15) * time.Second,
		Goodput: n + 16, Wasted: n + 17, WastedTime: time.Duration(n+18) * time.Second,
	}
}

// large has so many pools, databases, roles and workloads.
func large(pools, workloads int) *state.Snapshot {
	s := fixed()
	pool, database, role, workload := s.Pools[0], s.Databases[0], s.Roles[0], s.Workloads[0]
	s.Pools, s.Databases, s.Roles, s.Workloads = nil, nil, nil, nil
	for i := range pools {
		pool.Role = fmt.Sprintf("role_%04d", i)
		pool.Traffic.Transactions = uint64(i * 7919 % pools)
		role.Name = pool.Role
		s.Pools, s.Roles = append(s.Pools, pool), append(s.Roles, role)
	}
	for i := range 20 {
		database.Name = fmt.Sprintf("db_%02d", i)
		s.Databases = append(s.Databases, database)
	}
	for i := range workloads {
		workload.Name = fmt.Sprintf("workload_%04d", i)
		s.Workloads = append(s.Workloads, workload)
	}
	return s
}

func newTextLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
