package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire/scram"
)

// client is a connection that does not look at what it is sent: a real driver would cost
// more than the pooler under test, and ten thousand of them more memory than there is.
// It is for one goroutine at a time.
type client struct {
	conn    net.Conn
	timeout time.Duration // for each answer
	answer  answer
	keys    *scram.Keys // of the password; nil without one
}

// dial logs in to the bench database, over TLS and by SCRAM if the pooler is to be talked to
// so. from is a local address, or nil for any; each answer has to come within timeout.
func (p *pooler) dial(from net.Addr, timeout time.Duration) (*client, error) {
	d := net.Dialer{LocalAddr: from, Timeout: timeout}
	conn, err := d.Dial("tcp", p.Addr())
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, timeout: timeout, keys: p.keys}
	if p.secure {
		err = c.encrypt()
	}
	start := &pgproto3.StartupMessage{
		ProtocolVersion: pgproto3.ProtocolVersionNumber,
		Parameters:      map[string]string{"user": pgtest.Superuser, "database": "bench"},
	}
	switch {
	case err != nil:
	case p.keys != nil:
		err = c.prove(start)
	default:
		err = c.run(make([]byte, 4096), start)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// query runs a statement in the simple protocol.
func (c *client) query(sql string) error {
	return c.run(make([]byte, 4096), &pgproto3.Query{String: sql})
}

// prepared parses sql under a name and runs it once, without parameters.
func (c *client) prepared(name, sql string) error {
	return c.run(make([]byte, 4096),
		&pgproto3.Parse{Name: name, Query: sql},
		&pgproto3.Bind{PreparedStatement: name},
		&pgproto3.Execute{},
		&pgproto3.Sync{})
}

// run sends messages in one write and reads until ReadyForQuery, through buf.
func (c *client) run(buf []byte, messages ...pgproto3.FrontendMessage) error {
	if err := c.send(messages...); err != nil {
		return err
	}
	_, err := c.drain(buf, nil)
	return err
}

// send encodes messages and writes them at once.
func (c *client) send(messages ...pgproto3.FrontendMessage) error {
	var b []byte
	var err error
	for _, m := range messages {
		if b, err = m.Encode(b); err != nil {
			return err
		}
	}
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	_, err = c.conn.Write(b)
	return err
}

// drain reads until ReadyForQuery and tells how many bytes that were. after, if not nil,
// is called after each read with the sum so far: it may take its time.
func (c *client) drain(buf []byte, after func(sum int64)) (int64, error) {
	var sum int64
	c.answer = answer{}
	for !c.answer.ready {
		n, err := c.conn.Read(buf)
		sum += int64(n)
		if err == nil {
			err = c.answer.feed(buf[:n])
		}
		if err != nil {
			return sum, err
		}
		if after != nil {
			after(sum)
		}
	}
	return sum, c.answer.err
}

// close says goodbye and closes the connection.
func (c *client) close() {
	_ = c.send(&pgproto3.Terminate{}) // the connection is given up either way
	_ = c.conn.Close()
}

// answer follows the framing of what a server sends, whatever the splits, and keeps
// nothing but the first error.
type answer struct {
	ready bool  // the last message seen was ReadyForQuery
	err   error // from an ErrorResponse

	head [5]byte
	have int // bytes of head
	skip int // bytes of the body still to come
	text []byte
}

// maxErrorText bounds what is kept of an ErrorResponse.
const maxErrorText = 4096

// feed takes the next bytes; its error means that these are not the protocol.
func (a *answer) feed(b []byte) error {
	for len(b) > 0 {
		if a.skip > 0 {
			n := min(a.skip, len(b))
			if a.head[0] == 'E' && len(a.text) < maxErrorText {
				a.text = append(a.text, b[:n]...)
			}
			a.skip -= n
			b = b[n:]
			if a.skip == 0 {
				a.end()
			}
			continue
		}
		n := copy(a.head[a.have:], b)
		a.have += n
		b = b[n:]
		if a.have < len(a.head) {
			return nil
		}
		a.have, a.ready = 0, false
		length := int(binary.BigEndian.Uint32(a.head[1:]))
		if length < 4 {
			return fmt.Errorf("message %q of length %d", a.head[0], length)
		}
		if a.skip = length - 4; a.skip == 0 {
			a.end()
		}
	}
	return nil
}

// end is the end of a message.
func (a *answer) end() {
	switch a.head[0] {
	case 'Z':
		a.ready = true
	case 'R', 'S', 'K':
	case 'E':
		var e pgproto3.ErrorResponse
		if err := e.Decode(a.text); err != nil {
			a.err = err
		} else if a.err == nil {
			a.err = fmt.Errorf("%s: %s", e.Code, e.Message)
		}
		a.text = nil
		// A FATAL at login has no ReadyForQuery behind it; the end of the stream follows.
	}
}

// localAddress is the n-th address of 127.0.0.0/8 to connect from, so that no number of
// clients runs out of ports.
func localAddress(n int) (net.Addr, error) {
	return net.ResolveTCPAddr("tcp", net.JoinHostPort("127.0.0."+strconv.Itoa(2+n%200), "0"))
}
