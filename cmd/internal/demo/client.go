package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	connectBound = 10 * time.Second // for a connection, a goodbye; nothing comes near it
	loginsOnce   = 8                // logins at once at the start: they cost CPU on both sides
)

// session is a client's connection through pgweir. It is used by one goroutine at a time.
//
// It speaks the protocol itself, because a client that gives up has to do nothing but close
// its connection: pgx would send a cancel request first.
type session struct {
	conn  net.Conn // nil while there is none
	front *pgproto3.Frontend
}

// connect opens the connection, unless it is open.
func (s *session) connect(ctx context.Context, url, name string) error {
	if s.conn != nil {
		return nil
	}
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return err
	}
	tame(config, name)
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	raw, err := conn.Hijack()
	if err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	s.conn, s.front = raw.Conn, raw.Frontend
	return nil
}

// tame undoes what the caller's environment says in PG* variables: it is for other
// databases.
func tame(config *pgconn.Config, name string) {
	config.RuntimeParams = map[string]string{"application_name": name}
	config.ValidateConnect = nil
	config.MinProtocolVersion, config.MaxProtocolVersion = "3.0", "3.0"
	config.ConnectTimeout = connectBound
}

// ask sends a statement and waits for the answer until a time. The error is a
// *pgconn.PgError if the server sent one; the session goes on after it unless the
// connection is closed, as it is after any other error.
func (s *session) ask(statement string, until time.Time) error {
	if err := s.conn.SetDeadline(until); err != nil {
		return s.hangUp(err)
	}
	s.front.Send(&pgproto3.Query{String: statement})
	if err := s.front.Flush(); err != nil {
		return s.hangUp(err)
	}
	var answer error
	for {
		message, err := s.front.Receive()
		if err != nil {
			return s.hangUp(errors.Join(answer, err))
		}
		switch m := message.(type) {
		case *pgproto3.ErrorResponse:
			answer = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			return answer
		}
	}
}

// hangUp closes the connection without a goodbye, and passes on why.
func (s *session) hangUp(why error) error {
	_ = s.conn.Close() // nothing is expected of it any more
	s.conn, s.front = nil, nil
	return why
}

// leave ends the session as clients do that have time.
func (s *session) leave() {
	if s.conn == nil {
		return
	}
	_ = s.conn.SetDeadline(time.Now().Add(connectBound)) // a closed connection says so below
	s.front.Send(&pgproto3.Terminate{})
	_ = s.front.Flush() // a lost goodbye loses nothing
	_ = s.hangUp(nil)
}

// crowd is all sessions: those that have nothing to do stand in line, so that all of them
// take part.
type crowd struct {
	url  string
	free chan *session
}

// newCrowd connects n sessions.
func newCrowd(ctx context.Context, url string, n int) (*crowd, error) {
	c := &crowd{url: url, free: make(chan *session, n)}
	places := make(chan struct{}, loginsOnce)
	errs := make([]error, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			s := &session{}
			errs[i] = s.connect(ctx, url, clientName)
			c.free <- s
		})
	}
	work.Wait()
	for _, err := range errs {
		if err != nil { // one of them says it
			c.close()
			return nil, fmt.Errorf("a client could not connect through pgweir: %w", err)
		}
	}
	return c, nil
}

// clientName is what the clients are called in the console and in the logs.
const clientName = "demo"

// close ends all sessions that nobody uses.
func (c *crowd) close() {
	for {
		select {
		case s := <-c.free:
			s.leave()
		default:
			return
		}
	}
}

// visit is one arrival: it waits for a free session, asks, and gives up when its patience
// ends. The end of ctx does not cut it short, so that its session ends well.
func (c *crowd) visit(ctx context.Context, a arrival, t *tally) {
	start := time.Now()
	until := start.Add(patience)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var s *session
	select {
	case s = <-c.free:
	case <-timer.C:
		t.add(a, patience, os.ErrDeadlineExceeded, true)
		return
	}
	err := c.connectAndAsk(ctx, s, until)
	t.add(a, time.Since(start), err, s.conn != nil)
	if s.conn == nil && ctx.Err() == nil {
		t.opened(s.connect(ctx, c.url, clientName)) // the next one finds it open, if all is well
	}
	c.free <- s
}

// connectAndAsk asks, also over a session that could not be opened again before.
func (c *crowd) connectAndAsk(ctx context.Context, s *session, until time.Time) error {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	if err := s.connect(ctx, c.url, clientName); err != nil {
		return err
	}
	return s.ask(statement(), until)
}

// dial opens an ordinary connection, past the crowd.
func dial(ctx context.Context, url, name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	tame(&config.Config, name)
	return pgx.ConnectConfig(ctx, config)
}
