package pool

// A server that turns logins away is not helped by more of them. Each is a process that it
// starts for nothing, and behind a pooler with many keys there are many: every key tries by
// itself, and its own pause bounds only its own tries. So all of them together slow down as
// clients of an overloaded service are advised to: a client that has sent n requests of
// which a were accepted drops the next with the probability max(0, (n - K a) / (n + 1)). Dials
// that are not started come again by themselves, so what the probability stands for is done
// to their rate.

const (
	// window is for how long a dial counts, in steps of windowStep ns. Two minutes, as for a
	// service that is called a thousand times in a second, would remember an outage when
	// nobody does; our own pauses between two tries of a key are half a second, of which this
	// holds twenty.
	window     = 10
	windowStep = 1e9
	// multiplier is K: up to one refused of two is no reason to slow down.
	multiplier = 2
	// fewDials say nothing.
	fewDials = 3
	// leastRate is how many dials may start per second in any case: as often as one key
	// tries. Otherwise nobody would notice in time that the server is back.
	leastRate = 1e9 / backoffMax
)

// throttle counts dials and how many of them the server took.
type throttle struct {
	asked, taken [window]int32 // by step
	step         int64         // the latest
	n, a         int32         // sums
	full         bool          // the last one refused was so because there was no room
	on           bool          // dials are slowed down, as the set has told
}

// slide forgets what is too old.
func (t *throttle) slide(now int64) {
	step := now / windowStep
	for i := max(t.step+1, step-window+1); i <= step; i++ {
		k := i % window
		t.n -= t.asked[k]
		t.a -= t.taken[k]
		t.asked[k], t.taken[k] = 0, 0
	}
	t.step = max(t.step, step)
}

// note counts a dial.
func (t *throttle) note(now int64, taken bool) {
	t.slide(now)
	k := t.step % window
	t.asked[k]++
	t.n++
	if taken {
		t.taken[k]++
		t.a++
	}
}

// refused is the part of the dials that are not to be started.
func (t *throttle) refused(now int64) float64 {
	t.slide(now)
	if t.n < fewDials {
		return 0
	}
	return max(0, float64(t.n-multiplier*t.a)/float64(t.n+1))
}

// Refused notes that the server itself has turned a login away that was not wrong, or could
// not be reached. full tells that it has no room: it may take others nevertheless, while a
// server that was away and takes one is back. Say it before Dialed. What concerns one key
// only, its password or a limit of its own, is not for here.
func (s *Set) Refused(now int64, full bool) {
	s.see(now)
	s.refill() // at the rate until now
	s.throttle.full = full
	s.throttle.note(now, false)
	s.slow(now)
}

// took notes that the server has taken a login. One that was away is back then: all who
// wait come at once, as far as the limits go.
func (s *Set) took(now int64) {
	t := &s.throttle
	back := t.on && !t.full
	if back {
		*t = throttle{step: t.step, on: true}
	}
	t.note(now, true)
	if s.slow(now); back {
		s.tokens = s.burst()
	}
}

// slow brings up to date whether dials are slowed down, and returns when that may change by
// time alone.
func (s *Set) slow(now int64) (next int64) {
	t := &s.throttle
	if on := t.refused(now) > 0; on != t.on {
		t.on = on
		s.changes++
		s.refill()
	}
	if !t.on {
		return never
	}
	return (t.step + 1) * windowStep
}
