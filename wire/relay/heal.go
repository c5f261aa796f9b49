package relay

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/pgweir/pgweir/wire"
)

// A statement that a server has prepared may be out of date: after ALTER TABLE its result has
// other columns, and Postgres refuses to run it, in its Bind or Describe, before anything of it
// is done. The client may never have seen that server, so the statement is prepared anew and
// the batch sent once more, if nothing else of it has been done: the message that failed was the
// first of the batch, no transaction was open, nothing was pipelined behind the Sync, and
// nothing was answered. A client that does not ask for a description of the result goes by an
// older one, and has to be told. Wherever the batch is not sent again, the error is the
// client's, and the statement is prepared anew with the next try.

// maxHealed bounds the batches that are kept until they are answered, in bytes.
const maxHealed = 4 << 10

// healing keeps a batch that uses prepared statements, until it is answered.
type healing struct {
	saved   []byte // the client's messages
	keeps   bool   // more of them are to come
	whole   bool   // with the Sync
	asks    bool   // for a description
	waits   bool   // it is to be sent again when its Sync is answered
	again   bool   // it was sent again,
	first   bool   // and its first message was not
	failure []byte // what the client is told if it fails again
}

// drop forgets the batch and keeps the memory.
func (h *healing) drop() {
	if len(h.saved) > 0 || h.keeps || h.again {
		*h = healing{saved: h.saved[:0]}
	}
}

// mayHeal reports whether a Bind or Describe of a statement that the server has is the first
// message of a batch that could be sent again, and begins to keep it.
func (c *Client) mayHeal() bool {
	s := c.server
	h := &s.heal
	if h.again {
		first := h.first
		h.first = false
		return first
	}
	if s.asked || s.tx != wire.Idle || s.begun || s.beginFailed || s.copyIn {
		return false
	}
	for _, e := range s.fifo.rest() {
		if e.inj != injParams && e.fate != fake {
			return false
		}
	}
	h.drop()
	h.keeps = true
	return true
}

// save keeps a message of the batch.
func (h *healing) save(m message, all bool) {
	if h.keeps = all && len(h.saved)+m.size <= maxHealed; !h.keeps {
		return
	}
	h.saved = append(h.saved, m.raw[:m.size]...)
	switch m.typ() {
	case wire.MsgDescribe:
		h.asks = true
	case wire.MsgSync:
		h.keeps, h.whole = false, true
	case wire.MsgFlush:
		h.keeps = false
	}
}

// failedFirst handles an error of a message that uses a prepared statement: it forgets one that
// is out of date, and reports whether the client is told nothing by it.
func (s *Server) failedFirst(e *entry, raw []byte, p *Plan) (hidden bool) {
	h, c := &s.heal, s.client
	h.keeps = false
	if c == nil || s.orphan {
		return false
	}
	if h.again {
		if h.failure != nil && (e.heals || e.kind == kParse && e.fate == fallible) {
			p.client(h.failure) // what was seen first says more
			h.failure = nil
			return true
		}
		return false
	}
	st := c.names.get([]byte(e.name))
	if st == nil || !whole(raw) {
		return false
	}
	if st.outdated != nil && misformed(raw) {
		p.client(st.outdated) // as it would be told if it were alone with its statement
		return true
	}
	if !outdated(raw) {
		return false
	}
	st.outdated = bytes.Clone(raw)
	if prep := s.prepared.byKey[c.prepKey(st)]; prep != nil {
		s.forget(prep)
		s.unclosed = append(s.unclosed, prep)
	}
	q := s.fifo.rest()
	last := len(q) - 1
	if !e.heals || !h.whole || !h.asks || s.reset.on || last < 1 || q[last].kind != kSync || q[last].n > 1 ||
		slices.ContainsFunc(q[:last], func(e entry) bool { return e.kind.ready() || e.inj != injNone }) {
		return false
	}
	h.waits, h.failure = true, st.outdated
	q[last].fate, q[last].inj = swallow, injHeal
	return true
}

// whole reports whether all of a message has come.
func whole(raw []byte) bool { return len(raw) == int(binary.BigEndian.Uint32(raw[1:]))+1 }

// outdated reports whether an ErrorResponse says that a prepared statement is out of date.
func outdated(raw []byte) bool {
	return fails(raw, wire.CodeFeatureNotSupported, "RevalidateCachedQuery")
}

// misformed reports whether an ErrorResponse says that a Bind has not as many formats as the
// result has columns.
func misformed(raw []byte) bool {
	return fails(raw, wire.CodeProtocolViolation, "PortalSetResultFormat")
}

// fails compares the code and the function of Postgres of an ErrorResponse. Its text may be in
// any language.
func fails(raw []byte, code, routine string) bool {
	c, _ := wire.ErrorField(raw[wire.HeaderLen:], 'C')
	r, _ := wire.ErrorField(raw[wire.HeaderLen:], 'R')
	return c == code && r == routine
}

// sendAgain sends the batch whose failure has just been answered.
func (s *Server) sendAgain(p *Plan) Event {
	h, c := &s.heal, s.client
	h.waits, h.again, h.first = false, true, true
	if c == nil {
		return None
	}
	if s.counts != nil {
		s.counts.Replanned++
	}
	for in := h.saved; len(in) > 0; {
		m, ok := c.header(in)
		if !ok {
			return Broken
		}
		n, ev := c.bound(m, p)
		if n != m.size || ev != None {
			return Broken // it was sent once before
		}
		in = in[n:]
	}
	return s.unstall()
}
