package sim

import (
	"bytes"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// backend is a fake Postgres backend behind a connection.
type backend struct {
	w    *world
	b    *wiretest.Backend
	conn *conn
	sv   *session.Server
	gone bool // the backend is ending
	exit bool // the process has ended and the socket with it
}

// serverEvents hands a connection's events to the session's server.
type serverEvents struct{ *session.Server }

func (s serverEvents) Hangup(int64)   {}
func (s serverEvents) EOF(now int64)  { s.Gone(now) }
func (s serverEvents) Lost(now int64) { s.Gone(now) }

// Dial implements session.Env.
func (w *world) Dial(sv *session.Server) {
	w.open(1)
	w.after(w.delay(3_000_000), func() {
		if w.rnd.IntN(100) < w.o.DialFailures {
			w.open(-1)
			if w.rnd.IntN(2) == 0 {
				w.core.Away(w.now)
			} else {
				w.core.Full(w.now)
			}
			w.core.Dialed(w.now, sv, nil, nil, &wire.Error{Severity: "FATAL", Code: "57P03", Message: "the database system is starting up"}, false)
			w.afterHandler()
			return
		}
		w.pid++
		be := &backend{w: w, sv: sv, b: wiretest.NewBackend(wiretest.BackendOptions{
			PID: w.pid, Outcomes: w.outcomes, Effects: w.effects, Busy: w.delay(w.o.Busy), Before: w.standby, Meddler: session.Meddler,
		})}
		be.conn = &conn{w: w, h: serverEvents{sv}, peer: be, window: 1 << 12}
		sv.Tag = be
		w.backends = append(w.backends, be)
		w.core.Dialed(w.now, sv, be.conn, statusOf(be.b), nil, false)
		w.afterHandler()
		if w.rnd.IntN(1000) < w.o.Deaths {
			w.after(w.delay(50_000_000), be.kill)
		}
	})
}

// statusOf reads the ParameterStatus messages of a login.
func statusOf(b *wiretest.Backend) (list []relay.Param) {
	msgs, _ := wiretest.Messages(b.Welcome())
	for _, m := range msgs {
		if m.Type == wire.MsgParameterStatus {
			if p, err := wire.ParseParameterStatus(m.Body); err == nil {
				list = append(list, p)
			}
		}
	}
	return list
}

// kill is pg_terminate_backend, or a crash.
func (be *backend) kill() {
	if be.b.Dead() {
		return
	}
	if be.w.rnd.IntN(2) == 0 {
		be.b.Die()
	} else {
		be.b.Crash()
	}
	be.run()
}

// receive implements peer.
func (be *backend) receive(b []byte) {
	if be.exit {
		be.conn.drop()
	}
	if be.gone {
		return
	}
	be.b.Feed(b)
	be.run()
	if be.w.o.Deaths > 0 && be.w.rnd.IntN(60) == 0 {
		be.kill()
	}
}

// ended implements peer.
func (be *backend) ended(bool) {
	if !be.gone {
		be.b.EOF()
		be.run()
	}
}

// run lets the backend work and sends what it says.
func (be *backend) run() {
	if be.gone {
		return
	}
	if nap := be.b.Run(); nap > 0 {
		n, _ := be.b.Sleeping()
		be.w.after(nap, func() {
			if m, asleep := be.b.Sleeping(); asleep && m == n {
				be.b.Resume()
				be.run()
			}
		})
	}
	out := be.b.Output()
	if be.w.twist != nil {
		out = be.w.twist(out)
	}
	be.conn.write(out)
	if be.b.Channels() > 0 {
		be.w.after(be.w.delay(2_000_000), be.notify)
	}
	if be.b.Dead() {
		be.gone = true
		be.w.after(be.w.delay(2_000_000), func() { // the process ends, then its socket
			be.exit = true
			be.w.open(-1)
			be.conn.hangUp()
		})
	}
}

// notify is another session's NOTIFY, which a backend passes on while it is idle.
func (be *backend) notify() {
	if be.gone || !be.b.Idle() || be.b.Channels() == 0 {
		return
	}
	body := append([]byte{0, 0, 0, 9}, "news\x00"...)
	body = append(body, bytes.Repeat([]byte{'n'}, be.w.rnd.IntN(200))...)
	be.conn.write(wire.AppendMessage(nil, wire.MsgNotificationResponse, append(body, 0)))
	if be.w.rnd.IntN(2) == 0 {
		be.w.after(be.w.delay(1_000_000), be.notify)
	}
}

// Cancel implements session.Env.
func (w *world) Cancel(sv *session.Server) {
	be := sv.Tag.(*backend)
	w.after(w.delay(500_000), func() {
		be.b.Cancel()
		be.run()
		w.after(w.delay(200_000), func() {
			ok := w.rnd.IntN(50) > 0
			w.killing = w.killing || !ok
			w.core.CancelDone(w.now, sv, ok)
			w.afterHandler()
		})
	})
}

// readOnly is the code of what a standby says to BEGIN READ WRITE.
const readOnly = "25006"

// standby makes servers refuse to begin a transaction that would write, as hot
// standbys do: the way in which a BEGIN can fail.
func (w *world) standby(_ int, m wiretest.Message) *wire.Error {
	if !w.o.Standby || m.Type != wire.MsgParse || !bytes.Contains(bytes.ToLower(m.Body), []byte("read write")) {
		return nil
	}
	return &wire.Error{Severity: "ERROR", Code: readOnly, Message: "cannot set transaction read-write mode during recovery"}
}

// CommitsAlone implements session.Env.
func (w *world) CommitsAlone(*session.Server) bool {
	if w.rnd.IntN(2) == 0 {
		return true
	}
	w.after(w.delay(1_000_000), func() {
		w.core.LookAgain(w.now)
		w.afterHandler()
	})
	return false
}
