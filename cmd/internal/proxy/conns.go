package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"runtime/debug"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// clientConn hands a client connection's events to its session. Owned by the
// loop thread once adopted.
type clientConn struct {
	id    uint64 // names it to KILL_CLIENT
	up    *cluster
	cl    *session.Client
	who   *admitted // until the session exists
	addr  string
	local string
	ip    netip.Addr

	channel login.Channel
}

// Open implements loop.Opener: the session begins.
func (h *clientConn) Open(c *loop.Conn, now int64) {
	px, co, who := h.up.px, h.up.core, h.who
	h.who = nil
	px.lastID++
	h.id = px.lastID
	params := relay.NewParams(who.params)
	application, _ := params.Get("application_name")
	if e := h.refused(who, application); e != nil {
		px.refuseOpen(c, e, h.addr)
		return
	}
	info := co.Key(who.dbname, who.user)
	if t := who.target(info.Target); t != info.Target {
		info.Target, info.LogInAgain = t, false
	}
	pid := px.sessions.add()
	g := h.up.group(info, h, who.database, who.role, application)
	h.cl = co.NewClient(c, g, params, who.key(pid))
	h.cl.Tag, h.cl.Address = h, h.ip
	h.cl.Declare(who.own)
	px.sessions.set(pid, h.cl)
	h.logBegin(application)
	px.crowd.add(who.database, who.role, 1)
	h.cl.Start(now)
}

// logBegin logs who has come in.
func (h *clientConn) logBegin(application string) {
	log, g := h.up.px.o.Log, h.cl.Group()
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	args := []any{
		"client", h.addr, "database", g.Database, "role", g.Role, "workload", g.Workload.Name,
		"application_name", clip(application), "tls", h.channel.String(),
	}
	if h.channel.ServerName != "" {
		args = append(args, "sni", h.channel.ServerName)
	}
	log.Debug("session began", args...)
}

// refused tells why a client that has authenticated can't have a session here: a reload has
// come in between, its role or database has as many as it may, or there are too many names
// already and its own is a new one.
func (h *clientConn) refused(who *admitted, application string) *wire.Error {
	up := h.up
	if !up.houses(up.px.settings.Load(), who.database, who.role, &session.KeyInfo{Database: who.dbname, Role: who.user}) {
		return moved
	}
	if e := up.px.crowd.full(up.px.settings.Load(), who.database, who.role); e != nil {
		return e
	}
	if len(up.core.Groups()) < up.px.maxGroups {
		return nil
	}
	k := up.core.FindKey(who.dbname, who.user)
	if k == nil || up.core.FindGroup(k, who.database, who.role, up.workload(h, who.database, who.role, application)) == nil {
		return tooManyNames
	}
	return nil
}

// maxGroups bounds what is kept for ever of the databases and roles that clients have
// named: "*" lets them name any.
const maxGroups = 1 << 16

var tooManyNames = session.Say("names")

// refuseOpen ends a connection that gets no session: nothing more is heard of it.
func (px *Proxy) refuseOpen(c *loop.Conn, e *wire.Error, addr string) {
	px.clients.Add(-1)
	px.turnedAway(e, addr)
	c.Send([][]byte{wire.AppendError(nil, e)})
	c.Finish()
}

// Data implements loop.Handler.
func (h *clientConn) Data(_ *loop.Conn, b []byte, now int64) (used int) {
	defer func() {
		if r := recover(); r != nil {
			used = len(b)
			h.up.panicked(r, h.cl, nil, now)
		}
	}()
	return h.cl.Data(b, now)
}

// Drained implements loop.Handler.
func (h *clientConn) Drained(_ *loop.Conn, now int64) { h.cl.Drained(now) }

// Hangup implements loop.Handler.
func (h *clientConn) Hangup(_ *loop.Conn, now int64) { h.cl.Hangup(now) }

// EOF implements loop.Handler.
func (h *clientConn) EOF(_ *loop.Conn, now int64) { h.cl.EOF(now) }

// End implements loop.Handler.
func (h *clientConn) End(_ *loop.Conn, _ loop.End, now int64) {
	if h.cl == nil { // the kernel did not take the descriptor
		h.up.px.clients.Add(-1)
		return
	}
	h.cl.Lost(now)
}

// Ended implements session.Env.
func (up *cluster) Ended(cl *session.Client, reason session.Reason) {
	px := up.px
	px.sessions.remove(cl.Key().PID)
	px.clients.Add(-1)
	px.endings[reason]++
	h, g := cl.Tag.(*clientConn), cl.Group()
	px.crowd.add(g.Database, g.Role, -1)
	if level := levelOf(reason); px.o.Log.Enabled(context.Background(), level) {
		px.o.Log.Log(context.Background(), level, "session ended", "reason", reason.String(),
			"client", h.addr, "database", g.Database, "role", g.Role, "workload", g.Workload.Name)
	}
	px.checkDrained()
}

// serverConn hands a server connection's events to its session. Owned by the
// loop thread once adopted.
type serverConn struct {
	up     *cluster
	sv     *session.Server
	site   *site
	opened func(c *loop.Conn, now int64) // nil once it was
}

// Open implements loop.Opener: the server is ready.
func (h *serverConn) Open(c *loop.Conn, now int64) {
	h.opened(c, now)
	h.opened = nil
}

// Data implements loop.Handler.
func (h *serverConn) Data(_ *loop.Conn, b []byte, now int64) (used int) {
	defer func() {
		if r := recover(); r != nil {
			used = len(b)
			h.up.panicked(r, nil, h.sv, now)
		}
	}()
	h.site.heard = now
	return h.sv.Data(b, now)
}

// Drained implements loop.Handler.
func (h *serverConn) Drained(_ *loop.Conn, now int64) { h.sv.Drained(now) }

// Hangup implements loop.Handler: what a server still says is worth reading.
func (h *serverConn) Hangup(*loop.Conn, int64) {}

// EOF implements loop.Handler.
func (h *serverConn) EOF(_ *loop.Conn, now int64) { h.sv.Gone(now) }

// End implements loop.Handler.
func (h *serverConn) End(_ *loop.Conn, _ loop.End, now int64) {
	if h.opened != nil { // never was: the kernel did not take the descriptor
		h.up.dialFailed(h.sv, nil, errNotTaken)
		return
	}
	h.sv.Gone(now)
}

var errNotTaken = errors.New("the kernel did not take the connection's descriptor")

// panicked keeps one session's bad luck from ending all: it is logged with its
// stack and the session is ended. A second panic on the way is not caught.
func (up *cluster) panicked(r any, cl *session.Client, sv *session.Server, now int64) {
	up.px.o.Log.Error("internal error", "panic", r, "stack", string(debug.Stack()))
	up.core.Panicked(cl, sv, now)
}
