package main

import (
	"log/slog"
	"math"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/wire/relay"
)

// unknownRoom is what is assumed of a Postgres that has not said yet how many connections
// it has: less than it has, most likely.
func unknownRoom() config.Facts {
	return config.Facts{MaxConnections: 20, SuperuserReserved: 3, RoleLimit: -1}
}

// settings turns a configuration into a proxy's plain values. facts is what the upstreams
// have said of themselves, by name.
func settings(c *config.Config, facts map[string]config.Facts) (*plan.Settings, error) {
	s := &plan.Settings{
		MaxClients: c.MaxClientConn, ReservedClients: c.ReservedClients,
		LoginTimeout: c.ClientLoginTimeout.Std(), ClientIdleTimeout: orZero(c.ClientIdleTimeout),
		DrainDelay: c.DrainDelay.Std(), ShutdownTimeout: drainTime(c), MaxPrepared: c.MaxPreparedStatements,
		AdminUsers: c.Console.AdminUsers, StatsUsers: c.Console.StatsUsers,
		WorkloadOf: c.WorkloadOf, RoleOf: roleSettings(c), AsPgBouncer: c.Compat == config.PgBouncerCompat,
	}
	if c.Auth.User != "" && len(s.AdminUsers) == 0 { // the only one there is
		s.AdminUsers = []string{c.Auth.User}
	}
	var err error
	if s.Auth, err = authSettings(c.Auth); err != nil {
		return nil, err
	}
	if s.TLS, err = frontTLS(&c.TLS); err != nil {
		return nil, err
	}
	for i := range c.Upstreams {
		s.Upstreams = append(s.Upstreams, upstreamSettings(c, i, facts))
	}
	for i := range c.Databases {
		s.Databases = append(s.Databases, databaseSettings(&c.Databases[i]))
	}
	for i := range c.Workloads {
		s.Workloads = append(s.Workloads, workloadSettings(&c.Workloads[i]))
	}
	for i := range c.Rates {
		s.Rates = append(s.Rates, rateSettings(&c.Rates[i]))
		s.RatesOf, s.RateHasTenant = c.RatesOf, c.RateHasTenant
	}
	return s, nil
}

// roleSettings tells what a role may ask for.
func roleSettings(c *config.Config) func(string) plan.Role {
	return func(name string) plan.Role {
		r := c.RoleOf(name)
		return plan.Role{
			MaxClass: r.MaxClass, PromoteShare: r.PromoteShare.Fraction(), Ceiling: r.Ceiling,
			MaxClients: r.MaxClients, MaxServers: r.MaxServerConnections,
			Timeouts: [session.Timeouts]time.Duration{
				session.StatementTimeout: orZero(r.StatementTimeout), session.TransactionTimeout: orZero(r.TransactionTimeout),
				session.IdleTimeoutInTx: orZero(r.IdleTransactionTimeout), session.LockTimeout: orZero(r.LockTimeout),
			},
		}
	}
}

func rateSettings(r *config.Rate) plan.Rate {
	return plan.Rate{
		Name: r.Name, Per: string(r.Per), Text: r.Rate, PerSecond: r.PerSecond, ServerTime: r.ServerTime, Burst: r.Burst,
		Delay: r.Escalation != config.NoEscalation, Block: r.Escalation == config.Block, Mode: r.Mode,
	}
}

// budgetOf is the budget of an upstream as far as it is known.
func budgetOf(c *config.Config, i int, facts map[string]config.Facts) config.Budget {
	u := &c.Upstreams[i]
	f, known := facts[u.Name]
	switch {
	case known:
	case u.Budget.IsAuto():
		f = unknownRoom()
	default:
		f = config.Facts{MaxConnections: math.MaxInt32, RoleLimit: -1}
	}
	b := c.Budget(i, f)
	if !known && u.Budget.IsAuto() {
		b.Sum += ", until Postgres says what max_connections is"
	}
	return b
}

func upstreamSettings(c *config.Config, i int, facts map[string]config.Facts) plan.Upstream {
	u := &c.Upstreams[i]
	b := budgetOf(c, i, facts)
	return plan.Upstream{
		Name: u.Name, Hosts: hostOptions(u),
		Budget: b.Connections, BudgetSum: b.Sum, Reserve: b.Reserve, ReserveUsers: u.ReserveUsers, Slots: b.Slots,
		ConnectParallel: u.ConnectParallel, ConnectRate: float64(b.ConnectRate),
		Lifetime: orZero(u.ServerLifetime), IdleTimeout: orZero(u.ServerIdleTimeout), DNSMaxTTL: orZero(u.DNSMaxTTL),
		Role: u.URL.User, Password: u.URL.Password.Reveal(), Database: u.URL.Database,
	}
}

// hostOptions says how to reach an upstream.
func hostOptions(u *config.Upstream) upstream.Options {
	o := upstream.Options{
		Name: u.Name, ConnectTimeout: orForever(u.ServerConnectTimeout), UserTimeout: orZero(u.TCPUserTimeout),
		KeepaliveIdle:     time.Duration(u.URL.KeepalivesIdle) * time.Second,
		KeepaliveInterval: time.Duration(u.URL.KeepalivesInterval) * time.Second,
		KeepaliveCount:    u.URL.KeepalivesCount,
	}
	for _, h := range u.URL.Hosts {
		o.Hosts = append(o.Hosts, upstream.Host{Network: h.Network, Address: h.Address})
	}
	o.Attrs, _ = upstream.ParseAttrs(string(u.URL.TargetSessionAttrs)) // config knows the same words
	o.Encryption = encryption(&u.URL.Encryption)
	return o
}

func databaseSettings(d *config.Database) plan.Database {
	out := plan.Database{Name: d.Name, Upstream: d.Upstream, DBName: d.DBName, User: d.User, MaxClients: d.MaxClients, MaxServers: d.MaxServerConnections}
	switch {
	case d.PasswordFile != "":
		out.Passwords = upstream.File(d.PasswordFile)
	case d.PasswordCommand != "":
		out.Passwords = upstream.Command(d.PasswordCommand)
	}
	return out
}

func workloadSettings(w *config.Workload) plan.Workload {
	out := plan.Workload{
		Name: w.Name, Share: w.Part.Fraction(), Lendable: w.Lendable.Fraction(), Borrow: w.Borrow.Fraction(),
		MaxWait: w.MaxWait.Std(), NoServerWait: w.NoServerWait.Std(), SessionWait: w.SessionWait.Std(),
		MaxPinned: w.MaxPinned.Fraction(),
		Uncapped:  w.Name == config.ToolsWorkload,
		Patient:   w.Patient, CancelAbandoned: w.OnDisconnect == config.Cancel, MinPoolSize: w.MinPoolSize,
		Queue: w.Queue, Guard: w.Mode, Class: w.Class, Deadline: w.Deadline.Std(), Learn: w.LearnDeadline,
	}
	for class, wait := range w.ClassWait {
		out.ClassWait[class] = wait.Std()
	}
	if !w.MaxWaiting.IsAuto() {
		out.MaxWaiting = int(w.MaxWaiting)
	}
	switch w.PoolMode {
	case config.Session:
		out.Mode = relay.Session
	case config.Statement:
		out.Mode = relay.Single
	}
	return out
}

// drainTime is what is left of shutdown_timeout after drain_delay.
func drainTime(c *config.Config) time.Duration {
	if c.ShutdownTimeout.IsNone() {
		return math.MaxInt64
	}
	return c.ShutdownTimeout.Std() - c.DrainDelay.Std()
}

// orForever turns "none" into a time that does not come.
func orForever(d config.Duration) time.Duration {
	if d.IsNone() {
		return 24 * 365 * time.Hour
	}
	return d.Std()
}

// orZero turns "none" into 0.
func orZero(d config.Duration) time.Duration {
	if d.IsNone() {
		return 0
	}
	return d.Std()
}

// logBudgets says what the upstreams may use, and why.
func logBudgets(log *slog.Logger, c *config.Config, facts map[string]config.Facts) {
	for i := range c.Upstreams {
		b := budgetOf(c, i, facts)
		name := c.Upstreams[i].Name
		log.Info("budget", "upstream", name, "server_connections", b.Connections, "slots", b.Slots, "reserve", b.Reserve, "sum", b.Sum)
		for _, n := range b.Notes {
			log.Warn(n, "upstream", name)
		}
	}
}
