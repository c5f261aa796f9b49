package pool

import (
	"math"

	"github.com/pgweir/pgweir/admission"
)

const (
	never = math.MaxInt64
	// maxPlaces bounds the budget: a handle has 16 bits for the slot.
	maxPlaces = 1<<16 - 1
	// lifetimeGap is the shortest time between two servers of a key that are
	// closed for their age.
	lifetimeGap = 100e6
	// unused is how long a server must have been idle to be given up at once
	// for another key. A shorter pause is one between two transactions of the
	// same client, and giving it up then costs two logins for one.
	unused = 5e6
	// A key whose dial failed is tried again after backoffMin, doubling to
	// backoffMax: people wait for it, and the rate of dials is bounded anyway.
	// A failure that is permanent costs backoffLong.
	backoffMin  = 100e6
	backoffMax  = 500e6
	backoffLong = 2e9
)

// Options are a set's settings.
type Options struct {
	// Budget is how many places there are, at most 65,535.
	Budget int
	// Reserve is how many of them only keys may fill for which ReservedKey says
	// true; nil = none may. ReservedKey answers the same for a key until the
	// next Reconfigure.
	Reserve     int
	ReservedKey func(admission.Key) bool
	// ConnectParallel is how many dials may be under way at once; 0 or less =
	// as many as the budget.
	ConnectParallel int
	// ConnectRate is how many dials may start per second, as a token bucket
	// with room for ConnectParallel or one second's worth, whichever is larger;
	// 0 or less = as many as the budget.
	ConnectRate float64
	// Lifetime (ns, +-20 % at random) and IdleTimeout (ns) end a server that is
	// not in use; 0 or less = never.
	Lifetime, IdleTimeout int64
	// KeyLimit returns how many servers a key may have; 0 = no limit of its
	// own. nil = none has. It is called whenever a dial is considered.
	KeyLimit func(admission.Key) int
	// Quotas returns the quotas of a key, that of each kind always in the same place; nil = there
	// are none. It answers the same for a key until the next Reconfigure.
	Quotas func(admission.Key) [2]Quota
	// Rand returns numbers in [0, 1); nil = 0.5 always, so no jitter.
	Rand func() float64
}

// Set is the servers of one upstream. It has no lock; see the package comment.
// Times are the caller's monotonic nanoseconds and must not run backwards.
type Set struct {
	opts    Options
	ceiling int // budget, or what is left above it after it shrank
	most    int // the same for the places of ordinary keys
	now     int64

	places []*Server // by slot; nil = free
	gens   []uint16  // by slot: generation of its last server
	vacant []uint16  // free slots
	count  [states]int
	held   int
	idle   idleList
	// ordinary is how many places keys fill that have no part in the reserve,
	// leaving how many of these are closing.
	ordinary, leaving int
	quotas            []quotaCount // by ID; nil = there are none
	several           int          // keys with more than one server that stays
	rotated           int64        // when a key may give up its only server again

	keys     []keyState     // by Key
	lists    [lists]keyList // keys that lack servers
	useful   int            // places under way that a waiter will use
	free     int            // slots that the gate could fill
	heirs    int            // closing servers with an heir
	tokens   float64
	tokensAt int64

	throttle  throttle
	forgiven  int64 // dials from before, or from then, that fail are not taken against anybody
	hushed    int64 // no dials before, because the server is full; 0 = it is not
	nextIdle  int64 // not after the first end of an idle timeout
	nextLife  int64 // not after the first expiry of an idle server
	nextRetry int64 // not after the first end of a back-off
	actions   []Action
	stats     counters

	changes uint64                  // of what Down and Warming say
	usable  func(admission.Key) int // the gate's answer how many waiters could use a server now
}

var (
	_ admission.Supply  = (*Set)(nil)
	_ admission.Downer  = (*Set)(nil)
	_ admission.Warmer  = (*Set)(nil)
	_ admission.Changer = (*Set)(nil)
	_ admission.Asker   = (*Set)(nil)
)

// New returns an empty set.
func New(o Options) *Set {
	s := &Set{nextIdle: never, nextLife: never, nextRetry: never}
	s.set(o)
	s.tokens = s.burst()
	return s
}

// set puts o into force, with its numbers made possible.
func (s *Set) set(o Options) {
	if o.Rand == nil {
		o.Rand = s.opts.Rand
	}
	if o.Rand == nil {
		o.Rand = func() float64 { return 0.5 }
	}
	o.Budget = min(max(o.Budget, 0), maxPlaces)
	o.Reserve = min(max(o.Reserve, 0), o.Budget)
	s.opts = o
	s.raise()
}

// raise brings up to date how many places may be taken: after the budget
// shrank that is what is taken.
func (s *Set) raise() {
	s.changes++
	s.ceiling = max(s.opts.Budget, s.total())
	s.most = max(s.opts.Budget-s.opts.Reserve, s.ordinary)
}

// room reports whether a place is free for k.
func (s *Set) room(k admission.Key) bool {
	return s.total() < s.opts.Budget && (!s.crowded() || s.key(k).reserved)
}

// crowded reports whether ordinary keys fill all that they may.
func (s *Set) crowded() bool { return s.ordinary >= s.opts.Budget-s.opts.Reserve }

// see notes the time, for the choices that Actions makes.
func (s *Set) see(now int64) { s.now = max(s.now, now) }

// total is how many places are taken.
func (s *Set) total() int {
	return s.count[Dialling] + s.count[Idle] + s.count[Busy] + s.count[Closing]
}

// over reports whether sv has to go because more servers are to stay than the
// budget allows, or the part of it for sv's kind.
func (s *Set) over(sv *Server) bool {
	return s.total()-s.count[Closing] > s.opts.Budget || s.overQuota(sv) ||
		!sv.reserved && s.ordinary-s.leaving > s.opts.Budget-s.opts.Reserve
}

// move gives sv another state and keeps the counts.
func (s *Set) move(now int64, sv *Server, to State) {
	k := s.key(sv.Key)
	if !sv.reserved {
		switch {
		case to == Closing:
			s.leaving++
		case sv.state == Closing:
			s.leaving--
		}
	}
	switch {
	case to == Closing:
		s.fill(sv.Key, 0, 1)
	case sv.state == Closing:
		s.fill(sv.Key, 0, -1)
	}
	had := k.staying()
	s.count[sv.state]--
	k.count[sv.state]--
	sv.state, sv.since = to, now
	s.count[to]++
	k.count[to]++
	s.stays(had, k.staying())
}

// stays keeps count of the keys with several servers: one had so many that stay, and has so
// many now.
func (s *Set) stays(had, has int) {
	switch {
	case had < 2 && has >= 2:
		s.several++
	case had >= 2 && has < 2:
		s.several--
	}
}

// Server returns the server of a handle, or nil if it is gone.
func (s *Set) Server(id uint32) *Server {
	slot := int(id & 0xffff)
	if slot >= len(s.places) || s.places[slot] == nil || s.places[slot].ID != id {
		return nil
	}
	return s.places[slot]
}

// open takes a place for a new server of k and asks for its dial.
func (s *Set) open(k admission.Key) {
	var slot uint16
	if n := len(s.vacant); n > 0 {
		slot = s.vacant[n-1]
		s.vacant = s.vacant[:n-1]
	} else {
		slot = uint16(len(s.places))
		s.places = append(s.places, nil)
		s.gens = append(s.gens, 0)
	}
	s.tokens--
	s.changes++
	s.gens[slot]++
	if s.gens[slot] == 0 {
		s.gens[slot] = 1
	}
	sv := &Server{
		ID: uint32(s.gens[slot])<<16 | uint32(slot), Key: k, reserved: s.key(k).reserved,
		state: Dialling, since: s.now, born: s.now,
	}
	s.age(sv)
	s.places[slot] = sv
	if !sv.reserved {
		s.ordinary++
	}
	s.count[Dialling]++
	e := s.key(k)
	e.count[Dialling]++
	s.fill(k, 1, 0)
	s.stays(e.staying()-1, e.staying())
	s.stats.dials++
	s.actions = append(s.actions, Action{Dial, sv})
	s.review(k)
}

// age draws when sv's lifetime is over.
func (s *Set) age(sv *Server) {
	sv.expires = never
	if s.opts.Lifetime > 0 {
		sv.expires = sv.born + int64(float64(s.opts.Lifetime)*(0.8+0.4*s.opts.Rand()))
	}
}

// Dialed ends a dial: ok = logged in, and the server is idle if Dialed returns
// true; say Gate.Supplied then. Otherwise its socket must have ended; its place
// is free at once, and its key waits before the next dial: 100 ms from the
// beginning of this one, doubling to 500 ms, or 2 s at once if the failure is
// permanent (say Gate.Unsupplied then).
// A dial from before the last Forgive counts as given up, not as failed. On a server that is
// not Dialling any more it does nothing.
func (s *Set) Dialed(now int64, sv *Server, ok, permanent bool) (idle bool) {
	s.see(now)
	if sv.state != Dialling {
		return false
	}
	k := s.key(sv.Key)
	if !ok {
		s.stats.failures++
		if !s.Forgiven(sv) {
			s.penalize(sv, permanent)
		}
		s.release(now, sv)
		return false
	}
	k.failures, k.retryAt = 0, 0
	s.changes++
	s.took(now)
	return s.settle(now, sv)
}

// Doubt notes that a dial has been under way for so long that it may fail as
// well: what Down and Warming say does not wait for its end. It returns whether
// that is new, and the gate is to be told (Supplied). It changes nothing for a
// key whose last dial failed, nor on a server that is not Dialling any more.
func (s *Set) Doubt(now int64, sv *Server) bool {
	s.see(now)
	k := s.key(sv.Key)
	if sv.state != Dialling || k.failures > 0 {
		return false
	}
	k.failures = 1 // without a retryAt: others may be dialled
	s.changes++
	return true
}

// penalize makes sv's key wait after a failed dial: from the beginning of the dial on, as one
// that has taken longer than that, because nobody answered, was pause enough. Dials that ran
// side by side and failed for one reason count once.
func (s *Set) penalize(sv *Server, permanent bool) {
	k := s.key(sv.Key)
	if k.failures > 0 && sv.born < k.failedAt && !permanent {
		return
	}
	k.failures++
	from, delay := s.now, float64(backoffLong)
	if !permanent {
		from, delay = sv.born, min(backoffMin*math.Exp2(float64(min(k.failures, 16)-1)), backoffMax)
	}
	k.failedAt = s.now
	k.retryAt = from + int64(delay*(0.5+0.5*s.opts.Rand()))
}

// Break closes a server that must not be used again. From any state but
// Closing and Gone it emits a Close; a dial is closed when it ends.
func (s *Set) Break(now int64, sv *Server) {
	s.see(now)
	switch sv.state {
	case Dialling:
		sv.doomed = true
	case Idle, Busy:
		s.close(now, sv)
	}
}

// close starts the end of a server.
func (s *Set) close(now int64, sv *Server) {
	if sv.state == Idle {
		s.unlinkIdle(sv)
	}
	sv.parked = false
	s.changes++
	s.move(now, sv, Closing)
	s.actions = append(s.actions, Action{Close, sv})
	s.review(sv.Key)
}

// Gone reports that the server's socket has ended, in whatever state it was.
// Its place is free. A dial that ends this way counts as given up, not as
// failed. A second Gone does nothing.
func (s *Set) Gone(now int64, sv *Server) {
	s.see(now)
	if sv.state != Gone {
		s.release(now, sv)
	}
}

// release frees sv's place.
func (s *Set) release(now int64, sv *Server) {
	if sv.state == Idle {
		s.unlinkIdle(sv)
	}
	s.move(now, sv, Gone)
	s.count[Gone] = 0
	s.key(sv.Key).count[Gone] = 0
	if sv.holds > 0 {
		s.held--
	}
	slot := uint16(sv.ID)
	s.places[slot] = nil
	s.fill(sv.Key, -1, 0)
	s.vacant = append(s.vacant, slot)
	if !sv.reserved {
		s.ordinary--
	}
	s.raise()
	s.review(sv.Key)
	if sv.hasHeir {
		sv.hasHeir = false
		s.inherit(sv.heir)
	}
}
