package loop

import "golang.org/x/sys/unix"

// Send sends the spans one after the other: with one system call if there are at
// most 64 of them, or, with TLS, if the records fit into the loop's buffer; in a
// step of a connection what is small waits until the steps are over. What
// the kernel does not take is copied, and sent when there is room; the spans are
// free again on return. It returns the number of bytes now unsent. When the
// kernel takes everything nothing is copied and nothing allocated. What is sent
// on a connection that is broken, shut or closing is dropped.
func (c *Conn) Send(spans [][]byte) (unsent int) {
	if c.flags&fBulk != 0 {
		c.loop.leaveBulk(c) // a request: its answer may be small
	}
	c.streak = 0
	switch {
	case c.flags&fNoSend != 0:
	case c.br != nil:
		c.br.send(spans)
	default:
		n := 0
		for _, s := range spans {
			n += len(s)
		}
		if !c.loop.hold(c, n, spans...) {
			c.loop.writeAll(c, spans)
		}
	}
	return c.Unsent()
}

// write sends p, or queues it behind what is unsent.
func (l *Loop) write(c *Conn, p []byte) {
	if c.flags&fHeld != 0 {
		l.letGo(c)
	}
	if len(p) == 0 || c.flags&fBroken != 0 {
		return
	}
	n := 0
	if c.Unsent() == 0 {
		l.count.Writes++
		var e unix.Errno
		n, e = send(c.fd, p)
		if !l.took(c, n, e) || n == len(p) {
			return
		}
	}
	l.queue(c, p[n:])
}

// writeAll is write for several spans.
func (l *Loop) writeAll(c *Conn, spans [][]byte) {
	for len(spans) > 0 && c.Unsent() == 0 {
		batch := spans[:min(len(spans), maxIov)]
		want := 0
		for _, s := range batch {
			want += len(s)
		}
		if want > 0 {
			l.count.Writes++
			n, e := l.vec.send(c.fd, batch)
			if !l.took(c, n, e) {
				return
			}
			if n < want {
				l.queueFrom(c, batch, n)
			}
		}
		spans = spans[len(batch):]
	}
	l.queueFrom(c, spans, 0)
}

// took keeps the books of a send that moved n bytes or failed with e. It reports
// false if the connection is broken.
func (l *Loop) took(c *Conn, n int, e unix.Errno) bool {
	switch e {
	case 0:
		l.count.BytesOut += uint64(n)
	case unix.EAGAIN:
		l.count.WriteEAGAIN++
	default:
		l.broken(c)
		return false
	}
	return true
}

// broken notes that the peer takes no more bytes. What it sent before may still
// be read; End comes after that.
func (l *Loop) broken(c *Conn) {
	l.dropUnsent(c)
	c.flags |= fBroken | fDrain
	if c.flags&fEOF == 0 {
		c.flags |= fReadable
	}
	l.enqueue(c)
}

// queueFrom queues the spans without their first skip bytes.
func (l *Loop) queueFrom(c *Conn, spans [][]byte, skip int) {
	for _, s := range spans {
		if skip >= len(s) {
			skip -= len(s)
			continue
		}
		l.queue(c, s[skip:])
		skip = 0
	}
}

// queue copies p behind the unsent bytes. The first of them have the kernel tell
// when there is room, and start the stall time.
func (l *Loop) queue(c *Conn, p []byte) {
	first := c.Unsent() == 0
	c.out, c.outOff = l.bufs.extend(c.out, c.outOff, p)
	if !first {
		return
	}
	c.progress = l.now
	c.flags &^= fWritable
	if c.stall > 0 && c.flags&fFinish == 0 {
		l.due.set(c, l.now+c.stall)
	}
	if c.flags&fQuietOut != 0 {
		_ = l.control(c, unix.EPOLL_CTL_MOD, true) // cannot fail: registered, and allocates nothing
	}
}

// flush sends unsent bytes until none are left, and reports whether that is so.
// An edge has said that there is room.
func (l *Loop) flush(c *Conn) (drained bool) {
	c.flags &^= fWritable
	p := c.out[c.outOff:]
	if len(p) == 0 {
		return false
	}
	l.count.Writes++
	n, e := send(c.fd, p)
	if !l.took(c, n, e) {
		return false
	}
	if n < len(p) {
		// A short send, like EAGAIN, leaves the kernel owing an edge.
		c.outOff += n
		if n > 0 {
			c.progress = l.now
		}
		return false
	}
	l.dropUnsent(c)
	if c.flags&fQuietOut != 0 {
		_ = l.control(c, unix.EPOLL_CTL_MOD, false)
	}
	if c.flags&fShut != 0 {
		c.shutNow()
	}
	return true
}

// dropUnsent forgets the unsent bytes and their stall time.
func (l *Loop) dropUnsent(c *Conn) {
	if c.flags&fFinish == 0 {
		l.due.remove(c)
	}
	l.bufs.put(c.out)
	c.out, c.outOff = nil, 0
}
