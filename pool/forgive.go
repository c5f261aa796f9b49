package pool

import "github.com/pgweir/pgweir/admission"

// Forgive forgets which dials have failed, and those that are under way may fail without
// being taken against their keys: where servers are, or how to log in, may be different from
// now on.
func (s *Set) Forgive(now int64) {
	s.see(now)
	s.forgiven = s.now
	for i := range s.keys {
		if k := &s.keys[i]; k.failures > 0 {
			k.failures, k.retryAt = 0, 0
			s.review(admission.Key(i))
		}
	}
	s.changes++
}

// Forgiven reports whether the last Forgive came after sv's dial had begun. Of a dial from
// that very moment it can't be told, so it is one of those.
func (s *Set) Forgiven(sv *Server) bool { return s.forgiven != 0 && sv.born <= s.forgiven }

// Charge takes from ConnectRate what one dial costs, for a connection that is not one of the
// set. If there is too little left it takes nothing and returns false, and when to ask again.
func (s *Set) Charge(now int64) (ok bool, again int64) {
	s.see(now)
	have := s.refill()
	switch {
	case s.hushed > s.now:
		return false, s.hushed
	case have < 1:
		return false, s.now + int64((1-have)/s.rate()*1e9) + 1
	}
	s.tokens--
	return true, 0
}
