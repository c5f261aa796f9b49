package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/door"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
)

// shutdown ends what can be ended in peace. A later Shutdown that waits for less takes the
// place of the one under way.
func (px *Proxy) shutdown(how control.Shutdown, stopAccepting func()) {
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
func (px *Proxy) stage(how control.Shutdown, stopAccepting func()) (next control.Shutdown, again bool) {
	s := px.settings.Load()
	if how == control.Drain {
		px.o.Log.Info("draining", "serving_for", s.DrainDelay, "then_at_most", s.ShutdownTimeout)
		if next, again = px.pause(s.DrainDelay, nil, how); again {
			return next, true
		}
		how = control.WaitForServers
	}
	stopAccepting()
	px.lastAccepts()
	px.closeListeners()
	limit := s.ShutdownTimeout
	switch how {
	case control.Now:
		px.o.Log.Warn("closing at once", "sessions", px.clients.Load())
		px.endAll()
		return 0, false
	case control.WaitForClients:
		px.o.Log.Info("waiting for the clients to leave", "sessions", px.clients.Load())
		limit = 0
	default:
		if next, again = px.lastLogins(how); again {
			return next, true
		}
		px.post(px.endIdle)
	}
	px.post(func(int64) { px.ending = true; px.checkDrained() })
	if next, again = px.pause(limit, px.drained, how); again {
		return next, true
	}
	if px.isDrained() {
		px.o.Log.Info("drained")
	} else {
		px.o.Log.Warn("shutdown timeout: closing sessions that are still in a transaction", "sessions", px.clients.Load())
		px.endAll()
	}
	return px.lastWords(how)
}

// pause waits for done or for d, which is for ever if it is 0 and done is not nil. It ends
// early with a Shutdown that waits for less than how.
func (px *Proxy) pause(d time.Duration, done <-chan struct{}, how control.Shutdown) (next control.Shutdown, again bool) {
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
	px.replicas.endAll(session.Say("draining"))
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
	if len(px.replicas.open) > 0 {
		return
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

// endAll ends every session with a last word, whatever it does.
func (px *Proxy) endAll() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = px.do(ctx, func(now int64) { // a loop that hangs can't say anything
		px.sessions.all(func(cl *session.Client) { cl.Kill(closing, session.Draining, now) })
		px.replicas.endAll(closing)
	})
}

var closing = closingError()

func closingError() *wire.Error {
	e := session.Say("draining")
	e.Message += ", without waiting any longer"
	e.Hint = session.Say("killed").Hint // what was running is lost as well
	return e
}

const (
	// lastAcceptWait is how long, so many times in a row, a listener that is about to be
	// closed has to have nothing to accept. It has to be longer than a packet's way to the
	// client and back. Once is not enough: when a process gets no CPU, its time may be over
	// although there is something.
	lastAcceptWait  = 25 * time.Millisecond
	lastAcceptWaits = 2
	// lastAcceptsMost bounds this where new clients can't be held off.
	lastAcceptsMost = time.Second
	// lastLoginsMost bounds the wait for clients that are logging in.
	lastLoginsMost = time.Second
	// lastWordsMost bounds the wait for clients to take notice of their session's end, and
	// for servers to end.
	lastWordsMost = time.Second
)

// lastAccepts takes the connections that the kernel has made for the listeners already, or
// is making: closing the listeners would reset them.
func (px *Proxy) lastAccepts() {
	var all sync.WaitGroup
	for _, ln := range px.o.Listeners {
		all.Go(func() { px.lastAcceptsOf(ln) })
	}
	all.Wait()
}

func (px *Proxy) lastAcceptsOf(ln net.Listener) {
	d, ok := ln.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return
	}
	if err := door.IgnoreNewcomers(ln); err != nil {
		px.o.Log.Debug("new clients can't be held off", "address", ln.Addr().String(), "error", err)
	}
	end := time.Now().Add(lastAcceptsMost)
	for waits := 0; waits < lastAcceptWaits && time.Now().Before(end); {
		_ = d.SetDeadline(time.Now().Add(lastAcceptWait)) // of no effect is no harm
		conn, err := ln.Accept()
		switch {
		case err == nil:
			waits = 0
			px.admitLogin(conn)
		case errors.Is(err, os.ErrDeadlineExceeded):
			waits++
		default:
			return
		}
	}
}

// lastLogins waits for the clients that are logging in: they are let in, so that the end of
// their session is one that they know how to deal with.
func (px *Proxy) lastLogins(how control.Shutdown) (next control.Shutdown, again bool) {
	for end := time.Now().Add(lastLoginsMost); len(px.logins) > 0 && time.Now().Before(end); {
		if next, again = px.pause(5*time.Millisecond, nil, how); again {
			return next, true
		}
	}
	return 0, false
}

// lastWords waits for clients that have just been told of the end, and may have sent a
// request before they knew: if its socket were gone, what they see would be a broken
// connection and not the reason. It also closes the servers and waits until Postgres has let
// go of them: who comes after this process may count on their places.
func (px *Proxy) lastWords(how control.Shutdown) (next control.Shutdown, again bool) {
	over := make(chan struct{})
	px.post(func(now int64) {
		for _, up := range px.upstreams {
			up.disown(now)
		}
		w := px.await(func() bool {
			return px.loop.Finishing() == 0 && len(px.replicas.open) == 0 && px.count(scope{}, func(*pool.Server) bool { return true }) == 0
		})
		go func() {
			defer close(over)
			select {
			case <-w.done:
			case <-px.ended:
			}
		}()
	})
	return px.pause(lastWordsMost, over, how)
}

// wait lets some time pass.
func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}
