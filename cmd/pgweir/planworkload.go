package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/pgweir/pgweir/config"
)

// workload writes what one workload has of an upstream, and how long its clients wait.
func (p *planner) workload(c *config.Config, i int, b config.Budget) {
	w := c.Workloads[i]
	ordinary := b.Connections - b.Reserve
	slots, connections := c.Parts(b.Slots), c.Parts(ordinary)
	p.line("  workload", "%s, %s mode", title(w), w.PoolMode)
	p.line("", "its own: %s slots = %s%s", share(w, b.Slots), whole(w, b.Slots, slots[i]), ofConnections(w, ordinary, connections[i]))
	p.line("", "%s", loans(c, i, b.Slots))
	p.guard(w)
	p.line("", "%s", waits(w))
	p.queue(w, max(1, slots[i]), b.Slots)
	if w.MinPoolSize > 0 {
		p.line("", "keeps %d servers open for each database and role that it has used", w.MinPoolSize)
	}
	if w.PoolMode != config.Session {
		p.line("", "%s", pinned(w, ordinary))
	}
	if w.PoolMode == config.Session && w.Part.Fraction()*float64(ordinary) < 1 {
		p.line("  warning", "workload %s has less than one of %d connections of its own: a session needs one that others lend", w.Name, ordinary)
	}
}

// title is the name of a workload, and whether the file has it.
func title(w config.Workload) string {
	if w.BuiltIn {
		return w.Name + " (built in)"
	}
	return w.Name
}

// share is the part of a workload as a product.
func share(w config.Workload, n int) string {
	if w.Share.IsAuto() {
		return fmt.Sprintf("auto: %v of %d", w.Part, n)
	}
	if w.Part != w.Share {
		return fmt.Sprintf("%v (of %v, the others leave no more) of %d", w.Part, w.Share, n)
	}
	return fmt.Sprintf("%v of %d", w.Part, n)
}

// whole is the part as it is, and rounded so that all parts add up.
func whole(w config.Workload, n, rounded int) string {
	exact := w.Part.Fraction() * float64(n)
	if exact == float64(rounded) {
		return fmt.Sprint(rounded)
	}
	return fmt.Sprintf("%.2f, about %d", exact, rounded)
}

// ofConnections is the part of the connections, which is what bounds sessions.
func ofConnections(w config.Workload, n, rounded int) string {
	if w.PoolMode != config.Session {
		return ""
	}
	return fmt.Sprintf("; of %d connections = %s sessions", n, whole(w, n, rounded))
}

// pinned tells how many servers its clients may keep between transactions.
func pinned(w config.Workload, n int) string {
	const exact = 1e-6 // 0.1 x 30 is 3
	most := min(max(int(w.MaxPinned.Fraction()*w.Part.Fraction()*float64(n)+exact), 1), max(n-1, 0))
	if most == 0 || w.MaxPinned == 0 {
		return "no client may keep a server between transactions: LISTEN, temporary tables and the like are refused"
	}
	return fmt.Sprintf("clients that LISTEN, or leave temporary tables or the like, keep their server: at most %d, of %v of %v of %d connections", most, w.MaxPinned, w.Part, n)
}

// loans tells what a workload lends and borrows. What it may borrow is bounded by what the
// others lend.
func loans(c *config.Config, i, slots int) string {
	w := c.Workloads[i]
	lent := 0.0
	for j, v := range c.Workloads {
		if j != i {
			lent += v.Part.Fraction() * v.Lendable.Fraction()
		}
	}
	borrowed := min(w.Borrow.Fraction(), lent) * float64(slots)
	return fmt.Sprintf("lends %v of it while idle = %.2f; borrows up to %v of %d, of what others lend: at most %.2f more",
		w.Lendable, w.Part.Fraction()*w.Lendable.Fraction()*float64(slots), w.Borrow, slots, borrowed)
}

// waits tells how long its clients wait, and for what.
func waits(w config.Workload) string {
	text := fmt.Sprintf("a client waits for a slot %s at most, %v when Postgres is away, then it is refused", slotWaits(w), w.NoServerWait)
	if w.PoolMode == config.Session {
		text = fmt.Sprintf("a login waits for a server %v at most, ", w.SessionWait) + text
	}
	if w.Patient {
		text += " (patient)"
	}
	return text
}

// queue writes how long the queue is allowed to get. own is its part of all slots.
func (p *planner) queue(w config.Workload, own, slots int) {
	if !w.MaxWaiting.IsAuto() {
		p.line("", "%d waiting at most, as configured", w.MaxWaiting)
		return
	}
	p.line("", "waiting at most: %v x transactions per second, no more than 1000, no less than 4 x %d slots", w.MaxWait, own)
	var list []string
	for _, each := range examples() {
		rate := config.Capacity(own, each)
		list = append(list, fmt.Sprintf("%d at %.0f/s", w.WaitingBound(own, rate), rate))
	}
	text := "that is " + strings.Join(list, ", ")
	if own < slots {
		text += ", and more with slots that others lend"
	}
	p.line("", "%s", text)
}

// matching writes in which order workloads are asked whether a client is theirs.
func (p *planner) matching(c *config.Config) {
	word := "matching"
	for i, w := range c.Workloads {
		p.line(word, "%d. %s: %s", i+1, title(w), matches(w.Match))
		word = ""
	}
	if earlier := beforeTools(c); earlier != "" {
		p.line("", "a pg_dump by clients of %s runs there, not in tools: give it a role of its own, or put a workload for it first", earlier)
	}
}

// beforeTools is a workload without sessions that takes some clients away from the one
// called tools, whatever they call themselves; or "".
func beforeTools(c *config.Config) string {
	for _, w := range c.Workloads {
		switch {
		case w.Name == "tools":
			return ""
		case w.PoolMode != config.Session && len(w.Match.ApplicationName) == 0:
			return w.Name
		}
	}
	return ""
}

// matches tells who belongs to a workload.
func matches(m config.Match) string {
	var list []string
	add := func(what string, of []string) {
		if len(of) > 0 {
			list = append(list, what+" "+strings.Join(of, " or "))
		}
	}
	add("role", m.Role)
	add("database", m.Database)
	add("application_name", m.ApplicationName)
	add("client", places(m))
	if len(list) == 0 {
		return "every other client"
	}
	return strings.Join(list, ", and ")
}

// places are where clients may come from.
func places(m config.Match) []string {
	var list []string
	for _, p := range m.Client {
		list = append(list, network(p))
	}
	if m.Unix {
		list = append(list, "unix")
	}
	return list
}

// network is a network, or an address alone.
func network(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// databases writes which name goes where, and as whom.
func (p *planner) databases(c *config.Config) {
	for _, d := range c.Databases {
		name, target := d.Name, d.DBName
		if name == "*" {
			name = "any other"
		}
		if target == "" {
			target = "the same name"
		}
		p.line("database", "%s -> %s on %s%s", name, target, d.Upstream, as(d))
	}
}

// as tells which role the server connections of a database have, if it is not the client's.
func as(d config.Database) string {
	switch {
	case d.User == "":
		return ""
	case d.PasswordFile != "":
		return fmt.Sprintf(" as role %s, whose password is in %s", d.User, d.PasswordFile)
	case d.PasswordCommand != "":
		return fmt.Sprintf(" as role %s, whose password a command prints", d.User)
	default:
		return " as role " + d.User
	}
}
