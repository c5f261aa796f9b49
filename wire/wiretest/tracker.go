package wiretest

import (
	"slices"

	"github.com/pgweir/pgweir/wire"
)

// Tracker is the bookkeeping of a careful client: from what was sent and what
// came back it knows whether anything is still to come. It starts after the
// login. The zero value is ready.
//
// One case cannot be known from the bytes: a COPY FROM STDIN of the extended
// protocol failed after the client had sent a Sync ahead of the data. Whether
// the server read this Sync as part of the COPY (no answer) or after it (one
// ReadyForQuery) depends on when it failed. Then Unsure is true until the
// answer to Resync has come.
type Tracker struct {
	sent     []byte // types of messages that may still be answered
	copying  bool   // the first of sent is in COPY FROM STDIN
	skipping bool   // the server skips to a Sync that was not sent yet
	unsure   bool
	resync   byte // type of the next answer to Resync; 0 = not sent
	ended    bool // FATAL, or the client said Terminate
	ready    int
	state    byte
	in, out  []byte // partial messages
}

// Sent notes bytes that the client sent.
func (t *Tracker) Sent(p []byte) {
	t.out = append(t.out, p...)
	msgs, rest := Messages(t.out)
	for _, m := range msgs {
		t.send(m.Type)
	}
	t.out = append(t.out[:0], rest...)
}

// Received notes bytes that came from the server.
func (t *Tracker) Received(p []byte) {
	t.in = append(t.in, p...)
	msgs, rest := Messages(t.in)
	for _, m := range msgs {
		t.receive(m)
	}
	t.in = append(t.in[:0], rest...)
}

// Settled says that everything that was sent has been answered, as far as it
// will be, or that nothing can come any more.
func (t *Tracker) Settled() bool {
	return t.ended || len(t.sent) == 0 && !t.unsure && len(t.in) == 0
}

// Flushed says what Settled says, or that the server waits for CopyData, or
// that it has become Unsure what it waits for.
func (t *Tracker) Flushed() bool { return t.Settled() || t.copying && !t.copyEnds() || t.unsure }

// copyEnds reports whether the answer to the COPY under way is to come without more being sent:
// its end was sent and, in a batch, something that flushes.
func (t *Tracker) copyEnds() bool {
	end := t.copyEnd()
	return end >= 0 && (t.sent[0] != wire.MsgExecute || slices.ContainsFunc(t.sent[end:], func(c byte) bool {
		return c == wire.MsgFlush || c == wire.MsgSync
	}))
}

// Unsure says that only Resync can tell what is still to come.
func (t *Tracker) Unsure() bool { return t.unsure && !t.ended }

// Ended says that the session is over: FATAL came or Terminate was sent.
func (t *Tracker) Ended() bool { return t.ended }

// Ready returns how many ReadyForQuery have come, and the state in the last
// one, 0 before the first.
func (t *Tracker) Ready() (n int, state byte) { return t.ready, t.state }

// Resync returns bytes to send when Unsure: Sync, Close of the unnamed statement, Sync.
// They change nothing else in any state, and the CloseComplete marks the place.
func (t *Tracker) Resync() []byte {
	t.resync = wire.MsgCloseComplete
	b := wire.AppendEmpty(nil, wire.MsgSync)
	b = wire.AppendClose(b, 'S', "")
	return wire.AppendEmpty(b, wire.MsgSync)
}

func (t *Tracker) send(typ byte) {
	switch {
	case typ == wire.MsgTerminate:
		t.ended = true
	case t.unsure:
	case t.skipping && typ != wire.MsgSync:
	default:
		t.skipping = false
		t.sent = append(t.sent, typ)
		t.trim()
	}
}

// trim drops messages without an answer from the front.
func (t *Tracker) trim() {
	for len(t.sent) > 0 && !t.copying {
		switch t.sent[0] {
		case wire.MsgFlush, wire.MsgCopyData, wire.MsgCopyDone, wire.MsgCopyFail:
			t.sent = t.sent[1:]
			continue
		}
		return
	}
}

func (t *Tracker) pop() {
	if len(t.sent) > 0 {
		t.sent = t.sent[1:]
	}
	t.trim()
}

func (t *Tracker) receive(m Message) {
	switch {
	case m.Type == wire.MsgErrorResponse && ErrorField(m.Body, 'V') == "FATAL":
		t.ended = true
		return
	case m.Type == wire.MsgReadyForQuery:
		t.ready++
		if len(m.Body) == 1 {
			t.state = m.Body[0]
		}
	}
	if t.unsure {
		t.resyncing(m.Type)
		return
	}
	if len(t.sent) == 0 {
		return
	}
	simple := t.sent[0] == wire.MsgQuery || t.sent[0] == wire.MsgFunctionCall
	switch m.Type {
	case wire.MsgErrorResponse:
		t.failed(simple)
	case wire.MsgReadyForQuery:
		t.pop()
	case wire.MsgCopyInResponse:
		t.copying = true
	case wire.MsgCommandComplete, wire.MsgEmptyQueryResponse, wire.MsgPortalSuspended:
		if t.copying {
			t.copied()
		}
		if !simple {
			t.pop()
		}
	case wire.MsgParseComplete, wire.MsgBindComplete, wire.MsgCloseComplete, wire.MsgNoData:
		t.pop()
	case wire.MsgRowDescription:
		if !simple {
			t.pop()
		}
	}
}

// resyncing waits for the answer to Resync.
func (t *Tracker) resyncing(typ byte) {
	if typ != t.resync {
		return
	}
	if typ == wire.MsgCloseComplete {
		t.resync = wire.MsgReadyForQuery
		return
	}
	t.unsure, t.resync = false, 0
}

// copied removes what the COPY of the first message has consumed.
func (t *Tracker) copied() {
	t.copying = false
	end := t.copyEnd()
	if end < 0 {
		end = len(t.sent) - 1
	}
	t.sent = append(t.sent[:1:1], t.sent[end+1:]...)
}

// copyEnd finds the CopyDone or CopyFail of the COPY under way; -1 if it was
// not sent.
func (t *Tracker) copyEnd() int {
	return slices.IndexFunc(t.sent, func(c byte) bool { return c == wire.MsgCopyDone || c == wire.MsgCopyFail })
}

func (t *Tracker) failed(simple bool) {
	if t.copying {
		t.copying = false
		end := t.copyEnd()
		if end < 0 {
			end = len(t.sent) - 1
		}
		if slices.Contains(t.sent[:end+1], wire.MsgSync) {
			t.unsure, t.sent = true, nil
			return
		}
		t.sent = append(t.sent[:1:1], t.sent[end+1:]...)
	}
	if simple || t.sent[0] == wire.MsgSync {
		return
	}
	i := slices.Index(t.sent, wire.MsgSync)
	if i < 0 {
		t.sent, t.skipping = nil, true
		return
	}
	t.sent = t.sent[i:]
}
