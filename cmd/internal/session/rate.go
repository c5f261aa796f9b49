package session

import (
	"fmt"
	"net/netip"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/admission/quota"
)

// Per is whose statements a rate counts together.
type Per uint8

// What a rate is for.
const (
	PerClient Per = iota // an address
	PerRole
	PerTenant // of a role
	pers
)

var perNames = [pers]string{"client", "role", "tenant"}

// String returns the name as files and errors have it.
func (p Per) String() string {
	if p >= pers {
		return "unknown"
	}
	return perNames[p]
}

// UnmarshalText sets p by its name.
func (p *Per) UnmarshalText(text []byte) error {
	for i, n := range perNames {
		if n == string(text) {
			*p = Per(i)
			return nil
		}
	}
	return fmt.Errorf("unknown kind of rate %q", text)
}

// Subject is what a rate is matched by, beside the tenant.
type Subject struct {
	Database, Role, Application string     // as the client names them
	Address                     netip.Addr // the zero one for a Unix socket
}

// Matcher finds the rates that are for somebody. The zero one finds all.
type Matcher struct {
	// Of returns the indices of the rates for a subject, in order, as far as that is known
	// without a tenant.
	Of func(*Subject) []int
	// Tenant reports whether one of these is for a tenant.
	Tenant func(rate int, tenant string) bool
}

// Rate is a limit of what clients may ask for.
type Rate struct {
	Name       string // known by it over a reload
	Per        Per
	PerSecond  float64 // statements, or with ServerTime seconds of it
	ServerTime bool
	Burst      float64 // likewise
	Text       string  // the rate as clients are told, such as 150/s
	Escalation quota.Action
	Mode       admission.Mode
}

// RateCounts is what became of the statements that a rate is for. It only grows.
type RateCounts struct {
	Passed  uint64
	Refused uint64 // also those that were held back, or ended their session
	Would   uint64 // would have been refused, but for its mode
}

// RateState is a rate, and how it stands.
type RateState struct {
	Rate
	RateCounts
	quota.RuleStats
}

// EscalationState is what became of those who did not wait as they were told.
type EscalationState struct {
	quota.EscalationStats
	Parked     int    // refusals held back now
	MostParked int    // and how many may be
	Delayed    uint64 // that were held back
	Ended      uint64 // sessions of those who are blocked
}

// rateRule is a rate in force.
type rateRule struct {
	Rate
	RateCounts
	index int // at the limiter
}

// Rates are the rates in force, over all upstreams of a process, and what is remembered by
// them. Owned by the loop thread.
type Rates struct {
	limiter    *quota.Limiter
	escalation *quota.Escalation
	rules      []*rateRule
	match      Matcher
	counts     map[string]*rateRule // of rates of now, by name
	generation uint32
	most       quota.Action // that any of them allows for
	blocked    func(cl *Client, b quota.Blocked, alarm bool)

	parked, mostParked int
	delayed, ended     uint64
}

// NewRates returns rates without any in force. blocked is told of each new block; alarm says
// that it is one of several within an hour. It must not call back.
func NewRates(blocked func(cl *Client, b quota.Blocked, alarm bool)) *Rates {
	return &Rates{limiter: quota.New(0), escalation: quota.NewEscalation(), blocked: blocked}
}

// Reconfigure puts rates into force, for whom m finds them: of several per the same the first
// counts. Those whose names and keys stay keep what was taken from
// them, and their counts. mostParked bounds the refusals that are held back at a time. Where
// no rate blocks any more, nobody is blocked.
func (r *Rates) Reconfigure(now int64, list []Rate, m Matcher, mostParked int) {
	counts := make(map[string]*rateRule, len(list))
	rules := make([]quota.Rule, 0, len(list))
	r.rules = make([]*rateRule, 0, len(list))
	r.most = quota.Answer
	for i, rate := range list {
		n := &rateRule{Rate: rate, index: i}
		if old := r.counts[rate.Name]; old != nil {
			n.RateCounts = old.RateCounts
		}
		counts[rate.Name] = n
		r.rules = append(r.rules, n)
		rules = append(rules, quota.Rule{
			Name: rate.Name, Keys: rate.Per.String(), PerSecond: rate.PerSecond, ServerTime: rate.ServerTime, Burst: rate.Burst,
		})
		if rate.Mode == admission.Enforce {
			r.most = max(r.most, rate.Escalation)
		}
	}
	r.counts, r.match, r.mostParked = counts, m, mostParked
	r.limiter.Reconfigure(now, rules)
	r.generation++
	if !r.Blocking() {
		r.escalation.Forget()
	}
}

// InForce reports whether there is any rate.
func (r *Rates) InForce() bool { return len(r.rules) > 0 }

// Blocking reports whether a rate may block.
func (r *Rates) Blocking() bool { return r.most >= quota.Block }

// States calls f with every rate in force.
func (r *Rates) States(f func(RateState)) {
	for _, u := range r.rules {
		f(RateState{u.Rate, u.RateCounts, r.limiter.Stats(u.index)})
	}
}

// Escalation returns what became of those who did not wait.
func (r *Rates) Escalation(now int64) EscalationState {
	return EscalationState{
		EscalationStats: r.escalation.Stats(now),
		Parked:          r.parked, MostParked: r.mostParked, Delayed: r.delayed, Ended: r.ended,
	}
}

// Blocks calls f with everybody who is blocked, or was within the last hour, until it
// returns false.
func (r *Rates) Blocks(now int64, f func(quota.Blocked) bool) { r.escalation.Blocks(now, f) }

// bucket returns the bucket of a rate for the work of a role, from an address and for a tenant.
func (r *Rates) bucket(u *rateRule, role, tenant string, from netip.Addr) quota.Bucket {
	switch {
	case u.Per == PerRole:
		return r.limiter.Bucket(u.index, role, "")
	case u.Per == PerTenant:
		return r.limiter.Bucket(u.index, role, tenant)
	case !from.IsValid():
		return r.limiter.Bucket(u.index, "", "")
	}
	raw := from.As16()
	return r.limiter.Bucket(u.index, string(raw[:]), from.Zone())
}

// of returns the rates that are for a subject, for whatever tenant.
func (r *Rates) of(s *Subject) []*rateRule {
	if r.match.Of == nil {
		return r.rules
	}
	var list []*rateRule
	for _, i := range r.match.Of(s) {
		list = append(list, r.rules[i])
	}
	return list
}

// first returns the first of a list of each kind that is for a tenant.
func (r *Rates) first(list []*rateRule, tenant string) (found [pers]*rateRule) {
	for _, u := range list {
		if found[u.Per] == nil && u.Mode != admission.Off && (r.match.Tenant == nil || r.match.Tenant(u.index, tenant)) {
			found[u.Per] = u
		}
	}
	return found
}
