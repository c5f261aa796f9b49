package pool

import "github.com/pgweir/pgweir/admission"

// idleList is all idle servers by the time they became idle, beside the stacks
// of the keys. Its oldest end is who may be given up first.
type idleList struct{ oldest, newest *Server }

// pushIdle makes sv the next to be reserved of its key.
func (s *Set) pushIdle(now int64, sv *Server) {
	s.move(now, sv, Idle)
	k := s.key(sv.Key)
	sv.below = k.top
	if k.top != nil {
		k.top.above = sv
	}
	k.top = sv

	sv.older = s.idle.newest
	if s.idle.newest == nil {
		s.idle.oldest = sv
	} else {
		s.idle.newest.newer = sv
	}
	s.idle.newest = sv
	if s.opts.IdleTimeout > 0 {
		s.nextIdle = min(s.nextIdle, now+s.opts.IdleTimeout)
	}
	if s.opts.Lifetime > 0 {
		s.nextLife = min(s.nextLife, max(sv.expires, k.mayExpire))
	}
}

// unlinkIdle takes sv out of the lists of the idle; the caller gives it its
// new state.
func (s *Set) unlinkIdle(sv *Server) {
	k := s.key(sv.Key)
	if sv.above == nil {
		k.top = sv.below
	} else {
		sv.above.below = sv.below
	}
	if sv.below != nil {
		sv.below.above = sv.above
	}
	if sv.newer == nil {
		s.idle.newest = sv.older
	} else {
		sv.newer.older = sv.older
	}
	if sv.older == nil {
		s.idle.oldest = sv.newer
	} else {
		sv.older.newer = sv.newer
	}
	sv.above, sv.below, sv.newer, sv.older = nil, nil, nil, nil
}

// Reserve implements admission.Supply: it takes the idle server of k that was
// used last, so that those on top stay warm and the others grow old and go.
func (s *Set) Reserve(k admission.Key, now int64) (grant uint32, ok bool) {
	s.see(now)
	if int(k) >= len(s.keys) || s.keys[k].top == nil {
		return 0, false
	}
	sv := s.keys[k].top
	s.unlinkIdle(sv)
	s.move(now, sv, Busy)
	s.review(k)
	return sv.ID, true
}

// Put ends the use of a busy server. It returns whether the server is idle
// now; say Gate.Supplied then. If not, it is being closed (its lifetime is
// over, the budget shrank, CloseAll) or a cancel for it is on its way, and it
// becomes idle at the last Unhold. A server that broke meanwhile stays broken.
func (s *Set) Put(now int64, sv *Server) (idle bool) {
	s.see(now)
	if sv.state != Busy || sv.parked {
		return false
	}
	return s.settle(now, sv)
}

// settle makes sv, which has no user, idle, closes it, or parks it until the
// cancels for it are over.
func (s *Set) settle(now int64, sv *Server) (idle bool) {
	if sv.parked = sv.holds > 0; sv.parked {
		if sv.state != Busy {
			s.move(now, sv, Busy)
			s.review(sv.Key)
		}
		return false
	}
	if sv.doomed || s.over(sv) || s.outlived(now, sv) {
		s.close(now, sv)
		return false
	}
	s.pushIdle(now, sv)
	s.review(sv.Key)
	return true
}

// Hold notes that a cancel for sv is on its way: until the matching Unhold the
// server never becomes idle, or the cancel could hit somebody else's query.
// Holds nest. The hold on an idle server takes it from the idle.
func (s *Set) Hold(sv *Server) {
	if sv.state == Gone {
		return
	}
	sv.holds++
	if sv.holds == 1 {
		s.held++
	}
	if sv.state == Idle {
		s.unlinkIdle(sv)
		s.move(s.now, sv, Busy)
		sv.parked = true
		s.review(sv.Key)
	}
}

// Unhold ends a Hold, at the end of the cancel's socket. It returns whether the
// server became idle by it; say Gate.Supplied then. On a server that is gone it
// does nothing; without a Hold it panics.
func (s *Set) Unhold(now int64, sv *Server) (idle bool) {
	s.see(now)
	if sv.state == Gone {
		return false
	}
	if sv.holds == 0 {
		panic("pool: Unhold without Hold")
	}
	sv.holds--
	if sv.holds > 0 {
		return false
	}
	s.held--
	if sv.state != Busy || !sv.parked {
		return false
	}
	return s.settle(now, sv)
}
