package bench

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Arrival is a request that is due.
type Arrival struct {
	Due    time.Duration // since the run began
	Stream int           // index in the load
	Tenant int           // index in the stream's tenants; 0 also if there are none
	Query  int           // index in the stream's queries
	Work   time.Duration
	ID     int
}

// Arrivals are the requests of the open streams in the order of their time. They depend on
// nothing but the load.
func (l *Load) Arrivals() iter.Seq[Arrival] {
	return func(yield func(Arrival) bool) {
		var sources []*source
		for i := range l.Streams {
			if s := &l.Streams[i]; s.Clients == 0 && s.Rate > 0 {
				sources = append(sources, newSource([]Phase{{Rate: s.Rate, For: l.Length()}}, l.Even, l.random(i+1)))
			} else {
				sources = append(sources, nil)
			}
		}
		shared := newSource(l.Phases, l.Even, l.random(0))
		if l.shares() <= 0 {
			shared = nil
		}
		mix := newMixer(l)
		for {
			best, stream := shared, -1
			for i, s := range sources {
				if s != nil && !s.ended && (best == nil || best.ended || s.next < best.next) {
					best, stream = s, i
				}
			}
			if best == nil || best.ended {
				return
			}
			a := mix.fill(stream, best.next)
			best.step()
			if !yield(a) {
				return
			}
		}
	}
}

// random is a source of random numbers that depends on nothing but the seed and a number.
func (l *Load) random(n int) *rand.Rand { return rand.New(rand.NewPCG(l.Seed, uint64(n))) }

// source gives the times of arrivals of a list of phases.
type source struct {
	phases []Phase
	even   bool
	random *rand.Rand

	at    time.Duration // begin of the first of phases
	next  time.Duration
	count int // arrivals in the first of phases, if even
	ended bool
}

func newSource(phases []Phase, even bool, random *rand.Rand) *source {
	s := &source{phases: phases, even: even, random: random}
	s.step()
	return s
}

// step goes to the next arrival.
func (s *source) step() {
	for len(s.phases) > 0 {
		p := s.phases[0]
		if due, ok := s.within(p); ok {
			s.next = due
			return
		}
		s.at += p.For
		s.next, s.count, s.phases = s.at, 0, s.phases[1:]
	}
	s.ended = true
}

// within is the next arrival of a phase, if it has one more.
func (s *source) within(p Phase) (due time.Duration, ok bool) {
	if p.Rate <= 0 {
		return 0, false
	}
	if s.even {
		due = s.at + time.Duration(float64(s.count)/p.Rate*float64(time.Second))
		s.count++
	} else {
		due = max(s.next, s.at) + time.Duration(s.random.ExpFloat64()/p.Rate*float64(time.Second))
	}
	return due, due < s.at+p.For
}

// mixer decides what an arrival is.
type mixer struct {
	load    *Load
	streams *chooser
	of      []streamMixer
}

// streamMixer is the mixer of one stream. Each has its own random numbers, so that a change
// of one stream leaves the others as they are.
type streamMixer struct {
	tenants *chooser
	queries *chooser
	random  *rand.Rand
}

func newMixer(l *Load) *mixer {
	weights := make([]float64, len(l.Streams))
	m := &mixer{load: l}
	for i := range l.Streams {
		s := &l.Streams[i]
		if s.open() {
			weights[i] = s.Share
		}
		m.of = append(m.of, newStreamMixer(l, i))
	}
	m.streams = newChooser(weights, l.Even, l.random(-1))
	return m
}

// newStreamMixer is the mixer of the i-th stream.
func newStreamMixer(l *Load, i int) streamMixer {
	s := &l.Streams[i]
	tenants := make([]float64, max(1, len(s.Tenants)))
	for t := range tenants {
		tenants[t] = 1
	}
	queries, sum := make([]float64, len(s.Queries)), 0.0
	for q := range s.Queries {
		queries[q] = s.Queries[q].Weight
		sum += queries[q]
	}
	for q := range queries {
		if sum == 0 {
			queries[q] = 1
		}
	}
	return streamMixer{
		tenants: newChooser(tenants, l.Even, l.random(1000+i)),
		queries: newChooser(queries, l.Even, l.random(2_000_000+i)),
		random:  l.random(4_000_000 + i),
	}
}

// fill decides about an arrival; stream -1 is one of those that have a share.
func (m *mixer) fill(stream int, due time.Duration) Arrival {
	if stream < 0 {
		stream = m.streams.choose()
	}
	return m.of[stream].fill(&m.load.Streams[stream], stream, due)
}

func (m *streamMixer) fill(s *Stream, stream int, due time.Duration) Arrival {
	a := Arrival{Due: due, Stream: stream, Tenant: m.tenants.choose(), Query: m.queries.choose()}
	q := &s.Queries[a.Query]
	ids := q.IDs
	if ids == 0 {
		ids = defaultIDs
	}
	a.ID = 1 + m.random.IntN(ids)
	a.Work = q.Work.draw(m.random)
	return a
}

// draw is one value of the distribution.
func (w Work) draw(random *rand.Rand) time.Duration {
	if w.Sigma == 0 {
		return w.Mean
	}
	// The mean of exp(N(mu, sigma)) is exp(mu + sigma^2/2).
	factor := math.Exp(w.Sigma*random.NormFloat64() - w.Sigma*w.Sigma/2)
	return time.Duration(min(float64(w.Mean)*factor, float64(time.Hour)))
}

// chooser picks from weighted things: at random, or in turn, so that after any number of
// choices each has been chosen as often as its weight says, to within one or two.
type chooser struct {
	weights []float64
	sum     float64
	credit  []float64  // in turn
	random  *rand.Rand // at random
}

func newChooser(weights []float64, even bool, random *rand.Rand) *chooser {
	c := &chooser{weights: weights}
	for _, w := range weights {
		c.sum += w
	}
	if even {
		c.credit = make([]float64, len(weights))
	} else {
		c.random = random
	}
	return c
}

func (c *chooser) choose() int {
	if len(c.weights) == 1 {
		return 0
	}
	if c.credit == nil {
		left := c.random.Float64() * c.sum
		last := 0
		for i, w := range c.weights {
			if w == 0 {
				continue
			}
			if last = i; left < w {
				return i
			}
			left -= w
		}
		return last // rounding
	}
	best := -1
	for i, w := range c.weights {
		c.credit[i] += w
		if w > 0 && (best < 0 || c.credit[i] > c.credit[best]+c.sum*1e-9) {
			best = i
		}
	}
	c.credit[best] -= c.sum
	return best
}
