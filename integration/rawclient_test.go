package integration

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
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

	status   map[string]string // parameters as they were last reported
	reported []wire.Param      // and all reports since somebody has looked
}

// rawError is an error that the server reported.
type rawError struct {
	code, message string
	fatal         bool
	reason        string // pgweir's own for it
}

func (e *rawError) Error() string { return e.code + " " + e.message }

// openRaw connects, with TLS if that is the endpoint's sslmode: at once, or by a request for it.
func openRaw(to pgtest.Endpoint, direct bool) (net.Conn, error) {
	conn, err := net.Dial("tcp", to.Addr())
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if to.SSLMode == "" || to.SSLMode == "disable" {
		return conn, nil
	}
	if !direct {
		_, err = conn.Write(wire.AppendSSLRequest(nil))
		yes := []byte{0}
		if err == nil {
			_, err = io.ReadFull(conn, yes)
		}
		if err == nil && yes[0] != 'S' {
			err = fmt.Errorf("the answer to SSLRequest is %q", yes)
		}
	}
	secure := tls.Client(conn, insecure())
	if err == nil {
		err = secure.Handshake()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// dialRaw logs in without a password.
func dialRaw(to pgtest.Endpoint, params ...wire.Param) (*rawClient, error) {
	conn, err := openRaw(to, false)
	if err != nil {
		return nil, err
	}
	return enterRaw(conn, params...)
}

// enterRaw logs in on a connection. After an error it is closed.
func enterRaw(conn net.Conn, params ...wire.Param) (*rawClient, error) {
	c := &rawClient{conn: conn, r: bufio.NewReader(conn), status: make(map[string]string)}
	packet, err := wire.AppendStartup(nil, 0, params)
	if err == nil {
		err = c.send(packet)
	}
	for err == nil {
		var typ byte
		var body []byte
		typ, body, err = c.message()
		if err == nil && typ == wire.MsgBackendKeyData {
			c.pid, c.key = binary.BigEndian.Uint32(body), slices.Clone(body[4:])
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
	if err == nil && typ == wire.MsgParameterStatus && c.status != nil {
		name, value, _ := strings.Cut(strings.TrimSuffix(string(body), "\x00"), "\x00")
		c.status[name] = value
		c.reported = append(c.reported, wire.Param{Name: name, Value: value})
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
	return &rawError{e.Code, e.Message, e.Severity == wire.SeverityFatal || e.Severity == "PANIC", reasonIn(e.Detail)}
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

// cancel sends a CancelRequest for the session, as the endpoint's sslmode says, and waits
// until it has had its effect.
func (c *rawClient) cancel(to pgtest.Endpoint) error {
	conn, err := openRaw(to, false)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(wire.AppendCancelRequest(nil, c.pid, c.key)); err != nil {
		return err
	}
	_, err = io.ReadAll(conn)
	return err
}

// socket is the connection below any TLS.
func (c *rawClient) socket() *net.TCPConn {
	conn := c.conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	tcp, _ := conn.(*net.TCPConn)
	return tcp
}

// reset closes the connection so that the peer sees it broken, not ended.
func (c *rawClient) reset() {
	if tcp := c.socket(); tcp != nil {
		_ = tcp.SetLinger(0) // else it ends in order, which will do
		_ = tcp.Close()
	}
	_ = c.conn.Close()
}

// answerError is what an answer complains of, if it does.
func answerError(a answer) error {
	if a.err != nil {
		return a.err
	}
	return nil
}
