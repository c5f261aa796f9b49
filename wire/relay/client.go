package relay

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// Limits on what a client may send, in bytes of body length as announced.
const (
	smallMessage = 10000     // Postgres' own bound for messages without payload
	largeMessage = 1<<30 - 1 // and for those with
	wholeParse   = 16 << 20  // a Parse is taken whole to be shared: its bound
	holdUnbound  = 16 << 10  // a batch of this size goes to a server before its Sync
)

// Client is the protocol state of one client session. Owned by the loop that
// owns the connection.
type Client struct {
	shared  *Shared
	group   uint32 // database and role
	mode    Mode
	server  *Server // nil unless bound
	kept    *Server // in session mode: its server, also between transactions
	counts  *Counts
	want    *Params // settings that the client asked for
	initial *Params // those of its startup packet
	told    *Facts  // what it has heard of its servers; nil before its login is done
	names   names
	// unnamed is the last unnamed statement, for a Bind in a later transaction.
	unnamed     *Statement
	begin       *Statement        // a BEGIN that was answered here and is still to be sent
	chained     bool              // its options came by AND CHAIN, and stay after an error
	refusal     *wire.Error       // what the next request that needs a server is told
	fault       *wire.Error       // why Violation was returned
	rest        int               // bytes of the current message's body still to come
	tx          byte              // transaction state while no server is bound
	drop        bool              // those bytes go nowhere
	skip        bool              // refused or failed here: discard up to the Sync
	awaitParams bool              // the settings that went ahead must be accepted before anything follows
	awaitBegin  bool              // the first request after a BEGIN was sent: the rest waits until it is known to have begun
	stalled     bool              // bytes were left unread until the server's doubt is resolved
	hurried     bool              // a Flush was sent because too many answers are owed
	paced       bool              // each Execute is answered as soon as it is done
	finishes    bool              // the portal that was bound last ends a transaction, and does nothing else
	starting    bool              // a login: bound only to settle its parameters
	clearing    bool              // the portal that was bound last drops all names
	step        sqltext.Kind      // what it does to a transaction
	ending      string            // the name that the unnamed statement deallocates
	reset       string            // what the portal that was bound last sets back
	sets        []sqltext.Setting // what the portal without a name sets
	misfit      bool              // a server has refused its settings
	sparing     bool              // such a command runs on the server
	lone        string            // the setting that a lone command is about that is to be run in spite of it
	request     struct {
		Kind     sqltext.Kind
		Flags    sqltext.Flags
		Comments int32
	}
	portal    *Statement // bound in a failed transaction without a server
	own       *ownState  // what it has set of pgweir's own parameters, if anything
	resetsOwn bool       // the portal that was bound last is of a RESET ALL
	pins      *pinState  // what it has left on its server, if anything
}

// Request describes the request for which the last Acquire asked.
type Request struct {
	Kind  sqltext.Kind
	Flags sqltext.Flags
	// Comments is how many bytes at the end of Text are comments: see sqltext.Statement.
	Comments int32
	// Text is that of its first statement that is more than a BEGIN, as far as it has come;
	// nil if there is none. It is valid until the next call of any client's Input.
	Text []byte
	// Statement is that statement, if it was prepared before.
	Statement *Statement
}

// NewClient returns the state of a session that starts with the given settings.
// group numbers its database and role: all servers of a group understand a text
// alike.
func NewClient(shared *Shared, group uint32, want *Params) *Client {
	return &Client{shared: shared, group: group, want: want, initial: want, tx: wire.Idle, counts: shared.uncounted()}
}

// Server returns the bound server, or nil.
func (c *Client) Server() *Server { return c.server }

// Params returns the settings that the client wants.
func (c *Client) Params() *Params { return c.want }

// Request returns what the last Acquire was for.
func (c *Client) Request() Request {
	r := Request{Kind: c.request.Kind, Flags: c.request.Flags}
	if a := &c.shared.asked; a.by == c {
		r.Text, r.Comments, r.Statement = a.text, c.request.Comments, a.st
	}
	return r
}

// Tx returns the transaction state as the client knows it while unbound.
func (c *Client) Tx() byte { return c.tx }

// Fault returns what a client that broke the protocol is told.
func (c *Client) Fault() *wire.Error { return c.fault }

// Settling reports whether the client must not be read until Settled.
func (c *Client) Settling() bool { return c.awaitParams || c.awaitBegin || c.stalled }

// Full reports whether the server owes so many answers that the client must not
// be read for now.
func (c *Client) Full() bool {
	if c.server == nil || c.server.copyIn { // the end of its data must be read
		return false
	}
	most := c.shared.MaxOutstanding
	if most <= 0 {
		most = maxOutstanding
	}
	return c.server.fifo.total >= most
}

// hurry makes a server that keeps back what it has answered, until a Sync that is not read
// any more, send it.
func (c *Client) hurry(p *Plan) {
	if !c.hurried {
		c.hurried = true
		c.server.Flush(p)
	}
}

// Prepared returns the number of named statements.
func (c *Client) Prepared() int { return len(c.names.list) }

// Refuse makes the next request that needs a server be answered with e and
// nothing of it be run. The severity must be ERROR: the session goes on.
func (c *Client) Refuse(e *wire.Error) { c.refusal = e }

// Free drops the references that the client holds.
func (c *Client) Free() {
	c.Keep(nil)
	c.pins = nil
	t := c.shared.Statements
	c.forgetNames()
	t.release(c.unnamed)
	t.release(c.begin)
	c.unnamed, c.begin = nil, nil
	c.dropPortals()
}

// Input takes bytes from the client. It returns how many it has used; the rest
// must be given again, with more behind it or after what Acquire, Settled or a
// full queue asked for has happened.
func (c *Client) Input(in []byte, p *Plan) (used int, ev Event) {
	c.stalled = false
	for {
		if c.rest > 0 {
			used += c.stream(in[used:], p)
			if c.rest > 0 {
				return used, None
			}
		}
		if c.awaitParams || c.awaitBegin {
			return used, None
		}
		if c.server != nil && c.server.fatal { // nothing may follow its last word
			c.stalled = true
			return used, None
		}
		if c.Full() {
			c.hurry(p)
			return used, None
		}
		c.hurried = false
		m, ok := c.header(in[used:])
		if !ok {
			if c.fault != nil {
				return used, Violation
			}
			return used, None
		}
		var n int
		if c.server != nil {
			n, ev = c.bound(m, p)
			if h := &c.server.heal; h.keeps && n > 0 {
				h.save(m, n == m.size)
			}
		} else {
			n, ev = c.unbound(m, p)
		}
		used += n
		if n == 0 || ev != None {
			return used, ev
		}
	}
}

// stream passes on or drops the rest of a message.
func (c *Client) stream(in []byte, p *Plan) int {
	n := min(c.rest, len(in))
	c.rest -= n
	if c.drop {
		return n
	}
	p.server(in[:n])
	if s := c.server; c.rest == 0 && s.later != nil {
		p.server(s.later)
		s.later = nil
	}
	return n
}

// message is a message of which at least the header is there.
type message struct {
	raw  []byte // all that is there, from the header on, perhaps with later messages
	size int    // the whole message's length
}

func (m message) typ() byte      { return m.raw[0] }
func (m message) complete() bool { return len(m.raw) >= m.size }
func (m message) body() []byte   { return m.raw[wire.HeaderLen:min(m.size, len(m.raw))] }

// header reads the next message's header and checks type and length as Postgres
// does.
func (c *Client) header(in []byte) (m message, ok bool) {
	if len(in) < wire.HeaderLen {
		return m, false
	}
	n := int(binary.BigEndian.Uint32(in[1:]))
	limit := smallMessage
	switch in[0] {
	case wire.MsgQuery, wire.MsgBind, wire.MsgCopyData, wire.MsgFunctionCall:
		limit = largeMessage
	case wire.MsgParse:
		limit = wholeParse
	case wire.MsgFlush:
		// With a body Postgres takes it for malformed, and skips to the next Sync what was sent
		// meanwhile: as nothing answers a Flush, what it skips can't be told.
		limit = 4
	case wire.MsgDescribe, wire.MsgExecute, wire.MsgClose, wire.MsgSync,
		wire.MsgTerminate, wire.MsgCopyDone, wire.MsgCopyFail:
	default:
		c.violate("invalid frontend message type " + strconv.Itoa(int(in[0])))
		return m, false
	}
	if n < 4 || n > limit {
		c.violate("pgweir: invalid message length") // Postgres closes without a word
		return m, false
	}
	return message{in, n + 1}, true
}

func (c *Client) violate(text string) {
	c.fault = &wire.Error{Severity: "FATAL", Code: "08P01", Message: text}
}

// take uses the whole message, which may still be arriving, and says whether
// the server gets it.
func (c *Client) take(m message, p *Plan, drop bool) int {
	n := min(m.size, len(m.raw))
	c.rest, c.drop = m.size-n, drop
	if !drop {
		p.server(m.raw[:n])
	}
	return n
}

// whole reports whether the message is as complete as it must be to be looked
// at: fully, or its first bytes when it is long.
func (m message) whole(peek int) bool { return m.complete() || len(m.raw) >= peek }

// cstring splits b at its first zero byte.
func cstring(b []byte) (s, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return nil, nil, false
	}
	return b[:i], b[i+1:], true
}

// MidMessage reports whether the client's last message is incomplete.
func (c *Client) MidMessage() bool { return c.rest > 0 }
