package console

import (
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// poolViews are the tables about pools, databases and roles.
func poolViews() []view {
	return []view{
		{
			name: "POOLS", what: "clients and servers of each database and role", theirs: 17,
			columns: columns("database", "user", "#cl_active", "#cl_waiting", "#cl_active_cancel_req", "#cl_waiting_cancel_req",
				"#sv_active", "#sv_active_cancel", "#sv_being_canceled", "#sv_idle", "#sv_used", "#sv_tested", "#sv_login",
				"#maxwait", "#maxwait_us", "pool_mode", "load_balance_hosts",
				"upstream", "#sv_closing", "#min_pool_size", "#paused", "#down", "last_error"),
			rows: snapshotRows(pools),
		},
		{
			name: "DATABASES", what: "the names that clients may ask for", theirs: 17,
			columns: columns("name", "host", "#port", "database", "force_user", "#pool_size", "#min_pool_size", "#reserve_pool_size",
				"#server_lifetime", "pool_mode", "load_balance_hosts", "#max_connections", "#current_connections",
				"#max_client_connections", "#current_client_connections", "#paused", "#disabled",
				"upstream"),
			rows: snapshotRows(databases),
		},
		{
			name: "USERS", what: "the roles that clients have logged in as", theirs: 8,
			columns: columns("name", "pool_size", "reserve_pool_size", "pool_mode", "#max_user_connections", "#current_connections",
				"#max_user_client_connections", "#current_client_connections",
				"#refused_count"),
			rows: snapshotRows(users),
		},
	}
}

func pools(q *query, s *state.Snapshot) error {
	for i := range s.Pools {
		p := &s.Pools[i]
		r := q.begin().text(p.Database).text(p.Role)
		r.count(p.ClientsActive, p.ClientsWaiting, p.ClientsCancel, 0)
		r.count(p.ServersActive, 0, p.ServersCancelled, p.ServersIdle, 0, 0, p.ServersLogin)
		r.split(p.Oldest).text(p.Mode).optional(balance(s, p.Upstream))
		r.text(p.Upstream).count(p.ServersClosing, p.Minimum).flag(p.Paused).flag(p.Down).optional(p.LastError)
		if err := q.end(r); err != nil {
			return err
		}
	}
	return nil
}

// balance is PgBouncer's word for how the hosts of an upstream are used: in their order.
// With one host there is nothing to say.
func balance(s *state.Snapshot, upstream string) string {
	for i := range s.Upstreams {
		if s.Upstreams[i].Name == upstream && len(s.Upstreams[i].Hosts) > 1 {
			return "disable"
		}
	}
	return ""
}

func databases(q *query, s *state.Snapshot) error {
	for i := range s.Databases {
		d := &s.Databases[i]
		r := q.begin().text(d.Name).optional(d.Host).count(d.Port).text(d.DBName).optional(d.ForceUser)
		r.count(d.Budget, d.MinPoolSize, d.Reserve).number(int64(d.ServerLifetime.Seconds()))
		r.optional(d.Mode).optional(balance(s, d.Upstream))
		most := d.Budget
		if d.MaxServers > 0 {
			most = min(most, d.MaxServers)
		}
		r.count(most, d.Servers, d.MaxClients, d.Clients).flag(d.Paused).flag(d.Disabled)
		r.text(d.Upstream)
		if err := q.end(r); err != nil {
			return err
		}
	}
	return nil
}

func users(q *query, s *state.Snapshot) error {
	for i := range s.Roles {
		u := &s.Roles[i]
		r := q.begin().text(u.Name).null().null().optional(u.Mode)
		r.count(u.MaxServers, u.Servers, u.MaxClients, u.Clients)
		r.total(u.Traffic.Refused)
		if err := q.end(r); err != nil {
			return err
		}
	}
	return nil
}
