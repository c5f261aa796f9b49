package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	connectBound = 10 * time.Second // for a connection, a goodbye, an answer to a cancel
	statusIdle   = 'I'              // no transaction is open
	maxNames     = 100              // prepared statements of a connection; the others have no name
)

// conn is a client's connection. It is used by one goroutine at a time.
//
// It speaks the protocol itself, because a client that gives up may have to do nothing but
// close its connection, or not even that: pgx would send a cancel request first.
type conn struct {
	net    net.Conn // nil once it is closed
	front  *pgproto3.Frontend
	pid    uint32
	secret []byte
	status byte // of the last ReadyForQuery

	names   map[string]bool // prepared statements, by their text
	parsing string          // the one that is being prepared

	told string // SETs that were sent
	used int    // requests
}

// open connects and logs in.
func open(ctx context.Context, config *pgconn.Config) (*conn, error) {
	c, err := pgconn.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return nil, err
	}
	raw, err := c.Hijack()
	if err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return &conn{net: raw.Conn, front: raw.Frontend, pid: raw.PID, secret: raw.SecretKey, status: raw.TxStatus, names: map[string]bool{}}, nil
}

// ask sends a statement and waits for the end of its answer; until may be zero. The error is
// a *pgconn.PgError if the server sent one; after any other the connection is of no use,
// unless it is of time: then the answer is still to come.
func (c *conn) ask(statement string, p Protocol, until time.Time) error {
	if err := c.net.SetDeadline(until); err != nil {
		return err
	}
	c.send(statement, p)
	if err := c.front.Flush(); err != nil {
		return err
	}
	return c.answer()
}

// send queues the messages of a statement.
func (c *conn) send(statement string, p Protocol) {
	if p == Simple {
		c.front.Send(&pgproto3.Query{String: statement})
		return
	}
	name := ""
	if p == Prepared && (c.names[statement] || len(c.names) < maxNames) {
		name = hashed(statement)
	}
	c.parsing = ""
	if name == "" || !c.names[statement] {
		c.front.Send(&pgproto3.Parse{Name: name, Query: statement})
		if name != "" {
			c.parsing = statement
		}
	}
	c.front.Send(&pgproto3.Bind{PreparedStatement: name})
	c.front.Send(&pgproto3.Describe{ObjectType: 'P'})
	c.front.Send(&pgproto3.Execute{})
	c.front.Send(&pgproto3.Sync{})
}

// hashed is a short name of a text, by FNV-1a.
func hashed(text string) string {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return fmt.Sprintf("b%016x", h)
}

// answer reads up to ReadyForQuery and returns the first error of the server.
func (c *conn) answer() error {
	var answer error
	for {
		message, err := c.front.Receive()
		if err != nil {
			if answer != nil && errors.Is(err, io.ErrUnexpectedEOF) {
				return answer // a FATAL is a server's last word
			}
			return errors.Join(answer, err)
		}
		switch m := message.(type) {
		case *pgproto3.ErrorResponse:
			if answer == nil {
				answer = pgconn.ErrorResponseToPgError(m)
			}
		case *pgproto3.ParseComplete:
			if c.parsing != "" {
				c.names[c.parsing] = true
			}
		case *pgproto3.ReadyForQuery:
			c.status = m.TxStatus
			return answer
		}
	}
}

// alive looks whether the other side has said something meanwhile, which can only be a
// goodbye, or has closed. Drivers' pools do the same before they give a connection away.
func (c *conn) alive() bool {
	sc, ok := c.net.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && quiet
}

// reset ends a transaction that a request has left open.
func (c *conn) reset() error {
	if c.status == statusIdle {
		return nil
	}
	return c.ask("ROLLBACK", Simple, time.Now().Add(connectBound))
}

// settle reads the answer to what was given up, and ends its transaction. A late error means
// that the answer is still to come.
func (c *conn) settle(until time.Time) error {
	if err := c.net.SetDeadline(until); err != nil {
		return err
	}
	if err := c.answer(); err != nil && !goesOn(err) {
		return err
	}
	return c.reset()
}

// close closes without a goodbye.
func (c *conn) close() {
	if c.net != nil {
		_ = c.net.Close() // nothing is expected of it any more
		c.net = nil
	}
}

// leave ends the session as clients do that have time.
func (c *conn) leave() {
	if c.net == nil {
		return
	}
	_ = c.net.SetDeadline(time.Now().Add(connectBound)) // a closed connection says so below
	c.front.Send(&pgproto3.Terminate{})
	_ = c.front.Flush() // a lost goodbye loses nothing
	c.close()
}

// cancel sends a CancelRequest for the statement that runs, over a connection of its own.
func (c *conn) cancel(config *pgconn.Config) error {
	ctx, done := context.WithTimeout(context.Background(), connectBound)
	defer done()
	other, err := config.DialFunc(ctx, c.net.RemoteAddr().Network(), c.net.RemoteAddr().String())
	if err != nil {
		return err
	}
	defer func() { _ = other.Close() }() // it has done its work
	b, err := (&pgproto3.CancelRequest{ProcessID: c.pid, SecretKey: c.secret}).Encode(nil)
	if err != nil {
		return err
	}
	if err := other.SetDeadline(time.Now().Add(connectBound)); err != nil {
		return err
	}
	if _, err := other.Write(b); err != nil {
		return err
	}
	// The server closes when it has passed the request on.
	if _, err := other.Read(b[:1]); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	return nil
}

// late reports that an error is nothing but the end of patience.
func late(err error) bool {
	_, told := errors.AsType[*pgconn.PgError](err)
	return !told && errors.Is(err, os.ErrDeadlineExceeded)
}

// fatal reports that the server has ended the session with its error.
func fatal(e *pgconn.PgError) bool { return e.Severity == "FATAL" || e.Severity == "PANIC" }

// slowConn is a connection whose reader takes its time.
type slowConn struct {
	net.Conn
	perSecond int
}

// slice is how much time's worth of bytes a slow reader takes at once.
const slice = 20 * time.Millisecond

// Read implements net.Conn.
func (s *slowConn) Read(p []byte) (int, error) {
	most := max(1, int(float64(s.perSecond)*slice.Seconds()))
	n, err := s.Conn.Read(p[:min(len(p), most)])
	time.Sleep(time.Duration(float64(n) / float64(s.perSecond) * float64(time.Second)))
	return n, err
}

// slowly makes the connections of a configuration slow readers, with a small buffer in the
// kernel so that the other side notices.
func slowly(config *pgconn.Config, perSecond int) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if b, ok := c.(interface{ SetReadBuffer(bytes int) error }); ok {
			if err := b.SetReadBuffer(16 << 10); err != nil {
				return nil, errors.Join(err, c.Close())
			}
		}
		return &slowConn{c, perSecond}, nil
	}
}
