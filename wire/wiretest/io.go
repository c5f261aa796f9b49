package wiretest

import (
	"encoding/binary"

	"github.com/pgweir/pgweir/wire"
)

// sendBuffer is the size of Postgres' output buffer. What lies in it when the
// backend ends without an error is lost.
const sendBuffer = 8192

// Bounds on a message's length as Postgres checks them.
const (
	maxSmall = 10000
	maxLarge = 1<<30 - 2
)

// put writes to the output buffer, which flushes itself when more comes than
// it holds.
func (b *Backend) put(p []byte) {
	for len(p) > 0 {
		if len(b.out) == sendBuffer {
			b.flush()
		}
		n := min(len(p), sendBuffer-len(b.out))
		b.out = append(b.out, p[:n]...)
		p = p[n:]
	}
}

func (b *Backend) flush() {
	b.net = append(b.net, b.out...)
	b.out = b.out[:0]
}

// full says that rows have to wait for the frontend.
func (b *Backend) full() bool { return b.o.SendLimit > 0 && len(b.net) >= b.o.SendLimit }

func (b *Backend) warn(code, text string) {
	b.notice(&wire.Error{Severity: "WARNING", Code: code, Message: text})
}

// notice sends a NoticeResponse; Postgres flushes after it, as after an error.
func (b *Backend) notice(e *wire.Error) {
	b.put(wire.AppendNotice(nil, e))
	b.flush()
}

// raise reports an error and does what the main loop's handler does.
func (b *Backend) raise(e *wire.Error) {
	b.put(wire.AppendError(nil, e))
	b.flush()
	x := b.exec
	b.exec, b.query = nil, nil
	if e.Severity == "FATAL" {
		b.exit()
		return
	}
	b.abort()
	if x != nil && b.tx.block == blockFailed {
		b.failPortal(x)
	}
	if b.extended {
		b.skip = true
		return
	}
	b.ready()
}

// failPortal keeps the portal of the statement that failed until its
// transaction ends: also that of a simple Query, as the unnamed one.
func (b *Backend) failPortal(x *execution) {
	x.portal.failed = true
	if x.simple {
		x.portal.level = len(b.tx.marks)
		b.portals[""] = x.portal
	}
}

// fatal reports a FATAL error and ends the session.
func (b *Backend) fatal(code, format string, args ...any) {
	e := newError(code, format, args...)
	e.Severity = "FATAL"
	b.raise(e)
}

// ready reports changed parameters and ReadyForQuery.
func (b *Backend) ready() {
	b.put(b.set.appendChanged(nil))
	b.put(wire.AppendReadyForQuery(nil, b.tx.status()))
	b.flush()
}

// message takes the next whole message out of the input. ok is false if it is
// not there yet; bad means that its length is impossible.
func (b *Backend) message(limit int) (m Message, ok, bad bool) {
	in := b.in[b.off:]
	if len(in) < wire.HeaderLen {
		return m, false, false
	}
	n := int(int32(binary.BigEndian.Uint32(in[1:])))
	if n < 4 || n > limit {
		return m, false, true
	}
	if len(in) < n+1 {
		return m, false, false
	}
	b.off += n + 1
	return Message{Type: in[0], Body: in[wire.HeaderLen : n+1 : n+1]}, true, false
}
