package proxy

import (
	"time"

	"github.com/pgweir/pgweir/cmd/internal/session"
)

// shutdown ends what can be ended in peace. A later Shutdown that waits for less takes the
// place of the one under way.
func (px *Proxy) shutdown(how Shutdown, stopAccepting func()) {
	px.draining.Store(true)
	for {
		next, again := px.stage(how, stopAccepting)
		if !again {
			return
		}
		how = next
	}
}

// stage waits as how says. again tells that it was overtaken by next.
func (px *Proxy) stage(how Shutdown, stopAccepting func()) (next Shutdown, again bool) {
	s := px.settings.Load()
	if how == Drain {
		px.o.Log.Info("draining", "serving_for", s.DrainDelay, "then_at_most", s.ShutdownTimeout)
		if next, again = px.pause(s.DrainDelay, nil, how); again {
			return next, true
		}
		how = WaitForServers
	}
	stopAccepting()
	px.lastAccepts()
	px.closeListeners()
	limit := s.ShutdownTimeout
	switch how {
	case Now:
		px.o.Log.Warn("closing at once", "sessions", px.clients.Load())
		return 0, false
	case WaitForClients:
		px.o.Log.Info("waiting for the clients to leave", "sessions", px.clients.Load())
		limit = 0
	default:
		px.post(px.endIdle)
	}
	px.post(func(int64) { px.ending = true; px.checkDrained() })
	next, again = px.pause(limit, px.drained, how)
	switch {
	case again:
	case px.isDrained():
		px.o.Log.Info("drained")
	default:
		px.o.Log.Warn("shutdown timeout: closing sessions that are still in a transaction", "sessions", px.clients.Load())
	}
	return next, again
}

// pause waits for done or for d, which is for ever if it is 0 and done is not nil. It ends
// early with a Shutdown that waits for less than how.
func (px *Proxy) pause(d time.Duration, done <-chan struct{}, how Shutdown) (next Shutdown, again bool) {
	var timeout <-chan time.Time
	switch {
	case d > 0:
		t := time.NewTimer(d)
		defer t.Stop()
		timeout = t.C
	case done == nil:
		return 0, false
	}
	for {
		select {
		case <-done:
			return 0, false
		case <-timeout:
			return 0, false
		case next = <-px.stop:
			if next < how {
				return next, true
			}
		}
	}
}

// endIdle lets nothing new in, ends idle sessions, and the others with their transactions.
func (px *Proxy) endIdle(now int64) {
	for _, up := range px.upstreams {
		up.core.Drain(now, func(yield func(*session.Client)) { px.sessions.each(up.core, yield) })
	}
}

// checkDrained ends the drain when no session is left. Loop thread.
func (px *Proxy) checkDrained() {
	if !px.ending {
		return
	}
	for _, up := range px.upstreams {
		if up.core.Clients() > 0 {
			return
		}
	}
	if !px.isDrained() {
		close(px.drained)
	}
}

func (px *Proxy) isDrained() bool {
	select {
	case <-px.drained:
		return true
	default:
		return false
	}
}

// lastAcceptWait is how long a listener that is about to be closed may have nothing to
// accept.
const lastAcceptWait = 20 * time.Millisecond

// lastAccepts takes the connections that the kernel has made for the listeners already:
// closing them would reset those connections.
func (px *Proxy) lastAccepts() {
	type deadline interface{ SetDeadline(time.Time) error }
	for _, ln := range px.o.Listeners {
		d, ok := ln.(deadline)
		if !ok {
			continue
		}
		for {
			_ = d.SetDeadline(time.Now().Add(lastAcceptWait)) // of no effect is no harm
			conn, err := ln.Accept()
			if err != nil {
				break
			}
			px.admitLogin(conn)
		}
	}
}

// wait lets some time pass.
func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}
