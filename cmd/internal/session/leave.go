package session

import (
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// idle reports whether nothing is under way for the client.
func (cl *Client) idle() bool {
	return cl.server == nil && !cl.wait.Waiting() && !cl.ended && cl.link.Tx() == wire.Idle
}

// unwelcome reports whether the session is to end as soon as it is idle.
func (cl *Client) unwelcome() bool { return cl.core.draining || cl.departing != nil }

// depart ends a session that is unwelcome with the words for it.
func (cl *Client) depart(now int64) {
	if cl.departing != nil {
		cl.core.fatal(cl, cl.departing, cl.departure, now)
	} else {
		cl.core.endDraining(cl, now)
	}
}

// Hangup tells that the peer has ended its writing side. It may only have said
// all it had to say, and wait for the answer; or it may be gone. What is written
// to a socket that nobody holds comes back as a reset, so something harmless is
// said.
func (cl *Client) Hangup(now int64) {
	if cl.ended || cl.hungUp {
		return
	}
	cl.hungUp = true
	if sv := cl.server; sv != nil && !cl.pending && cl.group.Workload.ServesGone && sv.link.Outstanding() > 0 {
		sv.waste(cl.group, now) // nobody looks whether it is still there
	}
	cl.knock()
}

// knock says something harmless, once, to a client that has ended its writing
// side while it waits for an answer.
func (cl *Client) knock() {
	if cl.knocked || cl.group.Workload.ServesGone {
		return
	}
	busy := cl.wait.Waiting() || cl.HeldBack()
	if sv := cl.server; sv != nil && !cl.pending {
		busy = sv.link.Outstanding() > 0 && !sv.link.MidMessage()
	}
	if !busy || cl.login || cl.conn.Unsent() > 0 {
		return
	}
	cl.knocked = true
	name, _ := cl.link.Params().Get("application_name")
	cl.conn.Send([][]byte{wire.AppendParameterStatus(nil, "application_name", name)})
}

// EOF tells that all the client had to say has been read.
func (cl *Client) EOF(now int64) {
	if cl.ended {
		return
	}
	cl.eof = true
	if cl.wait.Waiting() && cl.group.Workload.ServesGone {
		return
	}
	if cl.server != nil && !cl.pending && !cl.server.link.WaitsForClient() && !cl.link.MidMessage() {
		cl.knock()
		return // it may still wait for the answer
	}
	cl.leave(ClientEOF, now)
	cl.core.act(now)
}

// Lost tells that the client's connection is dead.
func (cl *Client) Lost(now int64) {
	if cl.ended {
		return
	}
	cl.leave(ClientLost, now)
	cl.core.act(now)
}

// Kill ends the session from outside with an error, between or in transactions.
func (cl *Client) Kill(e *wire.Error, reason Reason, now int64) {
	if !cl.ended {
		cl.core.fatal(cl, e, reason, now)
		cl.core.act(now)
	}
}

// CancelRequest cancels what the client is doing now: it leaves the queue, or
// its running statement is cancelled; if it does nothing, so does this. done is
// called once nothing of the cancel can meet a later statement.
func (cl *Client) CancelRequest(now int64, done func()) {
	co := cl.core
	if !cl.ended {
		cl.gaveUp(now)
	}
	switch {
	case cl.ended || cl.login:
		done()
	case cl.unpark():
		cl.wait.Arrive(now) // what comes next is another request
		cl.link.Refuse(userCancel)
		cl.resume(stopParked)
		done()
	case cl.wait.Waiting():
		co.gate.Withdraw(now, &cl.wait)
		cl.unpaid()
		co.timer = true
		cl.link.Refuse(userCancel)
		cl.resume(stopWaiting)
		done()
	case cl.server == nil:
		done()
	case cl.pending:
		sv := cl.server
		cl.unpaid()
		cl.server, cl.pending, sv.client = nil, false, nil
		cl.link.Refuse(userCancel)
		if cl.kept != nil {
			sv.over(now)
			co.endTicket(sv.takeTicket(), now)
		} else {
			sv.done(now)
		}
		done()
	case cl.server.link.Cancellable() && cl.server.cancels == 0:
		cl.server.onCancel = append(cl.server.onCancel, done)
		cl.server.cancel(now)
	case cl.server.link.Outstanding() > 0:
		cl.cancel = true // something of ours is in front, or another one is under way
		cl.server.onCancel = append(cl.server.onCancel, done)
	default:
		done()
	}
	co.act(now)
}

var userCancel = waitingCancel()

func waitingCancel() *wire.Error {
	e := Say("cancelled")
	e.Detail += " stage=waiting"
	return e
}

// leave ends the session on the client's account and brings its server, if it
// has one, back to a boundary.
func (cl *Client) leave(reason Reason, now int64) {
	cl.core.end(cl, reason, false, now)
}

// fatal ends the session with a last word to the client.
func (co *Core) fatal(cl *Client, e *wire.Error, reason Reason, now int64) {
	if cl.ended {
		return
	}
	if !cl.told() {
		cl.conn.Send([][]byte{wire.AppendError(nil, e)})
	}
	var others []*Client // logins that hoped for this one
	if cl.login && (reason == LoginRefused || reason == LoginFailed) && cl.leads() {
		meaning := cl.link.Params().Meaning()
		others = cl.info.joining[meaning][1:]
		delete(cl.info.joining, meaning)
	}
	co.end(cl, reason, true, now)
	for _, o := range others {
		co.fatal(o, e, reason, now)
	}
}

// told reports whether nothing may be added to what the client's server has said: its last
// word, or a part of a message.
func (cl *Client) told() bool {
	sv := cl.kept
	if sv == nil && !cl.pending {
		sv = cl.server
	}
	return sv != nil && (sv.link.MidMessage() || sv.link.Told())
}

// leads reports whether other logins wait for this one, or may.
func (cl *Client) leads() bool {
	list := cl.info.joining[cl.link.Params().Meaning()]
	return len(list) > 0 && list[0] == cl
}

// end ends the session. With finish, what it is owed is still written.
func (co *Core) end(cl *Client, reason Reason, finish bool, now int64) {
	if cl.ended {
		return
	}
	if reason == ClientEOF || reason == ClientLost {
		cl.gaveUp(now)
	}
	cl.ended = true
	co.clients--
	cl.unpark()
	if cl.login {
		defer cl.joined(nil, now)
	}
	if cl.wait.Waiting() {
		co.gate.Withdraw(now, &cl.wait)
		co.timer = true
	}
	cl.group.Clients--
	sv, kept := cl.server, cl.kept
	cl.server = nil
	cl.unkeep()
	if finish || reason == Goodbye || reason == ClientEOF {
		cl.conn.Finish()
	} else {
		cl.conn.Close()
	}
	switch {
	case sv != nil && (reason == Block || reason == OverStatement || reason == OverTransaction || reason == OverIdle):
		sv.client = nil
		sv.broken(reason, now)
	case sv != nil:
		cl.abandon(sv, reason, now)
	case kept != nil && !kept.closing:
		kept.done(now)
	}
	cl.link.Free()
	cl.forgetMeta()
	co.env.Ended(cl, reason)
}

// abandon brings the server of a client that left back to a boundary. The slot
// stays taken until it is there.
func (cl *Client) abandon(sv *Server, reason Reason, now int64) {
	co := cl.core
	sv.client = nil
	if cl.cancel {
		cl.cancel = false
		sv.cancelled()
	}
	if cl.pending {
		cl.pending = false
		sv.done(now)
		return
	}
	if sv.link.Outstanding() > 0 {
		co.counts.Abandoned++
		sv.waste(cl.group, now)
	}
	p := relay.Plan{}
	ev := cl.link.Gone(&p)
	sv.send(p.ToServer)
	sv.resume()
	switch ev {
	case relay.Release:
		sv.done(now)
	case relay.Broken:
		sv.broken(AbandonedServer, now)
	default:
		sv.unwanted = reason != Goodbye && cl.group.Workload.CancelAbandoned
		sv.cancelUnwanted(now)
	}
}
