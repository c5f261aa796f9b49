package status

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// bouncer is the metrics under the names of PgBouncer's exporter, so that dashboards and
// alerts that exist go on working. Pools have the upstream as a label more: two upstreams may
// have databases of one name.
type bouncer struct {
	pools     group[state.Pool]
	stats     group[state.Database]
	databases group[state.Database]
	lists     group[state.Snapshot]
}

func newBouncer() bouncer {
	return bouncer{bouncerPools(), bouncerStats(), bouncerDatabases(), bouncerLists()}
}

func (b *bouncer) describe(ch chan<- *prometheus.Desc) {
	b.pools.describe(ch)
	b.stats.describe(ch)
	b.databases.describe(ch)
	b.lists.describe(ch)
}

func (b *bouncer) collect(ch chan<- prometheus.Metric, s *state.Snapshot, pools []state.Pool, databases []state.Database) {
	b.lists.collect(ch, s)
	for i := range pools {
		b.pools.collect(ch, &pools[i])
	}
	for i := range databases {
		b.stats.collect(ch, &databases[i])
		b.databases.collect(ch, &databases[i])
	}
}

// poolWork ranks pools: what they did and what they were asked to.
func poolWork(p *state.Pool) uint64 {
	return p.Traffic.Transactions + p.Traffic.Refused + uint64(p.ClientsWaiting)
}

func databaseWork(d *state.Database) uint64 { return d.Traffic.Transactions + d.Traffic.Refused }

func bouncerPools() group[state.Pool] {
	type P = state.Pool
	g := group[P]{labels: []string{"upstream", "database", "user"}, values: func(p *P) []string {
		return []string{label(p.Upstream), label(p.Database), label(p.Role)}
	}}
	for _, c := range []struct {
		name, help string
		value      func(*P) int
	}{
		{"client_active_connections", "Clients that do not wait, idle ones too.", func(p *P) int { return p.ClientsActive }},
		{"client_waiting_connections", "Clients that wait for a server.", func(p *P) int { return p.ClientsWaiting }},
		{"client_active_cancel_connections", "Cancel requests that are under way to Postgres.", func(p *P) int { return p.ClientsCancel }},
		{"client_waiting_cancel_connections", "Cancel requests that wait for a connection; there are none here.", func(*P) int { return 0 }},
		{"server_active_connections", "Servers that work for a client.", func(p *P) int { return p.ServersActive }},
		{"server_active_cancel_connections", "Connections to Postgres that carry a cancel request.", func(p *P) int { return p.ClientsCancel }},
		{"server_being_canceled_connections", "Servers that are held back until a cancel has ended.", func(p *P) int { return p.ServersCancelled }},
		{"server_idle_connections", "Servers that are free.", func(p *P) int { return p.ServersIdle }},
		{"server_used_connections", "Servers that need a check before they are free; there are none here.", func(*P) int { return 0 }},
		{"server_testing_connections", "Servers that run a reset or check query for their own sake; there are none here.", func(*P) int { return 0 }},
		{"server_login_connections", "Servers that log in.", func(p *P) int { return p.ServersLogin }},
	} {
		g.gauge("pgbouncer_pools_"+c.name, c.help, func(p *P) float64 { return float64(c.value(p)) })
	}
	g.gauge("pgbouncer_pools_client_maxwait_seconds", "How long the oldest waiting client has waited.", func(p *P) float64 { return seconds(p.Oldest) })
	return g
}

func bouncerStats() group[state.Database] {
	type D = state.Database
	g := group[D]{labels: []string{"database"}, values: func(d *D) []string { return []string{label(d.Name)} }}
	for _, c := range []struct {
		name, help string
		value      func(*state.Traffic) float64
	}{
		{"queries_pooled", "Queries and pipelines that servers answered.", func(t *state.Traffic) float64 { return float64(t.Queries) }},
		{"queries_duration_seconds", "Time for which servers had something to answer.", func(t *state.Traffic) float64 { return seconds(t.QueryTime) }},
		{"received_bytes", "Bytes from clients.", func(t *state.Traffic) float64 { return float64(t.Received) }},
		{"sent_bytes", "Bytes to clients.", func(t *state.Traffic) float64 { return float64(t.Sent) }},
		{"client_wait_seconds", "Time that clients waited for a server.", func(t *state.Traffic) float64 { return seconds(t.WaitTime) }},
		{"sql_transactions_pooled", "Servers that came back at the end of a transaction.", func(t *state.Traffic) float64 { return float64(t.Transactions) }},
		{"server_in_transaction_seconds", "Time for which servers were bound to clients.", func(t *state.Traffic) float64 { return seconds(t.TransactionTime) }},
		{"server_assignments", "Servers given to clients.", func(t *state.Traffic) float64 { return float64(t.Assignments) }},
		{"client_parses", "Parse messages from clients.", func(t *state.Traffic) float64 { return float64(t.ClientParses) }},
		{"server_parses", "Parse messages to servers.", func(t *state.Traffic) float64 { return float64(t.ServerParses) }},
		{"binds", "Bind messages from clients.", func(t *state.Traffic) float64 { return float64(t.Binds) }},
	} {
		g.metric(counterKind, "pgbouncer_stats_totals_"+c.name+"_total", c.help).
			with(func(d *D) float64 { return c.value(&d.Traffic) })
	}
	return g
}

func bouncerDatabases() group[state.Database] {
	type D = state.Database
	g := group[D]{
		labels: []string{"name", "host", "port", "database", "force_user", "pool_mode"},
		values: func(d *D) []string {
			return []string{label(d.Name), label(d.Host), strconv.Itoa(d.Port), label(d.DBName), label(d.ForceUser), d.Mode}
		},
	}
	g.gauge("pgbouncer_databases_pool_size", "Server connections allowed: the budget of its upstream.", func(d *D) float64 { return float64(d.Budget) })
	g.gauge("pgbouncer_databases_reserve_pool", "Part of the budget kept for control and reserve_users.", func(d *D) float64 { return float64(d.Reserve) })
	g.gauge("pgbouncer_databases_max_connections", "Server connections allowed: the budget of its upstream.", func(d *D) float64 { return float64(d.Budget) })
	g.gauge("pgbouncer_databases_current_connections", "Server connections.", func(d *D) float64 { return float64(d.Servers) })
	g.gauge("pgbouncer_databases_paused", "1 while it is paused.", func(d *D) float64 { return truth(d.Paused) })
	g.gauge("pgbouncer_databases_disabled", "1 while new clients are refused.", func(d *D) float64 { return truth(d.Disabled) })
	return g
}

func bouncerLists() group[state.Snapshot] {
	type S = state.Snapshot
	var g group[S]
	for _, c := range []struct {
		name, help string
		value      func(*S) int
	}{
		{"up", "Always 1: what tells you this runs in the process itself.", func(*S) int { return 1 }},
		{"databases", "Databases.", func(s *S) int { return len(s.Databases) }},
		{"users", "Roles that clients have logged in as.", func(s *S) int { return len(s.Roles) }},
		{"pools", "Pools: a database and a role on an upstream.", func(s *S) int { return len(s.Pools) }},
		{"free_clients", "Client connections that could still come.", func(s *S) int { return max(0, s.MaxClients-s.Clients-s.LoggingIn) }},
		{"used_clients", "Clients that have logged in.", func(s *S) int { return s.Clients }},
		{"login_clients", "Clients that are logging in.", func(s *S) int { return s.LoggingIn }},
		{"free_servers", "Server connections that are free.", func(s *S) int { return sum(s, func(u *state.Upstream) int { return u.Idle }) }},
		{"used_servers", "Server connections that work or log in.", func(s *S) int {
			return sum(s, func(u *state.Upstream) int { return u.Active + u.Dialling + u.Cancelling })
		}},
		{"config_max_client_connections", "max_client_conn.", func(s *S) int { return s.MaxClients }},
		{"config_max_user_connections", "Server connections that one user may have; 0: no limit but the budget.", func(*S) int { return 0 }},
	} {
		g.gauge("pgbouncer_"+c.name, c.help, func(s *S) float64 { return float64(c.value(s)) })
	}
	return g
}

// sum adds a number up over the upstreams.
func sum(s *state.Snapshot, f func(*state.Upstream) int) int {
	n := 0
	for i := range s.Upstreams {
		n += f(&s.Upstreams[i])
	}
	return n
}
