package simulate

import (
	"context"
	"math/rand/v2"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/costlimit"
	"github.com/pgweir/pgweir/pool"
)

// The sources of what happens. Of those at the same time the first goes first: an answer that
// comes with the end of the patience still comes in time.
const (
	ends     = iota // statements that end
	fires           // the gate and the set of servers want to be called
	others          // see later
	commonly        // the number of these; arrivals and ends of patience follow, by stream
)

// The acts of an item.
const (
	actAsk     int32 = iota // the request is asked (again)
	actDialled              // a login ends
	actGone                 // a connection is closed
	actBegin                // an event of the database
	actEnd
)

// request is a client with what it waits for. Clients that leave what runs for them take
// their things to another one.
type request struct {
	w       admission.Waiter
	stream  *stream
	session *session
	tenant  int

	born      int64 // when the client wanted the page
	asked     int64 // when it asked for this statement
	statement int   // of the page
	tries     int   // of this statement, so far
	rounds    int   // of a client that asks again and again, so far
	spent     int64 // ns of slots for statements of the page that are done
	count     *count

	kind        int // of the stream's statements
	fingerprint uint64
	server      *pool.Server // while it runs
	ticket      admission.Ticket
	started     int64
	finish      float64 // by the clock of the database
	at          int     // in running + 1; 0 = does not run
	left        bool    // nobody waits for the answer
	cut         bool    // cancelled before its end
	patient     bool    // in the stream's list of those who wait
	earlier     *request
	later       *request
	nextFree    *request
}

// session is a connection of a client.
type session struct {
	served int64 // when its last statement ended well; -1 = it did not
	began  int64 // when the page began that is being asked for
	next   *session
}

// world is one run.
type world struct {
	*Scenario
	now     int64
	rnd     *rand.Rand
	extra   *rand.Rand // of what statements take beside their time
	gate    *admission.Gate
	set     *pool.Set
	agenda  *agenda
	later   later
	db      database
	streams []stream
	length  int64 // of the load
	fired   int64 // when the gate was fired last

	out      []admission.Verdict
	actions  []pool.Action
	free     *request
	sessions *session // not in use
	dirty    bool     // servers came or went
	live     int      // clients that want something

	oracle  *oracle
	costs   *costlimit.Estimator
	quota   *quota.Limiter
	result  *Result
	running int
}

// fingerprints is how many shapes of statements are remembered.
const fingerprints = 20_000

// refresh is how often at least gate and set are called while something goes on.
const refresh = 10e6

// Run plays a scenario from the first arrival until the last request has ended. It returns nil
// when ctx ends before.
func Run(ctx context.Context, s *Scenario, seed uint64) *Result {
	const glance = 1024
	x := newWorld(s, seed)
	for n := 0; x.next(); n++ {
		if n%glance == 0 && ctx.Err() != nil {
			return nil
		}
	}
	x.finish()
	return x.result
}

// next lets what is next happen; false = nothing is.
func (x *world) next() bool {
	source, at := x.agenda.next()
	if at == never || x.now >= x.length && x.live == 0 && x.running == 0 && x.gate.Waiting() == 0 {
		return false
	}
	x.now = at
	x.step(source)
	x.settle()
	return true
}

func newWorld(s *Scenario, seed uint64) *world {
	x := &world{Scenario: s, rnd: rand.New(rand.NewPCG(seed, 0)), fired: -refresh}
	for _, p := range s.Load {
		x.length += int64(p.Length)
	}
	options := s.Pool
	options.Rand = x.rnd.Float64
	x.set = pool.New(options)
	x.gate = admission.New(s.Plan, x.set, x.rnd.Float64)
	x.agenda = newAgenda(commonly + 2*len(s.Streams))
	x.costs = costlimit.New(fingerprints)
	x.quota = quota.New(0)
	x.quota.Reconfigure(0, s.Rates)
	x.extra = rand.New(rand.NewPCG(seed, ^uint64(0)))
	x.db.rate = 1
	x.db.speed = 1
	x.result = newResult(s, seed, x.length)
	if s.Oracle {
		x.oracle = newOracle(s.Plan.Slots)
	}
	x.streams = make([]stream, len(s.Streams))
	for i := range x.streams {
		x.streams[i].init(x, i, seed)
	}
	for i, e := range s.Database.Events {
		x.later.put(item{at: int64(e.Begin), act: actBegin, id: i})
		x.later.put(item{at: int64(e.End), act: actEnd, id: i})
	}
	x.agenda.set(others, x.later.first())
	return x
}

// step does what is next.
func (x *world) step(source int) {
	switch {
	case source == ends:
		x.ended(x.db.take(x.now))
	case source == fires: // settle does it
		x.dirty = true
	case source == others:
		x.act(x.later.take())
	case source < commonly+len(x.streams):
		x.arrive(&x.streams[source-commonly])
	default:
		x.impatient(&x.streams[source-commonly-len(x.streams)])
	}
}

// act does what was put off.
func (x *world) act(it item) {
	switch it.act {
	case actAsk:
		x.ask(it.r)
	case actDialled:
		if sv := x.set.Server(uint32(it.id)); sv != nil {
			x.dialled(sv)
		}
	case actGone:
		if sv := x.set.Server(uint32(it.id)); sv != nil {
			x.set.Gone(x.now, sv)
			x.dirty = true
		}
	case actBegin, actEnd:
		x.happen(&x.Database.Events[it.id], it.act == actBegin)
	}
}

// settle brings gate, servers and agenda to rest.
func (x *world) settle() {
	if x.gate.Waiting() > 0 || x.dirty || x.now-x.fired >= refresh {
		x.fire()
	}
	x.agenda.set(ends, x.db.next(x.now))
	x.agenda.set(others, x.later.first())
}

// fire calls gate and set until neither has anything left to do.
func (x *world) fire() {
	x.dirty, x.fired = false, x.now
	for {
		next := x.set.Fire(x.now)
		var due int64
		due, x.out = x.gate.Fire(x.now, x.out)
		x.deliver()
		x.actions = x.set.Actions(x.actions[:0])
		if len(x.actions) == 0 {
			x.agenda.set(fires, max(min(next, due), x.now+1))
			return
		}
		for _, a := range x.actions {
			x.carryOut(a)
		}
	}
}

// deliver tells the clients what the gate has decided.
func (x *world) deliver() {
	for i := range x.out {
		x.verdict(&x.out[i])
	}
	x.out = x.out[:0]
}

func (x *world) verdict(v *admission.Verdict) {
	r := v.W.Owner.(*request)
	switch v.Outcome {
	case admission.Granted:
		x.start(r, v)
	case admission.Refused:
		x.refused(r, v)
	}
}

// start lets the database begin with r.
func (x *world) start(r *request, v *admission.Verdict) {
	r.server, r.ticket, r.started = x.set.Server(v.Grant), v.Ticket, x.now
	takes := r.finish + x.overhead()
	x.running++
	x.result.MostRunning = max(x.result.MostRunning, x.running)
	if x.oracle != nil {
		x.oracle.change(x.now, x.running)
	}
	x.db.begin(x, r, takes)
}

// overhead is what the next statement takes beside its time, in ns.
func (x *world) overhead() float64 {
	half := float64(x.Database.Overhead) / 2
	if half == 0 {
		return 0
	}
	return half + half*x.extra.ExpFloat64()
}

// release ends r's use of slot and server.
func (x *world) release(r *request, broken bool) {
	x.running--
	x.result.End = x.now
	held := x.now - r.started
	r.count.busy += held
	r.stream.tenants[r.tenant].busy += held
	x.costs.Observe(r.fingerprint, held)
	if r.stream.buckets != nil {
		list := r.stream.buckets[r.tenant]
		for i := range list {
			if list[i].ServerTime() {
				x.quota.Charge(x.now, &list[i], held)
			}
		}
	}
	if r.left {
		r.count.wasted += held
		if !r.cut {
			r.count.inVain++
		}
	}
	if broken {
		x.set.Gone(x.now, r.server)
		x.dirty = true
	} else if x.set.Put(x.now, r.server) {
		x.out = x.gate.Supplied(x.now, r.w.Key, x.out)
	}
	x.out = x.gate.Done(x.now, r.ticket, held, x.out)
	r.server = nil
	x.deliver()
	if x.oracle != nil {
		x.oracle.change(x.now, x.running)
	}
}

// finish completes the result.
func (x *world) finish() {
	if x.oracle != nil {
		x.oracle.change(never, x.running)
		x.result.FalseOracle = x.oracle.found
	}
	x.result.close(x.gate.Stats())
}
