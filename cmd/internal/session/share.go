package session

import (
	"math"
	"time"

	"github.com/pgweir/pgweir/admission"
)

// Role is what a role may ask for.
type Role struct {
	MaxClass     admission.Class // the highest class of its work
	PromoteShare float64         // the part of its work that may be above its workload's class
	// Ceiling: no work of it takes longer than Timeouts, whatever its sessions have set. In ns;
	// 0 = there is none.
	Ceiling  bool
	Timeouts [Timeouts]int64
	// Slack is how much later, in ns, it is enforced here: a server on which a timeout is still
	// set is faster then, and needs no cancel.
	Slack int64
}

const (
	// workWindow is for how long a role's work counts, in ns: its weight falls to 1/e in it.
	workWindow = 10e9
	// workStep is how often that is worked out, in ns.
	workStep = 100e6
	// workFloor is what a role's recent work counts at least, in ns, so that the first requests
	// of a quiet one may be promoted.
	workFloor = 100e6
)

// roleState is a role as the sessions of an upstream know it.
type roleState struct {
	name   string
	number uint32
	limits Role

	work, above float64 // ns of slots, recent; and of that above the workload's class
	promised    float64 // the same, of requests that are not over yet
	mean        float64 // of a request, ns
	at          int64   // when work and above were worked out

	demoted, capped uint64
	stopped         [Timeouts]uint64
}

// RoleStats is a snapshot of a role's work on an upstream.
type RoleStats struct {
	Role   string
	Number uint32 // at the gate
	Limits Role
	// Work is its recent slot time, about that of the last 10 s, Above the part of it that was
	// above the class of its workload.
	Work, Above time.Duration
	Demoted     uint64 // requests taken as of their workload's class, over PromoteShare
	Capped      uint64 // requests that asked for more than MaxClass
	// Stopped is how many statements and sessions were stopped by each timeout.
	Stopped [Timeouts]uint64
}

// Roles appends snapshots of the roles that have asked for anything, in the order of their
// numbers: of at most so many, from the one on whose number is from.
func (co *Core) Roles(now int64, dst []RoleStats, from, most int) []RoleStats {
	all := co.names.roles
	from = min(from, len(all))
	for _, r := range all[from:min(from+most, len(all))] {
		r.fade(now)
		dst = append(dst, RoleStats{
			Role: r.name, Number: r.number, Limits: r.limits, Work: time.Duration(r.work), Above: time.Duration(r.above),
			Demoted: r.demoted, Capped: r.capped, Stopped: r.stopped,
		})
	}
	return dst
}

// Limit gives the roles their limits, also those that come later. Without it a role may ask
// for all but critical_plus.
func (co *Core) Limit(limits func(role string) Role) {
	co.limits = limits
	for _, r := range co.names.roles {
		r.limits = limits(r.name)
	}
}

// role returns what is known of a role.
func (co *Core) role(name string) *roleState {
	r, fresh := co.names.role(name)
	switch {
	case fresh && co.limits != nil:
		r.limits = co.limits(name)
	case fresh:
		r.limits = Role{MaxClass: admission.Critical, PromoteShare: 1}
	}
	return r
}

// fade lets old work lose its weight.
func (r *roleState) fade(now int64) {
	if past := now - r.at; past >= workStep {
		f := math.Exp(-float64(past) / workWindow)
		r.work *= f
		r.above *= f
		r.at = now
	}
}

// promote reports whether one more request may be above its workload's class, and promises it
// the time that it will need.
func (r *roleState) promote(now, expected int64) (promise float64, ok bool) {
	r.fade(now)
	most := r.limits.PromoteShare
	if most <= 0 {
		return 0, false
	}
	promise = float64(expected)
	if expected <= 0 {
		promise = r.mean
	}
	if most < 1 && r.above+r.promised+promise > most*math.Max(r.work+r.promised+promise, workFloor) {
		return 0, false
	}
	r.promised += promise
	return promise, true
}

// charge accounts for a request that has held a slot for ns, and what it was promised, if it
// was promoted.
func (r *roleState) charge(now, ns int64, promoted bool) {
	r.fade(now)
	r.work += float64(ns)
	if promoted {
		r.above += float64(ns)
	}
	if r.mean == 0 {
		r.mean = float64(ns)
	}
	r.mean += (float64(ns) - r.mean) / 32
}

// release takes back what a request was promised, which is over or was not let in.
func (r *roleState) release(promise float64) { r.promised = math.Max(r.promised-promise, 0) }
