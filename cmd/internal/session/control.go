package session

import (
	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
)

// What an administrator does to a core. All of it is called on the loop thread.

// Reconfigure puts new limits into force.
func (co *Core) Reconfigure(now int64, p admission.Plan, o pool.Options) {
	co.set.Reconfigure(now, o)
	co.deliver(now, co.gate.Reconfigure(now, p, co.verdicts))
	co.timer = true
	co.act(now)
}

// keysOf returns the keys that are meant.
func (co *Core) keysOf(meant func(*KeyInfo) bool) (list []admission.Key) {
	for _, k := range co.keys {
		if meant(k) {
			list = append(list, k.Key)
		}
	}
	return list
}

// Pause stops giving servers to the clients of some keys, stops the clocks of those who
// wait, and closes the servers of those keys as they become free.
func (co *Core) Pause(now int64, meant func(*KeyInfo) bool) {
	list := co.keysOf(meant)
	co.gate.Pause(now, list)
	co.paused = append(co.paused, meant)
	for _, k := range list {
		co.keep(co.keys[k])
	}
	co.Reconnect(now, meant)
}

// Resume ends every Pause of the keys that are meant.
// It reports whether there was one. Keys that come later are not paused any more.
func (co *Core) Resume(now int64, meant func(*KeyInfo) bool) (changed bool) {
	changed = len(co.paused) > 0
	co.paused = nil
	for _, k := range co.keys {
		if co.gate.Paused(k.Key) && !meant(k) {
			co.paused = append(co.paused, func(o *KeyInfo) bool { return o == k })
		}
	}
	changed = changed && len(co.paused) < len(co.keys)
	list := co.keysOf(meant)
	co.deliver(now, co.gate.Resume(now, list, co.verdicts))
	for _, k := range list {
		co.keep(co.keys[k])
	}
	co.timer = true
	co.act(now)
	return changed
}

// Paused reports whether the key's clients are paused.
func (co *Core) Paused(k *KeyInfo) bool { return co.gate.Paused(k.Key) }

// Reconnect closes the servers of some keys: idle ones now, others when they come back.
func (co *Core) Reconnect(now int64, meant func(*KeyInfo) bool) {
	co.set.CloseKeys(now, func(k admission.Key) bool { return meant(co.keys[k]) })
	co.timer = true
	co.act(now)
}

// Retire closes the servers for which old says true: idle ones now, busy ones when they
// come back.
func (co *Core) Retire(now int64, old func(*Server) bool) {
	for _, p := range co.set.Servers(nil) {
		if sv, ok := p.Payload.(*Server); ok && old(sv) {
			co.set.Retire(now, p)
		}
	}
	co.timer = true
	co.act(now)
}

// KillServers closes the servers of some keys at once, and tells the clients that have
// them.
func (co *Core) KillServers(now int64, meant func(*KeyInfo) bool) {
	for _, p := range co.set.Servers(nil) {
		sv, ok := p.Payload.(*Server)
		switch {
		case !ok || !meant(sv.info):
		case sv.conn == nil:
			co.set.Break(now, p) // it is logging in
		case p.State() == pool.Idle:
			co.set.Break(now, p)
		default:
			sv.broken(Killed, now)
		}
	}
	co.act(now)
}

// Depart ends the session now if it is idle, else at its next boundary, with e as its last
// words.
func (cl *Client) Depart(now int64, e *wire.Error, reason Reason) {
	if cl.ended {
		return
	}
	if !cl.idle() {
		cl.departing, cl.departure = e, reason
		return
	}
	cl.core.fatal(cl, e, reason, now)
	cl.core.act(now)
}

// AnyPaused reports whether anything is paused.
func (co *Core) AnyPaused() bool { return len(co.paused) > 0 }
