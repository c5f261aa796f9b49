package proxy

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/pump"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/wire"
)

// A replication connection has a server of its own from its login to its end, in a place of the
// budget that the pool does not have meanwhile. Two goroutines hand on what both sides say:
// nothing of it is of transactions.

// replication is what a startup packet asks for, as the console names it.
type replication string

const (
	notReplication replication = ""
	physical       replication = "physical"
	logical        replication = "logical"
)

// replicationOf reads the parameter replication as Postgres does: of several the last counts,
// and a truth value may be shortened.
func replicationOf(s *wire.Startup) (kind replication, err error) {
	for _, p := range s.Params {
		if p.Name != "replication" {
			continue
		}
		v := strings.ToLower(p.Value)
		switch {
		case p.Value == "database":
			kind = logical
		case v == "1" || v == "on" || v != "" && (strings.HasPrefix("true", v) || strings.HasPrefix("yes", v)):
			kind = physical
		case v == "0" || v == "of" || v == "off" || v != "" && (strings.HasPrefix("false", v) || strings.HasPrefix("no", v)):
			kind = notReplication
		default:
			return notReplication, &wire.Error{
				Severity: wire.SeverityFatal, Code: wire.CodeInvalidParameterValue,
				Message: `invalid value for parameter "replication": "` + p.Value + `"`,
				Hint:    `Valid values are: "false", 0, "true", 1, "database".`,
			}
		}
	}
	return kind, nil
}

// wantsPhysical reports whether a client wants physical replication, which is of no database.
func wantsPhysical(s *wire.Startup) bool {
	kind, _ := replicationOf(s) // what can't be read is told after the login
	return kind == physical
}

// routeOf is [plan.Settings.Route] for a client. Physical replication is of a whole cluster: if
// there is only one, the name does not matter.
func routeOf(s *plan.Settings, c *login.Client) (*plan.Database, string) {
	db, dbname := s.Route(c.Database)
	if db == nil && len(s.Upstreams) == 1 && wantsPhysical(&c.Startup) {
		return &plan.Database{Name: c.Database, Upstream: s.Upstreams[0].Name}, c.Database
	}
	return db, dbname
}

// replica is a client that replicates, and its server.
type replica struct {
	*clientConn
	who   *admitted
	conn  net.Conn
	key   wire.CancelKey
	since time.Time
	pump  pump.Pump
	// stop ends it, wherever it stands, once farewell says why.
	ctx  context.Context
	stop context.CancelFunc

	// Loop thread.
	seat    *seat
	server  *upstream.Session // nil until its login is done
	dialled time.Time         // when that began
}

// refusalMost bounds how long a client may take to read why it can't replicate.
const refusalMost = time.Second

// replicas are those that are open. Owned by the loop thread.
type replicas struct {
	open map[uint32]*replica // by the process id of their cancel keys
	shut bool                // no other is let in
}

func (l *replicas) add(r *replica) {
	if l.open == nil {
		l.open = make(map[uint32]*replica)
	}
	l.open[r.key.PID] = r
}

// end ends those for which meant says true, and reports whether there were any.
func (l *replicas) end(why *wire.Error, meant func(*replica) bool) (any bool) {
	for _, r := range l.open {
		if meant(r) {
			r.end(why)
			any = true
		}
	}
	return any
}

// endAll ends all and lets in no other.
func (l *replicas) endAll(why *wire.Error) {
	l.shut = true
	l.end(why, func(*replica) bool { return true })
}

// find returns the one that a cancel request is for, or nil.
func (l *replicas) find(r *wire.CancelRequest) *replica {
	if rep := l.open[r.PID]; rep != nil && rep.key.Matches(r) {
		return rep
	}
	return nil
}

// end has it end, and tells its client why. The first reason counts.
func (r *replica) end(why *wire.Error) {
	r.pump.End(why)
	r.stop()
}

// replicate takes a client that replicates from its login to its end. It has a place among the
// clients already.
func (px *Proxy) replicate(conn net.Conn, h *clientConn) {
	r := &replica{clientConn: h, who: h.who, conn: conn, since: time.Now()}
	r.ctx, r.stop = context.WithCancel(px.life)
	px.work.Go(func() { // not in a login's place
		defer px.clients.Add(-1)
		defer r.stop()
		defer func() { _ = conn.Close() }()
		defer func() {
			if p := recover(); p != nil {
				px.o.Log.Error("internal error", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		r.run()
	})
}

// run is its life.
func (r *replica) run() {
	px := r.up.px
	var refused *wire.Error
	err := px.do(px.life, func(now int64) { refused = r.open(now) })
	if err == nil && refused == nil {
		defer func() { _ = px.do(context.Background(), r.close) }() // a loop that has ended needs no books
		refused = r.enter()
	}
	switch {
	case err != nil:
		return
	case refused != nil:
		_ = r.conn.SetDeadline(time.Now().Add(refusalMost)) // a socket that can't be timed fails at once
		px.refuseLogin(r.conn, refused)
		return
	}
	log := px.o.Log.With("client", r.addr, "upstream", r.up.name, "role", r.who.role, "replication", string(r.who.replication))
	log.Info("replication began", "address", r.server.Where.String(), "backend_pid", r.server.PID)
	px.post(func(int64) { r.up.replications++ })
	why := r.pump.Run(r.ctx, r.abort)
	received, sent := r.pump.Traffic()
	log.Info("replication ended", "reason", why, "received", received, "sent", sent, "after", time.Since(r.since).Round(time.Millisecond))
}

// open books what it needs. Loop thread.
func (r *replica) open(now int64) *wire.Error {
	px, up, who := r.up.px, r.up, r.who
	s := px.settings.Load()
	switch {
	case px.replicas.shut:
		return session.Say("draining")
	case up.disowned, who.replication == logical && !up.houses(s, who.database, who.role, &session.KeyInfo{Database: who.dbname, Role: who.user}):
		return moved
	}
	if e := px.crowd.full(s, who.database, who.role); e != nil {
		return e
	}
	seat, e := up.book(now, who)
	if e != nil {
		return e
	}
	px.lastID++
	r.id, r.seat, r.key = px.lastID, seat, who.key(px.sessions.add())
	px.replicas.add(r)
	px.crowd.add(who.database, who.role, 1)
	return nil
}

// close gives back what it has. Loop thread.
func (r *replica) close(now int64) {
	px := r.up.px
	delete(px.replicas.open, r.key.PID)
	px.sessions.remove(r.key.PID)
	px.crowd.add(r.who.database, r.who.role, -1)
	r.up.release(now, r.seat)
	px.checkDrained()
}

// enter waits for its seat and logs in to a server.
func (r *replica) enter() *wire.Error {
	px, up := r.up.px, r.up
	s := px.settings.Load()
	patience := time.NewTimer(r.patience(s))
	defer patience.Stop()
	select {
	case <-r.seat.ready:
	case <-patience.C:
		return noSeat()
	case <-r.ctx.Done():
		return r.last()
	}
	if px.do(r.ctx, func(int64) { r.dialled = time.Now() }) != nil {
		return r.last()
	}
	server, err := up.enter(r.ctx, r.request(s))
	switch e, told := errors.AsType[*wire.Error](err); {
	case err == nil:
	case r.ctx.Err() != nil:
		return r.last()
	case told:
		return e
	default:
		px.o.Log.Warn("login to server failed", "upstream", up.name, "database", r.who.dbname, "role", r.who.user, "replication", string(r.who.replication), "error", err)
		return unreachable(err)
	}
	r.pump.Client, r.pump.Server = r.conn, server.Conn
	welcome := make([]byte, 0, 1024)
	for _, p := range server.Status {
		welcome = wire.AppendParameterStatus(welcome, p.Name, p.Value)
	}
	welcome = wire.AppendBackendKeyData(welcome, r.key.PID, r.key.Secret())
	r.pump.Welcome = wire.AppendReadyForQuery(welcome, wire.Idle)
	_ = px.do(context.Background(), func(int64) { r.server = server }) // it is over anyway if the loop is
	return nil
}

// last is what it is told when it is to end.
func (r *replica) last() *wire.Error {
	if e := r.pump.Why(); e != nil {
		return e
	}
	return session.Say("draining")
}

// patience is how long a client may wait for a server of its own.
func (r *replica) patience(s *plan.Settings) time.Duration {
	application := ""
	for _, p := range r.who.params {
		if p.Name == "application_name" {
			application = p.Value
		}
	}
	return s.Workloads[s.WorkloadOf(r.who.database, r.who.role, application, r.ip)].SessionWait
}

// request is who to be on the server: the client itself, with all that it has asked for.
func (r *replica) request(s *plan.Settings) upstream.Request {
	value := "true"
	var params []wire.Param
	if r.who.replication == logical {
		value, params = "database", s.Timeouts(r.who.user)
	}
	q := r.up.request(&session.KeyInfo{Database: r.who.dbname, Role: r.who.user, Target: r.who.target(nil)})
	q.Params = append(append(params, r.who.params...), wire.Param{Name: "replication", Value: value})
	return q
}

// abort cancels what the server does, because nobody wants it any more.
func (r *replica) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	if err := r.up.link.Cancel(ctx, r.server.Where, login.TLSInfo(r.server.Conn) != "", r.server.PID, r.server.Secret); err != nil {
		r.up.px.o.Log.Debug("cancel request failed", "upstream", r.up.name, "backend_pid", r.server.PID, "error", err)
	}
}

// cancel does what a cancel request asks for, and calls done when that has come to the server.
// Loop thread.
func (r *replica) cancel(done func()) {
	if r.server == nil {
		done()
		return
	}
	r.up.px.work.Go(func() {
		defer done()
		r.abort()
	})
}

// clientState is its row in SHOW CLIENTS. Loop thread.
func (r *replica) clientState() state.Client {
	c := state.Client{
		ID: r.id, Database: r.who.database, Role: r.who.role, Upstream: r.up.name, State: "waiting",
		Connected: r.since, Requested: r.since, CancelPID: r.key.PID, Replication: string(r.who.replication),
		TLS: r.channel.String(), ServerName: r.channel.ServerName,
	}
	for _, p := range r.who.params {
		if p.Name == "application_name" {
			c.Application = p.Value
		}
	}
	c.Address, c.Port = splitAddress(r.addr)
	c.LocalAddress, c.LocalPort = splitAddress(r.local)
	if !r.dialled.IsZero() {
		c.Server = r.serverID()
	}
	if r.server != nil {
		c.State, c.ServerPID = "active", r.server.PID
	} else {
		c.Wait = time.Since(r.since)
	}
	return c
}

// serverID is above all those of the pool.
func (r *replica) serverID() uint64 { return 1<<32 | r.id }

// serverState is the row of its server. Loop thread.
func (r *replica) serverState() state.Server {
	v := state.Server{
		ID: r.serverID(), Upstream: r.up.name, Database: r.who.database, Role: r.who.user, State: "login",
		Connected: r.dialled, Requested: r.dialled, Since: time.Since(r.dialled), Client: r.id, Replication: string(r.who.replication),
	}
	if r.server == nil {
		return v
	}
	v.State, v.PID, v.TLS, v.Application = "active", r.server.PID, login.TLSInfo(r.server.Conn), r.clientState().Application
	if r.server.Where.Host.Network == "unix" {
		v.Address, v.LocalAddress = "unix", "unix"
		_, v.Port = hostPort("unix", r.server.Where.Address)
	} else {
		v.Address, v.Port = hostPort("tcp", r.server.Where.Address)
		v.LocalAddress, v.LocalPort = splitAddress(r.server.Conn.LocalAddr().String())
	}
	return v
}
