package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/config"
)

// guard writes who of a workload is next, how much its work matters and until when.
func (p *planner) guard(w config.Workload) {
	p.line("", "queue %s: %s", w.Queue, order(w))
	text := fmt.Sprintf("work that does not say is %s", w.Class)
	switch {
	case w.LearnDeadline:
		text += "; clients are taken to wait for an answer as long as they are seen to"
	case w.Deadline > 0:
		text += fmt.Sprintf("; clients are taken to wait %v for an answer: what cannot be done by then is refused with 57014, what runs outside a transaction is cancelled", w.Deadline)
	}
	p.line("", "%s", text)
}

// order tells who is next in a queue, and who is refused early.
func order(w config.Workload) string {
	switch w.Queue {
	case admission.FIFO:
		return "who has waited longest is next, even if it has left meanwhile"
	case admission.FIFOGone:
		return "who has waited longest and is still there is next"
	case admission.FIFODeadline:
		return "who has waited longest is next, unless it comes too late for it"
	case admission.Bounded:
		return "who has waited longest is next, in a queue that max_waiting keeps short"
	case admission.LIFO:
		return "who came last is next"
	case admission.LIFODeadline:
		return "who came last is next, unless it comes too late for it"
	case admission.CoDel:
		return "who has waited longest is next; while the queue does not drain, who came last, and who waited 60ms is refused"
	case admission.Priority:
		return "who has waited longest is next; work below critical is refused behind as many waiting as there are slots"
	}
	const first = "by class, then in equal parts between roles and their tenants"
	switch w.Mode {
	case admission.DryRun:
		return first + "; who should be refused early is only counted"
	case admission.Off:
		return first + "; nobody is refused early"
	default:
		return first + "; who would wait too long is told at once"
	}
}

// slotWaits is max_wait, of several classes with their names.
func slotWaits(w config.Workload) string {
	different := func(d config.Duration) bool { return d != w.ClassWait[0] }
	if !slices.ContainsFunc(w.ClassWait[:], different) {
		return w.MaxWait.String()
	}
	var list, names []string
	for i, wait := range w.ClassWait {
		names = append(names, admission.ClassAt(i).String())
		if i+1 < len(w.ClassWait) && w.ClassWait[i+1] == wait {
			continue
		}
		list = append(list, fmt.Sprintf("%v (%s)", wait, strings.Join(names, ", ")))
		names = nil
	}
	return strings.Join(list, ", ")
}

// roles writes what roles may ask for.
func (p *planner) roles(c *config.Config) {
	word := "role"
	line := func(name string, r config.Role) {
		p.line(word, "%s: %s at most, and no more than %v of its work above the class of its workload", name, r.MaxClass, r.PromoteShare)
		word = ""
		if limits := roleLimits(r); limits != "" {
			p.line("", "%s", limits)
		}
	}
	for _, r := range c.Roles {
		if r.Name != "*" {
			line(r.Name, r)
		}
	}
	line("every other", c.RoleOf("*"))
}

// roleLimits tells how long the work of a role may take, and what it may have.
func roleLimits(r config.Role) string {
	var list []string
	for _, t := range []struct {
		name string
		d    config.Duration
	}{
		{"statement_timeout", r.StatementTimeout},
		{"transaction_timeout", r.TransactionTimeout},
		{"idle_in_transaction_session_timeout", r.IdleTransactionTimeout},
		{"lock_timeout", r.LockTimeout},
	} {
		if t.d > 0 {
			list = append(list, fmt.Sprintf("%s %v", t.name, t.d))
		}
	}
	if len(list) > 0 {
		how := "unless its sessions set them otherwise"
		if r.Ceiling {
			how = "whatever its sessions set"
		}
		list[len(list)-1] += ", " + how
	}
	if r.MaxClients > 0 {
		list = append(list, fmt.Sprintf("%d clients", r.MaxClients))
	}
	if r.MaxServerConnections > 0 {
		list = append(list, fmt.Sprintf("%d server connections", r.MaxServerConnections))
	}
	return strings.Join(list, "; ")
}

// rates writes what each rate means.
func (p *planner) rates(c *config.Config) {
	word := "rate"
	for i := range c.Rates {
		r := &c.Rates[i]
		name := r.Name + ", "
		if r.Name == strconv.Itoa(i+1) {
			name = ""
		}
		p.line(word, "%d. %sfor each %s%s: %s", i+1, name, r.Per, whose(r), amount(r))
		p.line("", "%s", excess(r))
		word = ""
	}
	if n := instances(c); n > 1 && len(c.Rates) > 0 {
		p.line("", "each of %d instances counts for itself: together they let through up to %d times as much", n, n)
	}
}

// whose tells which work a rate is for.
func whose(r *config.Rate) string {
	text := matches(r.Match)
	switch {
	case r.Match.Everybody() && len(r.Tenant) == 0:
		return ""
	case r.Match.Everybody():
		return " (" + strings.Join(r.Tenant, " or ") + ")"
	case len(r.Tenant) == 0:
		return " of " + text
	default:
		return " (" + strings.Join(r.Tenant, " or ") + ") of " + text
	}
}

// amount tells what a rate lets through.
func amount(r *config.Rate) string {
	if r.ServerTime {
		text := fmt.Sprintf("%s = %.3g slots' time", r.Rate, r.PerSecond)
		var list []string
		for _, each := range examples() {
			list = append(list, fmt.Sprintf("%.4g/s of %v", r.PerSecond/each.Seconds(), each))
		}
		return text + " = " + strings.Join(list, ", ") + "; after a silence " + r.BurstText() + " of it at once"
	}
	return fmt.Sprintf("%s = %.4g statements per second, one each %v; after a silence %s at once",
		r.Rate, r.PerSecond, round(time.Duration(float64(time.Second)/r.PerSecond)), r.BurstText())
}

// round leaves three digits of a duration, or whole seconds.
func round(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for unit*1000 < d && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit)
}

// excess tells what becomes of who wants more.
func excess(r *config.Rate) string {
	switch {
	case r.Mode == admission.Off:
		return "it is off: nothing is counted"
	case r.Mode == admission.DryRun:
		return "it is a dry run: what is more is only counted"
	}
	text := "what is more is refused with 53400 and the time to wait"
	switch r.Escalation {
	case config.Delay:
		text += "; who asks again before that gets its refusal later and later, up to 5s"
	case config.Block:
		text += "; who asks again before that gets its refusal later and later, and is then blocked for 10s to 5m"
	}
	return text
}

// instances is the largest number of processes that share an upstream.
func instances(c *config.Config) int {
	n := 1
	for i := range c.Upstreams {
		n = max(n, c.Upstreams[i].Instances)
	}
	return n
}
