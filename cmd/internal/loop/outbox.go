package loop

import (
	"os"

	"golang.org/x/sys/unix"
)

// A send goes through all of the kernel's TCP, on the loopback device also through the
// receiver's part of it and the waking of the receiver: when it returns, little is left in the
// processor's caches of what the loop was at. So what is small is held back while the turn's
// connections have their steps, and then sent, one send after the other, with one system call
// for all of them if there is a ring. A turn that has one connection with something to do sends
// no later than it would have.
const (
	mostParcel  = 4 << 10 // bytes held back for one connection, and no more than parcelPart of a buffer
	parcelPart  = 4
	mostParcels = 32 // connections for which something is held back, so that nobody waits for long
)

// outbox is what is held back.
type outbox struct {
	open bool // the connections have their steps
	most int  // bytes for one connection
	buf  []byte
	list []parcel
}

// parcel is the bytes of a connection's: outbox.buf[from:to], nothing if they have been sent
// already.
type parcel struct {
	c        *Conn
	from, to int
}

// hold takes spans of n bytes in all for c, to be sent soon, unless they are too many or c has
// unsent bytes before them. What is held back before them has been sent then.
func (l *Loop) hold(c *Conn, n int, spans ...[]byte) bool {
	o := &l.outbox
	last := len(o.list) - 1
	joins := c.flags&fHeld != 0 && o.list[last].c == c && o.list[last].to-o.list[last].from+n <= o.most
	if c.flags&fHeld != 0 && !joins {
		l.letGo(c)
	}
	if !o.open || n > o.most || c.Unsent() > 0 || c.flags&fBroken != 0 {
		return false
	}
	if !joins {
		if len(o.list) == mostParcels {
			l.letAllGo()
		}
		o.list = append(o.list, parcel{c: c, from: len(o.buf), to: len(o.buf)})
		last = len(o.list) - 1
		c.flags |= fHeld
	}
	for _, s := range spans {
		o.buf = append(o.buf, s...)
	}
	o.list[last].to = len(o.buf)
	return true
}

// letGo sends what is held back for c.
func (l *Loop) letGo(c *Conn) {
	if c.flags&fHeld == 0 {
		return
	}
	c.flags &^= fHeld
	for i := len(l.outbox.list) - 1; i >= 0; i-- {
		if p := &l.outbox.list[i]; p.c == c {
			from := p.from
			p.c, p.from = nil, p.to
			l.write(c, l.outbox.buf[from:p.to])
			return
		}
	}
}

// letAllGo sends all that is held back.
func (l *Loop) letAllGo() {
	o := &l.outbox
	if len(o.list) == 0 {
		return
	}
	if l.ring != nil && len(o.list) > 1 {
		l.sendTogether()
	}
	for i := range o.list {
		p := &o.list[i]
		if c := p.c; c != nil {
			p.c = nil
			c.flags &^= fHeld
			l.write(c, o.buf[p.from:p.to])
		}
	}
	o.buf, o.list = o.buf[:0], o.list[:0]
}

// sendTogether sends what is held back with one system call. What it leaves on the list has still
// to be sent.
func (l *Loop) sendTogether() {
	o := &l.outbox
	for i := range o.list {
		if p := &o.list[i]; p.c != nil && p.to > p.from && p.c.flags&fBroken == 0 {
			l.ring.add(p.c.fd, o.buf[p.from:p.to], i)
		}
	}
	n, e := l.ring.submit()
	l.count.Batches++
	for range n {
		i, sent, err := l.ring.result()
		if err == unix.EINTR {
			continue // to be sent once more, as send does
		}
		p := &o.list[i]
		c, b := p.c, o.buf[p.from:p.to]
		p.c = nil
		c.flags &^= fHeld
		l.count.Writes++
		if l.took(c, sent, err) && sent < len(b) {
			l.queue(c, b[sent:])
		}
	}
	if e != 0 && e != unix.EAGAIN && e != unix.EBUSY && e != unix.EINTR {
		l.loseRing(e)
	}
}

// loseRing goes on without the ring: e says that it was taken from us.
func (l *Loop) loseRing(e unix.Errno) {
	if e == unix.EBADF || e == unix.EOPNOTSUPP {
		l.ring.fd = -1 // whatever has the number now is not ours to close
	}
	l.ring.close()
	l.ring = nil
	if l.opt.RingLost != nil {
		l.opt.RingLost(os.NewSyscallError("io_uring_enter", e))
	}
}
