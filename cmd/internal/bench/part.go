package bench

import (
	"context"
	"os"
	"time"
)

// part decides what becomes of the connection after an attempt. kept reports that the
// session goes on; after has to be called once the attempt has been noted.
func (v *visit) part(err error) (after func(), kept bool) {
	c := v.conn
	v.conn = nil
	switch {
	case c == nil:
		return func() {}, false
	case err == nil || goesOn(err):
		return func() { v.giveBack(c) }, true
	case !late(err):
		v.tally.count(func(n *Counts) { n.Lost++ })
		return func() { v.replace(c) }, false
	case v.stream.Leave == Cancel:
		return func() { v.calm(c) }, true
	}
	v.tally.count(func(n *Counts) { n.Left++ })
	switch v.stream.Leave {
	case CancelClose:
		return func() {
			v.cancel(c)
			v.replace(c)
		}, false
	case Walk:
		return func() {
			v.deserted.add(c, int(v.crowd.places.most))
			v.crowd.places.leave()
			v.reopen()
		}, false
	default:
		c.close() // now: the other side should know when the patience ends
		return func() { v.replace(c) }, false
	}
}

// giveBack puts a connection back in line, or closes it if the stream does so after as many
// requests.
func (v *visit) giveBack(c *conn) {
	if err := c.reset(); err != nil {
		v.tally.count(func(n *Counts) { n.Lost++ })
		v.replace(c)
		return
	}
	if churn := v.stream.Churn; churn > 0 && c.used >= churn {
		c.leave()
		v.crowd.places.leave()
		return
	}
	v.crowd.give(c)
}

// cancel sends a CancelRequest. If that fails, the connection shows it.
func (v *visit) cancel(c *conn) {
	if err := c.cancel(v.crowd.config); err != nil {
		v.tally.fail(err)
	}
}

// calmEvery is how long a client waits for what a CancelRequest does, and how often it sends
// one: the first may have come before the statement that it meant.
const (
	calmEvery = time.Second
	calmMost  = 10
)

// calm cancels what a connection does, reads the rest of its answer and puts it back.
func (v *visit) calm(c *conn) {
	err := os.ErrDeadlineExceeded
	for n := 0; n < calmMost && late(err); n++ {
		v.cancel(c)
		err = c.settle(time.Now().Add(calmEvery))
	}
	if err != nil {
		v.tally.count(func(n *Counts) { n.Lost++ })
		v.replace(c)
		return
	}
	v.giveBack(c)
}

// replace closes a connection and opens another in its place.
func (v *visit) replace(c *conn) {
	v.crowd.drop(c)
	v.reopen()
}

// reopen opens a connection, so that the next request finds it, if all is well. A stream
// that opens connections as part of its requests does not.
func (v *visit) reopen() {
	if v.stream.Churn > 0 || v.ctx.Err() != nil {
		return
	}
	ctx, done := context.WithTimeout(v.ctx, connectBound)
	defer done()
	c, err := v.crowd.connect(ctx)
	if err != nil {
		v.tally.count(func(n *Counts) { n.Unable++ })
		v.tally.fail(err)
		return
	}
	v.crowd.give(c)
}
