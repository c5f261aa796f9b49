package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pgweir/pgweir/config"
)

// planText says in words and sums what a configuration will do; more are warnings that the
// configuration itself does not know of.
func planText(c *config.Config, facts config.Facts, more []string) string {
	var p planner
	p.clients(c)
	for i := range c.Upstreams {
		p.upstream(c, i, facts)
	}
	p.text.WriteString("\n")
	p.matching(c)
	p.roles(c)
	p.rates(c)
	p.databases(c)
	for _, w := range slices.Concat(c.Warnings(), more) {
		p.line("warning", "%s", w)
	}
	return p.text.String()
}

// planner writes the plan, a word and what it means per line.
type planner struct{ text strings.Builder }

// line writes one line.
func (p *planner) line(word, format string, args ...any) {
	fmt.Fprintf(&p.text, "%-14s %s\n", word, fmt.Sprintf(format, args...))
}

// clients writes who may come in.
func (p *planner) clients(c *config.Config) {
	for _, l := range c.Listen {
		p.line("listen", "%s", l)
	}
	if c.ReusePort {
		p.line("", "other processes may listen on the same ports; each has the numbers below for itself")
	}
	p.line("http", "%s", orFor(c.HTTP, "metrics, health and the status page"))
	p.line("admin_http", "%s", orFor(c.AdminHTTP, "reload and profiles"))
	p.line("clients", "at most %d, of them %d before the end of their login, which may take %v",
		c.MaxClientConn, min(c.MaxLogins, c.MaxClientConn), c.ClientLoginTimeout)
	p.line("", "%d of them kept for the console and for probes", c.ReservedClients)
	if !c.ClientIdleTimeout.IsNone() {
		p.line("", "closed after %v of silence outside a transaction", c.ClientIdleTimeout)
	}
	p.line("TLS", "%s", tlsOf(c))
	p.line("login", "%s", loginOf(c.Auth))
	p.line("console", "%s", consoleOf(c.Console))
	p.line("SIGTERM", "%s", shutdown(c))
	if c.Compat == config.PgBouncerCompat {
		p.line("compat", "PgBouncer's: who waits in vain gets FATAL 08P01 query_wait_timeout and is closed")
	}
}

// orFor is an address and what is there, or "none".
func orFor(l config.Listen, what string) string {
	if !l.IsSet() {
		return "none"
	}
	return fmt.Sprintf("%s: %s", l, what)
}

// loginOf tells how clients prove who they are.
func loginOf(a config.Auth) string {
	text := string(a.Type)
	if a.File != "" {
		text += ", roles and passwords from " + a.File
	}
	if a.HBAFile != "" {
		text += ", rules from " + a.HBAFile
	}
	if a.IdentFile != "" {
		text += ", maps from " + a.IdentFile
	}
	if a.Query != "" {
		text += ", other roles by auth_query, answers kept for " + a.QueryAge.String()
	}
	if a.User != "" {
		text += ", only role " + a.User
	}
	return text
}

// consoleOf tells who may use it.
func consoleOf(c config.Console) string {
	var who []string
	if len(c.AdminUsers) > 0 {
		who = append(who, "every command for "+strings.Join(c.AdminUsers, ", "))
	}
	if len(c.StatsUsers) > 0 {
		who = append(who, "SHOW for "+strings.Join(c.StatsUsers, ", "))
	}
	if len(who) == 0 {
		return "for nobody: admin_users and stats_users are empty"
	}
	return "psql -d pgweir, " + strings.Join(who, "; ")
}

// shutdown tells what happens after SIGTERM.
func shutdown(c *config.Config) string {
	text := "let transactions finish"
	if c.DrainDelay > 0 {
		text = fmt.Sprintf("serve for %v more, then %s", c.DrainDelay, text)
	}
	if c.ShutdownTimeout.IsNone() {
		return text + ", however long that takes"
	}
	return fmt.Sprintf("%s; at an end after %v", text, c.ShutdownTimeout)
}

// upstream writes the budget of one upstream and what follows from it.
func (p *planner) upstream(c *config.Config, i int, facts config.Facts) {
	u := &c.Upstreams[i]
	b := c.Budget(i, facts)
	p.text.WriteString("\n")
	p.line("upstream", "%s: %s", u.Name, u.URL)
	if len(u.URL.Hosts) > 1 {
		p.line("  hosts", "%s", hosts(u.URL))
	}
	p.budget(u, b)
	for i := range c.Workloads {
		p.workload(c, i, b)
	}
	p.line("  logins", "%d at once, %d per second, each at most %v", min(u.ConnectParallel, b.Connections), b.ConnectRate, u.ServerConnectTimeout)
	p.line("  servers", "%s", retirement(u))
	for _, note := range b.Notes {
		p.line("  note", "%s", note)
	}
}

// hosts tells which of several will do.
func hosts(u config.URL) string {
	var list []string
	for _, h := range u.Hosts {
		list = append(list, h.Address)
	}
	text := strings.Join(list, ", then ")
	if u.TargetSessionAttrs == config.AnySession {
		return text + ": the first that answers"
	}
	return text + ": the first that is " + string(u.TargetSessionAttrs)
}

// budget writes connections, reserve and slots.
func (p *planner) budget(u *config.Upstream, b config.Budget) {
	if u.Budget.IsAuto() {
		p.line("  budget", "auto: 0.7 x (max_connections - superuser_reserved_connections - reserved_connections - others)")
		p.line("", "%s (assumed numbers; Postgres is asked at the start)", b.Sum)
	} else {
		p.line("  budget", "%s connections", b.Sum)
	}
	if u.Instances > 1 {
		p.line("  instances", "%d: all numbers here are for each of them", u.Instances)
	}
	p.line("  reserve", "%s", reserve(u, b))
	sum := fmt.Sprintf("%d - %d = %d", b.Connections, b.Reserve, b.Connections-b.Reserve)
	if u.Slots.IsAuto() {
		p.line("  slots", "budget - reserve = %s transactions at once", sum)
	} else {
		p.line("  slots", "%d transactions at once, as configured; at most budget - reserve = %s", b.Slots, sum)
	}
	p.line("  capacity", "%s", capacities(b.Slots))
}

// reserve tells what is kept back and for whom.
func reserve(u *config.Upstream, b config.Budget) string {
	switch {
	case b.Reserve == 0:
		return "none"
	case b.Users == 0 && b.Reserve > 1:
		return fmt.Sprintf("%d of them: 1 for pgweir's own queries, %d for nobody, because reserve_users is empty", b.Reserve, b.Reserve-1)
	case b.Users == 0:
		return "1 of them, for pgweir's own queries"
	default:
		return fmt.Sprintf("%d of them: 1 for pgweir's own queries, %d for %s", b.Reserve, b.Users, strings.Join(u.ReserveUsers, ", "))
	}
}

// retirement tells when server connections are closed.
func retirement(u *config.Upstream) string {
	var when []string
	if !u.ServerIdleTimeout.IsNone() {
		when = append(when, fmt.Sprintf("after %v without work", u.ServerIdleTimeout))
	}
	if !u.ServerLifetime.IsNone() {
		when = append(when, fmt.Sprintf("at the age of %v +-20 %%, when idle", u.ServerLifetime))
	}
	if len(when) == 0 {
		return "never closed for their age or for idleness"
	}
	return "closed " + strings.Join(when, ", or ")
}

// examples are durations of a transaction: a lookup, a page, a report.
func examples() []time.Duration {
	return []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}
}

// capacities is Little's law for the examples.
func capacities(slots int) string {
	var list []string
	for _, each := range examples() {
		list = append(list, fmt.Sprintf("%.0f/s of %v", config.Capacity(slots, each), each))
	}
	return fmt.Sprintf("%d slots / duration = %s", slots, strings.Join(list, ", "))
}
