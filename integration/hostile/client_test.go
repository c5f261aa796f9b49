package hostile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire"
)

// client speaks the protocol by itself, so that it can say anything.
type client struct {
	net.Conn
	r   *bufio.Reader
	pid uint32
	key []byte
}

// knock opens a connection and says nothing.
func knock(to pgtest.Endpoint) (*client, error) {
	conn, err := net.Dial("tcp", to.Addr())
	if err != nil {
		return nil, err
	}
	c := &client{Conn: conn, r: bufio.NewReader(conn)}
	return c, c.wait()
}

// wait bounds what follows.
func (c *client) wait() error { return c.SetDeadline(time.Now().Add(patience)) }

// startup is the packet of a login as role app.
func startup(database string, more ...wire.Param) []byte {
	packet, err := wire.AppendStartup(nil, 0, append([]wire.Param{{Name: "user", Value: "app"}, {Name: "database", Value: database}}, more...))
	if err != nil {
		panic(err) // the test's own words
	}
	return packet
}

// enter logs in without a password.
func enter(to pgtest.Endpoint, database string, more ...wire.Param) (*client, error) {
	c, err := knock(to)
	if err != nil {
		return nil, err
	}
	if _, err = c.Write(startup(database, more...)); err == nil {
		_, err = c.answer()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// mustEnter is enter of a client that leaves with the test.
func mustEnter(t *testing.T, to pgtest.Endpoint, database string, more ...wire.Param) *client {
	t.Helper()
	c, err := enter(to, database, more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// answer reads up to ReadyForQuery. An error that was reported on the way is returned: it is
// a *wire.Error, and the session is over if it is FATAL.
func (c *client) answer() (rows int, err error) {
	var told error
	for {
		typ, body, err := wire.ReadMessage(c.r, 16<<20)
		if err != nil {
			return rows, errors.Join(told, err)
		}
		switch typ {
		case wire.MsgDataRow:
			rows++
		case wire.MsgErrorResponse:
			if told == nil {
				told = wire.ErrorFields(body)
			}
		case wire.MsgBackendKeyData:
			c.pid, c.key = binary.BigEndian.Uint32(body), body[4:]
		case wire.MsgReadyForQuery:
			return rows, told
		}
	}
}

// ask sends messages with one ReadyForQuery to come.
func (c *client) ask(b []byte) (rows int, err error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	if _, err := c.Write(b); err != nil {
		return 0, err
	}
	return c.answer()
}

// query runs one statement.
func (c *client) query(sql string) error {
	_, err := c.ask(wire.AppendQuery(nil, sql))
	return err
}

// end reads to the end of the connection and returns the last error that was told, nil if
// there was none, and whether the end came in time.
func (c *client) end() (told *wire.Error, err error) {
	for {
		typ, body, err := wire.ReadMessage(c.r, 16<<20)
		if err != nil {
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				return told, fmt.Errorf("it is still open: %w", err)
			}
			return told, nil // end of file, in or between messages, or a reset
		}
		if typ == wire.MsgErrorResponse {
			told = wire.ErrorFields(body)
		}
	}
}

// cancel sends a CancelRequest and waits for the end of its connection.
func cancel(to pgtest.Endpoint, pid uint32, key []byte) error {
	c, err := knock(to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write(wire.AppendCancelRequest(nil, pid, key)); err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	if len(b) > 0 {
		err = fmt.Errorf("a cancel request was answered: %q", b)
	}
	return err
}

// code is the SQLSTATE of an error, "" if it has none.
func code(err error) string {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}
	return ""
}

// watcher is a client that behaves and works on through a case.
type watcher struct {
	mu   sync.Mutex // held while it is served
	c    *client
	stop chan struct{}
	done chan error
	n    int
}

// watch begins to work. What it is not served with is the error that look returns.
func (s *stand) watch(t *testing.T, database string) *watcher {
	t.Helper()
	w := &watcher{c: mustEnter(t, s.Endpoint, database), stop: make(chan struct{}), done: make(chan error, 1)}
	s.beside = w
	go func() { w.done <- w.work() }()
	t.Cleanup(w.end)
	return w
}

func (w *watcher) work() error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return nil
		case <-tick.C:
		}
		if err := w.once(); err != nil {
			return fmt.Errorf("query %d of the client beside: %w", w.n, err)
		}
	}
}

func (w *watcher) once() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	return w.c.query("select 1")
}

func (w *watcher) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
}

// look ends the watch.
func (w *watcher) look(t *testing.T) {
	t.Helper()
	w.end()
	if err := <-w.done; err != nil {
		t.Error(err)
	} else if w.n == 0 {
		t.Error("the client beside was never served")
	}
	_ = w.c.Close()
}
