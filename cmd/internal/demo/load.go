package demo

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// perform plays one phase for a time and shows its progress. When ctx ends early, the
// result is not worth reading.
func perform(ctx context.Context, p phase, length time.Duration, c *crowd, w *watch, out *screen) *result {
	t := &tally{}
	w.reset()
	done := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		drive(ctx, p, length, c, t)
	}()
	tick := time.NewTicker(out.interval())
	defer tick.Stop()
	from := mark{}
	for {
		select {
		case <-done:
			r := t.result(p, length, time.Since(start))
			r.servers = w.most()
			out.settle(r.line())
			return r
		case <-tick.C:
			var now window
			now, from = t.since(from, time.Since(start))
			out.live(now.line(length, w.now()))
		}
	}
}

// drive is an open loop: arrivals come at random times of a fixed mean, whether or not
// those before them were answered, as they do from many users. Each takes a client that has
// nothing else to do. The random numbers are the same in every run.
func drive(ctx context.Context, p phase, length time.Duration, c *crowd, t *tally) {
	random := rand.New(rand.NewPCG(1, uint64(p.rate)))
	gap := func() time.Duration {
		return time.Duration(random.ExpFloat64() / float64(p.rate) * float64(time.Second))
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	start := time.Now()
	for due := gap(); due < length; due += gap() {
		if wait := time.Until(start.Add(due)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case one := <-c.free:
			running.Go(func() { c.visit(ctx, one, p, t) })
		default:
			t.unsent()
		}
	}
}

// visit is one arrival. The time of its answer counts from when it was sent: as every
// arrival has a client of its own, none has waited for another before that. The end of ctx
// does not cut it short; it is over in about maxWait anyway, and its session ends well.
func (c *crowd) visit(ctx context.Context, one *client, p phase, t *tally) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	start := time.Now()
	err := p.work(ctx, one)
	t.add(time.Since(start), err)
	if one.conn.IsClosed() {
		t.lost()
		return
	}
	c.free <- one
}
