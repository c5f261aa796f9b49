package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"time"
)

// forEver is the patience of clients that have none, for what needs an end.
const forEver = time.Hour

// generator is a run on its way.
type generator struct {
	ctx      context.Context // of the run; requests on their way outlive it
	load     *Load
	fill     filler
	start    time.Time
	tally    *tally
	crowds   [][]*crowd // by stream and group; nil for streams of clients that wait
	deserted deserted
}

// since is the time of the run.
func (g *generator) since() time.Duration { return time.Since(g.start) }

// request is one arrival with all its attempts, over connections of a crowd.
func (g *generator) request(a Arrival, from *crowd) {
	s := &g.load.Streams[a.Stream]
	v := &visit{generator: g, stream: s, arrival: a, crowd: from, trace: s.trace()}
	for attempt := 1; ; attempt++ {
		r, err := v.attempt(attempt)
		outcome, cause := judge(err)
		r.Outcome = outcome
		pause, again := time.Duration(0), false
		if outcome != Served && outcome != Unsent && g.ctx.Err() == nil {
			pause, again = s.Retry.pause(attempt, err, mathrand.Float64())
		}
		r.Last = !again
		g.tally.add(r, cause, err)
		v.after()
		if !again {
			return
		}
		Rest(g.ctx, pause)
	}
}

// Rest waits for d, at most until ctx ends.
func Rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// trace is a traceparent for a request, if the stream has them.
func (s *Stream) trace() string {
	if !s.Trace {
		return ""
	}
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return "00-" + hex.EncodeToString(b[:16]) + "-" + hex.EncodeToString(b[16:]) + "-01"
}

// visit is a request on its way.
type visit struct {
	*generator
	stream  *Stream
	arrival Arrival
	crowd   *crowd
	trace   string

	conn  *conn // nil: none at the moment
	first time.Time
	after func() // what becomes of the connection, outside the time that is measured
}

// attempt sends the request once. The connection goes back, or is lost, by v.after.
func (v *visit) attempt(n int) (Record, error) {
	s := v.stream
	r := Record{Due: v.arrival.Due, Stream: int32(v.arrival.Stream), Tenant: int32(v.arrival.Tenant), Attempt: uint8(n)}
	begin := time.Now()
	err := v.connect(begin)
	if s.Churn == 0 && err == nil {
		begin = time.Now() // a pool of connections is no part of the request
	}
	if v.first.IsZero() {
		v.first = begin
	}
	r.Sent = begin.Sub(v.start)
	if err == nil {
		r.Done, err = v.ask(n, begin)
	}
	end := time.Now()
	r.Took, r.Whole = end.Sub(begin), end.Sub(v.first)
	v.after, r.Kept = v.part(err)
	return r, err
}

// connect takes a connection.
func (v *visit) connect(now time.Time) (err error) {
	patience := v.stream.Patience
	if patience == 0 {
		patience = forEver
	}
	lost := 0
	ctx, done := context.WithTimeout(v.ctx, patience)
	defer done()
	before := len(v.crowd.free)
	v.conn, lost, err = v.crowd.take(ctx, now.Add(patience))
	v.tally.count(func(c *Counts) {
		c.Lost += lost
		switch {
		case err != nil && !errors.Is(err, errNoSession):
			c.Unable++
		case err == nil && before == 0 && v.conn.used == 0:
			c.Grown++
		}
	})
	return err
}

// ask sends the statements of the request, up to the first that is not served, and counts
// those that are. The first one's time begins at begin.
func (v *visit) ask(attempt int, begin time.Time) (done int32, err error) {
	s := v.stream
	q := &s.Queries[v.arrival.Query]
	tags := s.told(v.arrival.Tenant)
	tags.attempt, tags.trace = attempt, v.trace
	comment := ""
	if s.Tell == ByComment {
		comment = tags.comment()
	}
	v.conn.used++
	defer v.abandon()()
	for n := range q.repeat() {
		for i, text := range q.Statements {
			if n+i > 0 {
				Rest(v.ctx, q.Pause)
				begin = time.Now()
			}
			one := v.askOne(tags, v.fill.fill(text, v.arrival)+comment, begin)
			switch {
			case one == nil:
				done++
			case q.GoOn && goesOn(one):
				err = either(err, one)
			default:
				return done, either(err, one)
			}
		}
	}
	return done, err
}

// abandon closes the connection of a client with much patience when the run is given up.
// The others come to an end by themselves.
func (v *visit) abandon() (stop func() bool) {
	if p := v.stream.Patience; p > 0 && p <= connectBound {
		return func() bool { return true }
	}
	socket := v.conn.net
	return context.AfterFunc(v.ctx, func() { _ = socket.Close() })
}

// askOne sends one statement, and says before it what has to be said.
func (v *visit) askOne(tags told, text string, begin time.Time) error {
	until := time.Time{}
	if v.stream.Patience > 0 {
		until = begin.Add(v.stream.Patience)
	}
	if v.stream.Tell == BySet {
		if set := tags.settings(); set != v.conn.told {
			if err := v.conn.ask(set, Simple, until); err != nil {
				return err
			}
			v.conn.told = set
		}
	}
	return v.conn.ask(text, v.stream.Protocol, until)
}

// either is the first of two errors that is one.
func either(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// goesOn reports that a session goes on after an error.
func goesOn(err error) bool {
	e := answered(err)
	return e != nil && !fatal(e)
}
