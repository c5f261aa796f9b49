package config

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pgweir/pgweir/config/endpoint"
	"github.com/pgweir/pgweir/config/schema"
)

// Warnings are things that work and that somebody will regret. The order is fixed.
func (c *Config) Warnings() []string { return c.warnings }

// warn notes a warning.
func (c *Config) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// findWarnings collects what is right and perhaps not wanted.
func (c *Config) findWarnings() {
	c.warnOfListeners()
	for i := range c.Upstreams {
		c.warnOfUpstream(&c.Upstreams[i])
		c.warnOfStrangers(&c.Upstreams[i])
	}
	for i := range c.Workloads {
		w := &c.Workloads[i]
		c.warnOfWorkload(w)
		c.warnOfQueue(w)
		c.warnOfDeadline(w)
		c.warnOfClass(w)
	}
	for i := range c.Roles {
		c.warnOfRole(&c.Roles[i])
	}
	for i := range c.Rates {
		c.warnOfRate(&c.Rates[i])
	}
	if c.Compat == PgBouncerCompat {
		c.warn(`compat = "pgbouncer": each refusal of the queue ends a session, and its client comes back with a login`)
	}
}

// warnOfListeners looks at who can reach what.
func (c *Config) warnOfListeners() {
	open := c.openToOthers()
	if c.Auth.Type == Trust && open != "" {
		c.warn(`auth_type = "trust" lets in whoever reaches %s as any role`, open)
	}
	if c.Auth.Type == schema.Password && open != "" && (!c.TLS.Enabled() || c.TLS.SSLMode == endpoint.Prefer) {
		c.warn(`auth_type = "password" sends passwords in clear to %s; "scram-sha-256" does not`, open)
	}
	switch {
	case !c.HTTP.IsSet():
		c.warn(`http = "none": nobody sees metrics, health or the status page`)
	case open != "" && c.HTTP.IsLoopback():
		c.warn("clients come to %s from other machines, and metrics and /readyz can only be read on this one, at %s", open, c.HTTP)
	}
}

// openToOthers is the first TCP listener that other machines can reach, or "".
func (c *Config) openToOthers() string {
	for _, l := range c.Listen {
		if !l.IsLoopback() {
			return l.Address
		}
	}
	return ""
}

// warnOfUpstream looks at what an upstream is for.
func (c *Config) warnOfUpstream(u *Upstream) {
	if !slices.ContainsFunc(c.Databases, func(d Database) bool { return d.Upstream == u.Name }) {
		c.warn("no database uses upstream %q", u.Name)
	}
	if c.ReusePort && u.Budget.IsAuto() {
		c.warn(`upstream %q: budget = "auto" with so_reuseport: a process that starts beside another one takes its connections for somebody else's, and stays small; write a number`, u.Name)
	}
	if c.Auth.Query != "" && !u.Budget.IsAuto() {
		if reserve, _ := u.ReserveOf(u.Each(int(u.Budget))); reserve == 0 {
			c.warn("upstream %q: auth_query has no connection, because a budget of %d leaves no reserve: write reserve = 1", u.Name, u.Budget)
		}
	}
	if len(u.ReserveUsers) > 0 && u.Reserve < 2 {
		c.warn("upstream %q: reserve_users have no connection of their own, because a reserve of %d leaves nothing behind pgweir's own", u.Name, u.Reserve)
	}
	if !u.Slots.IsAuto() && u.Slots > manySlots {
		c.warn("upstream %q: %d transactions at once are more than most databases do well; try 2 x its cores", u.Name, u.Slots)
	}
	for _, w := range c.Workloads {
		if w.MinPoolSize > 0 && !u.Budget.IsAuto() && w.MinPoolSize > int(u.Budget)-u.Reserve {
			c.warn("workload %q: min_pool_size = %d is more than upstream %q has for clients", w.Name, w.MinPoolSize, u.Name)
		}
	}
}

// manySlots is where more slots begin to look like a mistake.
const manySlots = 200

// longWait is how long a client may wait that does not call itself patient, before
// somebody asks whether it still wants the answer.
const longWait = Duration(10 * time.Second)

// warnOfWorkload looks at what is left for the clients of a workload.
func (c *Config) warnOfWorkload(w *Workload) {
	name := strconv.Quote(w.Name)
	if w.Part == 0 && !w.BuiltIn {
		c.warn("workload %s has no part of its own, only what others lend", name)
	}
	if w.Part == 0 && w.BuiltIn && w.Name == schema.DefaultWorkload {
		c.warn("the shares leave nothing for the clients that no workload matches; they get only what others lend")
	}
	if w.MaxWait > longWait && !w.Patient {
		c.warn("workload %s: clients wait for a slot up to %v, while few people or programs wait longer than %v; if these do, write patient = true", name, w.MaxWait, longWait)
	}
}
