package pool_test

import (
	"fmt"
	"slices"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
)

const ms = int64(1e6)

// session is a client of the model: it waits, or runs a transaction, or keeps a
// server, or neither.
type session struct {
	w       admission.Waiter
	id      int
	waiting bool
	server  *pool.Server // while it has one
	kept    bool         // the server is its own until it is released
	running bool         // it has a slot
	ticket  admission.Ticket
	started int64
	order   int // of its last Admit
	clock
}

// world drives a gate and a set as the event loop does, and keeps its own
// books: what it was asked to do, what it did, what it was told.
type world struct {
	gate *admission.Gate
	set  *pool.Set
	plan admission.Plan
	opts pool.Options

	now      int64
	keys     int
	sessions []*session
	dials    []*pool.Server        // asked for and not answered
	sockets  map[*pool.Server]bool // every place: from the Dial to Gone
	owner    map[*pool.Server]*session
	closing  []*pool.Server // asked to be closed, socket not ended
	cancels  []*pool.Server // one per hold
	allowed  int            // sockets that may exist
	ordinary int            // of keys that have no part in the reserve
	minimum  map[admission.Key]int
	paused   map[admission.Key]bool
	all      bool // paused
	mixed    bool // somebody has asked for a transaction
	hopeless bool // a login was refused for good just now
	crammed  bool // dials fail because the server has no room
	admits   int
	lastOf   map[admission.Waiter]int // order of the last grant of a kind, probes and reserved not counted
	granted  int
	refused  int
	pending  []admission.Verdict
	actions  []pool.Action
	problem  error
	changes  uint64 // of the set, as watch saw it
	names    map[string]*pool.Server
	log      func(format string, args ...any) // nil = silent
}

func newWorld(p admission.Plan, o pool.Options, rnd func() float64, sessions, keys int) *world {
	o.Rand = rnd
	w := &world{
		set: pool.New(o), now: 1, opts: o, keys: keys,
		sockets: map[*pool.Server]bool{}, owner: map[*pool.Server]*session{}, names: map[string]*pool.Server{},
		lastOf: map[admission.Waiter]int{}, minimum: map[admission.Key]int{}, paused: map[admission.Key]bool{},
	}
	w.setPlan(p)
	w.allow()
	w.gate = admission.New(p, w.set, rnd)
	for i := range sessions {
		s := &session{id: i}
		s.w.Key = admission.Key(i % keys)
		s.w.Owner = s
		w.sessions = append(w.sessions, s)
	}
	return w
}

// allow notes how many sockets may exist after a change of the budget.
func (w *world) allow() {
	w.allowed = max(w.opts.Budget, len(w.sockets))
	w.ordinary = max(w.opts.Budget-w.opts.Reserve, w.ordinarySockets())
}

func (w *world) ordinarySockets() (n int) {
	for sv := range w.sockets {
		if !w.reserved(sv.Key) {
			n++
		}
	}
	return n
}

func (w *world) reserved(k admission.Key) bool {
	return w.opts.ReservedKey != nil && w.opts.ReservedKey(k)
}

func (w *world) failf(format string, args ...any) {
	if w.problem == nil {
		w.problem = fmt.Errorf(format, args...)
	}
}

// deliver does what follows the calls on gate and set: verdicts, actions.
func (w *world) deliver() {
	w.verdicts()
	w.actions = w.set.Actions(w.actions[:0])
	for _, a := range w.actions {
		w.print("%v %s key %d", a.Kind, w.name(a.Server), a.Server.Key)
		switch a.Kind {
		case pool.Dial:
			w.dials = append(w.dials, a.Server)
			if w.sockets[a.Server] {
				w.failf("server %#x dialled twice", a.Server.ID)
			}
			w.sockets[a.Server] = true
			w.checkDial(a.Server.Key)
		case pool.Close:
			if slices.Contains(w.closing, a.Server) || !w.sockets[a.Server] {
				w.failf("server %#x closed twice or not open", a.Server.ID)
			}
			w.closing = append(w.closing, a.Server)
		}
	}
	w.allowed = max(w.opts.Budget, min(w.allowed, len(w.sockets)))
	w.ordinary = max(w.opts.Budget-w.opts.Reserve, min(w.ordinary, w.ordinarySockets()))
	w.watch()
}

func (w *world) verdicts() {
	for _, v := range w.pending {
		w.verdict(v)
	}
	w.pending = w.pending[:0]
}

func (w *world) print(format string, args ...any) {
	if w.log != nil {
		w.log(format, args...)
	}
}

// name numbers servers in the order in which scripts first see them.
func (w *world) name(sv *pool.Server) string {
	if w.log == nil {
		return ""
	}
	for name, known := range w.names {
		if known == sv {
			return name
		}
	}
	name := fmt.Sprintf("s%d", len(w.names)+1)
	w.names[name] = sv
	return name
}

// checkDial: servers are opened for waiters or a minimum only, within the bounds.
func (w *world) checkDial(k admission.Key) {
	of, staying := 0, 0
	for sv := range w.sockets {
		if sv.Key != k {
			continue
		}
		of++
		if sv.State() != pool.Closing {
			staying++
		}
	}
	wanted := slices.ContainsFunc(w.sessions, func(s *session) bool {
		return s.waiting && s.w.Key == k && s.w.Want != admission.Slot && !w.isPaused(k)
	})
	if !wanted && staying > w.minimum[k] {
		w.failf("a dial for key %d, for which nobody waits", k)
	}
	if w.opts.ConnectParallel > 0 && len(w.dials) > w.opts.ConnectParallel {
		w.failf("%d dials at once", len(w.dials))
	}
	if l := w.opts.KeyLimit; l != nil && l(k) > 0 && of > l(k) {
		w.failf("key %d has %d servers of %d", k, of, l(k))
	}
	if w.opts.Quotas == nil {
		return
	}
	for kind, q := range w.opts.Quotas(k) {
		under := 0
		for sv := range w.sockets {
			if w.opts.Quotas(sv.Key)[kind].ID == q.ID {
				under++
			}
		}
		if q.ID > 0 && q.Limit > 0 && under > q.Limit {
			w.failf("%d servers under quota %d of %d", under, q.ID, q.Limit)
		}
	}
}

// verdict checks a final verdict and gives it to its session.
func (w *world) verdict(v admission.Verdict) {
	s := v.W.Owner.(*session)
	if !s.waiting || s.running || s.server != nil && s.w.Want != admission.Slot || v.W.Waiting() {
		w.failf("session %d: unexpected verdict %+v", s.id, v)
		return
	}
	if w.isPaused(s.w.Key) && v.Reason != admission.Draining && v.Reason != admission.QueueFull {
		w.failf("session %d of a paused key: %+v", s.id, v)
	}
	switch v.Outcome {
	case admission.Granted:
		w.checkClock(s, v)
		w.checkTurn(s, v)
		s.waiting = false
		w.grant(s, v)
	case admission.Refused:
		s.waiting = false
		w.print("session %d refused %v after %d ms, retry after %d ms", s.id, v.Reason, v.Waited/ms, v.RetryAfter/ms)
		w.refused++
		if v.Reason == admission.None || v.RetryAfter < 50*ms || v.RetryAfter > 7500*ms {
			w.failf("session %d: bad refusal %+v", s.id, v)
		}
		w.checkClock(s, v)
	default:
		w.failf("session %d: verdict is not final: %+v", s.id, v)
	}
}

// kind is what is served in order of arrival.
func (s *session) kind() admission.Waiter {
	return admission.Waiter{Key: s.w.Key, Workload: s.w.Workload, Want: s.w.Want}
}

// fifo reports whether a workload serves the oldest first.
func (w *world) fifo(workload uint16) bool {
	return int(workload) < len(w.plan.Workloads) && w.plan.Workloads[workload].Policy == admission.FIFOGone
}

func (w *world) grant(s *session, v admission.Verdict) {
	w.granted++
	s.ticket, s.started = v.Ticket, w.now
	if v.Ticket.Want != s.w.Want || v.Ticket.Workload != s.w.Workload {
		w.failf("session %d wants %v and got %+v", s.id, s.w.Want, v.Ticket)
	}
	if !s.w.Probe && !s.w.Reserved && w.fifo(s.w.Workload) {
		if s.order < w.lastOf[s.kind()] {
			w.failf("session %d of key %d was granted out of order", s.id, s.w.Key)
		}
		w.lastOf[s.kind()] = s.order
	}
	s.running = s.w.Want != admission.Session
	if s.w.Want == admission.Slot {
		if v.Grant != 0 {
			w.failf("session %d got a server with its slot", s.id)
		}
		w.print("session %d granted a slot after %d ms", s.id, v.Waited/ms)
		return
	}
	sv := w.set.Server(v.Grant)
	switch {
	case sv == nil || sv.State() != pool.Busy || sv.Key != s.w.Key || sv.Held():
		w.failf("session %d of key %d was granted %+v", s.id, s.w.Key, sv)
		return
	case w.owner[sv] != nil:
		w.failf("server %#x has two owners", sv.ID)
	}
	how := ""
	switch {
	case v.Ticket.Lane:
		how = " by the lane"
	case v.Ticket.Extra:
		how = " on an extra slot"
	case s.w.Want == admission.Session:
		how = " to keep"
	}
	w.print("session %d granted %s after %d ms%s", s.id, w.name(sv), v.Waited/ms, how)
	w.owner[sv], s.server, s.kept = s, sv, s.w.Want == admission.Session
}

func (w *world) admit(s *session, probe bool) {
	w.admits++
	s.w.Probe = probe
	full := w.full(s)
	s.order, s.waiting = w.admits, true
	w.mixed = w.mixed || s.w.Want == admission.Transaction
	s.begin(w.now)
	s.wasAway = w.set.Down(s.w.Key)
	v := w.gate.Admit(w.now, &s.w)
	w.pending = w.gate.Displaced(w.pending)
	if (v.Outcome == admission.Queued) != s.w.Waiting() {
		w.failf("session %d: %v, waiting %v", s.id, v.Outcome, s.w.Waiting())
	}
	if full && v.Outcome == admission.Queued || !full && v.Reason == admission.QueueFull {
		w.failf("session %d: full %v, but %+v", s.id, full, v)
	}
	if v.Outcome != admission.Queued {
		w.pending = append(w.pending, v)
	} else {
		w.print("session %d queued, %d wait", s.id, v.Queued)
	}
	w.deliver()
}

// full reports whether the bound for probes or for others of its workload is
// reached for s. Those of paused keys do not count and know no bound.
func (w *world) full(s *session) bool {
	if w.isPaused(s.w.Key) {
		return false
	}
	n := 0
	for _, o := range w.sessions {
		if o.waiting && o.w.Probe == s.w.Probe && !w.isPaused(o.w.Key) && (s.w.Probe || o.w.Workload == s.w.Workload) {
			n++
		}
	}
	if s.w.Probe {
		return w.plan.ProbeWaiting > 0 && n >= w.plan.ProbeWaiting
	}
	if s.w.Reserved && s.w.Want != admission.Session && w.plan.Extra > 0 {
		return w.plan.ProbeWaiting > 0 && w.reservedWaiting() >= w.plan.ProbeWaiting
	}
	bound := w.plan.Workloads[s.w.Workload].MaxWaiting
	if bound == 0 {
		bound = w.gate.Bound(s.w.Workload)
		if bound < 4 {
			w.failf("automatic bound of %d", bound)
		}
	}
	return n >= bound
}

// reservedWaiting is how many wait for a slot that may use those kept for them.
func (w *world) reservedWaiting() (n int) {
	for _, o := range w.sessions {
		if o.waiting && o.w.Reserved && o.w.Want != admission.Session && !w.isPaused(o.w.Key) {
			n++
		}
	}
	return n
}

func (w *world) withdraw(s *session) {
	if w.gate.Withdraw(w.now, &s.w) != s.waiting {
		w.failf("session %d: withdraw disagrees", s.id)
	}
	s.waiting = false
	w.deliver()
}

// finish ends s's transaction; a server that is not its own is put back or
// broken, or had ended.
func (w *world) finish(s *session, broken bool) {
	if !s.kept {
		w.giveBack(s, broken)
	}
	s.running = false
	w.pending = w.gate.Done(w.now, s.ticket, w.now-s.started, w.pending)
	w.deliver()
}

// release ends the session of s, which runs nothing.
func (w *world) release(s *session, broken bool) {
	if s.waiting {
		w.withdraw(s)
	}
	w.giveBack(s, broken)
	s.kept = false
	w.pending = w.gate.Release(w.now, s.w.Workload, w.pending)
	w.deliver()
}

func (w *world) giveBack(s *session, broken bool) {
	sv := s.server
	s.server = nil
	delete(w.owner, sv)
	if broken {
		w.set.Break(w.now, sv)
	} else if w.set.Put(w.now, sv) {
		w.supplied(sv)
		w.verdicts() // made while s counted still
	}
}

func (w *world) supplied(sv *pool.Server) {
	if sv.State() != pool.Idle || sv.Held() {
		w.failf("server %#x is said to be idle: %+v", sv.ID, sv)
	}
	w.pending = w.gate.Supplied(w.now, sv.Key, w.pending)
}

// dialled answers the i-th dial.
func (w *world) dialled(i int, ok, permanent bool) {
	sv := w.dials[i]
	w.dials = slices.Delete(w.dials, i, i+1)
	if !ok {
		delete(w.sockets, sv)
		if !permanent {
			w.set.Refused(w.now, w.crammed)
		}
	}
	if w.set.Dialed(w.now, sv, ok, permanent) {
		w.supplied(sv)
	}
	w.hopeless = permanent && !ok
	if w.hopeless {
		w.pending = w.gate.Unsupplied(w.now, sv.Key, w.pending)
	}
	w.deliver()
	w.hopeless = false
}

// doubt says that sv's dial takes long.
func (w *world) doubt(sv *pool.Server) {
	if w.set.Doubt(w.now, sv) {
		w.pending = w.gate.Supplied(w.now, sv.Key, w.pending)
	}
	w.deliver()
}

// eof ends sv's socket, expected or not.
func (w *world) eof(sv *pool.Server) {
	w.set.Gone(w.now, sv)
	delete(w.sockets, sv)
	w.closing = slices.DeleteFunc(w.closing, func(c *pool.Server) bool { return c == sv })
	w.dials = slices.DeleteFunc(w.dials, func(c *pool.Server) bool { return c == sv })
	if w.set.Server(sv.ID) != nil {
		w.failf("server %#x is found after its end", sv.ID)
	}
	w.deliver()
}

func (w *world) hold(sv *pool.Server) {
	w.set.Hold(sv)
	w.cancels = append(w.cancels, sv)
	w.deliver()
}

func (w *world) unhold(i int) {
	sv := w.cancels[i]
	w.cancels = slices.Delete(w.cancels, i, i+1)
	if w.set.Unhold(w.now, sv) {
		w.supplied(sv)
	}
	w.deliver()
}

// fire lets both act at now, as often as there is something to do, and returns when they
// want to again.
func (w *world) fire() int64 {
	var next int64
	for {
		next = w.set.Fire(w.now)
		w.deliver()
		n, out := w.gate.Fire(w.now, w.pending)
		w.pending = out
		next = min(next, n)
		w.deliver()
		if len(w.actions) == 0 {
			break
		}
	}
	if next <= w.now {
		w.failf("fired at %d, to be fired again at %d", w.now, next)
	}
	w.checkFired(next)
	return next
}

// advance lets time go on. As the event loop does, it fires before.
func (w *world) advance(to int64) {
	w.fire()
	w.tick(to - w.now)
	w.now = to
}

func (w *world) reconfigure(p admission.Plan, o pool.Options) {
	o.Rand = w.opts.Rand
	w.opts = o
	w.allow()
	w.set.Reconfigure(w.now, o)
	w.setPlan(p)
	w.mixed = false // until somebody wants a transaction again
	for _, s := range w.sessions {
		w.mixed = w.mixed || s.waiting && s.w.Want != admission.Session && !w.isPaused(s.w.Key)
	}
	w.pending = w.gate.Reconfigure(w.now, p, w.pending)
	w.deliver()
}

// setPlan notes a plan, with the numbers in force where it has none.
func (w *world) setPlan(p admission.Plan) {
	if len(p.Workloads) == 0 {
		p.Workloads = make([]admission.Workload, 1)
	}
	p.Workloads = slices.Clone(p.Workloads)
	for i := range p.Workloads {
		l := &p.Workloads[i]
		if l.MaxWait == 0 {
			l.MaxWait = 2000 * ms
		}
		if l.NoServerWait == 0 {
			l.NoServerWait = l.MaxWait
		}
		if l.SessionWait == 0 {
			l.SessionWait = 10_000 * ms
		}
		if len(p.Workloads) == 1 {
			l.Share = 1
		}
	}
	if p.Connections == 0 {
		p.Connections = p.Slots
	}
	w.plan = p
}

func (w *world) setBudget(n int) {
	o := w.opts
	o.Budget = n
	w.reconfigure(w.plan, o)
}

// pause stops some keys, or all, of the gate and in the books.
func (w *world) pause(all bool, keys ...admission.Key) {
	if all {
		w.all = true
		w.gate.PauseAll(w.now)
	} else {
		for _, k := range keys {
			w.paused[k] = true
		}
		w.gate.Pause(w.now, keys)
	}
	w.deliver()
}

// resume ends the pause of some keys, or every pause.
func (w *world) resume(all bool, keys ...admission.Key) {
	was := make(map[*session]bool)
	for _, s := range w.sessions {
		was[s] = w.isPaused(s.w.Key)
	}
	if all {
		w.all = false
		clear(w.paused)
		w.pending = w.gate.ResumeAll(w.now, w.pending)
	} else {
		for _, k := range keys {
			delete(w.paused, k)
		}
		w.pending = w.gate.Resume(w.now, keys, w.pending)
	}
	for _, s := range w.sessions {
		if was[s] && !w.isPaused(s.w.Key) {
			s.away, s.awayAt = 0, w.now
		}
	}
	w.deliver()
}

func (w *world) isPaused(k admission.Key) bool { return w.all || w.paused[k] }
