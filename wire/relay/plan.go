package relay

import (
	"unsafe"

	"github.com/pgweir/pgweir/wire/sqltext"
)

// Plan collects what must be written: spans of the input and of bytes made
// here, in order. Spans are valid until the input or the plan is reused. Reset it before the
// input's memory is used for something else: it remembers what it has read there.
type Plan struct {
	ToClient [][]byte
	ToServer [][]byte
	scratch  []byte
	read     classified
}

// classified is the text that was classified last. A Query is looked at before it asks for a
// server, and once more when it has got one or is refused, most times without a wait between.
type classified struct {
	text *byte
	size int
	st   sqltext.Statement
}

// Reset empties the plan and keeps its memory.
func (p *Plan) Reset() {
	p.ToClient, p.ToServer, p.scratch = p.ToClient[:0], p.ToServer[:0], p.scratch[:0]
	if cap(p.scratch) > maxScratch {
		p.scratch = nil
	}
	p.read.text = nil
}

// classify is sqltext.Classify for a text of the input.
func (p *Plan) classify(text []byte) sqltext.Statement {
	r := &p.read
	if at := unsafe.SliceData(text); at == nil || at != r.text || len(text) != r.size {
		r.text, r.size, r.st = at, len(text), sqltext.Classify(text)
	}
	return r.st
}

// maxScratch bounds the memory that a plan keeps between turns.
const maxScratch = 64 << 10

// client adds a span for the client.
func (p *Plan) client(b []byte) { p.ToClient = addSpan(p.ToClient, b) }

// server adds a span for the server.
func (p *Plan) server(b []byte) { p.ToServer = addSpan(p.ToServer, b) }

// build runs f on the scratch buffer and returns what it appended. Earlier
// spans stay valid when the buffer grows: they keep the old array.
func (p *Plan) build(f func(dst []byte) []byte) []byte {
	at := len(p.scratch)
	p.scratch = f(p.scratch)
	return p.scratch[at:len(p.scratch):len(p.scratch)]
}

// addSpan appends b, or extends the last span when b lies right behind it, so
// that a run of forwarded messages stays one span and one write.
func addSpan(list [][]byte, b []byte) [][]byte {
	if len(b) == 0 {
		return list
	}
	if n := len(list); n > 0 {
		last := list[n-1]
		if cap(last) >= len(last)+len(b) &&
			unsafe.Add(unsafe.Pointer(unsafe.SliceData(last)), len(last)) == unsafe.Pointer(unsafe.SliceData(b)) {
			list[n-1] = last[: len(last)+len(b) : cap(last)]
			return list
		}
	}
	return append(list, b)
}

// Event is what the session must do after a call.
type Event uint8

// Events.
const (
	None      Event = iota // go on
	Acquire                // the client's next request needs a server
	Release                // the server stands at a boundary with nothing outstanding: take it back
	Settled                // what went ahead of the client has been accepted: read the client again
	Terminate              // the client said goodbye; everything before it has been read
	Violation              // the client broke the protocol; Client.Fault says how
	Broken                 // the server is out of step or unusable: close it, never reuse it
	Blocked                // a client in statement mode has opened a transaction block: end it, and the server with it
)

var eventNames = [...]string{"none", "acquire", "release", "settled", "terminate", "violation", "broken", "blocked"}

// String returns the event's name.
func (e Event) String() string { return eventNames[e] }
