package demo

import (
	"context"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"
)

// statement binds a server for the nap, and PostgreSQL counts it when it is done.
func statement() string {
	return fmt.Sprintf("select pg_sleep(%g), nextval('%s')", nap.Seconds(), counter)
}

// perform sends the arrivals of a schedule through a policy's pgweir and shows what comes of
// them, second by second.
func perform(ctx context.Context, p policy, list []stretch, url string, w *watch, out *screen) (*result, error) {
	c, err := newCrowd(ctx, url, sessions)
	if err != nil {
		return nil, err
	}
	defer c.close()
	t := &tally{}
	m := begin(t, w)
	show(send(ctx, list, c, t), list, m, out)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// A client may have left a statement behind.
	if err := w.rest(ctx); err != nil {
		return nil, err
	}
	r := t.result(p, list)
	r.servers, r.executed = w.most(), w.executed()
	return r, nil
}

// keepUp sends a load until ctx ends, and shows what comes of it in one line if that can be
// rewritten.
func keepUp(ctx context.Context, load float64, url string, w *watch, out *screen) error {
	c, err := newCrowd(ctx, url, sessions)
	if err != nil {
		return err
	}
	defer c.close()
	list := []stretch{{phase{name: fmt.Sprintf("%gx", load), load: load}, math.MaxInt64}}
	t := &tally{forgets: true}
	m := begin(t, w)
	done := send(ctx, list, c, t)
	if !out.rewrites {
		<-done
		return nil
	}
	out.say("%s", out.heading())
	m.each(done, func(from, to mark) { out.live(out.second(list[0].name, from, to)) })
	return nil
}

// send sends arrivals until the last or the end of ctx. The channel is closed when all have
// ended.
func send(ctx context.Context, list []stretch, c *crowd, t *tally) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		drive(ctx, arrivals(list), c, t)
	}()
	return done
}

// drive sends arrivals when they are due, each in a goroutine of its own, and waits for the
// end of all.
func drive(ctx context.Context, due iter.Seq[arrival], c *crowd, t *tally) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	start := time.Now()
	for a := range due {
		if wait := time.Until(start.Add(a.due)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		t.arrive()
		running.Go(func() { c.visit(ctx, a, t) })
	}
}
