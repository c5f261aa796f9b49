package loop

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// mailPerTurn is the most tasks that one turn runs.
const mailPerTurn = 256

// ErrStopped is what Adopt returns once the loop has come to its end.
var ErrStopped = errors.New("loop: stopped")

// Task is work for the loop thread. It is meant to be embedded: posting it
// allocates nothing. It may be posted again as soon as its Run has begun.
type Task struct {
	// Run is called on the loop thread, with the time of the turn.
	Run func(now int64)

	conn   *Conn // adoption: the connection to register, Run is nil
	next   *Task
	posted atomic.Bool
}

// Post has the loop thread run t in one of its next turns, after everything
// posted before it. It may be called from any goroutine, and never blocks. To
// post a task that has not begun yet is a misuse and panics. Tasks that have
// not begun when the loop stops are dropped.
func (l *Loop) Post(t *Task) {
	if !t.posted.CompareAndSwap(false, true) {
		panic("loop: task posted twice")
	}
	if !l.push(t) {
		t.posted.Store(false)
	}
}

// Adopt hands the stream socket fd to the loop, which from then on owns it, also
// if Adopt returns an error. Nobody else may read, write or close it. It may be
// called from any goroutine.
//
// For a TLS connection t and br are the connection, its handshake complete, and
// the [Bridge] below it, else both are nil; what crypto/tls has read ahead is not lost.
// The connection is registered in one of the next turns, before tasks that are
// posted afterwards; if h is an [Opener] it then learns of its connection. Bytes
// that are already there are seen. If the kernel refuses to register fd, h gets
// End(Unwatched).
//
// A TCP socket is registered for input and output together and never again. A
// Unix socket announces room for output each time its peer reads, which would
// wake the loop once more for every message; it is registered for output only
// while bytes wait for room.
func (l *Loop) Adopt(fd int, t *tls.Conn, br *Bridge, h Handler) error {
	var err error
	switch {
	case h == nil:
		err = errors.New("loop: adoption without a handler")
	case (t == nil) != (br == nil):
		err = errors.New("loop: a TLS connection and its bridge come together")
	case br != nil && br.c != nil:
		err = errors.New("loop: bridge already adopted")
	case t != nil && !t.ConnectionState().HandshakeComplete:
		err = errors.New("loop: adoption before the end of the TLS handshake")
	}
	if err == nil {
		c := &Conn{loop: l, h: h, fd: int32(fd), flags: fReadable}
		if br != nil {
			br.attach(c, t)
			c.br = br
		}
		if l.push(&Task{conn: c}) {
			return nil
		}
		c.flags |= fClosed // a bridge that its owner still closes does nothing
		err = ErrStopped
	}
	_ = unix.Close(fd)
	return err
}

// push puts t in front of the list of posted tasks, and wakes the loop if it
// sleeps. It reports false if the loop has closed its mailbox.
func (l *Loop) push(t *Task) bool {
	for {
		h := l.posted.Load()
		if h == &l.closedMail {
			return false
		}
		t.next = h
		if l.posted.CompareAndSwap(h, t) {
			break
		}
	}
	l.wake()
	return true
}

// wake writes to the event descriptor if the loop sleeps or is about to. Of all
// that find it asleep one writes. The descriptor is never read: registered edge
// triggered, every write is an edge.
func (l *Loop) wake() {
	if !l.sleeping.Load() || !l.sleeping.Swap(false) {
		return
	}
	l.wakeMu.Lock()
	defer l.wakeMu.Unlock()
	if l.wakeClosed {
		return // the number may belong to somebody else by now
	}
	l.wakes.Add(1)
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	if _, err := unix.Write(l.evfd, one[:]); err != nil {
		panic(fmt.Sprintf("loop: write to the event descriptor: %v", err))
	}
}

// takeMail moves what was posted behind what is still in the inbox.
func (l *Loop) takeMail() {
	if l.inbox != nil || l.posted.Load() == nil {
		return
	}
	var first *Task
	for t := l.posted.Swap(nil); t != nil; {
		t.next, first, t = first, t, t.next // newest first becomes oldest first
	}
	l.inbox = first
}

// runMail runs at most mailPerTurn tasks.
func (l *Loop) runMail() {
	for range mailPerTurn {
		l.takeMail()
		t := l.inbox
		if t == nil {
			return
		}
		l.inbox, t.next = t.next, nil
		if t.conn != nil {
			l.register(t.conn)
			continue
		}
		l.count.Tasks++
		t.posted.Store(false)
		t.Run(l.now)
	}
}

// closeMail refuses further posts, and closes the descriptors of adoptions that
// have not been registered.
func (l *Loop) closeMail() {
	l.drop(l.inbox)
	l.inbox = nil
	l.drop(l.posted.Swap(&l.closedMail))
}

func (l *Loop) drop(t *Task) {
	for t != nil {
		next := t.next
		if c := t.conn; c != nil {
			c.flags |= fClosed
			_ = unix.Close(int(c.fd))
			c.fd = -1
		}
		t.posted.Store(false) // from here on its owner may post it again, in vain
		t = next
	}
}
