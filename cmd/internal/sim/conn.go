package sim

import (
	"fmt"

	"github.com/pgweir/pgweir/wire/wiretest"
)

// handler is what a connection's events go to; a session's Client and Server
// fit.
type handler interface {
	Data(b []byte, now int64) (used int)
	Drained(now int64)
	Hangup(now int64)
	EOF(now int64)
	Lost(now int64)
}

// conn is pgweir's end of a simulated connection. It behaves as the event
// loop's does: one handler at a time, bytes kept for a handler that did not use
// them, short writes, a hang-up that is seen while reading is paused.
type conn struct {
	w *world
	h handler
	// peer is the other side; its methods are called from events only.
	peer peer

	in      [][]byte // arrived and not yet read
	kept    []byte   // given to the handler and not used
	fin     bool     // the peer has ended its writing side
	hungUp  bool     // and the handler knows
	eof     bool     // and all before it was read
	reset   bool     // the peer is gone altogether
	paused  bool
	resumed bool // Data must be called again with what was kept
	planned bool // a turn is planned

	lastIn   int64 // when the latest bytes from the peer arrive: order is kept
	lastOut  int64 // and the latest to it
	unsent   []byte
	window   int  // bytes that the peer's side takes before the next drain
	shut     bool // our writing side is ended, or will be after unsent
	shutSent bool
	finish   bool
	closed   bool
}

// peer is the far end of a connection.
type peer interface {
	// receive takes bytes that pgweir has written.
	receive(b []byte)
	// ended tells that pgweir has ended its writing side; closed, that it has
	// closed the connection altogether.
	ended(closed bool)
}

// plan makes sure that a turn comes.
func (c *conn) plan() {
	if !c.planned && !c.closed {
		c.planned = true
		c.w.after(c.w.delay(20_000), c.turn)
	}
}

// outward does something at the peer's end, after all that went before.
func (c *conn) outward(do func()) {
	c.lastOut = max(c.lastOut, c.w.now+c.w.delay(5_000))
	c.w.after(c.lastOut-c.w.now, do)
}

// inward does something at this end, after all that went before.
func (c *conn) inward(do func()) {
	c.lastIn = max(c.lastIn, c.w.now+c.w.delay(5_000))
	c.w.after(c.lastIn-c.w.now, do)
}

// write is the peer sending bytes, which arrive in pieces.
func (c *conn) write(b []byte) {
	for _, piece := range wiretest.Split(c.w.rnd, b) {
		c.inward(func() {
			if !c.closed {
				c.in = append(c.in, piece)
				c.plan()
			}
		})
	}
}

// hangUp is the peer ending its writing side.
func (c *conn) hangUp() { c.inward(func() { c.fin = true; c.plan() }) }

// drop is the peer's answer to bytes that nobody takes: a reset.
func (c *conn) drop() { c.inward(func() { c.reset = true; c.plan() }) }

// turn lets the handler see one thing.
func (c *conn) turn() {
	c.planned = false
	if c.closed {
		return
	}
	now := c.w.now
	switch {
	case c.fin && !c.hungUp && !c.finish:
		c.hungUp = true
		c.h.Hangup(now)
	case c.reset && (c.paused || len(c.in) == 0) && !c.resumed:
		c.closed = true
		if !c.finish {
			c.h.Lost(now)
		}
	case c.finish:
		c.in, c.kept, c.resumed = nil, nil, false
	case c.paused:
	case c.resumed:
		c.resumed = false
		if len(c.kept) > 0 {
			c.give(c.kept)
		}
	case len(c.in) > 0:
		b := append(c.kept, c.in[0]...)
		c.in = c.in[1:]
		c.give(b)
	case c.fin && !c.eof:
		c.eof = true
		c.h.EOF(now)
	}
	if c.w.afterHandler(); c.more() {
		c.plan()
	}
}

// more reports whether another turn has something to do.
func (c *conn) more() bool {
	if c.closed || c.finish {
		return false
	}
	if c.fin && !c.hungUp || c.reset {
		return true
	}
	return !c.paused && (c.resumed || len(c.in) > 0 || c.fin && !c.eof)
}

func (c *conn) give(b []byte) {
	mine := append([]byte(nil), b...)
	used := c.h.Data(mine, c.w.now)
	c.kept = append([]byte(nil), b[used:]...)
	for i := range mine { // spans must not be kept: they are the loop's buffer
		mine[i] = 0xee
	}
}

// Send implements session.Conn.
func (c *conn) Send(spans [][]byte) int {
	if c.closed || c.shut || c.reset {
		return 0
	}
	waiting := len(c.unsent) > 0
	for _, s := range spans {
		c.unsent = append(c.unsent, s...)
	}
	if waiting || len(c.unsent) == 0 {
		return len(c.unsent)
	}
	if c.window > 0 {
		c.push()
	}
	if len(c.unsent) > 0 {
		c.w.after(c.w.delay(50_000), c.drain)
	}
	return len(c.unsent)
}

// push lets the network take as much as the window allows.
func (c *conn) push() {
	n := min(c.window, len(c.unsent))
	c.window -= n
	b := append([]byte(nil), c.unsent[:n]...)
	c.unsent = append([]byte(nil), c.unsent[n:]...)
	p := c.peer
	c.outward(func() { p.receive(b) })
	if c.w.rnd.IntN(8) > 0 {
		c.window = 1 + c.w.rnd.IntN(1<<16)
	}
}

// drain is the network having room again.
func (c *conn) drain() {
	if c.closed || len(c.unsent) == 0 {
		return
	}
	c.window = 1 + c.w.rnd.IntN(1<<14)
	if c.push(); len(c.unsent) > 0 {
		c.w.after(c.w.delay(50_000), c.drain)
		return
	}
	if c.shut {
		c.endWriting()
	}
	if c.finish {
		c.Close()
		return
	}
	c.h.Drained(c.w.now)
	c.w.afterHandler()
}

// Unsent implements session.Conn.
func (c *conn) Unsent() int { return len(c.unsent) }

// Pause implements session.Conn.
func (c *conn) Pause() { c.paused = true }

// Resume implements session.Conn.
func (c *conn) Resume() {
	c.paused, c.resumed = false, true
	c.plan()
}

// Close implements session.Conn.
func (c *conn) Close() {
	if c.closed {
		return
	}
	c.closed = true
	c.unsent = nil
	p := c.peer
	c.outward(func() { p.ended(true) })
}

// Finish implements session.Conn.
func (c *conn) Finish() {
	c.finish = true
	if len(c.unsent) == 0 {
		c.Close()
	}
}

// ShutdownWrite implements session.Conn.
func (c *conn) ShutdownWrite() {
	c.shut = true
	if len(c.unsent) == 0 {
		c.endWriting()
	}
}

func (c *conn) endWriting() {
	if !c.shutSent {
		c.shutSent = true
		p := c.peer
		c.outward(func() { p.ended(false) })
	}
}

// String describes the connection for a failure.
func (c *conn) String() string {
	return fmt.Sprintf("in=%d kept=%d unsent=%d fin=%v hungUp=%v eof=%v reset=%v paused=%v resumed=%v finish=%v closed=%v",
		len(c.in), len(c.kept), len(c.unsent), c.fin, c.hungUp, c.eof, c.reset, c.paused, c.resumed, c.finish, c.closed)
}
