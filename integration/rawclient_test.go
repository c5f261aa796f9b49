package integration

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire"
)

// rawClient speaks the protocol itself, so that it can stop in the middle of anything.
type rawClient struct {
	conn  net.Conn
	r     *bufio.Reader
	pid   uint32
	key   []byte
	state byte // of the last ReadyForQuery
}

// rawError is an error that the server reported.
type rawError struct {
	code, message string
	fatal         bool
}

func (e *rawError) Error() string { return e.code + " " + e.message }

// dialRaw logs in without a password.
func dialRaw(to pgtest.Endpoint, params ...wire.Param) (*rawClient, error) {
	conn, err := net.Dial("tcp", to.Addr())
	if err != nil {
		return nil, err
	}
	c := &rawClient{conn: conn, r: bufio.NewReader(conn)}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	packet, err := wire.AppendStartup(nil, 0, params)
	if err == nil {
		err = c.send(packet)
	}
	for err == nil {
		var typ byte
		var body []byte
		typ, body, err = c.message()
		if err == nil && typ == wire.MsgBackendKeyData {
			c.pid, c.key = binary.BigEndian.Uint32(body), body[4:]
		}
		if err == nil && typ == wire.MsgReadyForQuery {
			return c, nil
		}
	}
	return nil, errors.Join(err, conn.Close())
}

// send writes messages as they are.
func (c *rawClient) send(b []byte) error {
	_, err := c.conn.Write(b)
	return err
}

// message reads one message; an ErrorResponse of severity FATAL is an error.
func (c *rawClient) message() (typ byte, body []byte, err error) {
	typ, body, err = wire.ReadMessage(c.r, 1<<20)
	if err == nil && typ == wire.MsgReadyForQuery {
		c.state = body[0]
	}
	if err == nil && typ == wire.MsgErrorResponse {
		if e := errorOf(body); e.fatal {
			return typ, body, e
		}
	}
	return typ, body, err
}

func errorOf(body []byte) *rawError {
	e := wire.ErrorFields(body)
	return &rawError{e.Code, e.Message, e.Severity == wire.SeverityFatal || e.Severity == "PANIC"}
}

// answer is what came up to one ReadyForQuery.
type answer struct {
	rows   []string // of rows and of COPY: the values, with | between them
	err    *rawError
	copyIn bool // it ends at a CopyInResponse instead
}

// answer reads up to the next ReadyForQuery or CopyInResponse. A deadline makes a hang an
// error.
func (c *rawClient) answer() (answer, error) {
	var a answer
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return a, err
	}
	for {
		typ, body, err := c.message()
		if err != nil {
			return a, err
		}
		switch typ {
		case wire.MsgDataRow:
			a.rows = append(a.rows, rowText(body))
		case wire.MsgCopyData:
			a.rows = append(a.rows, strings.ReplaceAll(strings.TrimSuffix(string(body), "\n"), "\t", "|"))
		case wire.MsgErrorResponse:
			a.err = errorOf(body)
		case wire.MsgCopyInResponse:
			a.copyIn = true
			return a, nil
		case wire.MsgReadyForQuery:
			return a, nil
		}
	}
}

// rowText joins the values of a DataRow.
func rowText(body []byte) string {
	var values []string
	for b := body[2:]; len(b) >= 4; {
		n := int(int32(binary.BigEndian.Uint32(b)))
		b = b[4:]
		if n < 0 {
			values = append(values, "NULL")
			continue
		}
		values = append(values, string(b[:n]))
		b = b[n:]
	}
	return strings.Join(values, "|")
}

// ask sends messages that are answered by one ReadyForQuery and returns the answer.
func (c *rawClient) ask(b []byte) (answer, error) {
	if err := c.send(b); err != nil {
		return answer{}, err
	}
	return c.answer()
}

// exec runs one simple query that must not fail.
func (c *rawClient) exec(sql string) error {
	a, err := c.ask(wire.AppendQuery(nil, sql))
	if err == nil && a.err != nil {
		return fmt.Errorf("%s: %w", sql, a.err)
	}
	return err
}

// cancel sends a CancelRequest for the session and waits until it has had its effect.
func (c *rawClient) cancel(to pgtest.Endpoint) error {
	conn, err := net.Dial("tcp", to.Addr())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write(wire.AppendCancelRequest(nil, c.pid, c.key)); err != nil {
		return err
	}
	_, err = io.ReadAll(conn)
	return err
}

// reset closes the connection so that the peer sees it broken, not ended.
func (c *rawClient) reset() {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else it ends in order, which will do
	}
	_ = c.conn.Close()
}
