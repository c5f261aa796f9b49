package pool_test

import (
	"fmt"
	"math"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
)

// clock is how long a session waits, as the model counts it.
type clock struct {
	counted int64 // of the limit
	bounded int64 // but for pauses
	away    int64 // on end, that its database was away
	awayAt  int64 // when it went away, seen after any call, or when the session came after that
	wasAway bool
}

func (c *clock) begin(now int64) { *c = clock{awayAt: now} }

// watch notes which databases went away, or came back.
func (w *world) watch() {
	if w.set.Changes() == w.changes {
		return
	}
	w.changes = w.set.Changes()
	for _, s := range w.sessions {
		if is := w.set.Down(s.w.Key); is != s.wasAway {
			s.wasAway = is
			s.awayAt = w.now
		}
	}
}

// tick lets the clocks of those who wait run for dt.
func (w *world) tick(dt int64) {
	if dt == 0 {
		return
	}
	for _, s := range w.sessions {
		k := s.w.Key
		if s.waiting && !w.isPaused(k) {
			s.bounded += dt
		}
		switch {
		case !s.waiting:
		case w.isPaused(k):
		case s.w.Want == admission.Slot:
			s.counted += dt
		case w.set.Down(k):
			s.away += dt
			continue // on end
		case w.lacksOnlyServer(s):
		default:
			s.counted += dt
		}
		s.away = 0
	}
}

// lacksOnlyServer reports whether s could have a permit, and servers are being opened.
func (w *world) lacksOnlyServer(s *session) bool {
	if !w.set.Warming(s.w.Key) { // asked first: it costs less
		return false
	}
	may, _, _ := w.may(int(s.w.Workload), s.w.Want == admission.Session)
	return may
}

func (w *world) workload(s *session) admission.Workload { return w.plan.Workloads[s.w.Workload] }

func (w *world) limit(s *session) int64 {
	if s.w.Want == admission.Session {
		return w.workload(s).SessionWait
	}
	if s.w.Probe {
		return max(w.workload(s).MaxWait, 2000*ms)
	}
	return w.workload(s).MaxWait
}

// bound is how long s may wait in any case, but for pauses.
func (w *world) bound(s *session) int64 {
	if s.w.Want == admission.Slot {
		return w.limit(s)
	}
	return w.limit(s) + w.workload(s).NoServerWait
}

// checkClock: nobody is refused before its time, nor granted after it.
func (w *world) checkClock(s *session, v admission.Verdict) {
	switch {
	case v.Waited != w.now-s.w.Arrived():
		w.failf("session %d waited %d, not %d", s.id, w.now-s.w.Arrived(), v.Waited)
	case v.Reason == admission.QueueAge && s.counted < w.limit(s) && s.bounded < w.bound(s):
		w.failf("session %d: refused for age after %d of %d", s.id, s.counted, w.limit(s))
	case v.Reason == admission.NoServer && w.set.Failing(s.w.Key) && s.counted >= w.limit(s): // others have its servers
	case v.Reason == admission.NoServer && s.bounded >= w.bound(s):
	case v.Reason == admission.NoServer && !w.hopeless && s.away < w.workload(s).NoServerWait:
		w.failf("session %d: no server after %d of %d", s.id, s.away, w.workload(s).NoServerWait)
	case v.Outcome == admission.Granted && (s.counted >= w.limit(s) || s.bounded >= w.bound(s)):
		w.failf("session %d was granted after %d of %d: %+v, now %d, %+v", s.id, s.counted, w.limit(s), v, w.now, s)
	}
}

// checkFired: nobody is left who waited for too long, and the next time is not
// too late for anybody.
func (w *world) checkFired(next int64) {
	for _, s := range w.sessions {
		if !s.waiting || w.isPaused(s.w.Key) {
			continue
		}
		served := s.w.Want != admission.Slot
		left := w.limit(s) - s.counted
		switch {
		case served && w.set.Down(s.w.Key):
			left = max(s.awayAt, s.w.Arrived()) + w.workload(s).NoServerWait - w.now
		case served && w.lacksOnlyServer(s):
			left = math.MaxInt64 - w.now
		}
		left = min(left, w.bound(s)-s.bounded)
		if left <= 0 || next > w.now+left {
			w.failf("session %d has waited %d of %d, %d left, to be fired in %d", s.id, s.counted, w.limit(s), left, next-w.now)
		}
	}
}

// running is how many transactions run on ordinary slots.
func (w *world) running() (n int) {
	for _, s := range w.sessions {
		if s.running && !s.ticket.Extra {
			n++
		}
	}
	return n
}

// uses is how many ordinary slots a workload uses, or servers for sessions.
func (w *world) uses(workload int, sessions bool) (n int) {
	for _, s := range w.sessions {
		if int(s.w.Workload) != workload {
			continue
		}
		if sessions && s.kept || !sessions && s.running && !s.ticket.Extra {
			n++
		}
	}
	return n
}

// may reports whether a workload may have one more slot, or server for a
// session, by what the plan says, and its place in the order.
func (w *world) may(workload int, sessions bool) (may, own bool, ratio float64) {
	total := w.plan.Slots
	if sessions {
		total = w.plan.Connections
	}
	part := func(i int) float64 { return w.plan.Workloads[i].Share * float64(total) }
	free, kept := total, 0
	if sessions && w.mixed {
		free--
	}
	for i, l := range w.plan.Workloads {
		n := w.uses(i, sessions)
		free -= n
		if i != workload {
			kept += max(0, int(math.Floor((1-l.Lendable)*part(i)+1e-6))-n)
		}
	}
	n := w.uses(workload, sessions)
	l := w.plan.Workloads[workload]
	own = float64(n) < part(workload)-1e-6
	if sessions {
		own = n < max(1, int(part(workload)+1e-6)) && l.Share > 0
	}
	borrow := float64(n)-part(workload) < l.Borrow*float64(total)-1e-6 && free-kept > 0
	return free > 0 && (own || borrow), own, float64(n) / max(l.Share, 1e-9)
}

// checkTurn: the permit is one that s may have, and no workload has a better
// claim to the server that it got.
func (w *world) checkTurn(s *session, v admission.Verdict) {
	if v.Ticket.Extra {
		n := 0
		for _, o := range w.sessions {
			if o.running && o.ticket.Extra {
				n++
			}
		}
		if n >= w.plan.Extra || !s.w.Reserved {
			w.failf("session %d got an extra slot, reserved %v, %d of %d taken", s.id, s.w.Reserved, n, w.plan.Extra)
		}
		return
	}
	if v.Ticket.Lane {
		if !s.w.Probe || w.running() >= w.plan.Slots {
			w.failf("session %d got the lane: probe %v, %d of %d run", s.id, s.w.Probe, w.running(), w.plan.Slots)
		}
		return
	}
	sessions := s.w.Want == admission.Session
	may, own, ratio := w.may(int(s.w.Workload), sessions)
	if !may {
		w.failf("session %d: workload %d may not have %+v", s.id, s.w.Workload, v.Ticket)
	}
	for _, o := range w.sessions {
		if !o.waiting || o.w.Workload == s.w.Workload || w.isPaused(o.w.Key) || (o.w.Want == admission.Session) != sessions {
			continue
		}
		if o.w.Want != admission.Slot && (o.w.Key != s.w.Key || s.w.Want == admission.Slot) {
			continue // it could not use that server
		}
		may, theirs, less := w.may(int(o.w.Workload), sessions)
		if may && (theirs && !own || theirs == own && less < ratio) {
			w.failf("session %d of workload %d was granted before %d of workload %d: own %v %v, ratios %v %v \n%+v\n%+v\n%+v\nplan %+v",
				s.id, s.w.Workload, o.id, o.w.Workload, own, theirs, ratio, less, v, s, o, w.plan)
		}
	}
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
	running, waiting, kept, paused := 0, 0, 0, 0
	for _, s := range w.sessions {
		if s.running {
			running++
		}
		if s.kept {
			kept++
		}
		if s.waiting {
			waiting++
			if w.isPaused(s.w.Key) {
				paused++
			}
		}
	}
	places := ss.Dialling + ss.Idle + ss.Busy + ss.Closing
	switch {
	case running != gs.Running || waiting != gs.Waiting || kept != gs.Sessions || paused != gs.Paused:
		return fmt.Errorf("%d run, %d wait, %d sessions, %d paused, the gate says %+v", running, waiting, kept, paused, gs)
	case places != len(w.sockets):
		return fmt.Errorf("%d sockets, the set says %+v", len(w.sockets), ss)
	case len(w.sockets) > w.allowed || w.ordinarySockets() > w.ordinary:
		return fmt.Errorf("%d sockets, %d allowed, %d ordinary, %d allowed", len(w.sockets), w.allowed, w.ordinarySockets(), w.ordinary)
	case ss.Dialling != len(w.dials) || ss.Closing != len(w.closing):
		return fmt.Errorf("%d dials, %d closing, the set says %+v", len(w.dials), len(w.closing), ss)
	}
	for i := range w.plan.Workloads {
		g := gs.Workloads[i]
		if g.Running-g.Reserved != w.uses(i, false) || g.Sessions != w.uses(i, true) {
			return fmt.Errorf("workload %d runs %d and keeps %d, the gate says %+v", i, w.uses(i, false), w.uses(i, true), g)
		}
	}
	return w.checkServed()
}

// checkServed: nobody waits who may have a permit, beside an idle server.
func (w *world) checkServed() error {
	idle := map[admission.Key]bool{}
	for sv := range w.sockets {
		if sv.State() == pool.Idle {
			idle[sv.Key] = true
		}
	}
	extra := 0
	for _, s := range w.sessions {
		if s.running && s.ticket.Extra {
			extra++
		}
	}
	for _, s := range w.sessions {
		if !s.waiting || w.isPaused(s.w.Key) || s.w.Want != admission.Slot && !idle[s.w.Key] {
			continue
		}
		if may, _, _ := w.may(int(s.w.Workload), s.w.Want == admission.Session); may {
			return fmt.Errorf("session %d of workload %d waits, but may have a permit, and key %d an idle server", s.id, s.w.Workload, s.w.Key)
		}
		if s.w.Reserved && s.w.Want != admission.Session && extra < w.plan.Extra {
			return fmt.Errorf("session %d waits, but an extra slot is free", s.id)
		}
	}
	return nil
}
