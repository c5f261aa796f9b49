package pool_test

import (
	"fmt"
	"slices"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
)

const ms = int64(1e6)

// session is a client of the model: it waits, or runs on a server, or neither.
type session struct {
	w       admission.Waiter
	id      int
	waiting bool
	ticket  admission.Ticket
	server  *pool.Server // while it has a ticket
	started int64
	order   int // of its last Admit
}

// world drives a gate and a set as the event loop does, and keeps its own
// books: what it was asked to do, what it did, what it was told.
type world struct {
	gate *admission.Gate
	set  *pool.Set
	plan admission.Plan

	now      int64
	sessions []*session
	dials    []*pool.Server        // asked for and not answered
	sockets  map[*pool.Server]bool // every place: from the Dial to Gone
	owner    map[*pool.Server]*session
	closing  []*pool.Server // asked to be closed, socket not ended
	cancels  []*pool.Server // one per hold
	allowed  int            // sockets that may exist
	budget   int
	admits   int
	lastKey  map[admission.Key]int // order of the last grant of a key, probes not counted
	granted  int
	refused  int
	pending  []admission.Verdict
	actions  []pool.Action
	problem  error
	names    map[string]*pool.Server
	limit    func(admission.Key) int
	parallel int
	log      func(format string, args ...any) // nil = silent
}

func newWorld(p admission.Plan, o pool.Options, rnd func() float64, sessions, keys int) *world {
	o.Rand = rnd
	w := &world{
		set: pool.New(o), plan: p, now: 1, limit: o.KeyLimit, parallel: o.ConnectParallel, budget: o.Budget, allowed: o.Budget,
		sockets: map[*pool.Server]bool{}, owner: map[*pool.Server]*session{}, names: map[string]*pool.Server{}, lastKey: map[admission.Key]int{},
	}
	w.gate = admission.New(p, w.set, rnd)
	for i := range sessions {
		s := &session{id: i}
		s.w.Key = admission.Key(i % keys)
		s.w.Owner = s
		w.sessions = append(w.sessions, s)
	}
	return w
}

func (w *world) failf(format string, args ...any) {
	if w.problem == nil {
		w.problem = fmt.Errorf(format, args...)
	}
}

// deliver does what follows the calls on gate and set: verdicts, actions.
func (w *world) deliver() {
	for _, v := range w.pending {
		w.verdict(v)
	}
	w.pending = w.pending[:0]
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
	w.allowed = max(w.budget, min(w.allowed, len(w.sockets)))
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

// checkDial: servers are opened for waiters only, within the bounds.
func (w *world) checkDial(k admission.Key) {
	of := 0
	for sv := range w.sockets {
		if sv.Key == k {
			of++
		}
	}
	wanted := slices.ContainsFunc(w.sessions, func(s *session) bool { return s.waiting && s.w.Key == k })
	if !wanted {
		w.failf("a dial for key %d, for which nobody waits", k)
	}
	if w.parallel > 0 && len(w.dials) > w.parallel {
		w.failf("%d dials at once", len(w.dials))
	}
	if w.limit != nil && w.limit(k) > 0 && of > w.limit(k) {
		w.failf("key %d has %d servers of %d", k, of, w.limit(k))
	}
}

// verdict checks a final verdict and gives it to its session.
func (w *world) verdict(v admission.Verdict) {
	s := v.W.Owner.(*session)
	if !s.waiting || s.server != nil || v.W.Waiting() {
		w.failf("session %d: unexpected verdict %+v", s.id, v)
		return
	}
	s.waiting = false
	switch v.Outcome {
	case admission.Granted:
		w.grant(s, v)
	case admission.Refused:
		w.print("session %d refused %v after %d ms, retry after %d ms", s.id, v.Reason, v.Waited/ms, v.RetryAfter/ms)
		w.refused++
		if v.Reason == admission.None || v.RetryAfter < 50*ms || v.RetryAfter > 7500*ms {
			w.failf("session %d: bad refusal %+v", s.id, v)
		}
		if v.Reason == admission.QueueAge && v.Waited < w.plan.Workloads[0].MaxWait {
			w.failf("session %d: refused for age after %d", s.id, v.Waited)
		}
	default:
		w.failf("session %d: verdict is not final: %+v", s.id, v)
	}
}

func (w *world) grant(s *session, v admission.Verdict) {
	w.granted++
	sv := w.set.Server(v.Grant)
	switch {
	case sv == nil || sv.State() != pool.Busy || sv.Key != s.w.Key || sv.Held():
		w.failf("session %d of key %d was granted %+v", s.id, s.w.Key, sv)
		return
	case w.owner[sv] != nil:
		w.failf("server %#x has two owners", sv.ID)
	case v.Waited >= w.plan.Workloads[0].MaxWait:
		w.failf("session %d was granted after %d", s.id, v.Waited)
	case !s.w.Probe && s.order < w.lastKey[s.w.Key]:
		w.failf("session %d of key %d was granted out of order", s.id, s.w.Key)
	}
	if !s.w.Probe {
		w.lastKey[s.w.Key] = s.order
	}
	lane := ""
	if v.Ticket.Lane {
		lane = " by the lane"
	}
	w.print("session %d granted %s after %d ms%s", s.id, w.name(sv), v.Waited/ms, lane)
	w.owner[sv], s.server, s.ticket, s.started = s, sv, v.Ticket, w.now
}

func (w *world) admit(s *session, probe bool) {
	w.admits++
	full := w.full(probe)
	s.order, s.waiting, s.w.Probe = w.admits, true, probe
	v := w.gate.Admit(w.now, &s.w)
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

// full reports whether the bound for probes or for others is reached.
func (w *world) full(probe bool) bool {
	n := 0
	for _, s := range w.sessions {
		if s.waiting && s.w.Probe == probe {
			n++
		}
	}
	if probe {
		return w.plan.ProbeWaiting > 0 && n >= w.plan.ProbeWaiting
	}
	bound := w.plan.Workloads[0].MaxWaiting
	if bound == 0 {
		bound = w.gate.Stats().MaxWaiting
		if least := 4 * max(w.plan.Slots, 1); bound < least {
			w.failf("automatic bound of %d for %d slots", bound, w.plan.Slots)
		}
	}
	return n >= bound
}

func (w *world) withdraw(s *session) {
	if w.gate.Withdraw(w.now, &s.w) != s.waiting {
		w.failf("session %d: withdraw disagrees", s.id)
	}
	s.waiting = false
	w.deliver()
}

// finish ends s's ticket; its server is put back or broken, or had ended.
func (w *world) finish(s *session, broken bool) {
	sv := s.server
	s.server = nil
	delete(w.owner, sv)
	if broken {
		w.set.Break(w.now, sv)
	} else if w.set.Put(w.now, sv) {
		w.supplied(sv)
	}
	w.pending = w.gate.Done(w.now, s.ticket, w.now-s.started, w.pending)
	w.deliver()
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
	}
	if w.set.Dialed(w.now, sv, ok, permanent) {
		w.supplied(sv)
	}
	if permanent && !ok {
		w.pending = w.gate.Unsupplied(w.now, sv.Key, w.pending)
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

// fire lets both act at now and returns when they want to again.
func (w *world) fire() int64 {
	var next int64
	next, w.pending = w.gate.Fire(w.now, w.pending)
	w.deliver()
	next = min(next, w.set.Fire(w.now))
	w.deliver()
	if next <= w.now {
		w.failf("fired at %d, to be fired again at %d", w.now, next)
	}
	for _, s := range w.sessions {
		if s.waiting && (w.now-s.w.Arrived() >= w.plan.Workloads[0].MaxWait || next > s.w.Arrived()+w.plan.Workloads[0].MaxWait) {
			w.failf("session %d waits for %d, to be fired in %d", s.id, w.now-s.w.Arrived(), next-w.now)
		}
	}
	return next
}

func (w *world) setBudget(n int) {
	w.budget = n
	w.allowed = max(n, len(w.sockets))
	w.set.Resize(w.now, n)
	w.deliver()
}

// check compares gate and set with the model's books.
func (w *world) check() error {
	if w.problem != nil {
		return w.problem
	}
	if err := w.gate.Check(); err != nil {
		return err
	}
	if err := w.set.Check(); err != nil {
		return err
	}
	gs, ss := w.gate.Stats(), w.set.Stats()
	running, waiting := 0, 0
	for _, s := range w.sessions {
		if s.server != nil {
			running++
		}
		if s.waiting {
			waiting++
		}
	}
	places := ss.Dialling + ss.Idle + ss.Busy + ss.Closing
	switch {
	case running != gs.Running || waiting != gs.Waiting:
		return fmt.Errorf("%d run and %d wait, the gate says %d and %d", running, waiting, gs.Running, gs.Waiting)
	case places != len(w.sockets):
		return fmt.Errorf("%d sockets, the set says %+v", len(w.sockets), ss)
	case len(w.sockets) > w.allowed:
		return fmt.Errorf("%d sockets, %d allowed", len(w.sockets), w.allowed)
	case ss.Dialling != len(w.dials) || ss.Closing != len(w.closing):
		return fmt.Errorf("%d dials, %d closing, the set says %+v", len(w.dials), len(w.closing), ss)
	}
	return w.checkServed(gs)
}

// checkServed: while a slot is free, nobody waits beside an idle server.
func (w *world) checkServed(gs admission.Stats) error {
	if gs.Running >= gs.Slots {
		return nil
	}
	idle := map[admission.Key]bool{}
	for sv := range w.sockets {
		if sv.State() == pool.Idle {
			idle[sv.Key] = true
		}
	}
	for _, s := range w.sessions {
		if s.waiting && idle[s.w.Key] {
			return fmt.Errorf("session %d waits, a slot is free and key %d has an idle server", s.id, s.w.Key)
		}
	}
	return nil
}
