package pool

import "github.com/pgweir/pgweir/admission"

// Reconfigure puts o into force. Idle servers above the budget, or above what
// ordinary keys may fill of it, are closed now, first those of keys that nobody
// waits for; busy ones when they are put. A new lifetime counts from the
// servers' birth. A nil Rand keeps the one in use. Minimums and what is known
// of failed dials stay. Call Fire afterwards: times have changed.
func (s *Set) Reconfigure(now int64, o Options) {
	s.see(now)
	s.refill()
	aged := o.Lifetime != s.opts.Lifetime
	s.set(o)
	s.tokens = min(s.tokens, s.burst())
	for i := range s.keys {
		s.keys[i].reserved = o.ReservedKey != nil && o.ReservedKey(admission.Key(i))
	}
	s.ordinary, s.leaving = 0, 0
	for _, sv := range s.places {
		if sv == nil {
			continue
		}
		if aged {
			s.age(sv)
		}
		if sv.reserved = s.key(sv.Key).reserved; !sv.reserved {
			s.ordinary++
			if sv.state == Closing {
				s.leaving++
			}
		}
	}
	s.requota()
	s.raise()
	for i := range s.keys {
		s.review(admission.Key(i))
	}
	s.nextIdle, s.nextLife = now, now
	for _, unwanted := range [...]bool{true, false} {
		for sv := s.idle.oldest; sv != nil; {
			newer := sv.newer
			if s.over(sv) && (!unwanted || s.key(sv.Key).demand == 0) {
				s.close(now, sv)
			}
			sv = newer
		}
	}
}

// Resize changes the budget alone; see Reconfigure.
func (s *Set) Resize(now int64, budget int) {
	o := s.opts
	o.Budget = budget
	s.Reconfigure(now, o)
}

// SetMinimum keeps n servers of k open, as far as there are free places and
// nobody waits for a server that could be opened instead. The idle timeout
// leaves them alone; one that ends for another reason is replaced. 0 or less =
// none.
func (s *Set) SetMinimum(k admission.Key, n int) {
	s.key(k).minimum = max(n, 0)
	s.nextIdle = min(s.nextIdle, s.now)
	s.review(k)
}

// CloseKeys closes every server that exists now of keys for which match says
// true: idle ones at once, busy ones when they are put, dials when they end.
// New ones are opened on demand, and for the minimum.
func (s *Set) CloseKeys(now int64, match func(admission.Key) bool) {
	s.see(now)
	for _, sv := range s.places {
		switch {
		case sv == nil || !match(sv.Key):
		case sv.state == Idle:
			s.close(now, sv)
		default:
			sv.doomed = true
		}
	}
}

// CloseAll is CloseKeys of all keys.
func (s *Set) CloseAll(now int64) {
	s.CloseKeys(now, func(admission.Key) bool { return true })
}

// Retire closes one server: now if it is idle, when it is put if it is busy. A dial is left
// alone.
func (s *Set) Retire(now int64, sv *Server) {
	s.see(now)
	switch sv.state {
	case Idle:
		s.close(now, sv)
	case Busy:
		sv.doomed = true
	}
}
