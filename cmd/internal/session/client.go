package session

import (
	"fmt"
	"slices"

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
	stopFault                    // it broke the protocol, and is told so after its answers
)

// Client is one session. Owned by the loop thread.
type Client struct {
	core *Core
	conn Conn
	info *KeyInfo
	link relay.Client
	wait admission.Waiter

	server  *Server // granted or bound
	pending bool    // the server was granted and is not bound yet
	login   bool    // the welcome has not been sent

	stops   stop
	bye     bool // Terminate was read
	eof     bool // nothing more will come
	knocked bool // it was told something to see whether it is there
	hungUp  bool // the peer has ended its writing side
	cancel  bool // a cancel waits until it can only meet the client's own work
	ended   bool
	key     wire.CancelKey
	// Tag is whatever the Env attaches.
	Tag any
}

// NewClient returns a session that has authenticated. Start begins it.
func (co *Core) NewClient(conn Conn, info *KeyInfo, want *relay.Params, key wire.CancelKey) *Client {
	cl := &Client{core: co, conn: conn, info: info, key: key, login: true}
	cl.link = *relay.NewClient(co.shared, info.group, want)
	cl.wait.Key, cl.wait.Owner = info.Key, cl
	return cl
}

// Key returns the session's cancel key.
func (cl *Client) Key() wire.CancelKey { return cl.key }

// Info returns the session's database and role.
func (cl *Client) Info() *KeyInfo { return cl.info }

// Start sends the welcome: at once if it is known what Postgres would report
// for these settings, else after a server has taken them.
func (cl *Client) Start(now int64) {
	co := cl.core
	co.clients++
	if co.draining {
		co.endDraining(cl, now)
		return
	}
	if status := cl.info.welcomes[cl.link.Params().Meaning()]; status != nil && cl.plainName() {
		cl.welcome(status, now)
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
func (cl *Client) joined(status []relay.Param, now int64) {
	meaning := cl.link.Params().Meaning()
	others := cl.info.joining[meaning]
	i := slices.Index(others, cl)
	if i < 0 {
		return
	}
	others = slices.Delete(others, i, i+1)
	if status == nil && len(others) > 0 {
		cl.info.joining[meaning] = others
		if i == 0 {
			others[0].admit(now)
		}
		return
	}
	delete(cl.info.joining, meaning)
	for _, o := range others {
		o.welcome(status, now)
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
	if cl.login || cl.stops&(stopWaiting|stopSettle) != 0 {
		return 0
	}
	p := &co.plan
	p.Reset()
	if cl.pending {
		cl.bind(now)
	}
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
			cl.flush()
			cl.leave(Goodbye, now)
			co.act(now)
			return len(b)
		case relay.Violation:
			if cl.server != nil && cl.server.link.Flush(p) {
				cl.pause(stopFault)
				break
			}
			cl.flush()
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
	cl.flush()
	if cl.hungUp && !cl.ended {
		cl.knock()
	}
	co.act(now)
	return used
}

// admit asks the gate. It reports whether the link can go on at once: with a
// server, or with a refusal.
func (cl *Client) admit(now int64) bool {
	co := cl.core
	r := cl.link.Request()
	cl.wait.Probe = r.Kind == sqltext.Probe && !cl.login && cl.link.Tx() == wire.Idle
	v := co.gate.Admit(now, &cl.wait)
	switch v.Outcome {
	case admission.Granted:
		co.set.Server(v.Grant).Payload.(*Server).grant(cl, v.Ticket, now)
		if cl.login {
			cl.begin(now)
			return false
		}
		cl.bind(now)
		return !cl.link.Settling()
	case admission.Refused:
		cl.refused(v, now)
		return !cl.ended
	}
	co.timer = true
	cl.pause(stopWaiting)
	return false
}

// granted takes the server that the gate has given to a waiting client.
func (cl *Client) granted(sv *Server, t admission.Ticket, now int64) {
	sv.grant(cl, t, now)
	if cl.login {
		cl.begin(now)
		return
	}
	cl.resume(stopWaiting)
}

// bind joins the client and the granted server; the plan gets what goes ahead.
func (cl *Client) bind(now int64) {
	cl.pending = false
	cl.link.Bind(cl.server.link, &cl.core.plan)
}

// begin has a login's settings accepted by a server.
func (cl *Client) begin(now int64) {
	cl.pending = false
	p := relay.Plan{} // the core's may be in use: a grant comes in the middle of other work
	cl.link.Start(cl.server.link, &p)
	cl.server.send(p.ToServer)
	if !cl.link.Settling() {
		cl.begun(now)
	}
}

// begun takes back a login's server after its settings were accepted or
// refused.
func (cl *Client) begun(now int64) {
	co, sv := cl.core, cl.server
	status, failure := sv.link.Status(), sv.link.Failure()
	cl.link.Unbind()
	cl.server = nil
	sv.client = nil
	sv.done(now)
	if failure != nil {
		e := *failure
		e.Severity = "FATAL"
		co.fatal(cl, &e, LoginFailed, now)
		return
	}
	if cl.plainName() {
		if len(cl.info.welcomes) >= maxWelcomes {
			clear(cl.info.welcomes)
		}
		cl.info.welcomes[cl.link.Params().Meaning()] = status
	}
	cl.welcome(status, now)
	cl.joined(status, now)
}

// welcome ends the login. It writes by itself, not by the core's plan: it may
// come in the middle of other work.
func (cl *Client) welcome(status []relay.Param, now int64) {
	if cl.ended {
		return
	}
	if cl.core.draining {
		cl.core.endDraining(cl, now)
		return
	}
	want := cl.link.Params()
	if !cl.plainName() { // as the server reported it
		for _, s := range status {
			if s.Name == "application_name" {
				want = relay.NewParams([]relay.Param{s})
			}
		}
	}
	cl.login = false
	if cl.conn.Send([][]byte{appendWelcome(nil, status, want, cl.key)}) > 0 {
		cl.pause(stopSelf)
	}
	cl.resume(stopWaiting)
}

// refused tells the client that its request was not let in.
func (cl *Client) refused(v admission.Verdict, now int64) {
	co := cl.core
	co.counts.Refused++
	if co.draining {
		co.endDraining(cl, now)
		return
	}
	e := refusal(v, co.opt.DetailPool, cl.info)
	if cl.login {
		e.Severity = "FATAL"
		reason := LoginRefused
		if v.Reason == admission.NoServer && cl.info.failure != nil {
			failed := *cl.info.failure
			failed.Severity = "FATAL"
			e, reason = &failed, LoginFailed
		}
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
func (cl *Client) flush() {
	p := &cl.core.plan
	if len(p.ToServer) > 0 && cl.server != nil {
		if cl.server.send(p.ToServer) {
			cl.pause(stopServer)
		}
	}
	if len(p.ToClient) > 0 && !cl.ended {
		if cl.conn.Send(p.ToClient) > 0 {
			cl.blocked()
		}
	}
	p.Reset()
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
	}
}

// Core returns the core that runs the session.
func (cl *Client) Core() *Core { return cl.core }

// String describes the session for logs and failures.
func (cl *Client) String() string {
	return fmt.Sprintf("%s@%s server=%v pending=%v waiting=%v login=%v stops=%b tx=%c eof=%v ended=%v",
		cl.info.Role, cl.info.Database, cl.server != nil, cl.pending, cl.wait.Waiting(), cl.login, cl.stops, cl.link.Tx(), cl.eof, cl.ended)
}
