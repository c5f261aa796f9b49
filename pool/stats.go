package pool

import "github.com/pgweir/pgweir/admission"

// counters are what the set counts for ever.
type counters struct {
	dials, failures, moved, timedOut, outlived uint64
}

// Stats is a snapshot of a set. Counters only grow.
type Stats struct {
	Budget   int
	Reserve  int
	Dialling int
	Idle     int
	Busy     int // Held ones included
	Closing  int
	Held     int // servers with a cancel on its way
	Ordinary int // places that keys fill which have no part in the reserve

	Dials    uint64 // started
	Failures uint64 // of these failed
	Moved    uint64 // servers given up for another key
	TimedOut uint64 // closed after the idle timeout
	Outlived uint64 // closed for their age

	// Slowed is the part of the dials that are not started because the server turns them
	// away; 0 = none.
	Slowed float64
}

// Stats returns a snapshot of the whole set.
func (s *Set) Stats() Stats {
	slowed := 0.0
	if s.throttle.on {
		slowed = s.throttle.refused(s.now)
	}
	return Stats{
		Slowed: slowed,
		Budget: s.opts.Budget, Reserve: s.opts.Reserve, Ordinary: s.ordinary, Dialling: s.count[Dialling], Idle: s.count[Idle], Busy: s.count[Busy],
		Closing: s.count[Closing], Held: s.held,
		Dials: s.stats.dials, Failures: s.stats.failures, Moved: s.stats.moved,
		TimedOut: s.stats.timedOut, Outlived: s.stats.outlived,
	}
}

// KeyStats is a snapshot of one key.
type KeyStats struct {
	Key      admission.Key
	Dialling int
	Idle     int
	Busy     int
	Closing  int
	Waiting  int   // as the gate last told
	Minimum  int   // kept open
	Failures int   // failed dials in a row
	RetryAt  int64 // no dial before, in the caller's ns; 0 = none failed
}

// Key returns a snapshot of one key.
func (s *Set) Key(k admission.Key) KeyStats {
	if int(k) >= len(s.keys) {
		return KeyStats{Key: k}
	}
	e := &s.keys[k]
	return KeyStats{
		Key: k, Dialling: e.count[Dialling], Idle: e.count[Idle], Busy: e.count[Busy],
		Closing: e.count[Closing], Waiting: e.demand, Minimum: e.minimum, Failures: e.failures, RetryAt: e.retryAt,
	}
}

// Keys appends a snapshot of every key that has servers, waiters or failures.
func (s *Set) Keys(out []KeyStats) []KeyStats {
	for i := range s.keys {
		if k := s.Key(admission.Key(i)); k != (KeyStats{Key: k.Key}) {
			out = append(out, k)
		}
	}
	return out
}

// Servers appends every server that holds a place.
func (s *Set) Servers(out []*Server) []*Server {
	for _, sv := range s.places {
		if sv != nil {
			out = append(out, sv)
		}
	}
	return out
}
