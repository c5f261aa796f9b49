package proxy

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// target is how to log in to a server of one key. Immutable.
type target struct {
	credentials login.Credentials
}

// target returns what the next logins for the client's key use: the credentials
// of the client that came last, because passwords change.
func (a *admitted) target(old any) any {
	if t, ok := old.(*target); ok && t.credentials == a.credentials {
		return t
	}
	return &target{a.credentials}
}

// backendKey is what a cancel for a server needs.
type backendKey struct {
	pid    uint32
	secret []byte
}

// Dial implements session.Env: it logs in on a goroutine.
func (up *upstream) Dial(sv *session.Server) {
	info := sv.Info()
	t, _ := info.Target.(*target)
	up.px.work.Go(func() { up.dial(sv, info.Database, info.Role, t) })
}

func (up *upstream) dial(sv *session.Server, database, role string, t *target) {
	px := up.px
	ctx, cancel := context.WithTimeout(context.Background(), up.o.ConnectTimeout)
	defer cancel()
	spec := login.Target{Network: up.o.Network, Address: up.o.Address, Database: database, User: role, CPU: px.cpu}
	if t != nil {
		spec.Credentials = t.credentials
	}
	if spec.Credentials == (login.Credentials{}) && role == up.o.Role {
		spec.Credentials.Password = up.o.Password
	}
	s, err := login.Dial(ctx, spec)
	if err != nil {
		up.dialFailed(sv, err)
		return
	}
	up.tune(s.Conn)
	h := &serverConn{up: up, sv: sv}
	h.opened = func(c *loop.Conn, now int64) {
		sv.Tag = &backendKey{s.PID, s.Secret}
		up.core.Dialed(now, sv, c, s.Status, nil, false)
	}
	fd, err := loop.Detach(s.Conn)
	if err != nil {
		_ = s.Conn.Close()
		up.dialFailed(sv, err)
		return
	}
	if err := px.loop.Adopt(fd, nil, nil, h); err != nil {
		px.o.Log.Debug("server not adopted", "error", err)
	}
}

// dialFailed reports a login that did not work.
func (up *upstream) dialFailed(sv *session.Server, err error) {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		e = &wire.Error{
			Severity: wire.SeverityFatal, Code: "57P03",
			Message: "pgweir: could not connect to the database: " + err.Error(),
			Detail:  "reason=no_server", Hint: "retry=yes; is Postgres running and reachable from pgweir?",
		}
	}
	up.px.o.Log.Warn("login to server failed", "upstream", up.name, "address", up.o.Address,
		"database", sv.Info().Database, "role", sv.Info().Role, "error", err)
	lasting := permanent(e) || errors.Is(err, login.ErrNoCredentials) || errors.Is(err, login.ErrMethod)
	up.px.post(func(now int64) { up.core.Dialed(now, sv, nil, nil, e, lasting) })
}

// permanent tells the errors that another login would meet again at once: a
// wrong password, an unknown role or database, no right to connect.
func permanent(e *wire.Error) bool {
	return strings.HasPrefix(e.Code, "28") || strings.HasPrefix(e.Code, "3D") || strings.HasPrefix(e.Code, "42")
}

// tune sets the options of a server's socket.
func (up *upstream) tune(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok || up.o.UserTimeout <= 0 {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // without it the system's own patience applies
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(up.o.UserTimeout.Milliseconds()))
	})
}

// cancelTimeout bounds a CancelRequest of ours.
const cancelTimeout = 10 * time.Second

// Cancel implements session.Env: the request goes out on a goroutine, to the
// address of that very server.
func (up *upstream) Cancel(sv *session.Server) {
	key := sv.Tag.(*backendKey)
	up.px.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
		defer cancel()
		err := login.Cancel(ctx, up.o.Network, up.o.Address, key.pid, key.secret)
		if err != nil {
			up.px.o.Log.Warn("cancel request failed", "upstream", up.name, "backend_pid", key.pid, "error", err)
		}
		up.px.post(func(now int64) { up.core.CancelDone(now, sv, err == nil) })
	})
}
