package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pgweir/pgweir/wire"
)

// Errors of a log-in that the server has not told us.
var (
	// ErrNoCredentials: the server wants something that the credentials lack.
	ErrNoCredentials = errors.New("no credentials for what the server asks")
	// ErrMethod: the server wants a method that pgweir does not know.
	ErrMethod = errors.New("authentication method not supported")
	// ErrProtocol: the server does what no Postgres does.
	ErrProtocol = errors.New("server does not follow the protocol")
	// ErrImposter: the server does not know the user's secret.
	ErrImposter = errors.New("server could not prove that it knows the password")
)

// endWait is how long a server process that has refused us may take to be gone.
const endWait = 5 * time.Second

// Target is a server and who to be there.
type Target struct {
	Network, Address string // as net.Dial takes them: tcp host:port, unix path
	User, Database   string
	Credentials      Credentials
	Params           []wire.Param // further start-up parameters, in that order
	CPU              CPU          // bounds the derivation of keys
	Binding          ChannelBinding
}

// Server is a connection on which a log-in is complete: the server waits for its
// first query. Conn has no deadline, and nothing was read of what comes next.
type Server struct {
	Conn    net.Conn
	PID     uint32       // for cancel requests; 0 with
	Secret  []byte       // nil: the server gave no key
	Status  []wire.Param // ParameterStatus in the order of their first appearance, each once
	Version string       // server_version, "" if not reported
}

// Refusal is a server's ErrorResponse. errors.As finds the *wire.Error in it.
type Refusal struct {
	Told    *wire.Error
	Routine string // the function in the server's source, which no setting translates; "" if not told
}

// Error returns the text for logs.
func (r *Refusal) Error() string { return r.Told.Error() }

// Unwrap returns the server's own error.
func (r *Refusal) Unwrap() error { return r.Told }

// Dial connects to the target in clear and logs in, as [Enter] does.
func Dial(ctx context.Context, t Target) (*Server, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, t.Network, t.Address)
	if err != nil {
		return nil, err
	}
	return Enter(ctx, conn, t)
}

// Enter logs in on a connection with protocol 3.0 and owns it from here on: after
// an error it is closed. Over a *tls.Conn the proof of a password is bound to the
// server's certificate as the target's Binding says.
//
// An ErrorResponse of the server comes back as a *[Refusal] with the server's own
// fields; before Enter returns it has waited, for a few seconds at most, until that
// server process is gone. Of other errors some wrap one of this package's. All is
// bounded by ctx.
func Enter(ctx context.Context, conn net.Conn, t Target) (*Server, error) {
	s, err := Login(ctx, conn, t)
	if err != nil {
		if _, ok := errors.AsType[*wire.Error](err); ok {
			awaitEnd(ctx, conn, endWait)
		}
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

// End says goodbye and waits, bounded by ctx and a few seconds, until the server
// process is gone; then it closes the connection.
func (s *Server) End(ctx context.Context) {
	release := bound(ctx, s.Conn)
	_, err := s.Conn.Write(wire.AppendEmpty(nil, wire.MsgTerminate))
	release()
	if err == nil {
		awaitEnd(ctx, s.Conn, endWait)
	}
	_ = s.Conn.Close()
}

// Login logs in on a connection. On an error it is of no use any more, and left to
// the caller to close.
func Login(ctx context.Context, conn net.Conn, t Target) (*Server, error) {
	release := bound(ctx, conn)
	defer release()
	h := &handshake{conn: conn, target: t, server: &Server{Conn: conn}}
	if err := h.run(); err != nil {
		return nil, blame(ctx, TLSTrouble(closed(err)))
	}
	return h.server, nil
}

// awaitEnd reads until the peer has closed. A Postgres process keeps its socket
// until it has given back its place among the connections.
func awaitEnd(ctx context.Context, conn net.Conn, atMost time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	defer bound(ctx, conn)()
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxLogin)) // any error is an end
}

// Cancel connects to an address and cancels there, as [CancelOn] does.
func Cancel(ctx context.Context, network, address string, pid uint32, secret []byte) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return CancelOn(ctx, conn, pid, secret)
}

// CancelOn sends a CancelRequest for the key of a server on a new connection and
// returns when the server has dealt with it, which is when it closes the
// connection. CancelOn closes it in any case. All is bounded by ctx. There is no
// answer: no error does not mean that anything was cancelled.
func CancelOn(ctx context.Context, conn net.Conn, pid uint32, secret []byte) error {
	defer func() { _ = conn.Close() }()
	release := bound(ctx, conn)
	defer release()
	if _, err := conn.Write(wire.AppendCancelRequest(nil, pid, secret)); err != nil {
		return blame(ctx, err)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(conn, maxLogin))
	if err == nil && n == maxLogin {
		err = fmt.Errorf("answer to a cancel request: %w", ErrProtocol)
	}
	return blame(ctx, err)
}
