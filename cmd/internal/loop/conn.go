package loop

import (
	"golang.org/x/sys/unix"
)

// Handler receives what happens on a connection. All methods run on the loop
// thread, never inside one another and never inside a method of Conn or Loop.
// Each may call any method of any connection of its loop. A panic in a handler
// is not caught.
type Handler interface {
	// Data is given the bytes that earlier calls left, followed by what has
	// just been read, and returns how many of them are done with, from the
	// front. The loop keeps the rest, at most Options.MaxKeep bytes of it; they
	// come again in front of new bytes, or on Resume. b is invalid after return.
	Data(c *Conn, b []byte, now int64) (used int)

	// Drained says that unsent bytes have become 0 after having been more.
	Drained(c *Conn, now int64)

	// Hangup says, once, that the peer has ended its writing side, also while
	// reading is paused. Data may still follow. It does not come after EOF, which
	// with TLS may be seen first.
	Hangup(c *Conn, now int64)

	// EOF says, once, that everything the peer wrote has been given to Data;
	// bytes that Data left are dropped. Writing may still work. The connection
	// stays until Close, Finish or End.
	EOF(c *Conn, now int64)

	// End says that the connection is dead and being closed: the last call, at
	// most once, after the last Data. It does not come after Close or Finish.
	// A connection that was reset while paused ends at once: bytes that it had
	// still to read are lost.
	End(c *Conn, how End, now int64)
}

// Opener is a Handler that wants to know its connection as soon as it is
// registered, before its peer has sent anything.
type Opener interface {
	// Open is the connection's first callback.
	Open(c *Conn, now int64)
}

// Conn is one connection of a loop. All of it belongs to the loop thread.
type Conn struct {
	loop *Loop
	h    Handler
	br   *Bridge // nil without TLS
	next *Conn   // run list
	id   ID

	in  []byte // bytes that Data left, from inOff on
	out []byte // bytes that the kernel did not take, from outOff on

	stall    int64 // longest time without progress, 0 = any
	progress int64 // when unsent bytes last became fewer
	due      int64 // see dueHeap
	inOff    int
	outOff   int
	heap     int32 // 1 + index in the heap
	fd       int32 // -1 once closed
	turn     uint32
	flags    uint32
	streak   int32  // bytes read in a row; in bulk mode see expect
	readAt   uint32 // when, outside bulk mode, in units of 2^readAtShift ns
}

const (
	fReadable uint32 = 1 << iota // there may be something to read
	fWritable                    // an edge said that there is room for unsent bytes
	fDrain                       // the peer hung up: read on until 0 or an error
	fHangup                      // its writing side has ended
	fTold                        // Hangup has been called
	fReset                       // the kernel reports both a hang-up and an error
	fBroken                      // a write failed
	fEOF                         // a read returned 0
	fPaused
	fResumed  // give what is kept to Data once more
	fQueued   // on a run list
	fMore     // crypto/tls may hold bytes that have not been asked for
	fQuietOut // registered without output
	fShut     // ShutdownWrite was called
	fShutDone // and took effect
	fBulk     // bulk mode: the mark is up
	fPolled   // in it, the clock asked for the next read
	fNoBulk   // never: the loop or the kernel does not do it
	fHeld     // something is held back for it in the outbox
	fFinish   // Finish was called: no more callbacks
	fClosed   // to be closed at the end of the turn, or closed
)

const (
	fGone   = fReset | fBroken                   // the peer will not read any more
	fNoData = fPaused | fEOF | fFinish | fClosed // Data must not be called
	fNoSend = fBroken | fShut | fFinish | fClosed
)

// ID returns the connection's name, valid also after its end.
func (c *Conn) ID() ID { return c.id }

// Fd returns the descriptor, -1 once it has been closed. It may be asked for
// socket options and nothing else.
func (c *Conn) Fd() int { return int(c.fd) }

// Loop returns the loop that owns c.
func (c *Conn) Loop() *Loop { return c.loop }

// Pause stops reading: Data is not called until Resume. Hangup still is.
func (c *Conn) Pause() {
	c.flags = c.flags&^fResumed | fPaused
	if c.flags&fBulk != 0 {
		c.loop.unexpect(c) // a slow reader on the other side must not cost wake-ups
	}
	if c.flags&fGone != 0 {
		c.loop.enqueue(c) // nothing else would tell of its end
	}
}

// Resume undoes Pause. Soon, but not from within Resume, bytes that Data left
// are given to it again even if no new ones have come, and reading goes on.
func (c *Conn) Resume() {
	c.flags = c.flags&^fPaused | fResumed
	if c.flags&fBulk != 0 {
		c.flags |= fReadable // there may be bytes below the mark
	}
	c.loop.enqueue(c)
}

// Paused reports whether reading is paused.
func (c *Conn) Paused() bool { return c.flags&fPaused != 0 }

// Kept returns how many bytes Data has left.
func (c *Conn) Kept() int { return len(c.in) - c.inOff }

// Unsent returns how many bytes given to Send the kernel has not taken yet, with
// TLS the length of the ciphertext.
func (c *Conn) Unsent() int { return len(c.out) - c.outOff }

// Close drops the connection at the end of the turn: unsent bytes are lost, and
// a TCP peer may see a reset. No callback follows.
func (c *Conn) Close() {
	if c.flags&fClosed != 0 {
		return
	}
	if c.flags&fFinish != 0 {
		c.loop.finishing--
	}
	c.flags |= fClosed
	c.loop.closing = append(c.loop.closing, c)
}

// Finish closes the connection in an orderly way: it sends what is unsent, with
// TLS a close_notify, ends the writing side, discards what the peer still sends
// until the peer closes as well (closing a socket with unread bytes would make
// TCP throw away what the peer has not read), and closes. All of it takes at most
// Options.LingerTime. No callback follows.
func (c *Conn) Finish() {
	if c.flags&(fClosed|fFinish) != 0 {
		return
	}
	c.shutTLS()
	l := c.loop
	if c.flags&fBulk != 0 {
		l.leaveBulk(c)
	}
	c.flags |= fFinish
	l.finishing++
	l.due.set(c, l.now+int64(l.opt.LingerTime))
	l.enqueue(c)
}

// Finishing returns how many connections are on the way from Finish to their end. Loop
// thread.
func (l *Loop) Finishing() int { return l.finishing }

// ShutdownWrite ends the writing side as soon as nothing is unsent. What is sent
// afterwards is dropped. Reading goes on.
func (c *Conn) ShutdownWrite() {
	if c.flags&(fClosed|fFinish|fShut) != 0 {
		return
	}
	c.shutTLS()
	c.loop.letGo(c)
	c.flags |= fShut
	if c.Unsent() == 0 {
		c.shutNow()
	}
}

func (c *Conn) shutTLS() {
	if c.br != nil && c.flags&fNoSend == 0 {
		c.br.closeNotify()
	}
}

func (c *Conn) shutNow() {
	if c.flags&(fShutDone|fBroken) == 0 {
		c.flags |= fShutDone
		_ = unix.Shutdown(int(c.fd), unix.SHUT_WR)
	}
}

// SetStall bounds how long, in nanoseconds, unsent bytes may make no progress;
// then the connection ends with Stalled. 0 means any time.
func (c *Conn) SetStall(d int64) {
	c.stall = max(d, 0)
	if c.flags&(fClosed|fFinish) != 0 || c.Unsent() == 0 {
		return
	}
	if c.stall == 0 {
		c.loop.due.remove(c)
	} else {
		c.loop.due.set(c, c.progress+c.stall)
	}
}

// runList is a queue of connections, linked through Conn.next. fQueued tells
// whether a connection is on one.
type runList struct{ head, tail *Conn }

func (r *runList) push(c *Conn) {
	c.flags |= fQueued
	if r.tail == nil {
		r.head = c
	} else {
		r.tail.next = c
	}
	r.tail = c
}

func (r *runList) pop() *Conn {
	c := r.head
	if c != nil {
		r.head, c.next = c.next, nil
		if r.head == nil {
			r.tail = nil
		}
		c.flags &^= fQueued
	}
	return c
}

// splice moves all of o behind r.
func (r *runList) splice(o *runList) {
	if o.head == nil {
		return
	}
	if r.tail == nil {
		r.head = o.head
	} else {
		r.tail.next = o.head
	}
	r.tail = o.tail
	*o = runList{}
}

// enqueue has c stepped: in this turn, or in the next one if it has had its step.
func (l *Loop) enqueue(c *Conn) {
	switch {
	case c.flags&(fQueued|fClosed) != 0:
	case c.turn == l.turn:
		l.later.push(c)
	default:
		l.run.push(c)
	}
}
