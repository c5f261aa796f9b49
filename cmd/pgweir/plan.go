package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/pgweir/pgweir/config"
)

// plan says in words and sums what a configuration will do.
func plan(c *config.Config, facts config.Facts) string {
	var p planner
	p.clients(c)
	for i := range c.Upstreams {
		p.upstream(c, i, facts)
	}
	p.databases(c)
	for _, w := range c.Warnings() {
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
	p.line("clients", "at most %d, of them %d before the end of their login, which may take %v",
		c.MaxClientConn, min(c.MaxLogins, c.MaxClientConn), c.ClientLoginTimeout)
	auth := string(c.Auth.Type)
	if c.Auth.File != "" {
		auth += ", roles and passwords from " + c.Auth.File
	}
	if c.Auth.User != "" {
		auth += ", only role " + c.Auth.User
	}
	p.line("login", "%s", auth)
	p.line("SIGTERM", "%s", shutdown(c))
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
	if u.Budget.IsAuto() {
		p.line("  budget", "auto: 0.7 x (max_connections - superuser_reserved_connections - reserved_connections - others)")
		p.line("", "%s (assumed numbers; Postgres is asked at the start)", b.Sum)
	} else {
		p.line("  budget", "%d connections, as configured", b.Connections)
	}
	p.line("  reserve", "%d of them", b.Reserve)
	sum := fmt.Sprintf("%d - %d = %d", b.Connections, b.Reserve, b.Connections-b.Reserve)
	if u.Slots.IsAuto() {
		p.line("  slots", "budget - reserve = %s transactions at once", sum)
	} else {
		p.line("  slots", "%d transactions at once, as configured; at most budget - reserve = %s", b.Slots, sum)
	}
	p.line("  capacity", "%s", capacities(b.Slots))
	p.queue(c.Workloads[len(c.Workloads)-1], b)
	p.line("  logins", "%d at once, %d per second, each at most %v", min(u.ConnectParallel, b.Connections), b.ConnectRate, u.ServerConnectTimeout)
	p.line("  servers", "%s", retirement(u))
	for _, note := range b.Notes {
		p.line("  note", "%s", note)
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

// queue writes how long the queue is allowed to get.
func (p *planner) queue(w config.Workload, b config.Budget) {
	p.line("  queue", "a client waits for a slot %v at most, %v when Postgres is away, then it is refused", w.MaxWait, w.NoServerWait)
	if !w.MaxWaiting.IsAuto() {
		p.line("", "%d waiting at most, as configured", w.MaxWaiting)
		return
	}
	p.line("", "waiting at most: %v x transactions per second, no more than 1000, no less than 4 x %d slots", w.MaxWait, b.Slots)
	var list []string
	for _, each := range examples() {
		rate := config.Capacity(b.Slots, each)
		list = append(list, fmt.Sprintf("%d at %.0f/s", w.WaitingBound(b.Slots, rate), rate))
	}
	p.line("", "that is %s", strings.Join(list, ", "))
}

// databases writes which name goes where.
func (p *planner) databases(c *config.Config) {
	p.text.WriteString("\n")
	for _, d := range c.Databases {
		name, target := d.Name, d.DBName
		if name == "*" {
			name = "any other"
		}
		if target == "" {
			target = "the same name"
		}
		p.line("database", "%s -> %s on %s", name, target, d.Upstream)
	}
}
