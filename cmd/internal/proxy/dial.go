package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/wire"
)

// backend is what is known of a server beside its session: where it is and what a cancel
// for it needs.
type backend struct {
	place  upstream.Place
	site   *site
	local  string
	pid    uint32
	secret []byte
	// timeouts are those of the role when it logged in.
	timeouts []wire.Param
	tls      string // version and cipher; "" = in clear
	by       login.Encryption
}

// outdated reports whether a reload has changed how servers are to be encrypted, or the timeouts
// of their role, since this one was made.
func (b *backend) outdated(u *plan.Upstream, s *plan.Settings, role string) bool {
	return b.by != u.Hosts.Encryption || !slices.Equal(b.timeouts, s.Timeouts(role))
}

// Dial implements session.Env: it logs in on a goroutine.
func (up *cluster) Dial(sv *session.Server) {
	t, _ := sv.Info().Target.(*target)
	r := up.request(sv.Info())
	r.Params = up.px.settings.Load().Timeouts(r.Role)
	up.px.work.Go(func() { up.dial(sv, r, t) })
}

// doubtAfter is how long a login may take before those who wait for it are told, if their
// patience ends, that no server can be reached.
const doubtAfter = 500 * time.Millisecond

// noAnswer is why a login is in doubt.
var noAnswer = noServer("pgweir: the database does not answer", "is Postgres running, and not overloaded?")

// noServer is why a login to the server did not work that the server has not refused.
func noServer(message, hint string) *wire.Error {
	e := session.SayLogin("no_server")
	e.Message, e.Hint = message, "retry=yes; "+hint
	return e
}

func (up *cluster) dial(sv *session.Server, r upstream.Request, t *target) {
	px := up.px
	doubt := time.AfterFunc(doubtAfter, func() {
		px.post(func(now int64) { up.core.Doubt(now, sv, noAnswer) })
	})
	s, err := up.enter(px.life, r)
	doubt.Stop()
	if err != nil {
		up.dialFailed(sv, t, err)
		return
	}
	b := &backend{place: s.Where, local: s.Conn.LocalAddr().String(), pid: s.PID, secret: s.Secret, tls: login.TLSInfo(s.Conn), by: s.Encryption, timeouts: r.Params}
	h := &serverConn{up: up, sv: sv}
	h.opened = func(c *loop.Conn, now int64) {
		b.site = up.site(b.place)
		b.site.heard = now
		h.site = b.site
		sv.Tag = b
		_, newest := up.link.Current()
		if s.Generation == newest {
			up.place, b.site.left = b.place, false
		}
		sv.Info().LogInAgain = false
		up.recovered(now)
		up.core.Dialed(now, sv, c, s.Status, nil, false)
		if s.Generation < newest || b.outdated(up.o.Load(), px.settings.Load(), r.Role) { // meanwhile it has moved, or a reload has come
			up.core.Retire(now, func(o *session.Server) bool { return o == sv })
		}
	}
	if err := px.adopt(s.Conn, h); err != nil {
		up.dialFailed(sv, t, err)
	}
}

// bridged puts what the loop needs below a connection that is to be encrypted.
func bridged(conn net.Conn) net.Conn { return loop.NewBridge(conn) }

// detach takes the descriptor out of a connection, in clear or over a bridge. After an error
// conn is as it was.
func detach(conn net.Conn) (fd int, t *tls.Conn, bridge *loop.Bridge, err error) {
	if t, _ = conn.(*tls.Conn); t != nil {
		bridge = t.NetConn().(*loop.Bridge)
		conn = bridge
	}
	fd, err = loop.Detach(conn)
	return fd, t, bridge, err
}

// adopt hands a server's connection to the loop. After an error it is closed, and h has heard
// nothing.
func (px *Proxy) adopt(conn net.Conn, h loop.Handler) error {
	fd, secure, bridge, err := detach(conn)
	if err != nil {
		_ = conn.Close()
		return err
	}
	if err := px.loop.Adopt(fd, secure, bridge, h); err != nil {
		px.o.Log.Debug("server not adopted", "error", err) // all is coming to its end
	}
	return nil
}

// unreachable is noServer for an error that is not the server's own.
func unreachable(err error) *wire.Error {
	if _, secret := errors.AsType[*upstream.PasswordError](err); secret {
		return noServer("pgweir: there is no password for the database", "pgweir's log says why")
	}
	if _, secret := errors.AsType[*login.TLSError](err); secret {
		return noServer("pgweir: no encrypted connection to the database that it may use", "pgweir's log says why")
	}
	if errors.Is(err, login.ErrNoCredentials) {
		e := noServer("pgweir: could not log in to the database: "+err.Error(), "")
		e.Hint = "retry=no; the client came in without a password that Postgres would take: put the role's into auth_file, or set user and password_file in the database's section"
		return e
	}
	return noServer("pgweir: could not connect to the database: "+err.Error(), "is Postgres running and reachable from pgweir?")
}

// dialFailed reports a login that did not work.
func (up *cluster) dialFailed(sv *session.Server, t *target, err error) {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		e = unreachable(err)
	}
	up.px.post(func(now int64) {
		info := sv.Info()
		up.px.failures.Note(up.px.o.Log, info.Database+"\x00"+info.Role+"\x00"+e.Code, now, "login to server failed",
			"upstream", up.name, "database", info.Database, "role", info.Role, "error", err)
		if !up.core.Forgiven(sv) && up.judge(err, now) && up.failedAt == 0 {
			up.failedAt = now
		}
		if e.Code == wire.CodeInvalidPassword {
			up.stale(info, t)
		}
		up.core.Dialed(now, sv, nil, nil, e, upstream.Permanent(err))
	})
}

// recovered logs that servers log in again after one could not, for a reason that concerns all.
func (up *cluster) recovered(now int64) {
	if up.failedAt != 0 {
		up.px.o.Log.Info("logins to servers work again", "upstream", up.name, "address", up.place.String(),
			"after", time.Duration(now-up.failedAt).Round(time.Millisecond))
		up.failedAt = 0
	}
}

// judge tells the core if a login has failed for a reason that concerns all, and reports whether
// it has.
func (up *cluster) judge(err error, now int64) bool {
	key, all := upstream.Full(err)
	_, password := errors.AsType[*upstream.PasswordError](err)
	switch {
	case all:
		up.core.Full(now)
		return true
	case !key && !password && !upstream.Permanent(err) && up.px.life.Err() == nil:
		up.core.Away(now)
		return true
	}
	return false
}

// cancelTimeout bounds a CancelRequest of ours.
const cancelTimeout = 10 * time.Second

// Cancel implements session.Env: the request goes out on a goroutine, to the
// address of that very server.
func (up *cluster) Cancel(sv *session.Server) {
	b := sv.Tag.(*backend)
	up.px.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
		defer cancel()
		err := up.link.Cancel(ctx, b.place, b.tls != "", b.pid, b.secret)
		if err != nil {
			up.px.o.Log.Warn("cancel request failed", "upstream", up.name, "address", b.place.String(), "backend_pid", b.pid, "error", err)
		}
		up.px.post(func(now int64) { up.core.CancelDone(now, sv, err == nil) })
	})
}
