package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"go.uber.org/goleak"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// fakeGuard is a guard that shows what it is given and writes down what it is asked to do.
type fakeGuard struct {
	mu       sync.Mutex
	calls    []string
	snapshot *state.Snapshot
	clients  []state.Client
	servers  []state.Server
	tenants  []state.Tenant

	changes  []control.Change
	warnings []string
	problems []control.Problem
	err      error         // of control calls
	paused   bool          // what Resume answers
	blocked  chan struct{} // if not nil, Pause says on it that it waits, and waits for ctx
	shutdown chan struct{} // closed by Shutdown, if not nil
}

func (g *fakeGuard) note(format string, args ...any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, fmt.Sprintf(format, args...))
	return g.err
}

func (g *fakeGuard) noted() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.calls, "\n")
}

func (g *fakeGuard) Snapshot(context.Context) (*state.Snapshot, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.snapshot == nil {
		return nil, errors.New("no snapshot")
	}
	s := *g.snapshot
	return &s, nil
}

func (g *fakeGuard) Clients(_ context.Context, f func([]state.Client) error) error {
	for i := 0; i < len(g.clients); i += 2 {
		if err := f(g.clients[i:min(i+2, len(g.clients))]); err != nil {
			return err
		}
	}
	return nil
}

func (g *fakeGuard) Servers(context.Context) ([]state.Server, error) { return g.servers, nil }

func (g *fakeGuard) Tenants(context.Context) ([]state.Tenant, error) {
	return g.tenants, nil
}

func (g *fakeGuard) Refusals(context.Context) ([]state.Refusal, error) { return sampleRefusals(), nil }

func (g *fakeGuard) Pause(ctx context.Context, db string) (ahead bool, err error) {
	if err := g.note("Pause(%q)", db); err != nil || g.blocked == nil {
		return db == "later", err
	}
	g.blocked <- struct{}{}
	<-ctx.Done()
	return false, ctx.Err()
}

func (g *fakeGuard) Resume(_ context.Context, db string) (bool, error) {
	return g.paused, g.note("Resume(%q)", db)
}

func (g *fakeGuard) Reconnect(_ context.Context, db string) error { return g.note("Reconnect(%q)", db) }
func (g *fakeGuard) Kill(_ context.Context, db string) error      { return g.note("Kill(%q)", db) }
func (g *fakeGuard) KillClient(_ context.Context, id uint64) error {
	return g.note("KillClient(%d)", id)
}
func (g *fakeGuard) Disable(_ context.Context, db string) error { return g.note("Disable(%q)", db) }
func (g *fakeGuard) Enable(_ context.Context, db string) error  { return g.note("Enable(%q)", db) }
func (g *fakeGuard) WaitClose(_ context.Context, db string) error {
	return g.note("WaitClose(%q)", db)
}

func (g *fakeGuard) Shutdown(how control.Shutdown) {
	_ = g.note("Shutdown(%d)", how)
	if g.shutdown != nil {
		close(g.shutdown)
	}
}

func (g *fakeGuard) Reload(context.Context) ([]control.Change, []control.Problem) {
	_ = g.note("Reload()")
	return g.changes, g.problems
}

func (g *fakeGuard) Set(_ context.Context, key, value string) ([]control.Change, []control.Problem) {
	_ = g.note("Set(%q, %q)", key, value)
	return g.changes, g.problems
}

func (g *fakeGuard) Warnings() []string { return g.warnings }

func (g *fakeGuard) Settings() []control.Setting {
	return []control.Setting{
		{Key: "max_client_conn", Value: "500", Default: "10000", Source: "pgweir.toml:3", Doc: "over it: FATAL 53300"},
		{Key: "http", Value: "127.0.0.1:6433", Default: "127.0.0.1:6433", Source: "default"},
		{Key: "workload.api.max_wait", Value: "500ms", Default: "2s", Source: "SET", Reload: true, Unit: "duration", Doc: "longest wait for a slot"},
	}
}

// noon is when the snapshot of the tests was taken.
func noon() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// sampleGuard has something of everything.
func sampleGuard() *fakeGuard {
	traffic := state.Traffic{
		Transactions: 1000, Queries: 3000, Assignments: 1100, Received: 50_000, Sent: 900_000, ToServers: 49_000, FromServers: 890_000,
		ClientParses: 600, ServerParses: 12, Binds: 700, Logins: 41, Refused: 17,
		TransactionTime: 5 * time.Second, QueryTime: 4500 * time.Millisecond, WaitTime: 1100 * time.Millisecond,
		Goodput: 980, Wasted: 11, WastedTime: 640 * time.Millisecond,
	}
	s := &state.Snapshot{
		Now: noon(), Started: noon().Add(-100 * time.Second), Clients: 40, LoggingIn: 2, MaxClients: 500, MaxLogins: 256, Traffic: traffic,
		Upstreams: []state.Upstream{
			{
				Name: "main", Hosts: []string{"10.0.0.5", "10.0.0.6"}, Host: "10.0.0.5", Budget: 65, BudgetSum: "0.7 x (100 - 3 - 0 - 4) = 65",
				Reserve: 3, Slots: 62, Running: 30, Waiting: 9, MaxWait: 2 * time.Second,
				Dialling: 1, Idle: 4, Active: 30, Closing: 2, Cancelling: 1, Held: 3,
				Logins: 90, LoginFailures: 5, Moved: 2, IdledOut: 11, Outlived: 7, Cancels: 6, Abandoned: 4, Broken: 1, Cleaned: 8, CancelsEffective: 5, CancelsLate: 1,
				LastError: "FATAL: sorry, too many clients already", LastErrorAt: noon().Add(-time.Minute),
			},
			{Name: "reports", Hosts: []string{"/run/postgresql"}, Budget: 5, Slots: 5, Paused: true, Down: true},
		},
		Pools: []state.Pool{
			{
				Upstream: "main", Database: "shop", Role: "app", Mode: "transaction", ClientsActive: 31, ClientsWaiting: 9, ClientsCancel: 1,
				ServersActive: 30, ServersIdle: 4, ServersLogin: 1, ServersClosing: 2, ServersCancelled: 1,
				Oldest: 1500 * time.Millisecond, Minimum: 2, Traffic: traffic,
			},
			{Upstream: "reports", Database: "dwh", Role: "reporting", Mode: "session", Paused: true, Down: true, LastError: "connection refused"},
		},
		Databases: []state.Database{
			{
				Name: "shop", Upstream: "main", Host: "10.0.0.5", Port: 5432, DBName: "shop", Budget: 65, MinPoolSize: 2, Reserve: 3,
				ServerLifetime: time.Hour, Mode: "transaction", Clients: 40, Servers: 35, Traffic: traffic,
			},
			{Name: "dwh", Upstream: "reports", Host: "/run/postgresql", Port: 5432, DBName: "dwh", ForceUser: "reporting", Budget: 5, Paused: true, Disabled: true},
		},
		Roles: []state.Role{
			{
				Name: "app", Clients: 40, Servers: 35, Mode: "transaction", Traffic: traffic,
				MaxClass: admission.CriticalPlus, PromoteShare: 0.3, Promoted: 0.312, Demoted: 9, Capped: 4,
				Ceiling: true, Timeouts: [...]time.Duration{time.Minute, time.Hour, 0, 1500 * time.Millisecond},
				Stopped: [...]uint64{11, 12, 13, 14}, MaxClients: 50, MaxServers: 10,
			},
			{Name: "reporting"},
		},
		Rates: []state.Rate{
			{Name: "crawlers", Per: "client", Rate: "150/s", Mode: "enforce", Escalation: "block", Passed: 9000, Refused: 340, Keys: 12, Evicted: 3},
			{Name: "2", Per: "tenant", Rate: "500ms/s", Mode: "dry_run", Escalation: "none", Passed: 700, Would: 7, Keys: 2},
		},
		Blocks: sampleBlocks(),
		Refusals: []state.RefusalCount{
			{Reason: "queue_full", Workload: "api", Database: "shop", Role: "app", Application: "batch", Tenant: "acme", N: 3, Last: noon().Add(-time.Hour)},
			{Reason: "queue_age", Workload: "api", Database: "shop", Role: "app", Application: "web-1", N: 12, Last: noon()},
			{N: 2},
		},
		Turned: []state.Count{{Label: "max_client_conn", N: 4}},
		HBA: []state.HBARule{
			{Number: 1, File: "/etc/pgweir/pg_hba.conf", Line: 3, Type: "local", Databases: []string{"all"}, Roles: []string{"all"}, Method: "peer", Options: []string{"map=m"}, Matched: 7},
			{Number: 2, File: "/etc/pgweir/pg_hba.conf", Line: 9, Type: "host", Databases: []string{"shop", "sales"}, Roles: []string{"+staff"}, Address: "10.0.0.0", Netmask: "255.0.0.0", Method: "scram-sha-256"},
		},
		Suspects: []state.Suspect{{Address: "10.9.8.7", Failures: 5, Delay: 400 * time.Millisecond, Under: 2, Failed: 6, Refused: 1, Last: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
		Memory:   []state.Memory{{Name: "clients", Size: 1300, Used: 40, Bytes: 52_000}, {Name: "statements", Used: 12, Bytes: 9000}},
	}
	w := state.Workload{
		Name: "api", Upstream: "main", Mode: "transaction", Clients: 38, Share: 0.6, Part: 37.2, Running: 30, Held: 3, Pinned: 1, MaxPinned: 3, Pins: 12, Lent: 2, Borrowed: 0.125,
		Waiting: 9, MaxWaiting: 1000, MaxWait: 2 * time.Second, Oldest: 1500 * time.Millisecond, DrainRate: 812.345, Granted: 1100, Withdrawn: 5,
		Traffic: traffic,
	}
	w.Refused[admission.QueueAge], w.Refused[admission.QueueFull] = 12, 3
	w.Policy, w.Guard, w.FalseRefusals = "guard", "enforce", 2
	w.Classes = sampleClasses()
	w.GrantWaits.Buckets[0], w.GrantWaits.Buckets[11], w.GrantWaits.Buckets[20] = 1000, 90, 10
	w.RefusalWaits.Buckets[21] = 15
	s.Workloads = []state.Workload{w, {Name: "default", Upstream: "main", Mode: "transaction", Policy: "fifo", Guard: "dry_run"}}
	return &fakeGuard{snapshot: s, clients: sampleClients(), servers: sampleServers(), tenants: sampleTenants(), paused: true}
}

func sampleClasses() []state.Class {
	critical := state.Class{Class: admission.Critical, MaxWait: 2 * time.Second, Waiting: 1, Oldest: 20 * time.Millisecond, Granted: 700, Goodput: 690}
	critical.GrantWaits.Buckets[11] = 700
	batch := state.Class{
		Class: admission.SheddablePlus, MaxWait: 500 * time.Millisecond, Waiting: 8, Standing: true,
		Oldest: 1500 * time.Millisecond, Granted: 400, Goodput: 310,
	}
	batch.Refused[admission.QueueAge], batch.Refused[admission.QueueFull] = 12, 3
	batch.Would[admission.Displaced] = 6
	batch.RefusalWaits.Buckets[20] = 15
	return []state.Class{critical, batch}
}

func sampleTenants() []state.Tenant {
	return []state.Tenant{
		{
			Upstream: "main", Workload: "api", Class: admission.SheddablePlus, Role: "app", Tenant: "crawler", Waiting: 8, Running: 2,
			Served: 12345 * time.Millisecond, Granted: 400, Refused: 15,
		},
		{Upstream: "main", Workload: "api", Class: admission.Critical, Role: "app", Tenant: "web-1", Waiting: 1, Running: 28, Served: time.Minute, Granted: 700},
	}
}

func sampleBlocks() []state.Block {
	return []state.Block{
		{Address: "10.1.0.9", Role: "app", Level: 2, Since: noon(), Until: noon().Add(20 * time.Second), Blocks: 2, Violations: 340},
		{Address: "unix", Role: "cron", Level: 0, Since: noon().Add(-time.Hour), Until: noon().Add(-59 * time.Minute), Blocks: 1, Violations: 121},
	}
}

func sampleRefusals() []state.Refusal {
	return []state.Refusal{
		{
			At: noon().Add(-5 * time.Millisecond), Client: "10.1.0.9:40001", ClientID: 7, Upstream: "main", Database: "shop", Role: "app",
			Application: "web-1", Workload: "api", Class: "sheddable_plus",
			Tenant: "acme", Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			Reason: "displaced", Code: "53300", Waited: 61 * time.Millisecond,
			Detail: "reason=displaced pool=api class=sheddable_plus wait_ms=61 slots=16 queued=27", Hint: "retry_after_ms=250 retry=yes",
		},
		{At: noon().Add(-time.Second), Client: "10.1.0.9:40002", Reason: "max_client_conn", Code: "53300", Detail: "reason=max_client_conn", Login: true},
	}
}

func sampleClients() []state.Client {
	at := noon().Add(-30 * time.Second)
	return []state.Client{
		{
			ID: 7, Database: "shop", Role: "app", Application: "web-1", Workload: "api", Upstream: "main", State: "active", Address: "10.1.0.9",
			LocalAddress: "10.0.0.1", Port: 40001, LocalPort: 6432, Connected: at, Requested: noon(), Server: 3, Transaction: true,
			TLS: "TLSv1.3/TLS_AES_128_GCM_SHA256/ECDH=X25519", ServerName: "db.example", Prepared: 12, CancelPID: 4711,
		},
		{ID: 8, Database: "shop", Role: "app", Application: "wéb\xff\x00", Workload: "api", Upstream: "main", State: "waiting", Address: "unix", Connected: at, Requested: noon(), Wait: 1500001 * time.Microsecond},
		{
			ID: 9, Database: "shop", Role: "app", State: "idle", Address: "::1", Port: 1, Connected: at,
			Server: 4, ServerPID: 100, Pinned: "listen,lock", PinnedFor: 90 * time.Second, Silent: 1500 * time.Millisecond,
		},
		{ID: 10, State: "login", Address: "10.1.0.10", Port: 5, Connected: at},
	}
}

func sampleServers() []state.Server {
	at := noon().Add(-30 * time.Second)
	return []state.Server{
		{
			ID: 3, Upstream: "main", Database: "shop", Role: "app", State: "active", Address: "10.0.0.5", Port: 5432, LocalAddress: "10.0.0.1", LocalPort: 50000,
			Connected: at, Requested: noon(), Since: 20 * time.Millisecond, Client: 7, PID: 99, Prepared: 4, Application: "web-1",
		},
		{ID: 4, Upstream: "main", Database: "shop", Role: "app", State: "held", Client: 11, PID: 100, Connected: at, CloseNeeded: true, Pinned: "listen,lock"},
		{ID: 5, Upstream: "main", Database: "shop", Role: "app", State: "idle", PID: 101, Connected: at},
		{ID: 6, Upstream: "main", Database: "shop", Role: "app", State: "login"},
	}
}

// dba is an administrator.
func dba() Who {
	return Who{
		User: "dba", Database: "pgweir", Admin: true, Addr: "127.0.0.1:1", Key: wire.NewCancelKey(77, 0),
		Params: []wire.Param{{Name: "user", Value: "dba"}, {Name: "application_name", Value: "psql"}},
	}
}

// peer is the client's end of a console in memory.
type peer struct {
	*pgproto3.Frontend
	t    *testing.T
	conn net.Conn
	done chan error // what Serve returned
}

// dial starts a console session and reads its welcome.
func dial(t *testing.T, c *Console, who Who) *peer {
	t.Helper()
	p := dialContext(t.Context(), t, c, who)
	p.until(wire.MsgReadyForQuery)
	return p
}

func dialContext(ctx context.Context, t *testing.T, c *Console, who Who) *peer {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx, far, who) }()
	p := &peer{Frontend: pgproto3.NewFrontend(near, near), t: t, conn: near, done: done}
	t.Cleanup(func() { _ = near.Close() })
	_ = near.SetDeadline(time.Now().Add(patience))
	return p
}

// ask sends messages.
func (p *peer) ask(list ...pgproto3.FrontendMessage) {
	p.t.Helper()
	for _, m := range list {
		p.Send(m)
	}
	if err := p.Flush(); err != nil {
		p.t.Fatal(err)
	}
}

// until reads up to a message of a kind and writes down what came.
func (p *peer) until(kind byte) string {
	p.t.Helper()
	var b strings.Builder
	for {
		m, err := p.Receive()
		if err != nil {
			p.t.Fatalf("%v after\n%s", err, b.String())
		}
		raw, err := m.(pgproto3.Message).(interface{ Encode([]byte) ([]byte, error) }).Encode(nil)
		if err != nil {
			p.t.Fatal(err)
		}
		b.WriteString(transcript(m))
		if raw[0] == kind {
			return b.String()
		}
	}
}

// query asks a Query and returns what came, without the ReadyForQuery of an idle session.
func (p *peer) query(text string) string {
	p.t.Helper()
	p.ask(&pgproto3.Query{String: text})
	return strings.TrimSuffix(p.until(wire.MsgReadyForQuery), "ready I\n")
}

// transcript writes a message for people.
func transcript(m pgproto3.BackendMessage) string {
	switch m := m.(type) {
	case *pgproto3.RowDescription:
		var names []string
		for _, f := range m.Fields {
			names = append(names, fmt.Sprintf("%s:%d", f.Name, f.DataTypeOID))
		}
		return "columns " + strings.Join(names, " ") + "\n"
	case *pgproto3.DataRow:
		var values []string
		for _, v := range m.Values {
			if v == nil {
				values = append(values, "NULL")
			} else {
				values = append(values, string(v))
			}
		}
		return "row " + strings.Join(values, " | ") + "\n"
	case *pgproto3.CommandComplete:
		return "done " + string(m.CommandTag) + "\n"
	case *pgproto3.ErrorResponse:
		return words(m.Severity, m.Code, m.Message, m.Detail, m.Hint, m.Position)
	case *pgproto3.NoticeResponse:
		return words(m.Severity, m.Code, m.Message, m.Detail, m.Hint, m.Position)
	case *pgproto3.ReadyForQuery:
		return "ready " + string(m.TxStatus) + "\n"
	case *pgproto3.ParameterStatus:
		return "parameter " + m.Name + "=" + m.Value + "\n"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T\n", m), "*pgproto3.")
}

func words(severity, code, message, detail, hint string, position int32) string {
	s := severity + " " + code + " " + message
	if position > 0 {
		s += fmt.Sprintf(" (at %d)", position)
	}
	if detail != "" {
		s += "\n  DETAIL " + strings.ReplaceAll(detail, "\n", "\n  ")
	}
	if hint != "" {
		s += "\n  HINT " + hint
	}
	return s + "\n"
}

// ended waits for the end of Serve.
func (p *peer) ended() error {
	p.t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(patience):
		p.t.Fatal("Serve does not end")
		return nil
	}
}
