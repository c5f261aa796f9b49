package proxy

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// view makes a snapshot of facts. It needs no loop thread.
type view struct {
	px  *Proxy
	s   *plan.Settings
	out *state.Snapshot

	databases map[string]*state.Database
	at        map[place][]*state.Database // the databases by where their servers are
	roles     map[string]*state.Role
	work      map[string]promotion // by role
}

// place is a database on an upstream.
type place struct{ upstream, database string }

// Snapshot implements state.Inspector.
func (px *Proxy) Snapshot(ctx context.Context) (*state.Snapshot, error) {
	out := &state.Snapshot{Started: px.started}
	f, err := px.gather(ctx, px.do, out)
	if err != nil {
		return nil, err
	}
	px.compile(f, out)
	return out, nil
}

// compile makes the snapshot.
func (px *Proxy) compile(f *facts, out *state.Snapshot) {
	v := view{
		px: px, s: f.s, out: out,
		databases: make(map[string]*state.Database), at: make(map[place][]*state.Database), roles: make(map[string]*state.Role),
		work: make(map[string]promotion),
	}
	slices.SortFunc(f.upstreams, func(a, b *upstreamFacts) int { return cmp.Compare(a.up.name, b.up.name) })
	v.fill(f)
	v.sort()
}

// Health implements state.Pulse.
func (px *Proxy) Health(ctx context.Context) (h state.Health, err error) {
	h.Draining = px.draining.Load()
	err = px.do(ctx, func(int64) {
		for _, up := range px.upstreams {
			if up.disowned {
				continue
			}
			h.Paused = h.Paused || up.core.AnyPaused()
			h.Down = h.Down || up.down()
		}
	})
	return h, err
}

// down reports whether no server of the upstream is open and the last login failed.
func (up *cluster) down() bool {
	st := up.core.Set().Stats()
	if st.Idle+st.Busy > 0 {
		return false
	}
	for _, k := range up.core.Keys() {
		if e, _ := k.Failure(); e != nil {
			return true
		}
	}
	return false
}

// forgotten reports whether the configuration has the upstream no more, and nothing is left of
// it but its counts.
func (up *cluster) forgotten() bool {
	st := up.core.Set().Stats()
	return up.disowned && up.core.Clients() == 0 && len(up.seats.list) == 0 && st.Idle+st.Busy+st.Dialling+st.Closing == 0
}

func (v *view) fill(f *facts) {
	px, out := v.px, v.out
	out.Draining = px.draining.Load()
	out.Clients, out.LoggingIn = int(px.clients.Load()), len(px.logins)
	out.MaxClients, out.MaxLogins = v.s.MaxClients, cap(px.logins)
	out.TLS = px.tlsState(v.s.TLS)
	out.HBA, out.Logins, out.Suspects = px.hbaRules(v.s.Auth.HBA), px.throttle.Stats(), px.throttle.Suspects(mostSuspects)
	for i := range v.s.Databases {
		if d := &v.s.Databases[i]; d.Name != "*" {
			v.database(d.Name)
		}
	}
	for _, r := range f.upstreams {
		v.upstream(r)
	}
	out.Turned = px.turned.Counts()
	out.Refusals = state.MostFrequent(f.refusals, mostRefusals)
}

// entry is what a name is configured as; nil if it is not.
func (v *view) entry(name string) *plan.Database {
	d, _ := v.s.Route(name)
	return d
}

// database returns the row of a name that clients use.
func (v *view) database(name string) *state.Database {
	d := v.databases[name]
	if d != nil {
		return d
	}
	d = &state.Database{Name: name, Disabled: v.px.disabled.has(name)}
	v.databases[name] = d
	entry := v.entry(name)
	if entry == nil {
		return d // it has been taken out of the configuration
	}
	d.Upstream, d.DBName, d.ForceUser = entry.Upstream, entry.OnServer(name), entry.User
	d.MaxClients, d.MaxServers = entry.MaxClients, entry.MaxServers
	at := place{d.Upstream, d.DBName}
	v.at[at] = append(v.at[at], d)
	u := v.px.upstream(entry.Upstream).o.Load()
	d.Budget, d.Reserve, d.ServerLifetime = u.Budget, u.Reserve, u.Lifetime
	if len(u.Hosts.Hosts) > 0 {
		d.Host, d.Port = hostPort(u.Hosts.Hosts[0].Network, u.Hosts.Hosts[0].Address)
	}
	return d
}

// databaseOf returns the row of a group's database: nil if it has been taken out of the
// configuration and its clients have left.
func (v *view) databaseOf(g *session.Group) *state.Database {
	if g.Clients == 0 && v.entry(g.Database) == nil {
		return nil
	}
	return v.database(g.Database)
}

// hostPort splits an address; of a socket's path it is the directory.
func hostPort(network, address string) (host string, port int) {
	if network == "unix" {
		i := strings.LastIndexByte(address, '/')
		if i < 0 {
			return address, 0
		}
		_, p, _ := strings.Cut(address[i:], ".s.PGSQL.")
		port, _ = strconv.Atoi(p) // 0 of a path that is none of Postgres'
		return address[:i], port
	}
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return address, 0
	}
	port, _ = strconv.Atoi(p) // SplitHostPort has found one
	return host, port
}

func (v *view) role(name string) *state.Role {
	r := v.roles[name]
	if r == nil {
		r = &state.Role{Name: name}
		if v.s.RoleOf != nil {
			may := v.s.RoleOf(name)
			r.MaxClass, r.PromoteShare = may.MaxClass, may.PromoteShare
			r.Timeouts, r.Ceiling, r.MaxClients, r.MaxServers = may.Timeouts, may.Ceiling, may.MaxClients, may.MaxServers
		}
		v.roles[name] = r
	}
	return r
}

// upstream adds an upstream with its workloads and pools.
func (v *view) upstream(r *upstreamFacts) {
	s := &r.state
	for _, h := range r.u.Hosts.Hosts {
		s.Hosts = append(s.Hosts, h.Address)
	}
	for i := range r.keys {
		if k := &r.keys[i]; k.failure != "" && !k.failedAt.Before(s.LastErrorAt) {
			s.LastError, s.LastErrorAt = k.failure, k.failedAt
		}
	}
	s.Down = s.LastError != "" && s.Idle+s.Active == 0
	s.Roles = r.up.roster.Load().Stats()
	v.pools(r)
	v.paused(r)
	v.promoted(r)
	v.workloads(r)
	v.out.Upstreams = append(v.out.Upstreams, *s)
}

// pools adds a row for every key, and what its groups add to databases and roles.
func (v *view) pools(f *upstreamFacts) {
	rows := make([]state.Pool, len(f.keys))
	clients, names := make([]int, len(rows)), v.names(f)
	for i := range f.keys {
		k := &f.keys[i]
		rows[i] = state.Pool{
			Upstream: f.up.name, Database: cmp.Or(names[i], k.database), Role: k.role, Mode: "transaction", Paused: k.paused, Down: k.down, LastError: k.failure,
			ServersActive: k.servers.Busy, ServersIdle: k.servers.Idle, ServersLogin: k.servers.Dialling, ServersClosing: k.servers.Closing,
			ServersCancelled: k.cancelled, Minimum: k.servers.Minimum, ClientsWaiting: k.waiting, Oldest: k.oldest,
		}
	}
	for _, g := range byUse(f.groups) {
		at := int(g.Key.Key)
		if at >= len(rows) {
			continue // newer than the list of keys
		}
		r := &rows[at]
		clients[at] += g.Clients
		r.Mode = g.Workload.Mode.String()
		r.Traffic.Add(g)
		v.out.Traffic.Add(g)
		ro := v.role(g.Role)
		if d := v.databaseOf(g); d != nil {
			d.Clients += g.Clients
			d.MinPoolSize = max(d.MinPoolSize, g.Workload.Minimum)
			d.Mode, d.Paused = r.Mode, r.Paused
			d.Traffic.Add(g)
		}
		ro.Clients += g.Clients
		ro.Mode = r.Mode
		ro.Traffic.Add(g)
	}
	for i := range rows {
		r := &rows[i]
		r.ClientsActive = max(clients[i]-r.ClientsWaiting, 0)
		n := r.ServersActive + r.ServersIdle + r.ServersLogin + r.ServersClosing
		if n == 0 {
			continue
		}
		v.role(r.Role).Servers += n
		for _, d := range v.at[place{r.Upstream, f.keys[i].database}] {
			if d.ForceUser == "" || d.ForceUser == r.Role {
				d.Servers += n
			}
		}
	}
	order := make([]int, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		if names[i] != "" || clients[i]+r.ServersActive+r.ServersIdle+r.ServersLogin+r.ServersClosing > 0 { // else it is gone
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rows[a].Database, rows[b].Database), cmp.Compare(rows[a].Role, rows[b].Role))
	})
	v.out.Pools = slices.Grow(v.out.Pools, len(order))
	for _, i := range order {
		v.out.Pools = append(v.out.Pools, rows[i])
	}
}

// paused notes which databases are paused, also those that nobody has used yet.
func (v *view) paused(f *upstreamFacts) {
	for name := range f.paused.Others {
		if at := (place{f.up.name, name}); !f.paused.All && len(v.at[at]) == 0 {
			if d := v.entry(name); d != nil && d.Upstream == at.upstream && d.OnServer(name) == name {
				v.database(name)
			}
		}
	}
	for _, d := range v.databases {
		if d.Upstream == f.up.name {
			d.Paused = f.paused.Covers(d.DBName)
		}
	}
}

// names returns what clients call the database of each key: its own name if they do, else the
// first by the alphabet of those that lead there; "" if the configuration has none any more.
// No two keys of a role get one name.
func (v *view) names(f *upstreamFacts) []string {
	names := make([]string, len(f.keys))
	for i := range f.groups {
		g := &f.groups[i]
		entry, at := v.entry(g.Database), int(g.Key.Key)
		if entry == nil || at >= len(names) {
			continue
		}
		if real := f.keys[at].database; entry.Upstream == f.up.name && entry.OnServer(g.Database) == real {
			names[at] = betterName(names[at], g.Database, real)
		}
	}
	return names
}

// betterName chooses between two names of a database; a may be none.
func betterName(a, b, real string) string {
	if a == "" || b == real || a != real && b < a {
		return b
	}
	return a
}

// byUse sorts groups so that those with the most clients, or the most work, come last: the
// mode of a pool, database or role is theirs.
func byUse(groups []session.Group) []*session.Group {
	list := make([]*session.Group, len(groups))
	for i := range groups {
		list[i] = &groups[i]
	}
	slices.SortStableFunc(list, func(a, b *session.Group) int {
		return cmp.Or(cmp.Compare(a.Clients, b.Clients), cmp.Compare(a.Traffic.Transactions, b.Traffic.Transactions))
	})
	return list
}

// mostRefusals bounds the kinds of refusals in a snapshot.
const mostRefusals = 100

// sort puts databases and roles in order and moves them over.
func (v *view) sort() {
	for _, d := range v.databases {
		v.out.Databases = append(v.out.Databases, *d)
	}
	for _, r := range v.roles {
		v.out.Roles = append(v.out.Roles, *r)
	}
	slices.SortFunc(v.out.Databases, func(a, b state.Database) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(v.out.Roles, func(a, b state.Role) int { return cmp.Compare(a.Name, b.Name) })
}
