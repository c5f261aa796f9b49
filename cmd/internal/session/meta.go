package session

import (
	"math"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// What a request is, for the gate: from its own tags, from what the session has set by SET
// LOCAL, SET and its startup packet, from application_name and from its workload, the first
// of these that says anything.

const (
	// continueWindow is for how long, in ns, a session that was served goes on with what it
	// has begun.
	continueWindow = 250e6
	// mostAttempts is how often a request may be tried.
	mostAttempts = 3
	// maxTraceparent bounds what is kept of a traceparent, in bytes.
	maxTraceparent = 64
)

// MetaCounts is what was noticed of what requests say of themselves. It only grows.
type MetaCounts struct {
	// Unknown is by [sqltext.TagKey] how many values meant nothing: by tags, or by SET and
	// the startup packet, there once for each time that it was set.
	Unknown [sqltext.TagKeys]uint64
	Tenants int    // how many have a number of their own now; it alone may shrink
	Shared  uint64 // tenants that had to share a number with others when they were looked up
	// Forgotten is how many fingerprints of statements were forgotten to make room.
	Forgotten uint64
}

// MetaCounts returns the counts.
func (co *Core) MetaCounts() MetaCounts {
	c := co.metaCounts
	c.Tenants = len(co.names.byTenant)
	c.Shared, c.Forgotten = co.names.shared, co.costs.Evictions()
	return c
}

// says is what was said of a request, by itself or by its session.
type says struct {
	class    admission.Class
	hasClass bool
	named    bool // the tenant was named, it is not the application_name
	attempt  uint8
	tenant   uint32
	deadline int64 // ns; 0 = none
	trace    uint64
}

// metadata is a session's part of it.
type metadata struct {
	// By what session was worked out.
	params   *relay.Params
	version  uint32
	group    *Group
	workload *Workload
	epoch    uint32
	shared   bool // its tenant has a number that others have too

	session says
	request says                  // the latest
	tagged  *[maxTraceparent]byte // made for the first request that has a traceparent
	length  uint8                 // of tagged: the request's traceparent; 0 = the session's

	shape    uint64  // of the request, if its time is to be learned
	promise  float64 // what it was promised, if it is promoted
	promoted bool
	learnt   bool  // its deadline is a guess, good for the wait only
	served   int64 // when the session was served last; 0 = it was refused since
	patience *patience
}

// Meta is what a client's latest request is.
type Meta struct {
	Class       admission.Class
	Tenant      string
	Named       bool  // by a tag or a parameter; else it is the application_name
	Attempt     uint8 // 0 = not said
	Deadline    int64 // in the loop's ns; 0 = none
	Traceparent string
}

// Meta returns what the client's latest request is.
func (cl *Client) Meta() Meta {
	m := Meta{Class: cl.wait.Class, Attempt: cl.wait.Attempt, Deadline: cl.wait.Deadline}
	if d := cl.meta; d != nil {
		m.Tenant, m.Named, m.Traceparent = cl.core.names.tenantName(d.request.tenant), d.request.named, cl.link.Own(sqltext.TagTraceparent)
		if d.length > 0 {
			m.Traceparent = string(d.tagged[:d.length])
		}
	}
	return m
}

// describe fills in what the gate must know of the request that is about to be admitted.
func (cl *Client) describe(now int64, r *relay.Request) {
	co, m, w := cl.core, cl.meta, &cl.wait
	if m == nil {
		m = &metadata{}
		cl.meta = m
	}
	if m.stale(cl) {
		cl.resolve(now)
	}
	cl.unpromise()
	m.request, m.length = m.session, 0
	if r.Comments > 0 {
		cl.readTags(now, r.Text[len(r.Text)-int(r.Comments):])
	}
	a := &m.request
	w.Role, w.Tenant, w.Attempt = cl.group.role.number, a.tenant, a.attempt
	w.Expected = cl.expect(r)
	w.Class = cl.class(now)
	w.Deadline = cl.deadline(now)
	w.Continuing = m.served != 0 && now-m.served < continueWindow
	if a.trace != 0 {
		if began, ok := co.traces.continues(a.trace, now); ok && (!w.Continuing || began < w.Since) {
			w.Continuing, w.Since = true, began
		}
	}
	if !w.Continuing {
		w.Since = now // what it is, what comes next goes on with
	}
}

// stale reports whether what holds for the session may be different now.
func (m *metadata) stale(cl *Client) bool {
	return m.params != cl.link.Params() || m.version != cl.link.OwnVersion() || m.group != cl.group ||
		m.workload != cl.group.Workload || m.shared && m.epoch != cl.core.names.epoch
}

// resolve works out what holds for the session.
func (cl *Client) resolve(now int64) {
	co, m := cl.core, cl.meta
	if m.group != nil {
		co.names.hold(m.session.tenant, -1)
	}
	m.params, m.version, m.group, m.workload = cl.link.Params(), cl.link.OwnVersion(), cl.group, cl.group.Workload
	m.session = says{}
	if m.version != 0 {
		for k := range sqltext.TagKey(sqltext.TagKeys) {
			if v := cl.link.Own(k); v != "" {
				cl.say(now, &m.session, k, []byte(v))
			}
		}
	}
	if !m.session.named {
		m.session.tenant, m.shared = cl.tenant(now, []byte(cl.Application()))
	}
	m.epoch = co.names.epoch
	co.names.hold(m.session.tenant, 1)
	m.patience = nil
	if m.workload.Learn {
		m.patience = co.patienceOf(m.group.role.number, cl.Application())
	}
}

// tenant returns the number of a tenant of the client's role, and whether others share it.
func (cl *Client) tenant(now int64, name []byte) (number uint32, shared bool) {
	number, own := cl.core.names.tenant(now, cl.group.role.number, name)
	return number, !own
}

// say takes one value. One that means nothing is counted and left out.
func (cl *Client) say(now int64, a *says, k sqltext.TagKey, v []byte) {
	ok := true
	switch k {
	case sqltext.TagClass:
		var c admission.Class
		if c, ok = admission.ParseClass(string(v)); ok {
			a.class, a.hasClass = c, true
		}
	case sqltext.TagTenant:
		if ok = len(v) > 0; ok {
			var shared bool
			a.tenant, shared = cl.tenant(now, v)
			a.named = true
			cl.meta.shared = shared && a == &cl.meta.session
		}
	case sqltext.TagDeadline:
		var ms int64
		if ms, ok = decimal(v); ok {
			a.deadline = ms * 1e6
		}
	case sqltext.TagAttempt:
		var n int64
		if n, ok = decimal(v); ok && n > 0 {
			a.attempt = uint8(min(n, math.MaxUint8))
		} else {
			ok = false
		}
	case sqltext.TagTraceparent:
		a.trace = cl.core.traces.id(v)
		ok = a.trace != 0
	}
	if !ok {
		cl.core.metaCounts.Unknown[k]++
	}
}

// maxDigits bounds the numbers that are read: more than eleven days in ms.
const maxDigits = 9

// decimal reads a number without a sign.
func decimal(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > maxDigits {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// readTags reads what a request says of itself.
func (cl *Client) readTags(now int64, comments []byte) {
	m := cl.meta
	for k, v := range sqltext.Tags(comments) {
		cl.say(now, &m.request, k, v)
		if k == sqltext.TagTraceparent {
			if m.tagged == nil {
				m.tagged = new([maxTraceparent]byte)
			}
			m.length = uint8(copy(m.tagged[:], v))
		}
	}
}

// class is the class of the request: what it asks for, within what its role may.
func (cl *Client) class(now int64) admission.Class {
	m, r := cl.meta, cl.group.role
	base := max(cl.group.Workload.Class, r.limits.MaxClass) // a larger one is a lower one
	if !m.request.hasClass {
		return base
	}
	c := m.request.class
	if c < r.limits.MaxClass {
		r.capped++
		c = r.limits.MaxClass
	}
	if c < base {
		promise, ok := r.promote(now, cl.wait.Expected)
		if !ok {
			r.demoted++
			return base
		}
		m.promise, m.promoted = promise, true
	}
	return c
}

// deadline is when the answer stops being useful: the first of what is said.
func (cl *Client) deadline(now int64) int64 {
	m := cl.meta
	m.learnt = false
	if cl.login {
		return 0
	}
	d := sooner(m.request.deadline, cl.group.Workload.Deadline)
	if m.patience != nil {
		if guess := m.patience.deadline(); guess > 0 && (d == 0 || guess < d) {
			d, m.learnt = guess, true
		}
	}
	if d == 0 {
		return 0
	}
	return now + d
}

// sooner returns the shorter of two times of which 0 says nothing.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// expect returns how long the request is expected to hold its slot; 0 = it is not known.
// While nobody waits nobody asks, and the time of every eighth request is enough to learn
// from.
func (cl *Client) expect(r *relay.Request) int64 {
	co, m := cl.core, cl.meta
	m.shape = 0
	crowded := co.gate.Waiting() > 0
	if co.asked++; !crowded && co.asked%observeEvery != 0 || cl.login {
		return 0
	}
	if m.shape = co.shapes.of(r, cl.info.group); m.shape == 0 || !crowded {
		return 0
	}
	p50, _ := co.costs.Expected(m.shape)
	return p50
}

// tooOften reports whether the request was tried more often than anybody is let in. What the
// startup packet says of that is about the requests to come: a login is none.
func (cl *Client) tooOften() bool {
	return cl.wait.Attempt > mostAttempts && cl.group.Workload.CountsAttempts && !cl.wait.Probe && !cl.login
}

// unpromise takes back what the request was promised.
func (cl *Client) unpromise() {
	if m := cl.meta; m != nil && m.promoted {
		m.group.role.release(m.promise)
		m.promise, m.promoted = 0, false
	}
}

// wasServed notes that the request is over, which has held its slot for ns.
func (cl *Client) wasServed(now, held int64) {
	m := cl.meta
	if m == nil || cl.link.Refused() {
		return
	}
	m.served = now
	if m.request.trace != 0 {
		cl.core.traces.served(m.request.trace, cl.wait.Since, now)
	}
	m.group.role.charge(now, held, m.promoted)
	cl.unpromise()
	if m.shape != 0 {
		cl.core.costs.Observe(m.shape, held)
		m.shape = 0
	}
}

// wasRefused notes that the request was not let in: what comes next is not its continuation.
func (cl *Client) wasRefused() {
	m := cl.meta
	if m == nil {
		return
	}
	m.served = 0
	if m.request.trace != 0 {
		cl.core.traces.refused(m.request.trace)
	}
	cl.unpromise()
}

// forgetMeta ends what the session holds.
func (cl *Client) forgetMeta() {
	if m := cl.meta; m != nil && m.group != nil {
		cl.unpromise()
		cl.core.names.hold(m.session.tenant, -1)
		cl.meta = nil
	}
}
