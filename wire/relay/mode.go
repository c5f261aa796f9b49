package relay

import (
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// Mode says how long a client keeps a server.
type Mode uint8

// The modes, PgBouncer's pool_mode.
const (
	Transaction Mode = iota // from one boundary to the next
	Session                 // until its session ends; see Client.Keep
	Single                  // statement mode: transaction blocks are refused
)

// String returns the mode as pool_mode names it.
func (m Mode) String() string {
	switch m {
	case Session:
		return "session"
	case Single:
		return "statement"
	}
	return "transaction"
}

// Counts is what some clients have sent. It only grows.
type Counts struct {
	Queries      uint64 // Query and Sync messages, and function calls, sent to a server
	ClientParses uint64 // Parse messages of clients
	ServerParses uint64 // Parse messages sent to servers
	Binds        uint64 // Bind messages of clients
	Replanned    uint64 // batches sent again because a prepared statement was out of date
}

// uncounted takes the counts of clients that nobody counts. It is written by one loop
// only, as all of a Shared's clients are.
func (sh *Shared) uncounted() *Counts { return &sh.rest }

// SetMode changes the mode of a client that has no server and keeps none.
func (c *Client) SetMode(m Mode) { c.mode = m }

// Mode returns the client's mode.
func (c *Client) Mode() Mode { return c.mode }

// Count makes the client's messages count in n from now on.
func (c *Client) Count(n *Counts) { c.counts = n }

// Keep makes s the client's also between its transactions: what s says on its own
// account (notifications, notices, its end) is for the client, and what the session leaves
// on s stays there. A nil s ends it.
func (c *Client) Keep(s *Server) {
	if c.kept != nil {
		c.kept.keeper = nil
		c.kept.dirt |= dirtSettings | dirtSession
	}
	if c.kept = s; s != nil {
		s.keeper = c
	}
}

// holder is the client that hears what the server says on its own account, or nil.
func (s *Server) holder() *Client {
	if s.client != nil {
		return s.client
	}
	return s.keeper
}

// noBlocks is what statement mode answers to a BEGIN.
var noBlocks = &wire.Error{
	Severity: "ERROR", Code: wire.CodeFeatureNotSupported,
	Message: "pgweir: transaction blocks are not allowed in statement mode",
	Detail:  "reason=statement_mode",
	Hint:    `retry=no; connect with an application_name, role or database whose workload has pool_mode = "transaction"`,
}

// BlockOpened is what a client in statement mode is told that has opened a transaction
// block in a way that was not seen before it ran. The block is rolled back with its
// server.
func BlockOpened() *wire.Error {
	e := *noBlocks
	e.Severity = "FATAL"
	return &e
}

// refuseBlock sends what the server must refuse in the place of a message by which a
// client in statement mode would begin a transaction block behind other work; it is told
// why.
func (c *Client) refuseBlock(m message, p *Plan) int {
	s := c.server
	switch m.typ() {
	case wire.MsgQuery:
		p.server(p.build(func(dst []byte) []byte { return wire.AppendQuery(dst, "EXECUTE "+poisonName) }))
		s.push(c.dropUnnamed(entry{kind: kQuery, fate: replace, err: noBlocks}))
	case wire.MsgParse:
		e := entry{kind: kDescribeS, fate: replace, err: noBlocks}
		if body := m.body(); body[0] == 0 {
			e = c.dropUnnamed(e)
		}
		p.server(p.build(func(dst []byte) []byte { return wire.AppendDescribe(dst, 'S', poisonName) }))
		s.push(e)
	default:
		c.poison(noBlocks, p)
	}
	return c.take(m, p, true)
}

// runsBegin reports whether a Bind of the statement of that name would begin a
// transaction block in statement mode. It was parsed in another one.
func (c *Client) runsBegin(name []byte) bool {
	if c.mode != Single {
		return false
	}
	st := c.unnamed
	if len(name) > 0 {
		st = c.names.get(name)
	}
	return st != nil && st.kind == sqltext.Begin
}
