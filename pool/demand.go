package pool

import "github.com/pgweir/pgweir/admission"

// keyState is what the set knows of a key.
type keyState struct {
	count    [states]int
	top      *Server // the idle server used last
	demand   int     // waiters, as the gate told
	promised int     // closing servers whose place is meant for it
	useful   int     // of its dials and promises, how many a waiter will use
	minimum  int     // how many servers are kept open
	reserved bool    // may fill the reserve
	quotas   quotas

	failures  int   // failed dials in a row
	failedAt  int64 // of the last that counted
	retryAt   int64 // no dial before
	mayExpire int64 // no server closed for its age before

	list       listID // the list it is in
	prev, next int32  // there; index + 1
}

// key returns k's state. The table grows with the keys ever seen and stays.
func (s *Set) key(k admission.Key) *keyState {
	for int(k) >= len(s.keys) {
		e := keyState{reserved: s.opts.ReservedKey != nil && s.opts.ReservedKey(admission.Key(len(s.keys)))}
		e.quotas = s.quotasOf(admission.Key(len(s.keys)))
		s.keys = append(s.keys, e)
	}
	return &s.keys[k]
}

// listID says in which list a key is.
type listID uint8

const (
	listNone     listID = iota
	listReserved        // lacks servers and may fill the reserve
	listBare            // lacks servers and has none at all
	listWanting         // lacks servers
	listMinimum         // lacks none for waiters, but has fewer than its minimum
	listBackoff         // lacks servers, but its last dial failed just now
	lists
)

// keyList is a list of keys, linked through their states.
type keyList struct {
	first, last int32 // index + 1; 0 = none
	n           int
}

// enlist puts k at the end of list id, and out of any other.
func (s *Set) enlist(k admission.Key, id listID) {
	e := s.key(k)
	if e.list == id {
		return
	}
	s.delist(k)
	if id == listNone {
		return
	}
	l, i := &s.lists[id], int32(k)+1
	e.list, e.prev = id, l.last
	if l.last == 0 {
		l.first = i
	} else {
		s.keys[l.last-1].next = i
	}
	l.last = i
	l.n++
}

func (s *Set) delist(k admission.Key) {
	e := s.key(k)
	if e.list == listNone {
		return
	}
	l := &s.lists[e.list]
	if e.prev == 0 {
		l.first = e.next
	} else {
		s.keys[e.prev-1].next = e.next
	}
	if e.next == 0 {
		l.last = e.prev
	} else {
		s.keys[e.next-1].prev = e.prev
	}
	l.n--
	e.list, e.prev, e.next = listNone, 0, 0
}

// Demand implements admission.Supply. What it leads to is decided at the next
// Actions.
func (s *Set) Demand(k admission.Key, waiting, free int, now int64) {
	s.see(now)
	s.free = free
	s.key(k).demand = waiting
	s.review(k)
}

// Down implements admission.Downer: k has no server, and its last dial has failed or the
// server turns away those of all keys.
func (s *Set) Down(k admission.Key) bool {
	if int(k) >= len(s.keys) {
		return s.throttle.on
	}
	e := &s.keys[k]
	return s.Failing(k) && e.count[Idle]+e.count[Busy] == 0
}

// Failing implements admission.Failer: k's last dial has failed, or the server turns away
// those of all keys.
func (s *Set) Failing(k admission.Key) bool {
	return s.throttle.on || int(k) < len(s.keys) && s.keys[k].failures > 0
}

// Warming implements admission.Warmer: servers are on their way, or k may get
// one at once, and its last dial did not fail.
func (s *Set) Warming(k admission.Key) bool {
	return s.hushed == 0 && !s.throttle.on && s.key(k).failures == 0 && (s.count[Dialling] > 0 || s.room(k) && !s.atLimit(k))
}

// Changes implements admission.Changer.
func (s *Set) Changes() uint64 { return s.changes }

// Ask implements admission.Asker.
func (s *Set) Ask(usable func(admission.Key) int) { s.usable = usable }

// review brings up to date what depends on k's counts: how many of its places
// under way are useful, and whether it lacks servers.
func (s *Set) review(k admission.Key) {
	e := s.key(k)
	unserved := max(e.demand-e.count[Idle], 0)
	coming := e.count[Dialling] + e.promised
	useful := min(unserved, coming)
	s.useful += useful - e.useful
	e.useful = useful

	switch {
	case unserved <= coming && e.staying()+e.promised >= e.minimum:
		s.enlist(k, listNone)
	case e.retryAt > s.now:
		s.enlist(k, listBackoff)
		s.nextRetry = min(s.nextRetry, e.retryAt)
	case unserved <= coming:
		s.enlist(k, listMinimum)
	case e.reserved:
		s.enlist(k, listReserved)
	case e.bare():
		s.enlist(k, listBare)
	default:
		s.enlist(k, listWanting)
	}
}

// Actions appends what is to be done now to out and forgets it. Call it after
// every call, or group of calls under one lock, on the set or its gate.
func (s *Set) Actions(out []Action) []Action {
	s.supply()
	out = append(out, s.actions...)
	clear(s.actions)
	s.actions = s.actions[:0]
	return out
}

// supply opens servers for keys that lack some. A key without any server may
// have its first one even while all slots are busy: it needs it to be next.
// Others get what the free slots could use, one for each key in turn. What is
// left of the places goes to keys below their minimum.
func (s *Set) supply() {
	s.serve(listReserved)
	s.serve(listBare)
	s.serve(listWanting)
	s.serve(listMinimum)
}

// wants reports whether some key of the list could use a server more.
func (s *Set) wants(id listID) bool {
	switch {
	case s.lists[id].n == 0:
		return false
	case id == listWanting:
		return s.useful < s.free
	case id == listMinimum:
		return s.total() < s.opts.Budget && !s.crowded()
	}
	return true
}

// serve opens servers for the keys of one list as far as places and the limits
// of dialling go; without a place it gives up unused servers of other keys.
func (s *Set) serve(id listID) {
	l := &s.lists[id]
	for tries := l.n; tries > 0 && s.wants(id) && s.mayDial(); tries-- {
		k := admission.Key(l.first - 1)
		full, isFull := s.full(k)
		switch {
		case s.atKeyLimit(k) || !s.worth(k) || s.trying(k) || isFull && !s.exchange(k, full):
			s.rotate(k, id)
			continue
		case isFull: // it gets the place of another under its quotas
		case s.room(k):
			s.open(k)
		case !s.replace(k):
			return // nobody else of the list has a place either
		}
		s.rotate(k, id)
		tries = l.n + 1
	}
}

// worth reports whether a server more for k would be used: by a waiter that may
// run at once, or, if it is the first one, by the one who is next.
func (s *Set) worth(k admission.Key) bool {
	if e := s.key(k); e.demand == 0 || e.bare() {
		return true
	} else if e.list == listReserved && s.useful >= s.free {
		return false
	}
	return s.usable == nil || s.key(k).useful < s.usable(k)
}

// rotate puts k at the end of the list, if it still is in it.
func (s *Set) rotate(k admission.Key, id listID) {
	if s.key(k).list == id {
		s.delist(k)
		s.enlist(k, id)
	}
}

// mayDial reports whether a dial may start now, or a server be given up for
// one.
func (s *Set) mayDial() bool {
	return s.hushed == 0 && s.count[Dialling]+s.heirs < s.parallel() && s.refill() >= 1
}

// atLimit reports whether k, or its quotas, have as many servers as they may.
func (s *Set) atLimit(k admission.Key) bool {
	_, full := s.full(k)
	return full || s.atKeyLimit(k)
}

// atKeyLimit reports whether k has as many servers as it may.
func (s *Set) atKeyLimit(k admission.Key) bool {
	if s.opts.KeyLimit == nil {
		return false
	}
	limit := s.opts.KeyLimit(k)
	if limit <= 0 {
		return false
	}
	e := s.key(k)
	return e.promised+e.count[Dialling]+e.count[Idle]+e.count[Busy]+e.count[Closing] >= limit
}

// trying reports whether a dial of k is to show first whether its database is
// there again: as many as there are clients would fail together.
func (s *Set) trying(k admission.Key) bool {
	e := s.key(k)
	return e.failures > 0 && e.count[Dialling] > 0
}

// replace closes the server for k that has been idle longest among those that
// nobody waits for, if it has been so for long enough. It leaves one dial to be had: where dials
// are scarce, what is given away for a moment's use can't be got back when it is needed.
func (s *Set) replace(k admission.Key) bool {
	sv := s.unwanted(s.needsOrdinary(k))
	if sv == nil || s.now-sv.since < unused || s.tokens < s.spare() {
		return false
	}
	s.yield(sv, k)
	return true
}

// needsOrdinary reports whether only the place of an ordinary key would do for
// k.
func (s *Set) needsOrdinary(k admission.Key) bool { return s.crowded() && !s.key(k).reserved }

// unwanted is the longest idle server of a key, of an ordinary one if that is
// asked for, that nobody waits for.
func (s *Set) unwanted(ordinary bool) *Server {
	for sv := s.idle.oldest; sv != nil; sv = sv.newer {
		if s.key(sv.Key).demand == 0 && !(ordinary && sv.reserved) {
			return sv
		}
	}
	return nil
}

// yield closes sv for the sake of k.
func (s *Set) yield(sv *Server, k admission.Key) {
	sv.heir, sv.hasHeir = k, true
	s.heirs++
	s.key(k).promised++
	s.stats.moved++
	s.close(s.now, sv)
	s.review(k)
}

// rotateEvery is how often a key that is waited for gives up a server to one that has hardly
// less of them: each time costs a login.
const rotateEvery = 500e6

// Steal implements admission.Supply. Where a place is free, it only opens a
// server for k out of turn. Else it gives up the longest idle server of a key
// that nobody waits for, else the longest idle of any other key, but not the only one of a
// key while another one has several, nor so often that the servers go round among keys that have
// about as many each, unless it is urgent. It does nothing if k does not lack a server, one is on its way for it already, or k
// may not dial.
func (s *Set) Steal(k admission.Key, now int64, urgent bool) bool {
	s.see(now)
	s.review(k)
	e := s.key(k)
	if !e.lacks() || e.count[Dialling]+e.promised > 0 || s.atKeyLimit(k) || !s.mayDial() {
		return false
	}
	full, isFull := s.full(k)
	if !isFull && s.room(k) {
		s.open(k)
		return true
	}
	ordinary := s.needsOrdinary(k)
	victim := s.unwanted(ordinary)
	if isFull {
		victim = s.exchangeable(k, full)
	}
	if victim == nil {
		victim = s.idle.oldest
	}
	for victim != nil && (ordinary && victim.reserved || isFull && !s.frees(victim.Key, full)) {
		victim = victim.newer
	}
	if victim == nil || victim.Key == k {
		return false // one of its own became idle and is not reported yet
	}
	if v := s.key(victim.Key); v.demand > 0 || now-victim.since < rotateEvery {
		if v.staying() == 1 && s.several > 0 {
			return false // somebody else has more than one, which comes back soon
		}
		if v.staying() < e.staying()+2 && !urgent { // k has hardly less: all have to wait for their turn
			if now < s.rotated {
				return false
			}
			s.rotated = now + rotateEvery
		}
	}
	s.yield(victim, k)
	return true
}

// staying is how many servers the key has that are not on their way out.
func (e *keyState) staying() int { return e.count[Dialling] + e.count[Idle] + e.count[Busy] }

// lacks reports whether the key lacks servers and may dial.
func (e *keyState) lacks() bool {
	return e.list == listReserved || e.list == listBare || e.list == listWanting
}

// bare reports whether the key has no server, and none on its way.
func (e *keyState) bare() bool { return e.staying()+e.promised == 0 }

// inherit gives the place of a server that was closed for k's sake to k,
// whether or not it is its turn, if it still lacks one.
func (s *Set) inherit(k admission.Key) {
	e := s.key(k)
	s.heirs--
	e.promised--
	s.review(k)
	if e.lacks() && s.room(k) && !s.atLimit(k) && s.mayDial() {
		s.open(k)
	}
}
