package pool

import "github.com/pgweir/pgweir/admission"

// Fire does what is due at now: closes what was idle or lived for too long,
// ends back-offs, opens what it may. next is when it wants to be called again;
// math.MaxInt64 = not by time alone. Take Actions afterwards.
func (s *Set) Fire(now int64) (next int64) {
	s.see(now)
	next = min(s.fireIdle(now), s.fireLifetime(now), s.fireRetry(now))
	s.endHush(now)
	next = min(next, s.slow(now))
	s.supply()
	return min(next, s.startAt())
}

// Hush starts no dial of any key before until: the server has no room for anybody. No
// clock stands still for what is not being opened.
func (s *Set) Hush(now, until int64) {
	s.see(now)
	if until > max(s.hushed, now) {
		s.hushed = until
		s.changes++
	}
}

// endHush lets dials start again, if it is time.
func (s *Set) endHush(now int64) {
	if s.hushed != 0 && now >= s.hushed {
		s.hushed = 0
		s.changes++
	}
}

// fireIdle closes servers that nobody used for the idle timeout, but none that
// its key's minimum needs. It walks over the idle only when one may be due.
func (s *Set) fireIdle(now int64) (next int64) {
	if now < s.nextIdle {
		return s.nextIdle
	}
	s.nextIdle = never
	if s.opts.IdleTimeout <= 0 {
		return never
	}
	for sv := s.idle.oldest; sv != nil; {
		if due := sv.since + s.opts.IdleTimeout; due > now {
			s.nextIdle = due
			break
		}
		newer := sv.newer
		if k := s.key(sv.Key); k.staying() > k.minimum {
			s.stats.timedOut++
			s.close(now, sv)
		}
		sv = newer
	}
	return s.nextIdle
}

// fireLifetime closes idle servers that are too old, at most one of a key at a
// time. It walks over the idle only when one may be due.
func (s *Set) fireLifetime(now int64) (next int64) {
	if now < s.nextLife {
		return s.nextLife
	}
	s.nextLife = never
	for sv := s.idle.oldest; sv != nil; {
		newer := sv.newer
		if s.outlived(now, sv) {
			s.close(now, sv)
		}
		sv = newer
	}
	for sv := s.idle.oldest; sv != nil; sv = sv.newer {
		s.nextLife = min(s.nextLife, max(sv.expires, s.key(sv.Key).mayExpire))
	}
	return s.nextLife
}

// outlived reports whether sv is to be closed for its age now, and notes that
// one of its key was.
func (s *Set) outlived(now int64, sv *Server) bool {
	k := s.key(sv.Key)
	if now < sv.expires || now < k.mayExpire {
		return false
	}
	k.mayExpire = now + lifetimeGap
	s.stats.outlived++
	return true
}

// fireRetry ends the back-offs that are over.
func (s *Set) fireRetry(now int64) (next int64) {
	if now < s.nextRetry {
		return s.nextRetry
	}
	s.nextRetry = never
	for i := s.lists[listBackoff].first; i != 0; {
		e := &s.keys[i-1]
		k, after := admission.Key(i-1), e.next
		if e.retryAt <= now {
			s.review(k)
		} else {
			s.nextRetry = min(s.nextRetry, e.retryAt)
		}
		i = after
	}
	return s.nextRetry
}

// startAt is when a key that lacks a server may get one by time alone: when
// the rate allows it, or when an idle server of another key counts as unused.
func (s *Set) startAt() int64 {
	if s.hushed != 0 {
		return s.hushed
	}
	waited := s.wants(listReserved) || s.wants(listBare) || s.wants(listWanting)
	if !waited && !s.wants(listMinimum) || s.count[Dialling]+s.heirs >= s.parallel() {
		return never
	}
	if have := s.refill(); have < 1 {
		return s.now + int64((1-have)/s.rate()*1e9) + 1
	}
	exchange := s.exchangeAt()
	if !waited || s.total() < s.opts.Budget && !s.crowded() && exchange == never {
		return never // without a place for them, or at their own limits
	}
	if s.tokens < s.spare() {
		return s.now + int64((s.spare()-s.tokens)/s.rate()*1e9) + 1
	}
	for _, crowded := range [...]bool{false, true} {
		if sv := s.unwanted(crowded); sv != nil && s.now-sv.since < unused {
			return min(sv.since+unused, exchange)
		}
	}
	return exchange
}

func (s *Set) parallel() int {
	if s.opts.ConnectParallel > 0 {
		return s.opts.ConnectParallel
	}
	return max(s.opts.Budget, 1)
}

// rate is how many dials may start per second.
func (s *Set) rate() float64 {
	rate := s.opts.ConnectRate
	if rate <= 0 {
		rate = float64(max(s.opts.Budget, 1))
	}
	if s.throttle.on {
		return max(rate*(1-s.throttle.refused(s.now)), min(rate, leastRate))
	}
	return rate
}

// burst is how many may start at once. While the server turns dials away, one shows whether
// it still does.
func (s *Set) burst() float64 {
	if s.throttle.on {
		return 1
	}
	return max(float64(s.parallel()), s.rate())
}

// spare is how many dials have to be possible for one in the place of an unused server.
func (s *Set) spare() float64 { return min(2, s.burst()) }

// refill brings the dials' token bucket up to date and returns its content.
func (s *Set) refill() float64 {
	s.tokens = min(s.tokens+float64(s.now-s.tokensAt)/1e9*s.rate(), s.burst())
	s.tokensAt = s.now
	return s.tokens
}
