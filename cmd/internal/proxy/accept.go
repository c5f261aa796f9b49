package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// loginWorkers is how many logins may burn CPU at once: what the loop leaves.
func loginWorkers() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// accept takes connections until the listener is closed.
func (px *Proxy) accept(ctx context.Context, ln net.Listener) {
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			px.admitLogin(conn)
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
			px.outOfDescriptors(ln)
		default:
			px.o.Log.Warn("accept failed", "error", err)
			wait(50 * time.Millisecond)
		}
	}
}

// admitLogin starts a login if there is a place for it.
func (px *Proxy) admitLogin(conn net.Conn) {
	select {
	case px.logins <- struct{}{}:
		px.work.Go(func() {
			defer func() { <-px.logins }()
			px.login(conn)
		})
	default:
		px.o.Log.Warn("connection refused", "reason", "max_logins", "client", conn.RemoteAddr().String())
		_ = conn.Close() // it has not said anything that could be answered
	}
}

// outOfDescriptors uses a spare descriptor to tell one client why it can't be
// served.
func (px *Proxy) outOfDescriptors(ln net.Listener) {
	px.o.Log.Error("out of file descriptors: raise the limit (ulimit -n) or lower max_client_conn")
	if px.spare.lend() {
		if conn, err := ln.Accept(); err == nil {
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write(wire.AppendError(nil, noDescriptors)) // best effort
			_ = conn.Close()
		}
		px.spare.fill()
	}
	wait(20 * time.Millisecond)
}

var noDescriptors = &wire.Error{
	Severity: wire.SeverityFatal, Code: "53300", Message: "pgweir: out of file descriptors",
	Detail: "reason=descriptors", Hint: "retry_after_ms=1000 retry=yes",
}

// admitted is a client that has authenticated and has no session yet.
type admitted struct {
	database, role string // on the upstream
	params         []wire.Param
	minor          uint16
	credentials    login.Credentials
}

func (a *admitted) key(pid uint32) wire.CancelKey { return wire.NewCancelKey(pid, a.minor) }

// login takes a connection from its first byte to the event loop.
func (px *Proxy) login(conn net.Conn) {
	defer func() {
		if r := recover(); r != nil {
			px.o.Log.Error("login panicked", "panic", r)
			_ = conn.Close()
		}
	}()
	log := px.o.Log.With("client", conn.RemoteAddr().String())
	_ = conn.SetDeadline(time.Now().Add(px.o.LoginTimeout)) // a socket that can't be timed fails at once
	up, who, err := px.authenticate(conn, log)
	if err != nil {
		refuseLogin(conn, err, log)
		return
	}
	if up == nil {
		return // a cancel request, done
	}
	if !px.place() {
		refuseLogin(conn, tooManyClients, log)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	h := &clientConn{up: up, who: who, addr: conn.RemoteAddr().String()}
	fd, err := loop.Detach(conn)
	if err != nil {
		px.clients.Add(-1)
		refuseLogin(conn, err, log)
		return
	}
	if err := px.loop.Adopt(fd, nil, nil, h); err != nil {
		px.clients.Add(-1)
		log.Debug("not adopted", "error", err)
	}
}

// place takes a place among the clients.
func (px *Proxy) place() bool {
	if px.clients.Add(1) > int64(px.o.MaxClients) {
		px.clients.Add(-1)
		return false
	}
	return true
}

var tooManyClients = &wire.Error{
	Severity: wire.SeverityFatal, Code: "53300", Message: "pgweir: too many clients (max_client_conn)",
	Detail: "reason=max_client_conn", Hint: "retry_after_ms=1000 retry=yes; raise max_client_conn, or use smaller pools in the applications",
}

// refuseLogin tells the client why and closes the connection.
func refuseLogin(conn net.Conn, err error, log *slog.Logger) {
	defer func() { _ = conn.Close() }()
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		log.Debug("login ended", "error", err)
		return
	}
	log.Info("login refused", "error", e)
	_, _ = conn.Write(wire.AppendError(nil, e)) // it may have left already
}

// authenticate reads the startup packets and checks who it is. A nil upstream
// means that there is no session to start.
func (px *Proxy) authenticate(conn net.Conn, log *slog.Logger) (*upstream, *admitted, error) {
	c, cancel, err := login.Accept(conn)
	if err != nil {
		return nil, nil, err
	}
	if cancel != nil {
		px.cancelRequest(conn, cancel)
		return nil, nil, nil
	}
	up, database, err := px.route(c.Database)
	if err != nil {
		return nil, nil, err
	}
	if px.o.OnlyUser != "" && c.User != px.o.OnlyUser && px.o.Method == login.Trust {
		return nil, nil, &wire.Error{
			Severity: wire.SeverityFatal, Code: "28000", Message: `role "` + c.User + `" is not let in`,
			Detail: "reason=role", Hint: "pgweir was started with a URL and serves only its role; use a configuration file for more",
		}
	}
	if err := login.Authenticate(conn, c, px.o.Method, px.o.Secrets, px.cpu); err != nil {
		return nil, nil, err
	}
	log.Debug("authenticated", "role", c.User, "database", c.Database)
	params, err := settingsOf(&c.Startup)
	if err != nil {
		return nil, nil, err
	}
	return up, &admitted{
		database: database, role: c.User, params: params,
		minor: c.Startup.Speaks(), credentials: c.Credentials,
	}, nil
}

// route finds the upstream of a database that a client names.
func (px *Proxy) route(name string) (*upstream, string, error) {
	up, there, ok := px.o.Route(name)
	if !ok {
		return nil, "", &wire.Error{
			Severity: wire.SeverityFatal, Code: "3D000", Message: `database "` + name + `" does not exist`,
			Detail: "reason=no_database", Hint: `add [database.` + name + `] to pgweir's configuration, or [database."*"]`,
		}
	}
	return px.upstreams[up], there, nil
}

// settingsOf returns the settings that a startup packet asks for, those in its
// options first, as Postgres applies them.
func settingsOf(s *wire.Startup) ([]wire.Param, error) {
	var list []wire.Param
	if o, ok := s.Get("options"); ok {
		split, err := wire.SplitOptions(o)
		if err != nil {
			return nil, err
		}
		list = split
	}
	for _, p := range s.Params {
		switch p.Name {
		case "user", "database", "options":
		case "replication":
			if p.Value != "false" && p.Value != "off" && p.Value != "no" && p.Value != "0" {
				return nil, &wire.Error{
					Severity: wire.SeverityFatal, Code: wire.CodeFeatureNotSupported,
					Message: "pgweir: replication connections are not supported yet",
					Hint:    "connect to Postgres directly for replication",
				}
			}
		default:
			list = append(list, p)
		}
	}
	return list, nil
}

// cancelRequest forwards a cancel and keeps its connection open until it has
// taken effect, so that a client that waits for the end of it can't meet its own
// cancel later.
func (px *Proxy) cancelRequest(conn net.Conn, r *wire.CancelRequest) {
	done := make(chan struct{})
	px.post(func(now int64) {
		if cl := px.sessions.find(r); cl != nil {
			cl.CancelRequest(now, func() { close(done) })
		} else {
			close(done)
		}
	})
	t := time.NewTimer(px.o.LoginTimeout)
	defer t.Stop()
	select {
	case <-done:
	case <-px.ended:
	case <-t.C:
	}
	_ = conn.Close() // a cancel request has no answer
}

// levelOf says how loud the end of a session is.
func levelOf(r session.Reason) slog.Level {
	switch r {
	case session.Goodbye, session.ClientEOF, session.ClientLost, session.Draining:
		return slog.LevelDebug
	case session.ServerDesync, session.Internal:
		return slog.LevelError
	}
	return slog.LevelInfo
}
