package loop

import "golang.org/x/sys/unix"

// Bulk mode. A peer that writes 8 KB at a time, as Postgres does, and is slower
// than the loop has it wake, read and write for each of these pieces. The kernel
// collects them if it is asked to: with SO_RCVLOWAT set on a TCP socket it raises
// no edge below so many bytes, except for the end of the stream, an error, or a
// receive buffer that is filling up. What is below the mark when the stream ends
// or halts would then lie there unseen, so the loop reads by the clock as well.
//
// While the mark of a connection is up, one of these holds: it is on Loop.bulks,
// to be read by a certain time; it is readable, on the run list or being stepped;
// it is paused, and Resume makes it readable; its stream has ended; it is closed.
// In each of them bytes whose edge was suppressed are read within bulkPoll of
// becoming wanted. And an idle loop stays idle: a poll that finds little lowers
// the mark.
const (
	// bulkPoll is how long, in nanoseconds, bytes may lie unread below the mark. It
	// is what the tail of a result may be late, and only of a result that is large.
	bulkPoll = 300_000

	// bulkQuiet is the longest pause within a run of reads, in units of
	// Conn.readAt: 1 << readAtShift ns, about a millisecond.
	bulkQuiet   = 1
	readAtShift = 20

	// The thresholds, in buffers. The size of a buffer counts from bulkSmallest to
	// bulkLargest bytes.
	bulkEnter     = 4 // so many in a row are a stream
	bulkUp        = 2 // where the mark is
	bulkLeastPart = 4 // a poll shall find a so-many-th part of one
	bulkSmallest  = 4 << 10
	bulkLargest   = 64 << 10
)

// bulkSizes are the thresholds of bulk mode in bytes, all 0 if there is none.
type bulkSizes struct {
	enter int32 // read in a row: the connection streams
	mark  int   // SO_RCVLOWAT
	least int   // a poll that finds less ends the mode
}

// bulkSizesFor returns the thresholds that go with a buffer of size bytes.
// Buffers of more than 64 KiB count as so large: the mark makes the kernel's
// receive buffer at least twice as large as itself.
func bulkSizesFor(size int) bulkSizes {
	if size < bulkSmallest {
		return bulkSizes{} // no peer writes pieces so small that it would pay
	}
	size = min(size, bulkLargest)
	return bulkSizes{enter: int32(bulkEnter * size), mark: bulkUp * size, least: size / bulkLeastPart}
}

// bulkEntry is a connection in bulk mode, to be read by the time at.
type bulkEntry struct {
	c  *Conn
	at int64
}

// wasRead is told the result of each read of a connection without TLS: n bytes
// of at most size; in bulk mode also that there were none. Outside that mode it
// looks for a stream: reads that did not fill the buffer, with no pause between
// them and nothing sent in the other direction. An exchange of requests and
// small answers, however fast, is none.
func (l *Loop) wasRead(c *Conn, n, size int) {
	if c.flags&fBulk != 0 {
		polled := c.flags&fPolled != 0
		c.flags &^= fPolled
		if polled && n < l.bulk.least {
			l.leaveBulk(c)
		} else {
			l.expect(c)
		}
		return
	}
	at := uint32(l.now >> readAtShift)
	if at-c.readAt > bulkQuiet {
		c.streak = 0
	}
	c.readAt = at
	if n == size || c.flags&(fNoBulk|fQuietOut|fDrain) != 0 {
		return // a full buffer is as much as one read can have
	}
	if c.streak += int32(n); c.streak >= l.bulk.enter {
		l.enterBulk(c)
	}
}

// enterBulk puts the mark up. Bytes that have come since the read may have
// raised an edge; the kernel drops it if they are below the mark when it would
// tell of it. The clock finds them.
func (l *Loop) enterBulk(c *Conn) {
	c.streak = 0
	if l.bulk.mark == 0 || !l.fine || l.setMark(c, l.bulk.mark) != nil {
		c.flags |= fNoBulk
		return
	}
	l.count.Bulks++
	c.flags |= fBulk
	l.expect(c)
}

// leaveBulk takes the mark down. The edge of what came while it was up may never
// have been raised, and that of what comes from now on will be: a read in
// between settles it.
func (l *Loop) leaveBulk(c *Conn) {
	l.forgetBulk(c)
	_ = l.setMark(c, 1) // cannot fail: the socket has taken a mark before
	c.flags |= fReadable
	if c.flags&fPaused == 0 {
		l.enqueue(c)
	}
}

// forgetBulk is leaveBulk for a connection that is not read any more.
func (l *Loop) forgetBulk(c *Conn) {
	l.unexpect(c)
	c.flags &^= fBulk | fPolled
}

func (l *Loop) setMark(c *Conn, bytes int) error {
	l.count.SockOpts++
	return unix.SetsockoptInt(int(c.fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes)
}

// expect has c, which is in bulk mode, read within bulkPoll. In that mode
// c.streak is 1 + its index in l.bulks, 0 if it is not there.
func (l *Loop) expect(c *Conn) {
	if c.streak == 0 {
		l.bulks = append(l.bulks, bulkEntry{c: c})
		c.streak = int32(len(l.bulks))
	}
	l.bulks[c.streak-1].at = l.now + bulkPoll
}

// unexpect undoes expect. c must be in bulk mode.
func (l *Loop) unexpect(c *Conn) {
	if c.streak == 0 {
		return
	}
	i, last := c.streak-1, len(l.bulks)-1
	l.bulks[i] = l.bulks[last]
	l.bulks[i].c.streak = i + 1
	l.bulks[last] = bulkEntry{}
	l.bulks = l.bulks[:last]
	c.streak = 0
}

// nextBulk returns when the first of the connections in bulk mode must be read.
// There are only a few of them: those that stream at the moment.
func (l *Loop) nextBulk() int64 {
	at := Never
	for i := range l.bulks {
		at = min(at, l.bulks[i].at)
	}
	return at
}

// pollBulks has the connections read whose time has come.
func (l *Loop) pollBulks() {
	for i := len(l.bulks) - 1; i >= 0; i-- {
		if e := l.bulks[i]; e.at <= l.now {
			l.count.BulkPolls++
			l.unexpect(e.c)
			e.c.flags |= fReadable | fPolled
			l.enqueue(e.c)
		}
	}
}
