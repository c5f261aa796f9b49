package wiretest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// appendCopyResponse appends CopyInResponse or CopyOutResponse for one text column.
func appendCopyResponse(dst []byte, typ byte) []byte {
	return wire.AppendMessage(dst, typ, []byte{0, 0, 1, 0, 0})
}

// copyIn reads one message of COPY FROM STDIN.
func (b *Backend) copyIn(x *execution) bool {
	if b.off == len(b.in) {
		if b.eof {
			b.copyLost(lostInCopy())
		}
		return false
	}
	typ := b.in[b.off]
	limit := maxSmall
	switch typ {
	case wire.MsgCopyData:
		limit = maxLarge
	case wire.MsgCopyDone, wire.MsgCopyFail, wire.MsgFlush, wire.MsgSync:
	default:
		b.copyLost(newError("08P01", "unexpected message type 0x%02X during COPY from stdin", typ))
		return false
	}
	m, ok, bad := b.message(limit)
	if bad || !ok && b.eof {
		b.copyLost(lostInCopy())
	}
	if !ok {
		return false
	}
	b.before(m)
	switch typ {
	case wire.MsgCopyData:
		return b.check(b.copyData(x, m.Body))
	case wire.MsgCopyDone:
		return b.check(b.copyDone(x))
	case wire.MsgCopyFail:
		r := &reader{b: m.Body}
		reason := r.string()
		if r.err != nil {
			return b.check(r.err)
		}
		if b.o.Meddler != "" && strings.HasPrefix(reason, b.o.Meddler) && b.o.Outcomes != nil {
			b.o.Outcomes.record(x.key, x.nth, Outcome{Kind: Cancelled, At: x.count, Reason: reason, Ignored: x.ignored})
		}
		return b.check(copyFailed(reason))
	}
	if typ == wire.MsgSync {
		x.ignored++
	}
	return true // Sync and Flush are for libraries that did not notice the COPY
}

func copyFailed(reason string) *wire.Error {
	return newError("57014", "COPY from stdin failed: %s", reason)
}

func lostInCopy() *wire.Error {
	return newError("08006", "unexpected EOF on client connection with an open transaction")
}

// copyLost is an error in the middle of reading a message: Postgres reports it
// and then gives the connection up.
func (b *Backend) copyLost(e *wire.Error) {
	b.put(wire.AppendError(nil, e))
	b.flush()
	b.fatal("08P01", "terminating connection because protocol synchronization was lost")
}

// copyData takes one CopyData. A pending cancel strikes only now: Postgres
// holds interrupts off while it waits for the message.
func (b *Backend) copyData(x *execution, data []byte) *wire.Error {
	x.count++
	x.lines += bytes.Count(data, []byte{'\n'})
	if len(data) > 0 {
		x.partial = data[len(data)-1] != '\n'
	}
	if x.st.fails && x.count == x.st.n {
		return newError("22P02", "refused at message %d", x.st.n)
	}
	if b.o.Oracle {
		return nil // step strikes before the next message
	}
	return b.strike(x, x.count)
}

// copyDone ends a COPY. Rows that are still to be written give a pending cancel
// another chance; without any, or with a trigger for each row, it comes too late
// for this statement.
func (b *Backend) copyDone(x *execution) *wire.Error {
	if x.partial {
		x.lines++
	}
	if x.lines > 0 && !x.st.fails {
		if err := b.strikeDone(x); err != nil {
			return err
		}
	}
	b.effect(x, "", x.lines)
	x.portal.done = true
	b.complete(x, fmt.Sprintf("COPY %d", x.lines))
	return nil
}

// strikeDone is strike at CopyDone.
func (b *Backend) strikeDone(x *execution) *wire.Error {
	if b.o.Oracle && !x.fate.Done {
		return nil
	}
	err := b.strike(x, x.count)
	if err != nil && !b.o.Oracle && b.o.Outcomes != nil {
		b.o.Outcomes.record(x.key, x.nth, Outcome{Kind: Cancelled, At: x.count, Done: true})
	}
	return err
}

// copyOut sends the lines of COPY TO STDOUT.
func (b *Backend) copyOut(x *execution) bool {
	for x.count < x.st.n {
		if b.full() {
			return false
		}
		line := append(filler(x.st.text, x.count, x.st.k), '\n')
		b.put(wire.AppendMessage(nil, wire.MsgCopyData, line))
		x.count++
		if err := b.strike(x, x.count); err != nil || b.dead {
			return b.check(err)
		}
	}
	b.put(wire.AppendEmpty(nil, wire.MsgCopyDone))
	x.portal.done = true
	b.complete(x, fmt.Sprintf("COPY %d", x.st.n))
	return true
}
