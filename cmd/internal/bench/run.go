package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// Options are how a run is followed. The zero value is a good one.
type Options struct {
	// Started, if not nil, is called with the time from which the arrivals count, before the
	// first is sent.
	Started func(time.Time)
	// Look, if not nil, is called every Every (0: a quarter of a second) with how things
	// stand, and once at the end. The run goes on meanwhile. It is called by Run's goroutine.
	Look  func(Mark)
	Every time.Duration
	// Settle bounds the wait, after the last answer, for statements that Postgres still
	// works at although their clients have left; 0: 30 s. Only where it is watched.
	Settle time.Duration
	// Forget keeps no records: for loads without an end.
	Forget bool
}

// Mark is how things stood at a time of a run.
type Mark struct {
	At time.Duration
	Counts
	Servers // zero if Postgres is not watched
}

// Run sends a load to a target and waits for the end of all its requests. An error means
// that there is no result: the load is wrong, nobody could connect, Postgres could not be
// watched any more, or ctx ended.
func Run(ctx context.Context, t Target, l Load, o Options) (*Result, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if l.LoopsPerMS == 0 && l.uses("{loops}") {
		var err error
		if l.LoopsPerMS, err = Calibrate(ctx, t); err != nil {
			return nil, err
		}
	}
	g := &generator{ctx: ctx, load: &l, tally: newTally(o.Forget), fill: filler{l.LoopsPerMS, t.Counter}}
	defer g.close()
	if err := g.gather(t); err != nil {
		return nil, fmt.Errorf("%s: a client could not connect: %w", t.Name, err)
	}
	w := (*watch)(nil)
	if t.Direct != "" {
		var err error
		if w, err = watchServers(ctx, t); err != nil {
			return nil, err
		}
		defer func() { _ = w.stop() }() // its error is looked at below
	}
	g.start = time.Now()
	if o.Started != nil {
		o.Started(g.start)
	}
	if w != nil {
		w.begin(g.start)
	}
	var r *Result
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.drive()
		r = g.result(t)
		r.Unsettled = w != nil && !g.settle(w, o.Settle)
	}()
	g.follow(done, w, o)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if w == nil {
		return r, nil
	}
	if err := w.stop(); err != nil {
		return nil, err
	}
	r.watched(w, t.Counter != "")
	return r, nil
}

// settleBound is how long that takes at most, if nobody says.
const settleBound = 30 * time.Second

// settle waits for what Postgres does for clients that have left.
func (g *generator) settle(w *watch, bound time.Duration) bool {
	if bound == 0 {
		bound = settleBound
	}
	ctx, done := context.WithTimeout(g.ctx, bound)
	defer done()
	return w.rest(ctx)
}

// gather makes the crowds of all streams and opens their connections.
func (g *generator) gather(t Target) error {
	p := &places{most: int64(g.load.sessionsMost())}
	g.crowds = make([][]*crowd, len(g.load.Streams))
	for i := range g.load.Streams {
		s := &g.load.Streams[i]
		groups := s.groups()
		if s.Clients > 0 {
			groups = s.Clients
		}
		for n := range groups {
			config, err := t.configure(s, n%max(1, len(s.Tenants)))
			if err != nil {
				return err
			}
			g.crowds[i] = append(g.crowds[i], newCrowd(config, p))
		}
	}
	for i, list := range g.crowds {
		ahead := g.load.ahead(&g.load.Streams[i], len(list))
		for _, c := range list {
			if err := c.fill(g.ctx, min(ahead, int(p.most-p.open.Load()))); err != nil {
				return err
			}
		}
	}
	return nil
}

// ahead is how many connections each of a stream's groups opens before the run.
func (l *Load) ahead(s *Stream, groups int) int {
	switch {
	case s.Churn > 0:
		return 0
	case s.Clients > 0:
		return 1
	case l.Sessions > 0:
		return (l.Sessions + groups - 1) / groups
	}
	rate := s.Rate
	if rate == 0 && l.shares() > 0 {
		rate = l.TopRate() * s.Share / l.shares()
	}
	patience := s.Patience
	if patience == 0 {
		patience = time.Second
	}
	// Enough for all who wait at once; those who come at random do not divide evenly.
	n := rate * min(patience, 2*time.Second, l.Length()).Seconds() / float64(groups)
	return int(math.Ceil(n + 4*math.Sqrt(n) + 1))
}

// drive sends everything and waits for the end of all.
func (g *generator) drive() {
	var running sync.WaitGroup
	defer running.Wait()
	for i := range g.load.Streams {
		for n := range g.load.Streams[i].Clients {
			running.Go(func() { g.loop(i, n) })
		}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for a := range g.load.Arrivals() {
		if wait := a.Due - g.since(); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-g.ctx.Done():
			}
		}
		if g.ctx.Err() != nil {
			return
		}
		g.tally.arrive()
		list := g.crowds[a.Stream]
		running.Go(func() { g.request(a, list[a.Tenant%len(list)]) })
	}
}

// loop is the n-th client of a stream of those that wait for their answers.
func (g *generator) loop(stream, n int) {
	s := &g.load.Streams[stream]
	m := newStreamMixer(g.load, stream)
	m.random = g.load.random(6_000_000 + stream*100_000 + n)
	end := g.load.Length()
	for i := 0; g.ctx.Err() == nil && (s.Each == 0 || i < s.Each); i++ {
		now := g.since()
		if s.Each == 0 && now >= end {
			return
		}
		a := m.fill(s, stream, now)
		a.Tenant = n % max(1, len(s.Tenants))
		g.tally.arrive()
		g.request(a, g.crowds[stream][n])
		Rest(g.ctx, s.Think)
	}
}

// follow tells how things stand until done.
func (g *generator) follow(done <-chan struct{}, w *watch, o Options) {
	if o.Look == nil {
		<-done
		return
	}
	every := o.Every
	if every <= 0 {
		every = time.Second / 4
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-tick.C:
		}
		m := Mark{At: g.since(), Counts: g.tally.now()}
		if w != nil {
			m.Servers = w.now()
		}
		o.Look(m)
	}
}

// close ends all connections.
func (g *generator) close() {
	for _, list := range g.crowds {
		for _, c := range list {
			c.close()
		}
	}
	g.deserted.close()
}

// Calibrate measures how many rows of generate_series a backend of the target makes in a
// millisecond of its own time.
func Calibrate(ctx context.Context, t Target) (loopsPerMS float64, err error) {
	url := t.Direct
	if url == "" {
		url = t.URL
	}
	config, err := Target{URL: url, Apart: t.Apart}.configure(&Stream{Tell: Untold}, 0)
	if err != nil {
		return 0, err
	}
	c, err := open(ctx, config)
	if err != nil {
		return 0, err
	}
	defer c.leave()
	const rows = 200_000
	quick := time.Duration(math.MaxInt64)
	// The fastest is the one that was disturbed least; the first fills caches.
	for range 6 {
		begin := time.Now()
		text := filler{loopsPerMS: rows}.fill(Burn, Arrival{Work: time.Millisecond})
		if err := c.ask(text, Simple, begin.Add(connectBound)); err != nil {
			return 0, errors.Join(errors.New("measuring how fast Postgres computes"), err)
		}
		quick = min(quick, time.Since(begin))
	}
	return rows * float64(time.Millisecond) / float64(quick), nil
}
