package proxy

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
)

// view makes a snapshot. Loop thread.
type view struct {
	px  *Proxy
	s   *Settings
	now int64
	at  time.Time
	out *Snapshot

	databases map[string]*DatabaseState
	roles     map[string]*RoleState
}

// Snapshot implements Inspector.
func (px *Proxy) Snapshot(ctx context.Context) (*Snapshot, error) {
	v := view{px: px, s: px.settings.Load(), out: &Snapshot{}, databases: make(map[string]*DatabaseState), roles: make(map[string]*RoleState)}
	err := px.do(ctx, func(now int64) {
		v.now, v.at = now, time.Now()
		v.fill()
	})
	if err != nil {
		return nil, err
	}
	v.sort()
	return v.out, nil
}

// Health implements Pulse.
func (px *Proxy) Health(ctx context.Context) (h Health, err error) {
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
	return up.disowned && up.core.Clients() == 0 && st.Idle+st.Busy+st.Dialling+st.Closing == 0
}

func (v *view) fill() {
	px, out := v.px, v.out
	out.Now, out.Started = v.at, px.started
	out.Draining = px.draining.Load()
	out.Clients, out.LoggingIn = int(px.clients.Load()), len(px.logins)
	out.MaxClients, out.MaxLogins = v.s.MaxClients, cap(px.logins)
	for i := range v.s.Databases {
		if d := &v.s.Databases[i]; d.Name != "*" {
			v.database(d.Name)
		}
	}
	for _, up := range px.upstreams {
		if !up.forgotten() {
			v.upstream(up)
		}
	}
	for r, n := range px.endings {
		if n > 0 {
			out.Ended = append(out.Ended, Count{session.Reason(r).String(), n})
		}
	}
	px.turned.mu.Lock()
	for _, r := range slices.Sorted(maps.Keys(px.turned.reasons)) {
		out.Turned = append(out.Turned, Count{r, px.turned.reasons[r]})
	}
	px.turned.mu.Unlock()
	v.refusals()
	out.Loop = px.loop.Stats()
	v.memory()
}

// addTraffic adds a group's traffic.
func addTraffic(t *Traffic, g *session.Group) {
	t.Transactions += g.Traffic.Transactions
	t.Queries += g.Counts.Queries
	t.Assignments += g.Traffic.Assignments
	t.Received += g.Traffic.Received
	t.Sent += g.Traffic.Sent
	t.ToServers += g.Traffic.ToServers
	t.FromServers += g.Traffic.FromServers
	t.ClientParses += g.Counts.ClientParses
	t.ServerParses += g.Counts.ServerParses
	t.Binds += g.Counts.Binds
	t.Logins += g.Traffic.Logins
	t.Refused += g.Traffic.Refused
	t.TransactionTime += g.Traffic.TransactionTime
	t.QueryTime += g.Traffic.QueryTime
	t.WaitTime += g.Traffic.WaitTime
}

// database returns the row of a name that clients use.
func (v *view) database(name string) *DatabaseState {
	d := v.databases[name]
	if d != nil {
		return d
	}
	d = &DatabaseState{Name: name, Disabled: v.px.disabled.has(name)}
	v.databases[name] = d
	entry, dbname := v.s.route(name)
	if entry == nil {
		return d // it has been taken out of the configuration
	}
	d.Upstream, d.DBName, d.ForceUser = entry.Upstream, dbname, entry.User
	up := v.px.upstreams[entry.Upstream]
	u := up.o.Load()
	d.Budget, d.Reserve, d.ServerLifetime = u.Budget, u.Reserve, u.Lifetime
	if len(u.Hosts.Hosts) > 0 {
		d.Host, d.Port = hostPort(u.Hosts.Hosts[0].Network, u.Hosts.Hosts[0].Address)
	}
	return d
}

// databaseOf returns the row of a group's database: nil if it has been taken out of the
// configuration and its clients have left.
func (v *view) databaseOf(g *session.Group) *DatabaseState {
	if g.Clients == 0 && v.databases[g.Database] == nil {
		if entry, _ := v.s.route(g.Database); entry == nil {
			return nil
		}
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

func (v *view) role(name string) *RoleState {
	r := v.roles[name]
	if r == nil {
		r = &RoleState{Name: name}
		v.roles[name] = r
	}
	return r
}

// upstream adds an upstream with its workloads and pools.
func (v *view) upstream(up *cluster) {
	u, co := up.o.Load(), up.core
	set, gate := co.Set().Stats(), co.Gate().Stats()
	s := UpstreamState{
		Name: up.name, Host: up.place.Address, Budget: u.Budget, BudgetSum: u.BudgetSum, Reserve: u.Reserve,
		Slots: u.Slots, Running: gate.Running, Waiting: gate.Waiting, Paused: co.AnyPaused(), Down: up.down(),
		Dialling: set.Dialling, Idle: set.Idle, Active: set.Busy, Closing: set.Closing, Cancelling: set.Held,
		Logins: set.Dials, LoginFailures: set.Failures, Moved: set.Moved, IdledOut: set.TimedOut, Outlived: set.Outlived,
	}
	for _, h := range u.Hosts.Hosts {
		s.Hosts = append(s.Hosts, h.Address)
	}
	if gate.Waiting > 0 {
		s.MaxWait = time.Duration(v.now - gate.Oldest)
	}
	c := co.Counts()
	s.Cancels, s.Abandoned, s.Broken, s.Cleaned = c.Cancels, c.Abandoned, c.Broken, c.Cleaned
	last := int64(0)
	for _, k := range co.Keys() {
		if e, at := k.Failure(); e != nil && at >= last {
			last = at
			s.LastError, s.LastErrorAt = e.Message, v.px.wallClock(at, v.now, v.at)
		}
	}
	v.pools(up)
	v.workloads(up, gate, &s)
	v.out.Upstreams = append(v.out.Upstreams, s)
}

// pools adds a row for every key, and what its groups add to databases and roles.
func (v *view) pools(up *cluster) {
	co := up.core
	rows := make([]PoolState, len(co.Keys()))
	clients := make([]int, len(rows))
	for i, k := range co.Keys() {
		rows[i] = PoolState{Upstream: up.name, Database: k.Database, Role: k.Role, Paused: co.Paused(k), Mode: "transaction"}
		if e, _ := k.Failure(); e != nil {
			rows[i].LastError = e.Message
		}
	}
	for _, st := range co.Set().Keys(nil) {
		r := &rows[st.Key]
		r.ServersActive, r.ServersIdle, r.ServersLogin, r.ServersClosing = st.Busy, st.Idle, st.Dialling, st.Closing
		r.Minimum = st.Minimum
		r.Down = co.Set().Down(st.Key)
	}
	for _, p := range co.Set().Servers(nil) {
		if p.Held() {
			rows[p.Key].ServersCancelled++
		}
	}
	if co.Gate().Waiting() > 0 {
		v.px.sessions.each(co, func(cl *session.Client) {
			if cl.State() == session.Waiting {
				r := &rows[cl.Info().Key]
				r.ClientsWaiting++
				r.Oldest = max(r.Oldest, time.Duration(v.now-cl.Requested()))
			}
		})
	}
	for _, g := range byUse(co.Groups()) {
		r := &rows[g.Key.Key]
		clients[g.Key.Key] += g.Clients
		r.Mode = g.Workload.Mode.String()
		addTraffic(&r.Traffic, g)
		addTraffic(&v.out.Traffic, g)
		ro := v.role(g.Role)
		if d := v.databaseOf(g); d != nil {
			d.Clients += g.Clients
			d.MinPoolSize = max(d.MinPoolSize, g.Workload.Minimum)
			d.Mode, d.Paused = r.Mode, r.Paused
			addTraffic(&d.Traffic, g)
		}
		ro.Clients += g.Clients
		ro.Mode = r.Mode
		addTraffic(&ro.Traffic, g)
	}
	for i := range rows {
		r := &rows[i]
		r.ClientsActive = max(clients[i]-r.ClientsWaiting, 0)
		n := r.ServersActive + r.ServersIdle + r.ServersLogin + r.ServersClosing
		v.role(r.Role).Servers += n
		for _, d := range v.databases {
			if d.Upstream == r.Upstream && d.DBName == r.Database && (d.ForceUser == "" || d.ForceUser == r.Role) {
				d.Servers += n
			}
		}
	}
	v.out.Pools = append(v.out.Pools, rows...)
}

// byUse sorts groups so that those with the most clients, or the most work, come last: the
// mode of a pool, database or role is theirs.
func byUse(list []*session.Group) []*session.Group {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *session.Group) int {
		return cmp.Or(cmp.Compare(a.Clients, b.Clients), cmp.Compare(a.Traffic.Transactions, b.Traffic.Transactions))
	})
	return list
}

// workloads adds a row for every workload that the configuration has.
func (v *view) workloads(up *cluster, gate admission.Stats, s *UpstreamState) {
	rows := make(map[string]*WorkloadState)
	for i := range v.s.Workloads {
		w := &v.s.Workloads[i]
		st := gate.Workloads[up.index[w.Name]]
		r := &WorkloadState{
			Name: w.Name, Upstream: up.name, Mode: w.Mode.String(), Share: w.Share, Part: w.Share * float64(up.o.Load().Slots),
			Running: st.Running, Held: st.Sessions, Lent: float64(st.Lent), Borrowed: float64(st.Borrowed), Waiting: st.Waiting,
			MaxWaiting: st.MaxWaiting, MaxWait: w.MaxWait, DrainRate: st.DrainRate, Granted: st.Granted[admission.Transaction] + st.Granted[admission.Slot],
			Withdrawn: st.Withdrawn, Refused: st.Refused, GrantWaits: st.GrantWaits, RefusalWaits: st.RefusalWaits,
		}
		if st.Waiting > 0 {
			r.Oldest = time.Duration(v.now - st.Oldest)
		}
		s.Held += st.Sessions
		rows[w.Name] = r
	}
	for _, g := range up.core.Groups() {
		if r := rows[g.Workload.Name]; r != nil {
			r.Clients += g.Clients
			addTraffic(&r.Traffic, g)
		}
	}
	for i := range v.s.Workloads {
		v.out.Workloads = append(v.out.Workloads, *rows[v.s.Workloads[i].Name])
	}
}

// mostRefusals bounds the kinds of refusals in a snapshot.
const mostRefusals = 100

func (v *view) refusals() {
	r := &v.px.refusals
	var list []RefusalState
	for k, c := range r.kinds {
		list = append(list, RefusalState{
			Reason: k.reason, Workload: k.workload, Database: k.database, Role: k.role, Application: k.app,
			N: c.n, Last: v.px.wallClock(c.last, v.now, v.at),
		})
	}
	slices.SortFunc(list, func(a, b RefusalState) int { return cmp.Compare(b.N, a.N) })
	other := RefusalState{N: r.other.n, Last: v.px.wallClock(r.other.last, v.now, v.at)}
	for _, k := range list[min(len(list), mostRefusals):] {
		other.N += k.N
		if k.Last.After(other.Last) {
			other.Last = k.Last
		}
	}
	v.out.Refusals = list[:min(len(list), mostRefusals)]
	if other.N > 0 {
		v.out.Refusals = append(v.out.Refusals, other)
	}
}

func (v *view) memory() {
	t := v.px.shared.Statements
	sessions := len(v.px.sessions.slots)
	v.out.Memory = append(v.out.Memory,
		MemoryState{Name: "statements", Used: t.Len(), Bytes: t.Bytes()},
		MemoryState{Name: "sessions", Size: 8, Used: sessions - len(v.px.sessions.free), Free: len(v.px.sessions.free), Bytes: 8 * sessions},
	)
}

// sort puts the rows in order and moves the databases and roles over.
func (v *view) sort() {
	for _, d := range v.databases {
		v.out.Databases = append(v.out.Databases, *d)
	}
	for _, r := range v.roles {
		v.out.Roles = append(v.out.Roles, *r)
	}
	slices.SortFunc(v.out.Databases, func(a, b DatabaseState) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(v.out.Roles, func(a, b RoleState) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(v.out.Upstreams, func(a, b UpstreamState) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(v.out.Workloads, func(a, b WorkloadState) int { return cmp.Compare(a.Upstream, b.Upstream) })
	slices.SortFunc(v.out.Pools, func(a, b PoolState) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Database, b.Database), cmp.Compare(a.Role, b.Role))
	})
}
