package session

import (
	"cmp"
	"container/heap"
	"math"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// meter is what a session knows of the rates that it is for, and what it was told by them.
type meter struct {
	rates      *Rates
	generation uint32        // of the rates
	params     *relay.Params // and the settings by which they were found
	version    uint32        // of pgweir's own parameters
	found      []*rateRule   // for whatever tenant
	home       string        // the session's tenant, where a request names none
	tenant     string        // of the latest request, and of found what is for it:
	uses       [pers]use
	n          int // of uses

	paid  bool  // the request that is under way has passed
	until int64 // until when the client was told to wait; 0 = it was not

	// While its refusal is held back:
	by    *use
	asked int64
	due   int64
	place int // in the heap + 1; 0 = is not
}

// use is the bucket of one rate.
type use struct {
	rule   *rateRule
	bucket quota.Bucket
	let    bool // the request that is under way passed it; else it does not count there
}

// cost is what a statement takes before it runs.
func (u *use) cost() int64 {
	if u.rule.ServerTime {
		return 0
	}
	return 1
}

// SetRates has the sessions kept to rates; nil = to none. Rates may be shared by cores of one
// loop.
func (co *Core) SetRates(r *Rates) { co.rates = r }

// metered returns the session's meter with the rates of now.
func (cl *Client) metered(r *Rates) *meter {
	m := cl.meter
	if m == nil {
		m = &meter{}
		cl.meter = m
	}
	if m.rates != r || m.generation != r.generation || m.params != cl.link.Params() {
		m.rates, m.generation, m.params = r, r.generation, cl.link.Params()
		m.found = r.of(&Subject{cl.group.Database, cl.group.Role, cl.Application(), cl.Address})
		m.home = "" // its application_name may be another
		m.serve(cl, "")
	}
	if len(m.found) == 0 {
		return m
	}
	if version := cl.link.OwnVersion(); m.version != version || m.home == "" {
		m.version = version
		m.home = cmp.Or(cl.link.Own(sqltext.TagTenant), cl.Application())
	}
	if r := cl.link.Request(); r.Comments > 0 {
		m.tagged(cl, r.Text[len(r.Text)-int(r.Comments):])
	} else if m.tenant != m.home {
		m.serve(cl, m.home)
	}
	return m
}

// tagged finds the buckets for the tenant that the comments behind a text name.
func (m *meter) tagged(cl *Client, comments []byte) {
	named := []byte(nil)
	for k, v := range sqltext.Tags(comments) {
		if k == sqltext.TagTenant {
			named = v
		}
	}
	switch {
	case len(named) == 0 && m.tenant != m.home:
		m.serve(cl, m.home)
	case len(named) > 0 && m.tenant != string(named):
		m.serve(cl, string(named))
	}
}

// serve finds the buckets for a tenant.
func (m *meter) serve(cl *Client, tenant string) {
	m.tenant, m.n = tenant, 0
	for _, rule := range m.rates.first(m.found, tenant) {
		if rule != nil {
			m.uses[m.n] = use{rule: rule, bucket: m.rates.bucket(rule, cl.group.Role, tenant, cl.Address)}
			m.n++
		}
	}
}

// within asks the rates for a request. It reports whether it may go to the gate; if not,
// answered tells whether the link can go on at once, with a refusal.
func (cl *Client) within(now int64) (ok, answered bool) {
	co := cl.core
	m := cl.metered(co.rates)
	if m.paid || m.n == 0 || co.draining {
		return true, false
	}
	if cl.wait.Probe { // is never refused; and if it took a part, a pool that asks before each use would starve
		for i := range m.uses[:m.n] {
			m.uses[i].let = false
		}
		m.paid, m.until = true, 0
		return true, false
	}
	var waits [pers]int64
	var by *use
	worst := int64(0)
	for i := range m.uses[:m.n] {
		u := &m.uses[i]
		waits[i] = m.rates.limiter.Wait(now, &u.bucket, u.cost())
		if waits[i] > worst && u.rule.Mode == admission.Enforce {
			by, worst = u, waits[i]
		}
	}
	if by != nil {
		by.rule.Refused++
		return false, cl.tooMuch(now, by, worst)
	}
	for i := range m.uses[:m.n] {
		u := &m.uses[i]
		if u.let = waits[i] == 0 || u.rule.Mode == admission.Enforce; !u.let {
			u.rule.Would++ // and takes nothing, as if it had been refused
			continue
		}
		u.rule.Passed++
		m.rates.limiter.Charge(now, &u.bucket, u.cost())
	}
	m.paid, m.until = true, 0
	return true, false
}

// charge takes what could not be known before: the server-time, and the statements beyond the
// first. What had none, only a Parse for a later one, has its statement back.
func (m *meter) charge(now, held int64, statements int) {
	m.paid = false
	for i := range m.uses[:m.n] {
		u := &m.uses[i]
		switch {
		case !u.let:
		case u.rule.ServerTime:
			m.rates.limiter.Charge(now, &u.bucket, held)
		case statements == 0:
			m.rates.limiter.Refund(&u.bucket, 1)
		default:
			m.rates.limiter.Charge(now, &u.bucket, int64(statements-1))
		}
	}
}

// charge charges the server's client for what it has done with it since it was given to it.
func (sv *Server) charge(now int64) {
	if m := sv.ticket.payer; m != nil {
		sv.ticket.payer = nil
		m.charge(now, now-sv.ticket.since, sv.link.Statements())
	}
}

// unpaid makes the next request of the client one of its own.
func (cl *Client) unpaid() {
	if cl.meter != nil {
		cl.meter.paid = false
	}
}

// tooMuch refuses a request by a rate, now or later, or ends the session. It reports whether
// the link can go on at once.
func (cl *Client) tooMuch(now int64, by *use, wait int64) (answered bool) {
	co, m := cl.core, cl.meter
	r := m.rates
	cl.wait.Arrive(now)
	early := now < m.until
	s := r.escalation.Refused(now, quota.Party{Address: cl.Address, Role: cl.group.Role}, by.rule.Escalation, early, wait)
	switch {
	case s.Blocked:
		r.ended++
		if s.New {
			r.blocked(cl, s.Block, s.Alarm)
		}
		v := co.gate.Refuse(now, &cl.wait, admission.Blocked)
		v.RetryAfter = wholeMs(s.Block.Until - now)
		cl.refused(v, now)
		return false
	case s.Hold > 0 && r.parked < r.mostParked:
		cl.park(now, now+s.Hold, by)
		return false
	}
	cl.overRate(now, now, by, wait)
	return !cl.ended
}

// overRate tells the client that has asked at a time that it asks for too much.
func (cl *Client) overRate(now, asked int64, by *use, wait int64) {
	m := cl.meter
	m.until, m.by = now+wait, by
	cl.wait.Arrive(asked)
	v := cl.core.gate.Refuse(now, &cl.wait, admission.Rate)
	v.RetryAfter = wholeMs(wait)
	cl.refused(v, now)
	m.by = nil
}

// parkStep is the grid, in ns, on which refusals are given that were held back: those who ask
// for too much wake pgweir together, and seldom.
const parkStep = 20e6

// park holds a refusal back.
func (cl *Client) park(now, due int64, by *use) {
	m, co := cl.meter, cl.core
	due = (due + parkStep - 1) / parkStep * parkStep
	m.rates.parked++
	m.rates.delayed++
	m.by, m.asked, m.due = by, now, due
	heap.Push(&co.parked, cl)
	co.timer = true
	cl.pause(stopParked)
}

// unpark ends that, and reports whether it was so.
func (cl *Client) unpark() bool {
	m := cl.meter
	if m == nil || m.place == 0 {
		return false
	}
	heap.Remove(&cl.core.parked, m.place-1)
	m.rates.parked--
	return true
}

// HeldBack reports whether a refusal of the client, by a rate, is held back.
func (cl *Client) HeldBack() bool { return cl.meter != nil && cl.meter.place != 0 }

// fireParked gives the refusals that were held back for long enough, and returns when the
// next is due.
func (co *Core) fireParked(now int64) (next int64) {
	for len(co.parked) > 0 {
		cl := co.parked[0]
		m := cl.meter
		if m.due > now {
			return m.due
		}
		cl.unpark()
		by := m.by
		cl.overRate(now, m.asked, by, m.rates.limiter.Wait(now, &by.bucket, by.cost()))
		cl.resume(stopParked)
	}
	return math.MaxInt64
}

// parked are the clients whose refusals are held back: a heap by time.
type parked []*Client

// Len is for the heap.
func (p parked) Len() int { return len(p) }

// Less is for the heap.
func (p parked) Less(i, j int) bool { return p[i].meter.due < p[j].meter.due }

// Swap is for the heap.
func (p parked) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].meter.place, p[j].meter.place = i+1, j+1
}

// Push is for the heap.
func (p *parked) Push(x any) {
	cl := x.(*Client)
	*p = append(*p, cl)
	cl.meter.place = len(*p)
}

// Pop is for the heap.
func (p *parked) Pop() any {
	last := len(*p) - 1
	cl := (*p)[last]
	(*p)[last] = nil
	*p = (*p)[:last]
	cl.meter.place = 0
	return cl
}

// appendRate adds which rate it was to the DETAIL of a refusal by one, and for how long a
// block still lasts.
func (cl *Client) appendRate(b []byte, v *admission.Verdict) []byte {
	switch m := cl.meter; {
	case v.Reason == admission.Blocked:
		b = appendInt(append(b, " left_ms="...), v.RetryAfter/int64(time.Millisecond))
	case v.Reason == admission.Rate && m != nil && m.by != nil:
		b = append(append(b, " per="...), m.by.rule.Per.String()...)
		b = append(append(append(b, ` rate="`...), m.by.rule.Text...), '"')
	}
	return b
}

// wholeMs rounds up to milliseconds, in which clients are told the time.
func wholeMs(ns int64) int64 {
	const ms = int64(time.Millisecond)
	return (ns + ms - 1) / ms * ms
}
