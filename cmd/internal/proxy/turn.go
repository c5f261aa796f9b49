package proxy

import (
	"math"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/session"
)

// fire runs what is due. Loop thread.
func (px *Proxy) fire(now int64) (next int64) {
	next = math.MaxInt64
	for _, up := range px.upstreams {
		next = min(next, up.patrolled(now), up.lookNames(now), up.core.Fire(now))
	}
	return min(next, px.sweep(now))
}

// endOfTurn plans the next fire if a core's plans changed, and looks whether what somebody
// waits for has come true. Loop thread.
func (px *Proxy) endOfTurn(now int64) {
	for _, up := range px.upstreams {
		if up.core.TimerChanged() {
			px.loop.WakeAt(up.core.Fire(now))
			up.core.TimerChanged()
		}
		if up.core.TimerLazy() {
			px.loop.WakeAt(now + session.Lazy)
		}
		up.rouse(now)
		up.namesDue(now)
		up.occupy(now)
	}
	if len(px.watchers) > 0 {
		px.watch()
	}
}

// watcher is somebody who waits for a condition.
type watcher struct {
	holds func() bool // loop thread
	done  chan struct{}
}

// watch ends the watchers whose conditions hold.
func (px *Proxy) watch() {
	kept := px.watchers[:0]
	for _, w := range px.watchers {
		if w.holds() {
			close(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	clear(px.watchers[len(kept):])
	px.watchers = kept
}

// await adds a watcher. Loop thread.
func (px *Proxy) await(holds func() bool) *watcher {
	w := &watcher{holds: holds, done: make(chan struct{})}
	px.watchers = append(px.watchers, w)
	return w
}

// unwatch forgets a watcher that nobody waits for any more. Loop thread.
func (px *Proxy) unwatch(w *watcher) {
	for i, o := range px.watchers {
		if o == w {
			px.watchers = append(px.watchers[:i], px.watchers[i+1:]...)
			return
		}
	}
}

// sweepEvery divides client_idle_timeout into the steps in which it is looked at.
const sweepEvery = 10

// sweep ends sessions that were idle for too long, and returns when it wants to be called
// again.
func (px *Proxy) sweep(now int64) (next int64) {
	limit := int64(px.settings.Load().ClientIdleTimeout)
	if limit <= 0 {
		return math.MaxInt64
	}
	step := max(limit/sweepEvery, int64(10*time.Millisecond))
	if due := px.sweptAt + step; due > now {
		return due
	}
	px.sweptAt = now
	px.sessions.all(func(cl *session.Client) {
		if now-cl.Seen() >= limit && cl.State() == session.Idle && !cl.InTransaction() {
			cl.Depart(now, idleTooLong, session.IdleTimeout)
		}
	})
	return now + step
}

var idleTooLong = session.Say("idle_timeout")
