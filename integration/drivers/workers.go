package drivers

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	longestPause = 100 * time.Millisecond
	recovery     = 30 * time.Second
)

// conn is a connection of a driver that is run from Go. An error that is a refusal is a
// *refusal; after any other the connection is not as it should be.
type conn interface {
	pid() int // 0: the driver does not tell
	plain(ctx context.Context, sql string) error
	several(ctx context.Context, sql string) error
	// tx runs sql in a transaction of the driver's, and rolls back after an error; inside is
	// called first, while the transaction has failed, to run a statement in it.
	tx(ctx context.Context, sql string, inside func(func(sql string) error)) error
}

// pool has the connections of one job.
type pool interface {
	// lend calls do with a connection, and puts it back.
	lend(ctx context.Context, do func(conn) error) error
	close()
}

// opener opens a pool for a job.
type opener func(ctx context.Context, job Job) (pool, error)

// Do does a job.
func (o opener) Do(ctx context.Context, job Job, seen func(Event)) error {
	if job.Mode == Transfer {
		return errors.New("transfers are not made from Go")
	}
	p, err := o(ctx, job)
	if err != nil {
		return err
	}
	defer p.close()
	w := &workers{job: job, pool: p, seen: seen, pids: make(map[int]bool)}
	if err := w.fill(ctx, job.Workers); err != nil {
		return err
	}
	w.say(Event{Kind: Ready})
	w.calm.Add(job.Workers)
	var g errgroup.Group
	for i := range job.Workers {
		g.Go(func() error { return w.work(ctx, job.mode(i)) })
	}
	g.Go(func() error {
		w.calm.Wait()
		w.say(Event{Kind: Calm})
		return nil
	})
	err = g.Wait()
	var pids []int
	for pid := range w.pids {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	w.say(Event{Kind: Done, Served: w.served, PIDs: pids})
	return err
}

// Close does nothing: a pool ends with its job.
func (o opener) Close() error { return nil }

// workers are those of one job.
type workers struct {
	job  Job
	pool pool
	calm sync.WaitGroup // those whose time is not over

	mu     sync.Mutex
	seen   func(Event)
	served int
	pids   map[int]bool
}

// fill opens n connections, all at the same time.
func (w *workers) fill(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	return w.pool.lend(ctx, func(conn) error { return w.fill(ctx, n-1) })
}

// say passes an event on.
func (w *workers) say(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen(e)
}

// lend notes whose connection it is and counts what is served.
func (w *workers) lend(ctx context.Context, do func(conn) error) error {
	return w.pool.lend(ctx, func(c conn) error {
		err := do(c)
		w.mu.Lock()
		defer w.mu.Unlock()
		if pid := c.pid(); pid != 0 {
			w.pids[pid] = true
		}
		if err == nil {
			w.served++
		}
		return err
	})
}

// work is one worker.
func (w *workers) work(ctx context.Context, mode string) error {
	until := time.Now().Add(w.job.Time)
	for time.Now().Before(until) {
		pause(ctx, w.attempt(ctx, mode))
	}
	w.calm.Done()
	w.calm.Wait()
	for {
		err := w.lend(ctx, func(c conn) error { return c.plain(ctx, w.job.After) })
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[*refusal](err); !ok {
			w.say(Event{Kind: Broken, Text: err.Error()})
			return nil
		}
		if time.Now().After(until.Add(recovery)) {
			w.say(Event{Kind: Broken, Text: "not served when it was calm again"})
			return nil
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// attempt is one attempt; it returns how long to wait before the next.
func (w *workers) attempt(ctx context.Context, mode string) time.Duration {
	after := ""
	err := w.lend(ctx, func(c conn) error {
		switch mode {
		case Tx:
			return c.tx(ctx, w.job.statement(), func(run func(sql string) error) {
				after = "served"
				if err := run(w.job.After); err != nil {
					after = err.Error()
					if r, ok := errors.AsType[*refusal](err); ok {
						after = r.code
					}
				}
			})
		case Several:
			return c.several(ctx, w.job.statement())
		}
		return c.plain(ctx, w.job.statement())
	})
	if err == nil {
		return 0
	}
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		w.say(Event{Kind: Broken, Text: err.Error()})
		return longestPause
	}
	e := Event{Kind: Refused, Mode: mode, Code: r.code, Detail: r.detail, Hint: r.hint, Wait: -1, After: after}
	if m := regexp.MustCompile(`retry_after_ms=(\d+)`).FindStringSubmatch(r.hint); m != nil {
		e.Wait, _ = strconv.Atoi(m[1]) // digits
	}
	if m := regexp.MustCompile(`retry=(\w+)`).FindStringSubmatch(r.hint); m != nil {
		e.Retry = m[1]
	}
	w.say(e)
	if e.Wait < 0 {
		return 20 * time.Millisecond
	}
	return min(time.Duration(e.Wait)*time.Millisecond, longestPause)
}

// pause waits, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refusal is an error of the server, by the driver's own interface.
type refusal struct{ code, detail, hint string }

// Error says what it is.
func (r *refusal) Error() string { return fmt.Sprintf("%s: %s (%s)", r.code, r.detail, r.hint) }
