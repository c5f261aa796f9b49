package session

import (
	"fmt"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// Server is one server connection. Owned by the loop thread.
type Server struct {
	core *Core
	pool *pool.Server
	info *KeyInfo
	conn Conn // nil until the login is done
	link *relay.Server

	client *Client // granted to or bound by
	keeper *Client // whose it is, also between transactions: in session mode, or pinned
	ticket ticket
	hold   hold
	// pinnedAt is since when it is pinned.
	pinnedAt int64
	busyAt   int64 // when it was first asked for what it has not answered yet; 0 = nothing
	paused   bool
	closing  bool
	dead     bool // its side of the connection has ended
	cancels  int  // CancelRequests whose connections have not ended
	// discarded is how many bytes it has sent since it was given up.
	discarded int64

	watched  bool // something of the following is to be ended with the request
	unwanted bool // it runs a statement whose client has left
	asked    bool // it was asked to cancel it
	// deadline is when the client stops waiting for its first request; 0 = not known.
	deadline int64
	// The server is looked at again at lookAt, after a patience that grows; place is the
	// one in the core's looks, from 1; 0 = it is not looked at.
	lookAt, patience int64
	place            int32
	// wasted is since when it works for nobody; 0 = somebody waits for what it does.
	wasted    int64
	wastedFor *Group

	cap cap // the timeouts of its client's role

	// onCancel is called when no cancel is under way or wanted any more.
	onCancel []func()

	// Tag is whatever the Env attaches: what a cancel needs to know.
	Tag any
}

// Info returns the database and role that the server is logged in to.
func (sv *Server) Info() *KeyInfo { return sv.info }

// Dialed reports the end of a login. With a nil error conn is the server's
// connection, status its ParameterStatus messages; permanent tells an error
// that another try would meet again. What has failed that had begun before Forgive is tried
// again, and nobody is told.
func (co *Core) Dialed(now int64, sv *Server, conn Conn, status []relay.Param, err *wire.Error, permanent bool) {
	if err != nil {
		forgiven := co.set.Forgiven(sv.pool)
		if !forgiven {
			sv.info.failure, sv.info.failedAt = err, now
		}
		co.set.Dialed(now, sv.pool, false, permanent)
		if permanent && !forgiven && co.set.Down(sv.info.Key) { // else a server that is there serves them
			co.deliver(now, co.gate.Unsupplied(now, sv.info.Key, co.verdicts))
		}
		co.supplied(now, sv)
		return
	}
	sv.info.failure = nil
	sv.conn = conn
	sv.info.learn(status)
	sv.link = relay.NewServer(co.shared, sv.info.group, status)
	sv.link.SetPinner(sv)
	co.set.Dialed(now, sv.pool, true, false)
	co.supplied(now, sv)
}

// Forgive lets all keys log in again at once: where servers are, or how to log in, may be
// different from now on.
func (co *Core) Forgive(now int64) {
	co.set.Forgive(now)
	co.timer = true
}

// Forgiven reports whether the set's last Forgive came after the server's login had begun.
func (co *Core) Forgiven(sv *Server) bool { return co.set.Forgiven(sv.pool) }

// supplied lets the gate use what became free.
func (co *Core) supplied(now int64, sv *Server) {
	co.deliver(now, co.gate.Supplied(now, sv.info.Key, co.verdicts))
	co.timer = true
	co.act(now)
}

// send writes to the server and reports whether it did not take everything.
func (sv *Server) send(spans [][]byte) (blocked bool) {
	return len(spans) > 0 && sv.conn.Send(spans) > 0
}

func (sv *Server) pause() {
	if !sv.paused {
		sv.paused = true
		sv.conn.Pause()
	}
}

func (sv *Server) resume() {
	if sv.paused {
		sv.paused = false
		sv.conn.Resume()
	}
}

// Drained tells that the server has taken all that was kept for it.
func (sv *Server) Drained(now int64) {
	if sv.client != nil {
		sv.client.resume(stopServer)
	}
}

// Data takes bytes from the server and returns how many were used.
func (sv *Server) Data(b []byte, now int64) (used int) {
	co := sv.core
	if sv.closing {
		sv.discard(len(b), now)
		return len(b)
	}
	p := &co.plan
	p.Reset()
	for {
		n, ev := sv.link.Input(b[used:], p)
		used += n
		if ev == relay.None {
			sv.flush(now)
			break
		}
		sv.flush(now)
		switch ev {
		case relay.Release:
			sv.release(now)
		case relay.Settled:
			sv.settled(now)
		case relay.Broken:
			sv.broken(ServerDesync, now)
		case relay.Blocked:
			if cl := sv.client; cl != nil {
				co.fatal(cl, relay.BlockOpened(), Block, now)
			}
		}
		if sv.closing {
			used = len(b)
			break
		}
		if used == len(b) {
			break
		}
	}
	if sv.link.Dying() && !sv.closing && sv.keeper == nil && (sv.client == nil || sv.client.pending || !sv.link.Touched()) {
		sv.broken(ServerClosed, now) // nobody may get it until its connection ends, which takes a while
	}
	if (sv.keeper != nil || sv.client != nil) && !sv.closing && sv.link.Told() && !sv.link.MidMessage() {
		sv.broken(ServerClosed, now) // its last word has been passed on: nothing may follow
	}
	if cl := sv.client; cl != nil && !sv.closing {
		cl.group.Traffic.FromServers += uint64(used)
		sv.answered(cl.group, now)
		if sv.cap.role != nil {
			sv.capAnswered(now)
		}
		if cl.stops&stopFull != 0 && !cl.link.Full() {
			cl.resume(stopFull)
		}
		sv.cancelPending(cl, now)
		if sv.deadline != 0 && !cl.pending && sv.link.Answered() {
			sv.over(now)
		}
		if cl.stops&stopFault != 0 && (sv.link.Outstanding() == 0 || sv.link.CopyingIn()) {
			co.fatal(cl, cl.link.Fault(), Protocol, now)
		} else if cl.eof && sv.link.WaitsForClient() {
			cl.leave(ClientEOF, now)
		}
	}
	co.act(now)
	return used
}

// mostDiscarded is how many bytes are read of a server that was given up, until it ends. One
// that has so much to say is not busy with anything else, and learns at once that nobody
// listens when its connection is reset.
const mostDiscarded = 16 << 20

// discard reads what a server says that was given up.
func (sv *Server) discard(n int, now int64) {
	if sv.discarded += int64(n); sv.discarded > mostDiscarded {
		sv.Gone(now)
	}
}

// flush sends what the plan holds.
func (sv *Server) flush(now int64) {
	p := &sv.core.plan
	if len(p.ToServer) > 0 {
		sv.send(p.ToServer)
	}
	cl := sv.client
	if cl == nil {
		cl = sv.keeper
	}
	if cl != nil && len(p.ToClient) > 0 && !cl.ended {
		cl.group.Traffic.Sent += length(p.ToClient)
		if cl.conn.Send(p.ToClient) > 0 {
			sv.pause()
		}
	}
	p.Reset()
}

// settled lets the client go on after its settings were accepted, or refuses it
// if they were not.
func (sv *Server) settled(now int64) {
	cl := sv.client
	if cl == nil {
		return
	}
	if cl.login {
		cl.begun(now)
		return
	}
	if cl.link.Refused() {
		sv.release(now)
		return
	}
	cl.resume(stopSettle)
}

// release takes the server from its client, or ends the cleaning that came
// after one.
func (sv *Server) release(now int64) {
	sv.over(now)
	cl := sv.client
	if cl != nil {
		sv.core.counts.Transactions++
		t := &cl.group.Traffic
		t.Transactions++
		t.TransactionTime += time.Duration(now - sv.ticket.since)
		if cl.useful(now) {
			t.Goodput[classIndex(cl.wait.Class)]++
		}
		sv.answered(cl.group, now)
		sv.charge(now)
		cl.wasServed(now, now-sv.ticket.since)
		cl.link.Unbind()
		cl.server, cl.replaced = nil, 0
		if cl.cancel {
			cl.cancel = false
			sv.cancelled()
		}
		sv.client = nil
		sv.resume()
		defer cl.freed(now)
		if sv.stays(cl, now) {
			sv.core.endTicket(sv.takeTicket(), now)
			return
		}
	}
	sv.done(now)
}

// askedFor notes that the server has something to answer.
func (sv *Server) askedFor(now int64) {
	if sv.busyAt == 0 {
		sv.busyAt = now
		if sv.cap.role != nil {
			sv.capAsked(now)
		}
	}
}

// answered accounts for the time that the server needed, once it owes nothing more.
func (sv *Server) answered(g *Group, now int64) {
	if sv.busyAt != 0 && sv.link.Outstanding() == 0 {
		g.Traffic.QueryTime += time.Duration(now - sv.busyAt)
		sv.busyAt = 0
	}
}

// freed lets a client go on that has just lost its server.
func (cl *Client) freed(now int64) {
	switch {
	case cl.ended:
	case cl.stops&stopFault != 0:
		cl.core.fatal(cl, cl.link.Fault(), Protocol, now)
	case cl.unwelcome() && cl.link.Tx() == wire.Idle:
		cl.depart(now)
	case cl.eof:
		cl.leave(ClientEOF, now)
	default:
		if cl.conn.Unsent() > 0 {
			cl.pause(stopSelf)
		}
		cl.resume(stopFull | stopServer | stopSettle)
		if cl.kept == nil || cl.kept.cancels == 0 {
			cl.resume(stopCancel)
		}
	}
}

// done gives the server back to the pool, after cleaning it if need be, and its
// slot to the next.
func (sv *Server) done(now int64) {
	co := sv.core
	sv.over(now)
	if sv.hold.pinned { // others may be pinned while it is cleaned
		co.endHold(sv.takeHold(), now)
	}
	if sv.link.Spoiled() {
		co.set.Retire(now, sv.pool)
	} else if sv.link.Dirty() {
		co.counts.Cleaned++
		p := relay.Plan{}
		sv.link.Clean(&p)
		sv.send(p.ToServer)
		return // Release follows
	}
	sv.charge(now)
	t, h := sv.takeTicket(), sv.takeHold()
	switch idle := co.set.Put(now, sv.pool); { // from here on it may be somebody else's
	case idle && t.held:
		co.gate.Returned(sv.info.Key)
	case idle:
		co.deliver(now, co.gate.Supplied(now, sv.info.Key, co.verdicts))
	}
	co.endTicket(t, now)
	co.endHold(h, now)
}

// ticket is a slot that is taken: by a client, or still for one that left.
type ticket struct {
	held  bool
	gate  admission.Ticket
	payer *meter // who is charged for it; nil = nobody
	since int64  // when it was granted
}

// hold is a connection that a session keeps, is about to keep, or has kept and that is not
// given back yet.
type hold struct {
	held     bool
	pinned   bool // not in session mode, but for what is left on it
	workload uint16
}

// takeHold takes the hold off the server.
func (sv *Server) takeHold() hold {
	h := sv.hold
	sv.hold = hold{}
	return h
}

// endHold tells the gate that a session keeps a connection less.
func (co *Core) endHold(h hold, now int64) {
	switch {
	case h.held && h.pinned:
		co.timer = true
		co.deliver(now, co.gate.Unpin(now, h.workload, co.verdicts))
	case h.held:
		co.timer = true
		co.deliver(now, co.gate.Release(now, h.workload, co.verdicts))
	}
}

// grant marks the server as taken by a client.
func (sv *Server) grant(cl *Client, t admission.Ticket, now int64) {
	sv.client, sv.ticket, sv.busyAt = cl, ticket{held: true, gate: t, since: now}, 0
	cl.server, cl.pending = sv, true
	if cl.wait.Deadline != 0 {
		sv.limit(cl)
	}
	sv.capFor(cl, now)
	if cl.hungUp && cl.group.Workload.ServesGone {
		sv.waste(cl.group, now)
	}
}

// takeTicket takes the ticket off the server.
func (sv *Server) takeTicket() ticket {
	t := sv.ticket
	sv.ticket = ticket{}
	return t
}

// endTicket frees the slot.
func (co *Core) endTicket(t ticket, now int64) {
	if !t.held {
		return
	}
	if co.gate.Waiting() > 0 {
		co.timer = true
	} else {
		co.lazy = true
	}
	co.deliver(now, co.gate.Done(now, t.gate, now-t.since, co.verdicts))
}

// cancel asks Postgres to cancel what the server runs. Until that request's
// connection has ended the server is not used for anything else.
func (sv *Server) cancel(now int64) {
	if cl := sv.client; cl != nil {
		cl.cancel = false
	}
	sv.core.counts.Cancels++
	sv.cancels++
	sv.asked, sv.watched = true, true
	sv.core.set.Hold(sv.pool)
	sv.core.env.Cancel(sv)
}

// cancelPending does what a cancel request of the server's client asks for as soon as it
// can only meet what was meant, and the one before it, which may have been too early, is
// over: however many come, one is on its way and one waits.
func (sv *Server) cancelPending(cl *Client, now int64) {
	switch {
	case !cl.cancel:
	case sv.link.Outstanding() == 0: // too late: what was meant is answered
		cl.cancel = false
		sv.cancelled()
	case sv.cancels == 0 && sv.link.Cancellable():
		sv.cancel(now)
	}
}

// CancelDone reports that the connection of a CancelRequest has ended; ok is
// false when it is not known whether Postgres has acted on it.
func (co *Core) CancelDone(now int64, sv *Server, ok bool) {
	sv.cancels--
	if cl := sv.client; ok && cl != nil && cl.cancel && !sv.dead && !sv.closing {
		sv.cancelPending(cl, now)
	} else {
		sv.cancelled()
	}
	if sv.dead {
		return // the server connection has ended meanwhile
	}
	if !ok && !sv.closing {
		sv.broken(ServerDesync, now)
	}
	if sv.cancels == 0 {
		if cl := sv.Client(); cl != nil {
			cl.resume(stopCancel)
		}
		if sv.place == 0 && (sv.unwanted || sv.deadline != 0) {
			co.lookLater(sv, now)
		}
	}
	if co.set.Unhold(now, sv.pool) {
		co.supplied(now, sv)
	}
	co.act(now)
}

// cancelled tells those who wait for the end of a cancel.
func (sv *Server) cancelled() {
	if sv.cancels > 0 {
		return
	}
	for _, f := range sv.onCancel {
		f()
	}
	sv.onCancel = nil
}

// broken gives the server up: its client, if any, is told unless it knows, and
// the connection is closed and counted until it has ended.
func (sv *Server) broken(why Reason, now int64) {
	co := sv.core
	if sv.closing {
		return
	}
	if sv.link.Outstanding() > 0 && why != ServerClosed && sv.link.ReadsOnly() && sv.cancels == 0 {
		sv.cancel(now) // so that it ends soon
	}
	co.counts.Broken++
	sv.closing = true
	sv.asked = false // what becomes of it is not heard
	co.unlook(sv)
	cl := sv.client
	sv.client = nil
	told := true
	if cl != nil || sv.keeper != nil {
		told = sv.link.MidMessage() || sv.link.Told()
	}
	pinned, _ := sv.Pinned()
	if own := sv.keeper; own != nil {
		cl = own // what its session left on the server is lost
		if cl.server != nil && !cl.pending {
			cl.link.Unbind()
		}
		cl.server, cl.pending = nil, false
		cl.unkeep()
	} else if cl != nil {
		untouched := cl.pending || !sv.link.Touched()
		if !cl.pending {
			cl.link.Unbind()
		}
		cl.server, cl.pending = nil, false
		if untouched && !cl.login {
			// Nothing was sent to it: the client asks for another one when its
			// request is read again.
			cl.stops |= stopSettle
			cl.again(now)
			cl.resume(stopSettle | stopFull | stopServer)
			cl = nil
		}
	}
	sv.charge(now)
	t, h := sv.takeTicket(), sv.takeHold()
	co.set.Break(now, sv.pool)
	co.endTicket(t, now)
	co.endHold(h, now)
	if cl == nil {
		return
	}
	if why == ServerClosed {
		why = ServerLost // the same, as the client sees it
	}
	if told {
		co.end(cl, why, true, now)
	} else {
		co.fatal(cl, serverLost(sv.info, pinned), why, now)
	}
}

// shut starts the end of the connection: Terminate if the server would read it,
// then the end of our side. The place is free when its side has ended too.
func (sv *Server) shut(now int64) {
	sv.closing = true
	if sv.dead {
		return
	}
	if sv.link.Outstanding() == 0 {
		sv.conn.Send([][]byte{wire.AppendEmpty(nil, wire.MsgTerminate)})
	}
	sv.conn.ShutdownWrite()
	sv.paused = true
	sv.resume()
}

// Gone tells that the server's connection has ended, by its end of file or a
// reset. The Conn is closed.
func (sv *Server) Gone(now int64) {
	co := sv.core
	if sv.dead {
		return
	}
	sv.dead = true
	if !sv.closing {
		sv.broken(ServerClosed, now)
		co.act(now)
	}
	sv.over(now)
	co.uncap(sv)
	sv.conn.Close()
	sv.link.Free()
	sv.cancels = 0
	sv.cancelled()
	co.set.Gone(now, sv.pool)
	co.supplied(now, sv)
}

// String describes the server for logs and failures.
func (sv *Server) String() string {
	if sv.link == nil {
		return fmt.Sprintf("server %d %s", sv.pool.ID, sv.pool.State())
	}
	return fmt.Sprintf("server %d %s tx=%c outstanding=%d dirty=%v client=%v ticket=%v cancels=%d closing=%v dead=%v paused=%v",
		sv.pool.ID, sv.pool.State(), sv.link.Tx(), sv.link.Outstanding(), sv.link.Dirty(), sv.client != nil, sv.ticket.held, sv.cancels,
		sv.closing, sv.dead, sv.paused)
}
