package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/admission/quota"
)

// stream is a Stream at work.
type stream struct {
	*Stream
	index    int
	arrivals *arrivals
	rnd      *rand.Rand
	tenants  []tenant
	// first and last of those who wait, by when their patience ends.
	first, last *request
	// buckets of the rates of each tenant; nil = there are none.
	buckets [][]quota.Bucket
	// newest and oldest of the sessions that nobody uses.
	newest, oldest *session
}

// trip is how long an answer to a client and its next question take at least, in ns: who does
// not think after a refusal does not ask for ever at one moment.
const trip = 100e3

// continueWindow is how long a session that was served goes on with what it began.
const continueWindow = int64(250 * time.Millisecond)

func (st *stream) init(x *world, i int, seed uint64) {
	*st = stream{Stream: &x.Scenario.Streams[i], index: i, rnd: rand.New(rand.NewPCG(seed, uint64(i)+1))}
	st.tenants = x.result.tenants[i]
	if st.Rates != nil {
		st.buckets = make([][]quota.Bucket, len(st.tenants))
		for i, keys := range st.Rates {
			for _, k := range keys {
				st.buckets[i] = append(st.buckets[i], x.quota.Bucket(k.Rule, k.A, k.B))
			}
		}
	}
	st.arrivals = newArrivals(x.Scenario, i, st.rnd)
	for range st.Pool {
		x.giveBack(st, &session{served: -1})
	}
	x.agenda.set(commonly+i, st.arrivals.next())
	x.live += st.Clients
	for c := range st.Clients {
		r := x.request(st)
		r.tenant = c % len(st.tenants)
		x.later.put(item{at: int64(st.rnd.Float64() * float64(st.Think)), act: actAsk, r: r})
	}
}

// request is one that nobody uses.
func (x *world) request(st *stream) *request {
	r := x.free
	if r == nil {
		r = new(request)
		r.w.Owner = r
	} else {
		x.free = r.nextFree
	}
	r.stream, r.nextFree = st, nil
	r.statement, r.tries, r.rounds, r.spent, r.left, r.count, r.session = 0, 0, 0, 0, false, nil, nil
	r.cut = false
	return r
}

func (x *world) discard(r *request) {
	r.nextFree = x.free
	x.free = r
}

// arrive lets the next client of a stream come.
func (x *world) arrive(st *stream) {
	r := x.request(st)
	if len(st.tenants) > 1 {
		r.tenant = st.rnd.IntN(len(st.tenants))
	} else {
		r.tenant = 0
	}
	x.live++
	x.agenda.set(commonly+st.index, st.arrivals.next())
	x.ask(r)
}

// ask sends r's statement.
func (x *world) ask(r *request) {
	st := r.stream
	if r.count == nil { // a new page
		r.born = x.now
		r.count = x.result.at(x.now, st.index)
		r.count.arrived++
		st.tenants[r.tenant].arrived++
	}
	if r.session == nil {
		r.session = x.session(st)
	}
	r.asked = x.now
	r.tries++
	r.count.attempts++
	r.kind = pick(st.Service, st.rnd)
	r.finish = st.Service[r.kind].draw(st.rnd)
	r.fingerprint = uint64(st.index)<<32 | uint64(r.kind)
	x.describe(r)
	if st.buckets != nil {
		if wait := x.overRate(r); wait > 0 {
			v := x.gate.Refuse(x.now, &r.w, admission.Rate)
			v.Waited, v.RetryAfter = 0, wait
			x.refused(r, &v)
			return
		}
	}
	if st.Patience > 0 {
		st.wait(r)
		x.watch(st)
	}
	v := x.gate.Admit(x.now, &r.w)
	x.out = x.gate.Displaced(x.out)
	if v.Outcome == admission.Queued {
		x.result.MostWaiting = max(x.result.MostWaiting, x.gate.Waiting())
	} else {
		x.verdict(&v)
	}
	x.deliver()
}

// describe fills in what the gate is told.
func (x *world) describe(r *request) {
	st, w := r.stream, &r.w
	w.Key, w.Workload, w.Role, w.Class = st.Key, st.Workload, st.Role, st.Class
	w.Tenant = st.FirstTenant + uint32(r.tenant)
	w.Continuing = r.session.served >= 0 && x.now-r.session.served < continueWindow
	if !w.Continuing {
		r.session.began = x.now
	}
	w.Since = r.session.began
	w.Begun = false
	w.Attempt = 0
	if st.TellAttempt {
		w.Attempt = uint8(min(r.tries, 255))
	}
	w.Deadline = 0
	for _, d := range [...]time.Duration{st.Deadline, x.Workloads[st.Workload].Deadline} {
		if at := x.now + int64(d); d > 0 && (w.Deadline == 0 || at < w.Deadline) {
			w.Deadline = at
		}
	}
	if st.Expected == Learned {
		w.Expected, _ = x.costs.Expected(r.fingerprint)
		return
	}
	w.Expected = st.Service[r.kind].estimate(st.Expected, r.finish)
}

// overRate is how long r's client has to wait for what it may ask for; 0 = it may now.
func (x *world) overRate(r *request) (wait int64) {
	list := r.stream.buckets[r.tenant]
	for i := range list {
		wait = max(wait, x.quota.Wait(x.now, &list[i], cost(&list[i])))
	}
	for i := range list {
		if wait == 0 {
			x.quota.Take(x.now, &list[i], cost(&list[i]))
		}
	}
	return wait
}

// cost of a statement before it runs: of a bucket of server-time nothing is known yet.
func cost(b *quota.Bucket) int64 {
	if b.ServerTime() {
		return 0
	}
	return 1
}

// ended is a statement that the database has done.
func (x *world) ended(r *request) {
	x.pace()
	left, held := r.left, x.now-r.started
	x.release(r, false)
	if left {
		x.discard(r)
		return
	}
	r.stream.forget(r)
	x.watch(r.stream)
	r.session.served = x.now
	r.spent += held
	r.tries = 0
	if r.statement++; r.statement < r.stream.Statements {
		if r.stream.Gap == 0 {
			x.ask(r)
			return
		}
		x.later.put(item{at: x.now + int64(r.stream.Gap), act: actAsk, r: r})
		return
	}
	r.count.served++
	r.count.latency.add(x.now - r.born)
	r.stream.tenants[r.tenant].served++
	x.result.second(x.now, r.stream.index)
	x.over(r)
}

// lost is a statement whose connection ends.
func (x *world) lost(r *request) {
	x.pace()
	left := r.left
	x.release(r, true)
	if left {
		x.discard(r)
		return
	}
	r.stream.forget(r)
	x.watch(r.stream)
	x.drop(r)
	x.failed(r, outcome{lost: true})
}

// refused is what the gate does not let in.
func (x *world) refused(r *request, v *admission.Verdict) {
	if r.left {
		x.discard(r)
		return
	}
	if x.oracle != nil {
		x.oracle.refused(x.now, r, x.patienceAt(r))
	}
	r.stream.forget(r)
	x.watch(r.stream)
	r.session.served = -1
	r.count.told.add(v.Waited)
	r.count.refusals[v.Reason]++
	x.failed(r, outcome{reason: v.Reason, after: v.RetryAfter})
}

// patienceAt is until when r could have waited.
func (x *world) patienceAt(r *request) int64 {
	plan := &x.Plan.Workloads[r.w.Workload]
	wait := plan.MaxWait
	if w := plan.ClassWait[r.w.Class-admission.CriticalPlus]; w > 0 {
		wait = w
	}
	until := r.asked + wait
	if r.w.Deadline > 0 {
		until = min(until, r.w.Deadline-int64(r.finish))
	}
	return until
}

// impatient is the end of the patience of the first of a stream.
func (x *world) impatient(st *stream) {
	r := st.first
	if r == nil || r.asked+int64(st.Patience) > x.now {
		x.watch(st)
		return
	}
	st.forget(r)
	x.watch(st)
	client := r
	switch {
	case r.at > 0:
		r.left = true
		if st.Leave == Cancel || st.Leave == Close && x.Workloads[st.Workload].CancelAbandoned {
			r.cut = x.db.hasten(x.now, r, float64(x.Database.Cancel))
		}
		client = x.leave(r)
	case x.policyOf(r).IgnoresGone() && st.Leave != Cancel || st.Leave == Walk:
		r.left = true
		client = x.leave(r)
	default:
		x.gate.Withdraw(x.now, &r.w)
	}
	x.drop(r) // the session is closed
	x.failed(client, outcome{timeout: true})
}

// leave gives the client of r another request, and leaves r to itself.
func (x *world) leave(r *request) *request {
	c := x.request(r.stream)
	c.tenant, c.born, c.asked, c.statement, c.tries = r.tenant, r.born, r.asked, r.statement, r.tries
	c.rounds, c.spent, c.count = r.rounds, r.spent, r.count
	return c
}

// outcome is how an attempt ended that did not end well.
type outcome struct {
	reason  admission.Reason
	after   int64 // what the refusal says about when to come back
	timeout bool
	lost    bool
}

// failed lets the client of r try again, or gives up.
func (x *world) failed(r *request, o outcome) {
	st := r.stream
	if o.timeout {
		r.count.gaveUp++
	}
	if r.tries <= st.Retries {
		if wait, again := st.pause(o); again {
			x.later.put(item{at: x.now + wait, act: actAsk, r: r})
			return
		}
	}
	t := &st.tenants[r.tenant]
	switch {
	case o.timeout:
		r.count.timedOut++
		t.timedOut++
	case o.lost:
		r.count.lost++
	default:
		r.count.refused[o.reason]++
		t.refused++
	}
	r.count.broken += r.spent
	x.over(r)
}

// pause is how long the stream's clients wait before they try again.
func (st *stream) pause(o outcome) (wait int64, again bool) {
	if st.RetryHint && o.reason != admission.None {
		switch o.reason {
		case admission.Deadline, admission.Attempts, admission.Blocked:
			return 0, false
		}
		return o.after, true
	}
	return int64(st.rnd.Float64() * float64(st.RetryWithin)), true
}

// over ends a page; a client that asks again and again does so.
func (x *world) over(r *request) {
	st := r.stream
	if r.session != nil {
		x.giveBack(st, r.session)
		r.session = nil
	}
	if st.Clients > 0 {
		again := x.now + int64(st.Think)
		if st.Think > 0 {
			again = x.now + int64(st.rnd.ExpFloat64()*float64(st.Think))
		}
		r.rounds++
		if st.Queries > 0 && r.rounds < st.Queries || st.Queries == 0 && again < x.length {
			r.statement, r.tries, r.spent, r.count = 0, 0, 0, nil
			x.later.put(item{at: max(again, x.now+trip), act: actAsk, r: r})
			return
		}
		x.result.finished[st.index] = x.now
	}
	x.live--
	x.result.End = x.now
	x.discard(r)
}

// session takes one out of the stream's.
func (x *world) session(st *stream) *session {
	s := st.newest
	if st.Sessions == Oldest {
		s = st.oldest
	}
	if s != nil {
		if st.Sessions == Newest {
			st.newest = s.next
		} else if st.oldest = s.next; st.oldest == nil {
			st.newest = nil
		}
		s.next = nil
		return s
	}
	if s = x.sessions; s == nil {
		return &session{served: -1}
	}
	x.sessions = s.next
	*s = session{served: -1}
	return s
}

// drop ends r's session.
func (x *world) drop(r *request) {
	if r.session != nil {
		r.session.next, x.sessions = x.sessions, r.session
		r.session = nil
	}
}

// giveBack puts a session to those that the stream's clients may use.
func (x *world) giveBack(st *stream, s *session) {
	switch st.Sessions {
	case Newest:
		s.next, st.newest = st.newest, s
	case Oldest:
		s.next = nil
		if st.oldest == nil {
			st.oldest = s
		} else {
			st.newest.next = s
		}
		st.newest = s
	default:
		s.next, x.sessions = x.sessions, s
	}
}

// watch says when the first of a stream loses its patience.
func (x *world) watch(st *stream) {
	at := int64(never)
	if st.first != nil {
		at = st.first.asked + int64(st.Patience)
	}
	x.agenda.set(commonly+len(x.streams)+st.index, at)
}

// wait puts r behind those whose patience ends earlier.
func (st *stream) wait(r *request) {
	r.patient, r.earlier, r.later = true, st.last, nil
	if st.last == nil {
		st.first = r
	} else {
		st.last.later = r
	}
	st.last = r
}

// forget takes r out of those who wait for an answer.
func (st *stream) forget(r *request) {
	if !r.patient {
		return
	}
	r.patient = false
	if r.earlier == nil {
		st.first = r.later
	} else {
		r.earlier.later = r.later
	}
	if r.later == nil {
		st.last = r.earlier
	} else {
		r.later.earlier = r.earlier
	}
	r.earlier, r.later = nil, nil
}
