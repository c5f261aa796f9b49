package sim

import (
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// client is a scripted client behind a connection.
type client struct {
	w      *world
	id     int
	mode   relay.Mode
	single bool // its script has no transactions
	player *wiretest.Player
	conn   *conn
	cl     *session.Client
	params []relay.Param

	sent     []byte // all that it sent
	got      []byte // all that it was told
	closed   bool   // it has closed its socket
	halfDone bool   // or its writing side
	lost     bool   // pgweir has closed the connection
	ended    bool   // the session is over
	reason   session.Reason
	welcome  bool // the login is through
	departs  bool // it was told to go
	hostile  bool // what it is told is not looked at
	planned  bool
	leaving  bool
}

// clientEvents hands a connection's events to the session's client.
type clientEvents struct{ *session.Client }

// role is the client's role.
func (c *client) role() string { return c.w.role(c.id) }

// login begins the session.
func (c *client) login() {
	w := c.w
	c.conn = &conn{w: w, peer: clientPeer{c}, window: 1 << 12}
	info := w.core.Key("db"+c.role(), c.role())
	g := w.core.Group(info, info.Database, info.Role, w.loads.of(c))
	c.cl = w.core.NewClient(c.conn, g, relay.NewParams(c.params), wire.NewCancelKey(uint32(c.id+1), 0))
	c.cl.Tag = c
	c.conn.h = clientEvents{c.cl}
	c.cl.Start(w.now)
	w.afterHandler()
}

// receive implements peer.
func (c *client) receive(b []byte) {
	if c.closed {
		c.conn.drop()
		return
	}
	c.got = append(c.got, b...)
	if !c.welcome {
		c.readWelcome()
	} else {
		c.player.Received(b)
	}
	c.plan()
}

// readWelcome takes the login's end off the transcript.
func (c *client) readWelcome() {
	msgs, _ := wiretest.Messages(c.got)
	n := 0
	for _, m := range msgs {
		n += wire.HeaderLen + len(m.Body)
		if m.Type == wire.MsgReadyForQuery {
			c.welcome = true
			rest := append([]byte(nil), c.got[n:]...)
			c.got = rest
			if len(rest) > 0 {
				c.player.Received(rest)
			}
			return
		}
	}
}

// endedBy notes that pgweir has closed the connection.
func (c *client) endedBy() {
	c.lost = true
	c.player.Closed()
}

// plan makes the client act soon.
func (c *client) plan() {
	if !c.planned && c.welcome {
		c.planned = true
		c.w.after(c.w.delay(300_000), c.act)
	}
}

// act plays the next steps of the script.
func (c *client) act() {
	c.planned = false
	for !c.closed {
		s, ok := c.player.Next()
		if !ok {
			if c.player.Done() && !c.leaving {
				c.leaving = true
				c.w.after(20_000_000, c.leave)
			}
			return
		}
		switch s.Op {
		case wiretest.OpSend:
			c.sent = append(c.sent, s.Bytes...)
			c.conn.write(s.Bytes)
		case wiretest.OpCancel:
			c.w.after(c.w.delay(400_000), func() {
				c.cl.CancelRequest(c.w.now, func() {})
				c.w.afterHandler()
			})
		case wiretest.OpHalfClose:
			if !c.halfDone {
				c.halfDone = true
				c.conn.hangUp()
			}
		case wiretest.OpClose:
			c.closed = true
			c.conn.hangUp()
			return
		}
		if c.w.rnd.IntN(3) > 0 {
			c.plan()
			return
		}
	}
}

// leave closes the connection of a client that has no more to say and was not
// closed by what it said last.
func (c *client) leave() {
	if !c.closed && !c.lost {
		c.closed = true
		c.conn.hangUp()
	}
}

// clientPeer adapts a client to peer: receive and ended.
type clientPeer struct{ *client }

func (p clientPeer) ended(bool) { p.endedBy() }
