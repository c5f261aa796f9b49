package session

import (
	"container/heap"
	"math"
	"time"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// A role's timeouts are enforced here, whatever its sessions have set on their servers: a
// function may change statement_timeout unseen. A look at a server is planned for the time at
// which the earliest timeout of what it does could be over, and not moved when that ends
// before: a statement costs a comparison, and a server one look in a timeout's time.

// Timeout is one of the limits on how long the work of a role may take.
type Timeout uint8

// The timeouts.
const (
	StatementTimeout   Timeout = iota // a statement, or a Query of several
	TransactionTimeout                // from the first statement that needs a server to the end
	IdleTimeoutInTx                   // a server that waits for its client
	LockTimeout                       // a statement that waits for a lock
	Timeouts                   = iota // how many there are

	noTimeout Timeout = Timeouts
)

// timeoutNames are their reasons in the contract, which is how Postgres calls them.
var timeoutNames = [...]string{
	"statement_timeout", "transaction_timeout", "idle_in_transaction_session_timeout", "lock_timeout",
}

// String returns the name of the timeout in Postgres.
func (t Timeout) String() string { return timeoutNames[t] }

const (
	// capAgain is when work is stopped again that has not ended, each time a quarter later, up to
	// capAgainMost.
	capAgain     = 20e6
	capAgainMost = 2e9
	// stubborn is for how long, in ns, a client may keep its server from being stopped: by not
	// taking what it is sent, or not ending what it sends.
	stubborn = 5e9
	// A statement that runs for longer than its lock_timeout is looked at for locks after each
	// half of it, within these bounds, in ns: it costs a login.
	locksAgain     = 500e6
	locksAgainMost = 5e9
)

// cap is what is known of the work of a server that is for a role with a ceiling.
type cap struct {
	role *roleState // nil = there is no ceiling
	// In the core's caps, from 1; 0 = it is not looked at. It may be for an earlier client.
	place int32
	at    int64

	began int64 // of the transaction
	since int64 // of what runs, or of the wait for the client
	rests bool  // it waits for the client
	steps uint32
	turns uint32

	over     Timeout // what is being stopped; noTimeout = nothing
	stopped  bool    // something was done about it
	overAt   int64
	patience int64

	locksDue int64 // when it is to be asked for locks again; 0 = it was not asked for this statement
	waits    int64 // since when it was seen to wait for a lock, where Postgres does not tell
}

// caps are servers to be looked at, the earliest first.
type caps []*Server

// Len is for the heap.
func (l caps) Len() int { return len(l) }

// Less is for the heap.
func (l caps) Less(i, j int) bool { return l[i].cap.at < l[j].cap.at }

// Swap is for the heap.
func (l caps) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].cap.place, l[j].cap.place = int32(i)+1, int32(j)+1
}

// Push is for the heap.
func (l *caps) Push(x any) {
	sv := x.(*Server)
	*l = append(*l, sv)
	sv.cap.place = int32(len(*l))
}

// Pop is for the heap.
func (l *caps) Pop() any {
	n := len(*l) - 1
	sv := (*l)[n]
	(*l)[n] = nil
	*l = (*l)[:n]
	sv.cap.place = 0
	return sv
}

// planCap has the server looked at no later than at.
func (co *Core) planCap(sv *Server, at int64) {
	c := &sv.cap
	switch {
	case c.place == 0:
		c.at = at
		heap.Push(&co.caps, sv)
	case at < c.at:
		c.at = at
		heap.Fix(&co.caps, int(c.place-1))
	default:
		return
	}
	if at < co.nextCap {
		co.timer = true
	}
}

// uncap forgets a server whose connection has ended.
func (co *Core) uncap(sv *Server) {
	sv.cap.role = nil
	if sv.cap.place > 0 {
		heap.Remove(&co.caps, int(sv.cap.place-1))
	}
}

// fireCaps looks at the servers that are due, and returns when the next one is.
func (co *Core) fireCaps(now int64) (next int64) {
	for len(co.caps) > 0 && co.caps[0].cap.at <= now {
		heap.Pop(&co.caps).(*Server).lookCap(now)
	}
	co.nextCap = math.MaxInt64
	if len(co.caps) > 0 {
		co.nextCap = co.caps[0].cap.at
	}
	return co.nextCap
}

// capFor begins to watch what the server does for a client that has just got it.
func (sv *Server) capFor(cl *Client, now int64) {
	c := &sv.cap
	c.role = nil
	if r := cl.group.role; r.limits.Ceiling && !cl.group.Workload.Uncapped && !cl.login {
		c.role = r
		c.began, c.since, c.rests = now, now, false
		c.steps, c.turns = sv.link.Steps(), sv.link.Turns()
		c.settle()
		c.locksDue, c.waits = 0, 0
	}
	cl.link.SetPaced(c.role != nil)
}

// settle notes that nothing is to be stopped.
func (c *cap) settle() { c.over, c.stopped, c.patience = noTimeout, false, 0 }

// capAsked notes that the server, which owed nothing, has been asked for something.
func (sv *Server) capAsked(now int64) {
	c := &sv.cap
	c.since, c.rests, c.locksDue, c.waits = now, false, 0, 0
	c.settle()
	sv.capLater()
}

// capAnswered notes how far the server has come.
func (sv *Server) capAnswered(now int64) {
	c := &sv.cap
	rests := sv.link.Outstanding() == 0
	if s := sv.link.Steps(); s != c.steps || rests && !c.rests {
		c.steps, c.since, c.locksDue, c.waits = s, now, 0, 0
		c.settle()
	}
	c.rests = rests
	if t := sv.link.Turns(); t != c.turns {
		c.turns, c.began = t, now
	}
	sv.capLater()
}

// capLater plans the look at which the next timeout is over.
func (sv *Server) capLater() {
	if _, due := sv.nextTimeout(); due != math.MaxInt64 {
		sv.core.planCap(sv, due)
	}
}

// nextTimeout is the timeout that is over first if nothing changes, and when it is enforced.
func (sv *Server) nextTimeout() (t Timeout, due int64) {
	c := &sv.cap
	l := &c.role.limits
	t, due = noTimeout, math.MaxInt64
	first := func(o Timeout, from int64) {
		if d := l.Timeouts[o]; d > 0 && from+d+l.Slack < due {
			t, due = o, from+d+l.Slack
		}
	}
	first(TransactionTimeout, c.began)
	switch {
	case c.rests:
		first(IdleTimeoutInTx, c.since)
		return t, due
	case c.locksDue == 0:
		first(LockTimeout, c.since)
	case c.locksDue < due:
		t, due = LockTimeout, c.locksDue
	}
	first(StatementTimeout, c.since)
	return t, due
}

// locksPause is for how long, in ns, a statement that does not wait for a lock is left alone.
func (r *Role) locksPause() int64 {
	return min(max(r.Timeouts[LockTimeout]/2, locksAgain), locksAgainMost)
}

// lookCap does what is due for the server's work, and plans the next look.
func (sv *Server) lookCap(now int64) {
	c, cl := &sv.cap, sv.client
	if c.role == nil || cl == nil || sv.closing || !c.role.limits.Ceiling {
		return
	}
	t, due := sv.nextTimeout()
	switch {
	case c.over != noTimeout && (t != TransactionTimeout || due > now):
		sv.stopStatement(cl, c.over, now)
	case due > now:
		sv.capLater()
	case cl.pending: // it is about to be sent
		sv.capRetry(now)
	case t == StatementTimeout:
		sv.stopStatement(cl, t, now)
	case t == LockTimeout:
		c.locksDue = now + c.role.limits.locksPause()
		sv.core.env.AskLocks(sv)
		sv.capLater()
	case t == TransactionTimeout && !c.rests && !sv.link.CopyingIn() && sv.cancels == 0 && !sv.mayStop():
		sv.capRetry(now) // it ends, or must not be stopped
	default:
		sv.expel(cl, t, now)
	}
}

// capRetry looks at the server again soon.
func (sv *Server) capRetry(now int64) {
	c := &sv.cap
	c.patience = min(max(c.patience+c.patience/4, capAgain), capAgainMost)
	sv.core.planCap(sv, now+c.patience)
}

// mayStop reports whether a cancel may be sent for what the server runs.
func (sv *Server) mayStop() bool {
	switch sv.link.MayStop() {
	case relay.Always:
		return true
	case relay.IfAlone:
		return sv.core.env.CommitsAlone(sv)
	}
	return false
}

// stopStatement ends what the server runs; its client is told by an error. Until the cancel is
// over the client is not read: it would meet what is sent next.
func (sv *Server) stopStatement(cl *Client, t Timeout, now int64) {
	c := &sv.cap
	if c.over == noTimeout {
		c.over, c.overAt = t, now
	}
	p := relay.Plan{}
	switch {
	case c.stopped && now-c.overAt >= stubborn && (cl.conn.Unsent() > 0 || cl.link.MidMessage()):
		sv.expel(cl, t, now)
		return
	case sv.cancels > 0: // its end looks again, and so does the next look
	case sv.link.FailCopy(Meddler+sv.capError(t).Message, &p):
		sv.stopsAt(cl, t, now)
		sv.send(p.ToServer)
	case sv.mayStop():
		sv.stopsAt(cl, t, now)
		cl.pause(stopCancel)
		sv.cancel(now)
	}
	sv.capRetry(now)
}

// stopsAt notes that the server's statement is made to fail, for the first time or again.
func (sv *Server) stopsAt(cl *Client, t Timeout, now int64) {
	c := &sv.cap
	sv.link.Excuse(sv.capError(t))
	if !c.stopped {
		c.stopped = true
		sv.countStop(cl, t, now)
	}
}

// countStop counts work that is stopped.
func (sv *Server) countStop(cl *Client, t Timeout, now int64) {
	c := &sv.cap
	c.role.stopped[t]++
	from := c.since
	if t == TransactionTimeout {
		from = c.began
	}
	sv.core.env.Stopped(cl, t, time.Duration(now-from))
}

// expel ends the session that has the server, as Postgres does, and closes the server: what
// it has in its transaction goes with it.
func (sv *Server) expel(cl *Client, t Timeout, now int64) {
	c := &sv.cap
	if !c.stopped {
		sv.countStop(cl, t, now)
	}
	e := sv.capError(t)
	e.Severity = wire.SeverityFatal
	if sv.link.Outstanding() > 0 && !sv.link.CopyingIn() && sv.cancels == 0 && sv.mayStop() {
		sv.cancel(now) // so that its end does not wait for that of the statement
	}
	c.role = nil
	sv.core.fatal(cl, e, endOf[t], now)
}

// endOf is why a session has ended by a timeout.
var endOf = [Timeouts]Reason{StatementTimeout: OverStatement, TransactionTimeout: OverTransaction, IdleTimeoutInTx: OverIdle, LockTimeout: OverStatement}

// capError is what a client is told whose work took too long: Postgres's own words.
func (sv *Server) capError(t Timeout) *wire.Error {
	e := Say(t.String())
	ms := sv.cap.role.limits.Timeouts[t] / int64(time.Millisecond)
	e.Detail = string(appendInt(append([]byte(e.Detail), " limit_ms="...), ms))
	return e
}

// LockWaits tells what AskLocks has asked for: of each server that waits for a lock since when,
// in the loop's ns, or 0 if only that is known. It was true at the time at.
func (co *Core) LockWaits(now, at int64, waits map[*Server]int64) {
	for _, p := range co.set.Servers(nil) {
		sv, ok := p.Payload.(*Server)
		if !ok || sv.cap.role == nil || sv.client == nil || sv.client.pending || sv.closing {
			continue
		}
		since, found := waits[sv]
		sv.lockWait(since, found, at, now)
	}
	co.timer = true
	co.act(now)
}

// lockWait looks at what the server has waited for.
func (sv *Server) lockWait(since int64, waits bool, at, now int64) {
	c := &sv.cap
	limit := c.role.limits.Timeouts[LockTimeout]
	switch {
	case limit == 0 || c.rests || c.locksDue == 0 || c.over != noTimeout || c.since > at:
		return // it has been answered since
	case !waits:
		c.waits = 0
		return
	case since == 0 && c.waits == 0:
		c.waits = at
		since = at
	case since == 0:
		since = c.waits
	}
	if left := max(since, c.since) + limit - now; left > 0 {
		c.locksDue = now + left // when it may be over
		sv.core.planCap(sv, c.locksDue)
		return
	}
	sv.stopStatement(sv.client, LockTimeout, now)
}

// Limited reports whether the server works for a role with a lock_timeout as a ceiling.
func (sv *Server) Limited() bool {
	c := &sv.cap
	return c.role != nil && sv.client != nil && !sv.closing && c.role.limits.Timeouts[LockTimeout] > 0
}
