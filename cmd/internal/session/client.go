package session

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// stop is a set of reasons for which a client is not read.
type stop uint8

const (
	stopWaiting stop = 1 << iota // in the queue, or logging in
	stopSettle                   // what went ahead must be answered first
	stopFull                     // it is owed too many answers
	stopServer                   // its server does not take what it sends
	stopSelf                     // it does not take what pgweir answers
	stopParked                   // its refusal is held back
	stopFault                    // it broke the protocol, and is told so after its answers
	stopCancel                   // a cancel is under way that it has not asked for
)

// Client is one session. Owned by the loop thread.
type Client struct {
	core  *Core
	conn  Conn
	info  *KeyInfo
	group *Group
	link  relay.Client
	wait  admission.Waiter
	meter *meter // nil until it has asked for something while there are rates
	since int64  // when it was let in
	seen  int64  // when it last said something

	grouped    *relay.Params // the settings by which it was grouped
	generation uint32        // and the configuration's

	kept    *Server // its server, also between transactions: in session mode, or pinned
	server  *Server // granted or bound
	pending bool    // the server was granted and is not bound yet
	login   bool    // the welcome has not been sent
	// replaced is how many servers in a row have ended before it sent anything to them.
	replaced uint8

	stops   stop
	bye     bool // Terminate was read
	eof     bool // nothing more will come
	knocked bool // it was told something to see whether it is there
	hungUp  bool // the peer has ended its writing side
	cancel  bool // a cancel waits until it can only meet the client's own work
	ended   bool
	// departing are the last words of a session that is to end at its next boundary.
	departing *wire.Error
	departure Reason
	key       wire.CancelKey
	meta      *metadata // nil before its first request
	// Tag is whatever the Env attaches.
	Tag any
	// Address is the peer's, for rates; the zero one for a Unix socket.
	Address netip.Addr
}

// NewClient returns a session that has authenticated. Start begins it.
func (co *Core) NewClient(conn Conn, g *Group, want *relay.Params, key wire.CancelKey) *Client {
	cl := &Client{core: co, conn: conn, info: g.Key, key: key, login: true}
	cl.link = *relay.NewClient(co.shared, g.Key.group, want)
	cl.wait.Key, cl.wait.Owner = g.Key.Key, cl
	cl.grouped, cl.generation = want, co.generation
	cl.join(g)
	return cl
}

// Declare sets pgweir's own parameters as the startup packet has them. Call it before Start.
func (cl *Client) Declare(o relay.Own) { cl.link.SetOwn(o) }

// Key returns the session's cancel key.
func (cl *Client) Key() wire.CancelKey { return cl.key }

// Info returns the database and role of the session's servers.
func (cl *Client) Info() *KeyInfo { return cl.info }

// Group returns the group that the session is in.
func (cl *Client) Group() *Group { return cl.group }

// Start sends the welcome: at once if it is known what Postgres would report
// for these settings, else after a server has taken them.
func (cl *Client) Start(now int64) {
	co := cl.core
	co.clients++
	if !co.opened {
		co.opened = true
		co.gate.TakeOver(now)
	}
	cl.since, cl.seen = now, now
	if co.draining {
		co.endDraining(cl, now)
		return
	}
	if cl.link.Mode() == relay.Session {
		cl.pause(stopWaiting)
		cl.admit(now)
		co.act(now)
		return
	}
	if known := cl.info.welcomes[cl.link.Params().Meaning()]; known != nil && cl.plainName() {
		cl.welcome(known, now)
		return
	}
	cl.pause(stopWaiting)
	if cl.plainName() {
		meaning := cl.link.Params().Meaning()
		others, under := cl.info.joining[meaning]
		cl.info.joining[meaning] = append(others, cl)
		if under {
			return // what the first one learns is good for all
		}
	}
	cl.admit(now)
	co.act(now)
}

// joined ends the wait of logins with settings of the same meaning as cl's: they
// are welcome if cl was, else the next of them tries.
func (cl *Client) joined(g *greeting, now int64) {
	meaning := cl.link.Params().Meaning()
	others := cl.info.joining[meaning]
	i := slices.Index(others, cl)
	if i < 0 {
		return
	}
	others = slices.Delete(others, i, i+1)
	if g == nil && len(others) > 0 {
		cl.info.joining[meaning] = others
		if i == 0 {
			others[0].admit(now)
		}
		return
	}
	delete(cl.info.joining, meaning)
	for _, o := range others {
		o.welcome(g, now)
	}
}

// plainName reports whether application_name is one that Postgres reports as it
// is.
func (cl *Client) plainName() bool {
	v, _ := cl.link.Params().Get("application_name")
	if len(v) > 63 {
		return false
	}
	for i := range len(v) {
		if v[i] < 32 || v[i] > 126 {
			return false
		}
	}
	return true
}

// appendWelcome appends what follows AuthenticationOk.
func appendWelcome(dst []byte, status []relay.Param, want *relay.Params, key wire.CancelKey) []byte {
	for _, s := range status {
		if s.Name == "application_name" {
			s.Value, _ = want.Get("application_name")
		}
		dst = wire.AppendParameterStatus(dst, s.Name, s.Value)
	}
	dst = wire.AppendBackendKeyData(dst, key.PID, key.Secret())
	return wire.AppendReadyForQuery(dst, wire.Idle)
}

// Data takes bytes from the client and returns how many were used.
func (cl *Client) Data(b []byte, now int64) (used int) {
	co := cl.core
	if cl.ended {
		return len(b)
	}
	if cl.login || cl.stops&(stopWaiting|stopSettle|stopParked|stopCancel) != 0 {
		return 0
	}
	p := &co.plan
	p.Reset()
	cl.seen, co.now = now, now
	if cl.pending {
		cl.bind(now)
	}
	cl.regroup(now) // also a BEGIN, which needs no server, is for the mode that is in force
	for {
		n, ev := cl.link.Input(b[used:], p)
		used += n
		switch ev {
		case relay.Acquire:
			if cl.admit(now) {
				continue
			}
		case relay.Terminate:
			cl.bye = true
			cl.flush(now)
			cl.leave(Goodbye, now)
			co.act(now)
			return len(b)
		case relay.Violation:
			if cl.server != nil && cl.server.link.Flush(p) {
				cl.pause(stopFault)
				break
			}
			cl.flush(now)
			co.fatal(cl, cl.link.Fault(), Protocol, now)
			co.act(now)
			return len(b)
		}
		break
	}
	if used < len(b) { // else there is nothing that would have to wait
		if cl.link.Settling() {
			cl.pause(stopSettle)
		}
		if cl.link.Full() {
			cl.pause(stopFull)
		}
	}
	cl.link.Pace(p)
	cl.group.Traffic.Received += uint64(used)
	cl.flush(now)
	if cl.hungUp && !cl.ended {
		cl.knock()
	}
	if cl.unwelcome() && cl.idle() { // it has left a transaction that never needed a server
		cl.depart(now)
	}
	co.act(now)
	return used
}

// admit asks the gate. It reports whether the link can go on at once: with a
// server, or with a refusal. In session mode a client asks twice: for a server to
// keep, and then for a slot for each of its transactions.
func (cl *Client) admit(now int64) bool {
	co := cl.core
	cl.regroup(now)
	r := cl.link.Request()
	cl.wait.Begun = cl.link.Tx() != wire.Idle
	cl.wait.Want = admission.Transaction
	if cl.kept != nil {
		cl.wait.Want = admission.Slot
	} else if cl.link.Mode() == relay.Session {
		cl.wait.Want = admission.Session
	}
	cl.wait.Probe = r.Kind == sqltext.Probe && !cl.login && cl.link.Tx() == wire.Idle && cl.wait.Want != admission.Session
	cl.describe(now, &r)
	if cl.tooPinned(now) {
		return true
	}
	if cl.tooOften() {
		cl.wait.Arrive(now)
		cl.refused(co.gate.Refuse(now, &cl.wait, admission.Attempts), now)
		return !cl.ended
	}
	if co.rates != nil && !cl.login && cl.wait.Want != admission.Session {
		if ok, answered := cl.within(now); !ok {
			return answered
		}
	}
	v := co.gate.Admit(now, &cl.wait)
	co.deliver(now, co.gate.Displaced(co.verdicts))
	switch v.Outcome {
	case admission.Granted:
		return cl.take(v, now)
	case admission.Refused:
		cl.refused(v, now)
		return !cl.ended
	}
	co.timer = true
	cl.pause(stopWaiting)
	return false
}

// take uses what was granted while the client is read. It reports whether the link can go
// on at once.
func (cl *Client) take(v admission.Verdict, now int64) bool {
	cl.accept(v, now)
	switch {
	case cl.login:
		cl.begin(now)
		return false
	case cl.server == nil: // it keeps one now, and needs a slot
		return cl.admit(now)
	}
	cl.bind(now)
	return !cl.link.Settling()
}

// granted takes what the gate has given to a waiting client.
func (cl *Client) granted(v admission.Verdict, now int64) {
	cl.accept(v, now)
	if cl.login {
		cl.begin(now)
	} else {
		cl.resume(stopWaiting)
	}
}

// accept makes what was granted the client's: a server to keep, or one, with a slot, for its
// next transaction.
func (cl *Client) accept(v admission.Verdict, now int64) {
	if cl.wait.Want == admission.Session {
		cl.keep(v)
	} else {
		cl.use(v, now)
	}
}

// use makes the granted server, or the one that the client keeps, serve its next
// transaction.
func (cl *Client) use(v admission.Verdict, now int64) {
	sv := cl.kept
	if sv == nil {
		sv = cl.core.set.Server(v.Grant).Payload.(*Server)
	}
	t := &cl.group.Traffic
	t.Assignments++
	t.WaitTime += time.Duration(v.Waited)
	if cl.meta.learnt {
		cl.wait.Deadline = 0 // what runs is not stopped by a guess
	}
	sv.grant(cl, v.Ticket, now)
}

// keep makes the granted server the session's own.
func (cl *Client) keep(v admission.Verdict) {
	sv := cl.core.set.Server(v.Grant).Payload.(*Server)
	cl.group.Traffic.WaitTime += time.Duration(v.Waited)
	cl.kept, sv.keeper = sv, cl
	sv.hold = hold{held: true, workload: cl.wait.Workload}
	cl.link.Keep(sv.link)
}

// unkeep takes the server that a session has kept from it. The server is dirty: give it
// back by done, or break it.
func (cl *Client) unkeep() {
	if cl.kept != nil {
		cl.link.Keep(nil)
		cl.kept.keeper, cl.kept = nil, nil
	}
}

// bind joins the client and the granted server; the plan gets what goes ahead.
func (cl *Client) bind(now int64) {
	cl.pending = false
	cl.server.ticket.payer = cl.meter
	cl.link.Bind(cl.server.link, &cl.core.plan)
}

// begin has a login's settings accepted by the server that it has got, to keep or for this.
func (cl *Client) begin(now int64) {
	sv := cl.Server()
	cl.pending = false
	cl.server, sv.client = sv, cl
	p := relay.Plan{} // the core's may be in use: a grant comes in the middle of other work
	cl.link.Start(sv.link, &p)
	sv.send(p.ToServer)
	if !cl.link.Settling() {
		cl.begun(now)
	}
}

// begun takes back a login's server after its settings were accepted or
// refused.
func (cl *Client) begun(now int64) {
	co, sv := cl.core, cl.server
	g, failure := &greeting{sv.link.Status(), sv.link.Facts()}, sv.link.Failure()
	cl.link.Unbind()
	cl.server = nil
	sv.client = nil
	if cl.kept == nil {
		sv.done(now)
	}
	if failure != nil {
		e := *failure
		e.Severity = "FATAL"
		co.fatal(cl, &e, LoginFailed, now)
		return
	}
	if cl.plainName() && cl.kept == nil {
		if len(cl.info.welcomes) >= maxWelcomes {
			clear(cl.info.welcomes)
		}
		cl.info.welcomes[cl.link.Params().Meaning()] = g
	}
	cl.welcome(g, now)
	if cl.kept == nil {
		cl.joined(g, now)
	}
}

// welcome ends the login. It writes by itself, not by the core's plan: it may
// come in the middle of other work.
func (cl *Client) welcome(g *greeting, now int64) {
	if cl.ended {
		return
	}
	if cl.unwelcome() {
		cl.depart(now)
		return
	}
	want := cl.link.Params()
	if !cl.plainName() { // as the server reported it
		for _, s := range g.status {
			if s.Name == "application_name" {
				want = relay.NewParams([]relay.Param{s})
			}
		}
	}
	cl.login = false
	cl.link.Told(g.facts)
	cl.group.Traffic.Logins++
	if cl.conn.Send([][]byte{appendWelcome(nil, g.status, want, cl.key)}) > 0 {
		cl.pause(stopSelf)
	}
	cl.resume(stopWaiting)
}

// refused tells the client that its request was not let in.
func (cl *Client) refused(v admission.Verdict, now int64) {
	co := cl.core
	co.counts.Refused++
	cl.wasRefused()
	cl.group.Traffic.Refused++
	cl.group.Traffic.WaitTime += time.Duration(v.Waited)
	if co.draining {
		co.endDraining(cl, now)
		return
	}
	cl.unpaid()
	e, reason := cl.refusal(&v), TurnedAway
	if v.Reason == admission.NoServer && cl.info.LogInAgain {
		e = Say("password_changed")
	}
	if cl.login {
		reason = LoginRefused
		if v.Reason == admission.NoServer && cl.info.failure != nil {
			failed := *cl.info.failure
			failed.Severity = wire.SeverityFatal
			e, reason = &failed, LoginFailed
		}
	}
	if co.imitates && contract[v.Reason].Queued && reason != LoginFailed {
		e = asPgBouncer
	}
	co.env.Refused(cl, v, e, cl.login)
	if e.Severity == wire.SeverityFatal {
		co.fatal(cl, e, reason, now)
		return
	}
	cl.link.Refuse(e)
	cl.resume(stopWaiting)
}

// pause stops the reading of the client for a reason.
func (cl *Client) pause(s stop) {
	if cl.stops == 0 {
		cl.conn.Pause()
	}
	cl.stops |= s
}

// resume takes a reason away and reads on when none is left.
func (cl *Client) resume(s stop) {
	if cl.stops&s == 0 {
		return
	}
	if cl.stops &^= s; cl.stops == 0 && !cl.ended {
		cl.conn.Resume()
	}
}

// flush sends what the plan holds to both sides. Bytes that one side does not
// take stop the reading of the other.
func (cl *Client) flush(now int64) {
	p := &cl.core.plan
	if len(p.ToServer) > 0 && cl.server != nil {
		cl.server.askedFor(now)
		cl.group.Traffic.ToServers += length(p.ToServer)
		if cl.server.send(p.ToServer) {
			cl.pause(stopServer)
		}
	}
	if len(p.ToClient) > 0 && !cl.ended {
		cl.group.Traffic.Sent += length(p.ToClient)
		if cl.conn.Send(p.ToClient) > 0 {
			cl.blocked()
		}
	}
	p.Reset()
}

// length is how many bytes there are in spans.
func length(spans [][]byte) (n uint64) {
	for _, s := range spans {
		n += uint64(len(s))
	}
	return n
}

// blocked stops what makes bytes for a client that does not take them.
func (cl *Client) blocked() {
	if cl.server != nil && !cl.pending {
		cl.server.pause()
	} else {
		cl.pause(stopSelf)
	}
}

// Drained tells that the client has taken all that was kept for it.
func (cl *Client) Drained(now int64) {
	cl.resume(stopSelf)
	if cl.server != nil {
		cl.server.resume()
	} else if cl.kept != nil {
		cl.kept.resume()
	}
}

// Core returns the core that runs the session.
func (cl *Client) Core() *Core { return cl.core }

// String describes the session for logs and failures.
func (cl *Client) String() string {
	return fmt.Sprintf("%s@%s server=%v pending=%v waiting=%v login=%v stops=%b tx=%c eof=%v ended=%v",
		cl.info.Role, cl.info.Database, cl.server != nil, cl.pending, cl.wait.Waiting(), cl.login, cl.stops, cl.link.Tx(), cl.eof, cl.ended)
}
