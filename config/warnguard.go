package config

import (
	"slices"
	"strconv"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// warnOfQueue looks at who is next in a workload, and who is refused.
func (c *Config) warnOfQueue(w *Workload) {
	name := strconv.Quote(w.Name)
	switch w.Queue {
	case admission.Guard:
	case admission.FIFO:
		c.warn(`workload %s: queue = "fifo" also serves clients that have left, so that under overload most work is done for nobody; "guard" does not`, name)
	case admission.Bounded:
		if w.MaxWaiting.IsAuto() {
			c.warn(`workload %s: queue = "bounded" is as short as max_waiting says, and "auto" is made for other queues; write a number such as 20`, name)
		}
		fallthrough
	default:
		c.warn(`workload %s: queue = %q is there to be compared with; "guard" is for production`, name, w.Queue)
	}
	if w.Queue != admission.Guard && w.Mode != admission.Enforce {
		c.warn(`workload %s: mode = %q is for queue = "guard" and changes nothing about %q`, name, w.Mode, w.Queue)
	}
}

// shortDeadline is how long a deadline is that most statements would not keep, with the
// way there and back.
const shortDeadline = Duration(20 * time.Millisecond)

// warnOfDeadline looks at whether a deadline can be kept.
func (c *Config) warnOfDeadline(w *Workload) {
	name := strconv.Quote(w.Name)
	switch {
	case w.Deadline == 0:
	case w.Deadline < shortDeadline:
		c.warn("workload %s: deadline = %q is shorter than many statements take: those are refused or cancelled, each time", name, w.Deadline.String())
	case w.Patient && w.Deadline < w.MaxWait:
		c.warn("workload %s is patient and may wait %v, but its deadline is %v: it is refused before", name, w.MaxWait, w.Deadline)
	}
}

// warnOfClass looks at whether a workload has the class that it was given, and who else.
func (c *Config) warnOfClass(w *Workload) {
	name := strconv.Quote(w.Name)
	_, given := c.origin[document.Dotted(schema.WorkloadKind, w.Name)+".class"]
	switch best := c.bestClass(w.Match); {
	case given && w.Class < best:
		c.warn("workload %s: class = %q has no effect: max_class allows its roles no more than %q", name, w.Class, best)
	case w.Class == admission.CriticalPlus && w.Match.Everybody():
		c.warn(`workload %s: class = "critical_plus" for every client that is left: what is never refused to make room should be named`, name)
	}
}

// bestClass is the highest class that any role of a match may have.
func (c *Config) bestClass(m Match) admission.Class {
	roles := m.Role
	if schema.FitsAll(roles) {
		roles = []string{"*"}
	}
	best := admission.Sheddable
	for _, pattern := range roles {
		best = min(best, c.RoleOf(pattern).MaxClass) // of a glob: what roles without a section have
		for _, r := range c.Roles {
			if r.Name != schema.AnyName && glob(pattern, r.Name) {
				best = min(best, r.MaxClass)
			}
		}
	}
	return best
}

// warnOfRole looks at what a role may ask for.
func (c *Config) warnOfRole(r *Role) {
	if r.Name == schema.AnyName && r.MaxClass == admission.CriticalPlus {
		c.warn(`role "*": max_class = "critical_plus" lets every role ask not to be refused, and then nobody can make room for anybody`)
	}
	if r.Ceiling && r.StatementTimeout.IsNone() && r.TransactionTimeout.IsNone() && r.IdleTransactionTimeout.IsNone() && r.LockTimeout.IsNone() {
		c.warn(`role %q: ceiling = true has nothing to enforce without a timeout`, r.Name)
	}
	_, asks := c.origin[document.Dotted(schema.RoleKind, r.Name)+".max_class"]
	if asks && r.PromoteShare == 0 && r.MaxClass < admission.Sheddable {
		c.warn(`role %q: promote_share = "0%%" lets nothing rise above its workload's class, whatever max_class = %q allows`, r.Name, r.MaxClass)
	}
}

// slowBurst is how long a burst may take to come back before somebody asks whether it was
// meant.
const slowBurst = time.Hour

// warnOfRate looks at what a rate does to whom.
func (c *Config) warnOfRate(r *Rate) {
	name := strconv.Quote(r.Name)
	blocks := r.Escalation == Block && r.Mode != admission.Off
	switch {
	case blocks && r.AutoBurst:
		c.warn(`rate %s: escalation = "block" with burst = "auto": a page that sends a few statements at once may get its clients blocked; write how many are right`, name)
	case r.Mode == admission.Off && r.Escalation != NoEscalation:
		c.warn(`rate %s: escalation = %q does nothing while mode = "off"`, name, string(r.Escalation))
	}
	if blocks && r.Per == schema.PerTenant {
		c.warn(`rate %s: escalation = "block" is for an address and a role, so one tenant's behaviour ends the sessions of all that share both with it`, name)
	}
	if again := time.Duration(values.Seconds(r.Burst / r.PerSecond)).Round(time.Minute); again > slowBurst {
		c.warn("rate %s: a burst of %s comes back only after %v of silence", name, r.BurstText(), Duration(again))
	}
	if fits := func(m Match) bool { return len(m.Client) > 0 && !m.Unix }; r.Per == PerClient && r.Mode != admission.Off && !fits(r.Match) && c.hasSocket() {
		c.warn(`rate %s: all clients of the Unix socket count as one "client"; match = { client = [...] } leaves them out`, name)
	}
}

// hasSocket reports whether clients may come by a Unix socket.
func (c *Config) hasSocket() bool {
	return slices.ContainsFunc(c.Listen, func(l Listen) bool { return l.Network == "unix" })
}
