package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/door"
	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
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
		case door.NoneLeft(err):
			px.outOfDescriptors(ln)
		default:
			px.o.Log.Warn("accept failed", "error", err)
			wait(50 * time.Millisecond)
		}
	}
}

// admitLogin starts a login if there is a place for it.
func (px *Proxy) admitLogin(conn net.Conn) {
	if px.held.Full() { // a storm of those who are blocked: they are not even read
		if left := px.blocked.Only(door.IPOf(conn.RemoteAddr())); left > 0 {
			px.refuseLogin(conn, door.Blocked(left))
			return
		}
	}
	select {
	case px.logins <- struct{}{}:
		px.work.Go(func() {
			defer func() { <-px.logins }()
			px.login(conn)
		})
	default:
		px.turnedAway(tooManyLogins, door.AddressOf(conn.RemoteAddr()))
		door.TurnAway(conn, tooManyLogins, stormFarewell)
	}
}

// outOfDescriptors uses a spare descriptor to tell one client why it can't be served.
func (px *Proxy) outOfDescriptors(ln net.Listener) {
	px.noDescriptors()
	px.held.Release() // those who are held back have one each
	if !px.spare.Lend() {
		px.spare.Fill()
		wait(20 * time.Millisecond)
		return
	}
	conn, err := ln.Accept() // there may be nobody yet: accept fails before it looks
	switch full := px.spare.Fill(); {
	case err != nil:
	case full: // there are some again
		px.admitLogin(conn)
		return
	default:
		px.turnedAway(lacksDescriptors, door.AddressOf(conn.RemoteAddr()))
		door.TurnAway(conn, lacksDescriptors, farewell)
		px.spare.Fill()
	}
	wait(20 * time.Millisecond)
}

// How long a client may take to take notice that it is turned away. The connections that
// come next wait for it, and in a storm of logins there are many.
const (
	farewell      = 100 * time.Millisecond
	stormFarewell = time.Millisecond
)

// noDescriptors says what to do, now and then.
func (px *Proxy) noDescriptors() {
	px.turned.Note(px.o.Log, "no descriptors", time.Since(px.started).Nanoseconds(), "out of file descriptors",
		"what_to_do", "raise the limit (ulimit -n, LimitNOFILE=) or lower max_client_conn", "sessions", px.clients.Load())
}

var lacksDescriptors = session.Say("descriptors")

// admitted is a client that has authenticated and has no session yet.
type admitted struct {
	database, role string // as the client names them
	dbname, user   string // on the server
	params         []wire.Param
	own            relay.Own // pgweir's own parameters
	replication    replication
	minor          uint16
	credentials    login.Credentials
	passwords      upstream.Passwords
}

func (a *admitted) key(pid uint32) wire.CancelKey { return wire.NewCancelKey(pid, a.minor) }

// login takes a connection from its first byte to the event loop, or to the console.
func (px *Proxy) login(conn net.Conn) {
	defer func() {
		if r := recover(); r != nil {
			px.o.Log.Error("login panicked", "panic", r, "stack", string(debug.Stack()))
			_ = conn.Close()
		}
	}()
	s := px.settings.Load()
	_ = conn.SetDeadline(time.Now().Add(s.LoginTimeout)) // a socket that can't be timed fails at once
	a, err := login.Accept(conn, s.TLS)
	conn = a.Conn
	if a.Client != nil {
		err = insecure(conn, a.Client, s)
	}
	switch {
	case err != nil:
		px.refuseLogin(conn, err)
	case a.Cancel != nil: // also in clear: it is worth its secret, and libpq before 17 sends it so
		px.cancelRequest(conn, a.Cancel)
	case isConsole(a.Client.Database):
		px.console(conn, a.Client, s)
	default:
		px.client(conn, a.Client, s)
	}
}

// insecure tells why a client's connection is not as safe as the settings want it; nil if it is.
func insecure(conn net.Conn, c *login.Client, s *plan.Settings) error {
	switch {
	case conn.LocalAddr().Network() == "unix":
	case s.TLS.Required() && c.TLS == nil:
		return session.Say("tls_required")
	case s.TLS.Verified() && len(c.TLS.VerifiedChains) == 0:
		return session.Say("client_certificate")
	}
	return nil
}

// client starts the session of a client of a database.
func (px *Proxy) client(conn net.Conn, c *login.Client, s *plan.Settings) {
	if left, hold := px.blocked.Left(door.IPOf(conn.RemoteAddr()), c.User); left > 0 {
		px.refuseBlocked(conn, door.Blocked(left), hold)
		return
	}
	up, who, err := px.authenticate(conn, c, s)
	if err != nil {
		px.refuseLogin(conn, err)
		return
	}
	if !px.place(s.MaxClients - s.ReservedClients) {
		px.refuseLogin(conn, tooManyClients)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	h := &clientConn{up: up, who: who, addr: door.AddressOf(conn.RemoteAddr()), local: door.AddressOf(conn.LocalAddr())}
	h.ip, h.channel = door.IPOf(conn.RemoteAddr()), login.ChannelOf(c.TLS)
	if who.replication != notReplication {
		px.replicate(conn, h)
		return
	}
	fd, t, bridge, err := detach(conn)
	if err != nil {
		px.clients.Add(-1)
		px.refuseLogin(conn, err)
		return
	}
	if err := px.loop.Adopt(fd, t, bridge, h); err != nil {
		px.clients.Add(-1)
		px.o.Log.Debug("not adopted", "client", h.addr, "error", err)
	}
}

// place takes a place among the clients, of which there may be so many.
func (px *Proxy) place(most int) bool {
	if px.clients.Add(1) > int64(most) {
		px.clients.Add(-1)
		return false
	}
	return true
}

var tooManyLogins = session.Say("max_logins")

var tooSlow = session.Say("login_timeout")

var tooManyClients = session.Say("max_client_conn")

// refuseLogin tells the client why and closes the connection.
func (px *Proxy) refuseLogin(conn net.Conn, err error) {
	if g, ok := errors.AsType[*guess](err); ok {
		px.refuseGuess(conn, g)
		return
	}
	defer func() { _ = conn.Close() }()
	e, ok := errors.AsType[*wire.Error](err)
	if trouble, failed := errors.AsType[*login.TLSError](login.TLSTrouble(err)); failed && !ok {
		e, ok = session.Say("tls"), true // for log and console: nothing more can be said to the client
		e.Message = trouble.Error()
	}
	if !ok && door.NoneLeft(err) { // the connection was accepted with the last one, and needs another
		px.noDescriptors()
		e, ok = lacksDescriptors, true
	}
	if !ok && errors.Is(err, os.ErrDeadlineExceeded) { // nothing can be sent in time
		px.turnedAway(tooSlow, door.AddressOf(conn.RemoteAddr()))
		return
	}
	if !ok {
		px.o.Log.Debug("login ended", "client", door.AddressOf(conn.RemoteAddr()), "error", err)
		return
	}
	px.turnedAway(e, door.AddressOf(conn.RemoteAddr()))
	_, _ = conn.Write(wire.AppendError(nil, e)) // it may have left already
}

// refuseGuess is refuseLogin for a login that has failed: it is told later where others have
// failed before.
func (px *Proxy) refuseGuess(conn net.Conn, g *guess) {
	e, _ := errors.AsType[*wire.Error](g.error) // always one
	if delay := px.throttle.Fail(g.who); delay > 0 && px.held.HoldThen(conn, e, delay, g.end) {
		px.turnedAway(e, door.AddressOf(conn.RemoteAddr()))
		return
	}
	g.end()
	px.refuseLogin(conn, e)
}

// refuseBlocked is refuseLogin for somebody who is blocked: it is told later, if there is
// room for that, so that it does not come back at once.
func (px *Proxy) refuseBlocked(conn net.Conn, e *wire.Error, hold time.Duration) {
	if !px.held.Hold(conn, e, hold) {
		px.refuseLogin(conn, e)
		return
	}
	px.turnedAway(e, door.AddressOf(conn.RemoteAddr()))
}

// authenticate checks who a client is and finds where it is to go.
func (px *Proxy) authenticate(conn net.Conn, c *login.Client, s *plan.Settings) (*cluster, *admitted, error) {
	db, dbname := routeOf(s, c)
	if only := s.Auth.OnlyUser; only != "" && c.User != only && s.Auth.Method == login.Trust {
		e := session.Say("role")
		e.Message = `role "` + c.User + `" is not let in`
		return nil, nil, e
	}
	up := px.upstream(s.Home(db))
	if err := px.admit(conn, c, s, up); err != nil { // first, or everybody could ask what databases there are
		return nil, nil, err
	}
	if err := px.closed(c, db); err != nil {
		return nil, nil, err
	}
	params, err := c.Startup.Settings()
	if err != nil {
		return nil, nil, err
	}
	replication, err := replicationOf(&c.Startup)
	if err != nil {
		return nil, nil, err
	}
	own, params, unknown := relay.SplitOwn(params)
	if unknown != nil {
		return nil, nil, unknown
	}
	a := &admitted{
		database: c.Database, role: c.User, dbname: dbname, user: c.User, params: params, own: own, replication: replication,
		minor: c.Startup.Speaks(), credentials: c.Credentials,
	}
	if a.user = db.ServerRole(c.User); a.user != c.User {
		a.credentials = credentialsOf(s, a.user)
		// The session on the server is another role's, whose timeouts it would have.
		a.params = append(without(s.Timeouts(c.User), transactionTimeout), a.params...)
	}
	a.passwords = db.Passwords
	return up, a, nil
}

// closed tells why nobody is let into a database; nil if they are.
func (px *Proxy) closed(c *login.Client, db *plan.Database) error {
	switch {
	case db == nil:
		e := session.Say("no_database")
		e.Message = `database "` + c.Database + `" does not exist`
		e.Hint = `add [database.` + c.Database + `] to pgweir's configuration, or [database."*"]`
		return e
	case px.disabled.has(c.Database):
		e := session.Say("disabled")
		e.Message = `pgweir: database "` + c.Database + `" is disabled`
		return e
	}
	return nil
}

// credentialsOf is what is known of a role that clients do not log in as themselves.
func credentialsOf(s *plan.Settings, role string) login.Credentials {
	secret, _ := s.Auth.Book.Known().Lookup(role)
	return login.Credentials{Password: secret.Plain, MD5: secret.MD5}
}

// cancelRequest forwards a cancel and keeps its connection open until it has
// taken effect, so that a client that waits for the end of it can't meet its own
// cancel later.
func (px *Proxy) cancelRequest(conn net.Conn, r *wire.CancelRequest) {
	defer func() { _ = conn.Close() }() // a cancel request has no answer
	ctx, stop := context.WithTimeout(context.Background(), px.settings.Load().LoginTimeout)
	defer stop()
	if p := processOf(r); p != px.o.Process {
		if px.o.Forward != nil {
			px.o.Forward(ctx, p, r)
		}
		return
	}
	px.Cancel(ctx, r)
}

// Cancel does what a cancel request asks for, of a client of this process, and returns
// when nothing of it can meet a later statement, or when ctx ends.
func (px *Proxy) Cancel(ctx context.Context, r *wire.CancelRequest) {
	if px.consoles.cancel(r) {
		return
	}
	done := make(chan struct{})
	px.post(func(now int64) {
		if cl := px.sessions.find(r); cl != nil {
			cl.CancelRequest(now, func() { close(done) })
		} else if rep := px.replicas.find(r); rep != nil {
			rep.cancel(func() { close(done) })
		} else {
			close(done)
		}
	})
	select {
	case <-done:
	case <-px.ended:
	case <-ctx.Done():
	}
}

// levelOf says how loud the end of a session is.
func levelOf(r session.Reason) slog.Level {
	switch r {
	case session.Goodbye, session.ClientEOF, session.ClientLost, session.Draining, session.LoginRefused:
		return slog.LevelDebug
	case session.ServerDesync, session.Internal:
		return slog.LevelError
	}
	return slog.LevelInfo
}
