package loop

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// note remembers what an event says about c and puts c on the run list if there
// is anything to be done about it.
func (l *Loop) note(c *Conn, ev uint32) {
	f := c.flags
	if ev&(evIn|evRdHup|evHup|evErr) != 0 && f&fEOF == 0 {
		f |= fReadable
	}
	if ev&(evRdHup|evHup|evErr) != 0 {
		f |= fDrain
		if ev&evRdHup != 0 && f&fEOF == 0 {
			f |= fHangup
		}
		if ev&evHup != 0 && ev&evErr != 0 {
			f |= fReset
		}
	}
	if ev&evOut != 0 && c.Unsent() > 0 {
		f |= fWritable
	}
	c.flags = f
	if f&(fWritable|fReset) != 0 || f&(fHangup|fTold) == fHangup ||
		f&fReadable != 0 && f&(fPaused|fFinish) != fPaused {
		l.enqueue(c)
	}
}

// step gives c its share of a turn.
func (l *Loop) step(c *Conn) {
	c.turn = l.turn
	if c.flags&(fFinish|fClosed) != 0 {
		l.linger(c)
		return
	}
	if c.flags&fGone != 0 && c.flags&(fPaused|fEOF) != 0 {
		l.end(c, Reset)
		return
	}
	if c.flags&(fHangup|fTold) == fHangup {
		c.flags |= fTold
		c.h.Hangup(c, l.now)
	}
	if c.flags&fWritable != 0 && l.flush(c) && c.flags&(fFinish|fClosed) == 0 {
		c.h.Drained(c, l.now)
	}
	l.input(c)
	if c.flags&(fReadable|fMore) != 0 && c.flags&fNoData == 0 {
		l.enqueue(c)
	}
}

// input gives Data what was kept, if it asked for that by Resume, and then what
// one read finds.
func (l *Loop) input(c *Conn) {
	if c.flags&fNoData != 0 {
		return
	}
	if c.flags&fResumed != 0 {
		c.flags &^= fResumed
		if c.Kept() > 0 {
			l.deliver(c, c.in[c.inOff:], c.Kept())
			if c.flags&(fNoData|fResumed) != 0 {
				return // an end of the stream must not overtake what is kept
			}
		}
	}
	switch {
	case c.br != nil:
		if c.flags&(fReadable|fMore) != 0 {
			l.readTLS(c)
		}
	case c.flags&fReadable != 0:
		l.readPlain(c)
	}
}

func (l *Loop) readPlain(c *Conn) {
	b, k := l.room(c, l.buf)
	n, ok := l.recv(c, b[k:])
	if n > 0 || c.flags&(fBulk|fBroken) == fBulk && !ok {
		l.wasRead(c, n, len(b)-k)
	}
	switch {
	case n > 0:
		l.deliver(c, b[:k+n], k)
	case ok:
		l.eof(c)
	case c.flags&fBroken != 0:
		l.end(c, Reset)
	}
}

// recv reads into p once and keeps the books. (0, true) is the end of the
// stream; (0, false) means that there is nothing yet, or, if fBroken is set,
// that there never will be.
func (l *Loop) recv(c *Conn, p []byte) (int, bool) {
	l.count.Reads++
	n, e := recv(c.fd, p)
	switch {
	case e == unix.EAGAIN:
		l.count.ReadEAGAIN++
		c.flags &^= fReadable
		return 0, false
	case e != 0:
		c.flags = c.flags&^fReadable | fBroken
		return 0, false
	}
	l.count.BytesIn += uint64(n)
	if n == 0 || n < len(p) && c.flags&fDrain == 0 {
		c.flags &^= fReadable
	}
	return n, true
}

// room returns a buffer that begins with the k bytes kept for c and has room
// for a read behind them: shared, with the kept bytes copied to its front, as
// long as they take less than half of it, else the connection's own.
func (l *Loop) room(c *Conn, shared []byte) (b []byte, k int) {
	k = c.Kept()
	if k < len(l.buf)/2 {
		copy(shared, c.in[c.inOff:])
		return shared, k
	}
	c.in, c.inOff = l.bufs.reserve(c.in, c.inOff, len(shared))
	return c.in[c.inOff : len(c.in)+len(shared)], k
}

// deliver gives Data b, of which the first k bytes were kept before, and keeps
// what it leaves. b lies in a shared buffer or is the unspent part of c.in.
func (l *Loop) deliver(c *Conn, b []byte, k int) {
	used := c.h.Data(c, b, l.now)
	if used < 0 || used > len(b) {
		panic(fmt.Sprintf("loop: Data used %d of %d bytes", used, len(b)))
	}
	if c.flags&(fFinish|fClosed) != 0 {
		return // c.in goes when the connection goes
	}
	rest := b[used:]
	switch {
	case len(rest) == 0:
		l.dropKept(c)
	case len(rest) > l.opt.MaxKeep:
		l.end(c, Overflow)
	case c.inHolds(b):
		c.in = c.in[:c.inOff+len(b)]
		c.inOff += used
	case used == 0:
		l.keep(c, b[k:])
	default:
		c.in, c.inOff = c.in[:0], 0
		l.keep(c, rest)
	}
}

// inHolds reports whether b is the unspent part of c.in rather than a part of a
// shared buffer.
func (c *Conn) inHolds(b []byte) bool {
	return cap(c.in) > c.inOff && &c.in[:cap(c.in)][c.inOff] == &b[0]
}

func (l *Loop) keep(c *Conn, p []byte) {
	c.in, c.inOff = l.bufs.extend(c.in, c.inOff, p)
}

func (l *Loop) dropKept(c *Conn) {
	l.bufs.put(c.in)
	c.in, c.inOff = nil, 0
}

// eof ends the input of c. After a reset or a failed write the end of the
// stream is the end of the connection.
func (l *Loop) eof(c *Conn) {
	c.flags = c.flags&^(fReadable|fMore) | fEOF
	if c.flags&fBulk != 0 {
		l.forgetBulk(c)
	}
	l.dropKept(c)
	if c.flags&fGone != 0 {
		l.end(c, Reset)
		return
	}
	c.h.EOF(c, l.now)
}

// linger is the step of a connection that Finish is closing.
func (l *Loop) linger(c *Conn) {
	if c.flags&fClosed != 0 {
		return
	}
	l.dropKept(c)
	l.letGo(c)
	if c.flags&fWritable != 0 {
		l.flush(c)
	}
	if c.Unsent() == 0 {
		c.shutNow()
	}
	if c.flags&(fReadable|fEOF) == fReadable {
		if n, ok := l.recv(c, l.buf); ok && n == 0 {
			c.flags |= fEOF
		}
	}
	switch {
	case c.flags&fGone != 0, c.flags&fEOF != 0 && c.Unsent() == 0:
		c.Close()
	case c.flags&fReadable != 0 && c.flags&fEOF == 0:
		l.enqueue(c)
	}
}
