package session

import (
	"container/heap"
	"math"
	"time"

	"github.com/pgweir/pgweir/wire/relay"
)

// Work is stopped when nobody waits for it any more: its client has left, or its deadline
// has passed. Postgres is asked to stop it by a CancelRequest, and asked again until it has
// ended; the slot stays taken until it stands at a boundary. What it does meanwhile is
// counted as wasted.

// looks are the servers to be looked at for that, the earliest first.
type looks []*Server

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (l looks) Len() int           { return len(l) }
func (l looks) Less(i, j int) bool { return l[i].lookAt < l[j].lookAt }

// Swap keeps the servers' places.
func (l looks) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = int32(i)+1, int32(j)+1
}

// Push adds a server at the end.
func (l *looks) Push(x any) {
	sv := x.(*Server)
	*l = append(*l, sv)
	sv.place = int32(len(*l))
}

// Pop takes the last one out.
func (l *looks) Pop() any {
	n := len(*l) - 1
	sv := (*l)[n]
	(*l)[n] = nil
	*l = (*l)[:n]
	sv.place = 0
	return sv
}

// lookAt plans a look at the server, which is planned at most once.
func (co *Core) lookAt(sv *Server, at int64) {
	sv.watched = true
	sv.lookAt = at
	if sv.place == 0 {
		heap.Push(&co.looks, sv)
	} else {
		heap.Fix(&co.looks, int(sv.place-1))
	}
	if at < co.nextLook {
		co.timer = true
	}
}

// unlook plans none.
func (co *Core) unlook(sv *Server) {
	if sv.place > 0 {
		heap.Remove(&co.looks, int(sv.place-1))
	}
}

// fireLooks looks at the servers that are due, and returns when the next one is.
func (co *Core) fireLooks(now int64) (next int64) {
	for len(co.looks) > 0 && co.looks[0].lookAt <= now {
		heap.Pop(&co.looks).(*Server).look(now)
	}
	co.nextLook = math.MaxInt64
	if len(co.looks) > 0 {
		co.nextLook = co.looks[0].lookAt
	}
	return co.nextLook
}

// How soon work is cancelled again, in ns. A CancelRequest that reaches the backend before
// the statement does is lost.
const (
	cancelAgain     = 50e6
	cancelAgainMost = 2e9
)

// LookAgain stops at once what is past its deadline and waited for an answer of
// Env.CommitsAlone.
func (co *Core) LookAgain(now int64) {
	for _, p := range co.set.Servers(nil) {
		sv, ok := p.Payload.(*Server)
		switch {
		case !ok || sv.cancels > 0:
		case sv.deadline != 0 && sv.deadline <= now:
			co.unlook(sv)
			sv.look(now)
		case sv.cap.role != nil && sv.cap.patience > 0: // so has a timeout
			sv.lookCap(now)
		}
	}
	co.timer = true
	co.act(now)
}

// lookLater plans the next look at work that is to be stopped.
func (co *Core) lookLater(sv *Server, now int64) {
	sv.patience = min(max(2*sv.patience, cancelAgain), cancelAgainMost)
	co.lookAt(sv, now+sv.patience)
}

// limit notes until when the client that has got the server waits for the answer to its
// first request, if that is a transaction of its own: a deadline is for a statement.
func (sv *Server) limit(cl *Client) {
	if d := cl.wait.Deadline; d != 0 && !cl.wait.Begun && !cl.login {
		sv.deadline = d
		sv.core.lookAt(sv, d)
	}
}

// look stops what nobody waits for, as far as that can be done now, and comes back.
func (sv *Server) look(now int64) {
	cl := sv.client
	switch {
	case sv.closing:
	case cl == nil:
		sv.cancelUnwanted(now)
	case sv.deadline == 0:
	case cl.pending: // it is about to be sent
		sv.core.lookLater(sv, now)
	case sv.link.Outstanding() > 0:
		sv.waste(cl.group, max(sv.deadline, sv.ticket.since))
		sv.stop(cl, now)
	default:
		sv.core.lookLater(sv, now) // the batch is not over
	}
}

// Meddler is the beginning of why a COPY FROM STDIN is made to fail, on pgweir's account.
const Meddler = "pgweir: "

// pastDeadline is why one is.
const pastDeadline = Meddler + "its deadline has passed"

// stop ends the request of a client that is there and has stopped waiting for it. Until the
// cancel is over the client is not read: it would meet what is sent next.
func (sv *Server) stop(cl *Client, now int64) {
	p := relay.Plan{}
	switch {
	case sv.cancels > 0:
		return // its end plans the next look
	case !sv.link.Answered() && sv.link.FailCopy(pastDeadline, &p):
		sv.send(p.ToServer)
	case sv.link.Stoppable() && (sv.link.ReadsOnly() || sv.core.env.CommitsAlone(sv)):
		cl.pause(stopCancel)
		sv.cancel(now)
		return
	}
	sv.core.lookLater(sv, now)
}

// cancelUnwanted cancels what runs for a client that has left, if it only reads,
// and comes back until it has ended.
func (sv *Server) cancelUnwanted(now int64) {
	if !sv.unwanted || sv.closing || sv.client != nil || sv.link.Outstanding() == 0 || !sv.link.ReadsOnly() {
		sv.unwanted = false
		return
	}
	sv.cancel(now)
}

// waste notes that what the server does, it does for nobody: since when, and whose it was.
func (sv *Server) waste(g *Group, since int64) {
	if sv.wasted == 0 {
		sv.watched = true
		sv.wasted, sv.wastedFor = since, g
	}
}

// over accounts for what was watched of a request that has ended: the server stands at a
// boundary, or its connection has ended.
func (sv *Server) over(now int64) {
	if !sv.watched {
		return
	}
	co := sv.core
	sv.watched, sv.unwanted = false, false
	sv.deadline, sv.patience = 0, 0
	co.unlook(sv)
	if sv.asked {
		sv.asked = false
		if sv.link.Stopped() {
			co.counts.CancelsEffective++
		} else {
			co.counts.CancelsLate++
		}
	}
	if sv.wasted != 0 {
		d := time.Duration(now - sv.wasted)
		co.counts.Wasted++
		co.counts.WastedTime += d
		t := &sv.wastedFor.Traffic
		t.Wasted++
		t.WastedTime += d
		sv.wasted, sv.wastedFor = 0, nil
	}
}
