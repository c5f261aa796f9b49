package simulate

import "math/rand/v2"

// arrivals are the times of a stream's arrivals over the phases of the load.
type arrivals struct {
	phases []Phase
	phase  int
	at     float64 // ns; now, or where the phase begins if they are even
	rnd    *rand.Rand

	factor float64 // of the phases' rate
	base   float64 // per second, beside it
	end    float64 // ns; of the phase

	turns *turns // nil = they come at random times
	count int    // of the phase so far
}

func newArrivals(s *Scenario, stream int, rnd *rand.Rand) *arrivals {
	st := &s.Streams[stream]
	a := &arrivals{phases: s.Load, factor: st.Share, base: st.Rate, rnd: rnd}
	switch {
	case s.Even && st.Rate > 0:
		a.phases, a.turns = []Phase{{st.Rate, s.length()}}, &turns{weights: []float64{1}, credit: []float64{0}, sum: 1}
	case s.Even:
		a.turns = newTurns(s, stream)
	case len(s.Load) > 0:
		a.end = float64(s.Load[0].Length)
	}
	return a
}

// next is the time of the next arrival; never after the last.
func (a *arrivals) next() int64 {
	if a.turns != nil {
		return a.even()
	}
	// They follow the integral of the rate, so that a change of phase needs no care.
	units := a.rnd.ExpFloat64()
	for a.phase < len(a.phases) {
		rate := (a.phases[a.phase].Rate*a.factor + a.base) / 1e9
		if room := (a.end - a.at) * rate; room < units {
			units -= room
			a.at = a.end
			if a.phase++; a.phase < len(a.phases) {
				a.end += float64(a.phases[a.phase].Length)
			}
			continue
		}
		a.at += units / rate
		return int64(a.at)
	}
	return never
}

// even is next for even arrivals: those of the whole load begin with each phase, and the
// stream takes those whose turn is its own.
func (a *arrivals) even() int64 {
	for a.phase < len(a.phases) {
		p := a.phases[a.phase]
		offset := float64(a.count) / p.Rate * 1e9
		if p.Rate <= 0 || offset >= float64(p.Length) {
			a.at += float64(p.Length)
			a.count = 0
			a.phase++
			continue
		}
		a.count++
		if a.turns.mine() {
			return int64(a.at + offset)
		}
	}
	return never
}

// turns says whose turn each arrival of the load is: after any number of them each stream
// has had as many as its share says, to within one or two. Each stream has its own copy, and
// all copies say the same.
type turns struct {
	weights, credit []float64
	sum             float64
	own             int
}

// newTurns is the copy of one stream; what nobody has a share of is nobody's turn.
func newTurns(s *Scenario, own int) *turns {
	t := &turns{own: own}
	for i := range s.Streams {
		t.weights = append(t.weights, s.Streams[i].Share)
		t.sum += s.Streams[i].Share
	}
	if rest := 1 - t.sum; rest > 1e-9 {
		t.weights = append(t.weights, rest)
		t.sum = 1
	}
	t.credit = make([]float64, len(t.weights))
	return t
}

// mine takes one arrival, and reports whether it is the own stream's.
func (t *turns) mine() bool {
	best := -1
	for i, w := range t.weights {
		t.credit[i] += w
		if w > 0 && (best < 0 || t.credit[i] > t.credit[best]+1e-9) {
			best = i
		}
	}
	t.credit[best] -= t.sum
	return best == t.own
}
