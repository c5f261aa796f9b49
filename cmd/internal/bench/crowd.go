package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// loginsOnce is how many log in at once before the run: they cost CPU on both sides.
const loginsOnce = 8

// errNoSession is why a request was not sent: all connections that the generator may have
// were busy until its patience ended. It says nothing about the endpoint.
var errNoSession = errors.New("the generator has no free connection")

// places bounds the connections of a run.
type places struct {
	most int64
	open atomic.Int64
}

// take takes a place if there is one.
func (p *places) take() bool {
	if p.open.Add(1) <= p.most {
		return true
	}
	p.open.Add(-1)
	return false
}

func (p *places) leave() { p.open.Add(-1) }

// crowd is the connections that a group of requests shares. Those that have nothing to do
// stand in line, so that all of them take part.
type crowd struct {
	config *pgconn.Config
	places *places
	free   chan *conn
}

func newCrowd(config *pgconn.Config, p *places) *crowd {
	return &crowd{config: config, places: p, free: make(chan *conn, p.most)}
}

// connect opens a connection, unless all places are taken.
func (c *crowd) connect(ctx context.Context) (*conn, error) {
	if !c.places.take() {
		return nil, errNoSession
	}
	one, err := open(ctx, c.config)
	if err != nil {
		c.places.leave()
		return nil, err
	}
	return one, nil
}

// take returns a free connection that is alive, else a new one, else waits for a free one
// until a time. lost is how many were found closed.
func (c *crowd) take(ctx context.Context, until time.Time) (one *conn, lost int, err error) {
	for {
		select {
		case one = <-c.free:
			if one.alive() {
				return one, lost, nil
			}
			c.drop(one)
			lost++
			continue
		default:
		}
		if one, err = c.connect(ctx); !errors.Is(err, errNoSession) {
			return one, lost, err
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case one = <-c.free:
			timer.Stop()
			if one.alive() {
				return one, lost, nil
			}
			c.drop(one)
			lost++
		case <-timer.C:
			return nil, lost, errNoSession
		case <-ctx.Done():
			timer.Stop()
			return nil, lost, context.Cause(ctx)
		}
	}
}

// give puts a connection back in line.
func (c *crowd) give(one *conn) { c.free <- one }

// drop closes a connection.
func (c *crowd) drop(one *conn) {
	one.close()
	c.places.leave()
}

// fill opens n connections, a few at once.
func (c *crowd) fill(ctx context.Context, n int) error {
	gate := make(chan struct{}, loginsOnce)
	errs := make([]error, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			if ctx.Err() != nil {
				errs[i] = context.Cause(ctx)
				return
			}
			one, err := c.connect(ctx)
			if errs[i] = err; err == nil {
				c.give(one)
			}
		})
	}
	work.Wait()
	for _, err := range errs {
		if err != nil { // one of them says it
			return err
		}
	}
	return nil
}

// close ends all connections that nobody uses.
func (c *crowd) close() {
	for {
		select {
		case one := <-c.free:
			one.leave()
			c.places.leave()
		default:
			return
		}
	}
}

// deserted are the connections of clients that have walked away. They stay open.
type deserted struct {
	mu   sync.Mutex
	list []*conn
}

// add takes one more; of more than most the oldest is closed.
func (d *deserted) add(one *conn, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) >= most {
		d.list[0].close()
		d.list = d.list[1:]
	}
	d.list = append(d.list, one)
}

func (d *deserted) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.list {
		one.close()
	}
	d.list = nil
}
