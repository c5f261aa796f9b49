package session

import (
	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// A client that leaves something of its session on its server keeps it between transactions,
// in transaction and statement mode too: it is pinned, until it has taken away what it left. It
// asks for a slot for each of its transactions, as in session mode. How many may be pinned is
// bounded, and the bound is asked before the statement is sent.

// Pin implements relay.Pinner.
func (sv *Server) Pin(p relay.Pins) *wire.Error {
	cl, co := sv.client, sv.core
	if sv.hold.held || cl == nil {
		return nil
	}
	if !co.gate.Pin(co.now, cl.wait.Workload) {
		return cl.refusePin(p, co.now)
	}
	sv.hold = hold{held: true, pinned: true, workload: cl.wait.Workload}
	return nil
}

// refusePin accounts for a statement that is not sent because it would pin, and returns what
// the client is told.
func (cl *Client) refusePin(p relay.Pins, now int64) *wire.Error {
	co := cl.core
	co.counts.Refused++
	cl.group.Traffic.Refused++
	v := co.gate.Refuse(now, &cl.wait, admission.Pins)
	v.Waited = 0 // it has its slot, or has not asked for one
	e := cl.refusal(&v)
	st := co.gate.Workload(int(cl.wait.Workload))
	b := append([]byte(e.Detail), " pinned="...)
	b = appendInt(b, int64(st.Pinned))
	b = appendInt(append(b, " max_pinned="...), int64(st.MaxPinned))
	e.Detail = string(append(append(b, " state="...), p.String()...))
	co.env.Refused(cl, v, e, false)
	return e
}

// tooPinned reports whether the request that the client is about to ask a server for would only
// be refused there, and refuses it.
func (cl *Client) tooPinned(now int64) bool {
	if cl.login || cl.kept != nil || cl.core.gate.MayPin(cl.wait.Workload) {
		return false
	}
	p := cl.link.WouldPin()
	if p == 0 {
		return false
	}
	cl.wait.Arrive(now)
	cl.link.Refuse(cl.refusePin(p, now))
	return true
}

// stays reports whether the server, which stands at a boundary, stays with the client that it
// has served.
func (sv *Server) stays(cl *Client, now int64) bool {
	switch {
	case sv.keeper == nil:
		return sv.pin(cl, now)
	case cl.link.Mode() == relay.Session || cl.link.Pinned() != 0:
		return true
	}
	cl.unkeep()
	return false
}

// pin keeps the server for the client if that has left something on it. Where a text has failed
// before it took away what it left, that was not foreseen, and there may be no room. What was
// left is lost then, so the session must not go on.
func (sv *Server) pin(cl *Client, now int64) bool {
	p := cl.link.Pinned()
	if p == 0 {
		return false
	}
	if !sv.hold.held {
		if co := sv.core; !co.gate.Pin(now, cl.wait.Workload) {
			last := *cl.refusePin(p, now)
			last.Severity = wire.SeverityFatal
			cl.departing, cl.departure = &last, TurnedAway
			cl.link.Unpin()
			return false
		}
		sv.hold = hold{held: true, pinned: true, workload: cl.wait.Workload}
	}
	cl.kept, sv.keeper = sv, cl
	sv.pinnedAt = now
	cl.link.Keep(sv.link)
	return true
}

// Pinned returns what a server that is pinned to its client is kept for, and since when, in
// the loop's ns; 0 for any other.
func (sv *Server) Pinned() (p relay.Pins, since int64) {
	if sv.keeper == nil || !sv.hold.pinned {
		return 0, 0
	}
	return sv.keeper.link.Pinned(), sv.pinnedAt
}
