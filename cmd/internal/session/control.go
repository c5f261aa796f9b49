package session

import (
	"maps"

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

// Pauses is what is paused of the databases on the servers, also of those that come later.
type Pauses struct {
	All    bool
	Others map[string]bool // those that are otherwise
}

// Covers reports whether a database is paused.
func (p *Pauses) Covers(database string) bool { return p.All != p.Others[database] }

// set pauses a database, or all if it is "", or ends that. It reports whether something is
// different.
func (p *Pauses) set(database string, paused bool) (changed bool) {
	if database == "" {
		changed = p.All != paused || len(p.Others) > 0
		p.All = paused
		clear(p.Others)
		return changed
	}
	if changed = p.Covers(database) != paused; !changed {
		return false
	}
	if p.Others == nil {
		p.Others = make(map[string]bool)
	}
	if paused == p.All {
		delete(p.Others, database)
	} else {
		p.Others[database] = true
	}
	return true
}

// keysOf returns the keys of a database on the server, or all if it is "".
func (co *Core) keysOf(database string) (list []admission.Key) {
	for _, k := range co.keys {
		if database == "" || k.Database == database {
			list = append(list, k.Key)
		}
	}
	return list
}

// Pause stops giving servers to the clients of a database on the server, or of all if it is
// "", stops the clocks of those who wait, and closes the servers as they become free.
func (co *Core) Pause(now int64, database string) {
	co.paused.set(database, true)
	list := co.keysOf(database)
	co.gate.Pause(now, list)
	for _, k := range list {
		co.keep(co.keys[k])
	}
	co.Reconnect(now, func(k *KeyInfo) bool { return database == "" || k.Database == database })
}

// Resume ends the pause of a database on the server, or of all if it is "". It reports
// whether there was one.
func (co *Core) Resume(now int64, database string) (changed bool) {
	changed = co.paused.set(database, false)
	list := co.keysOf(database)
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
		case sv.conn == nil || p.State() == pool.Idle:
			co.set.Break(now, p) // it is logging in, or nobody's
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

// Pauses returns a copy of what is paused.
func (co *Core) Pauses() Pauses { return Pauses{co.paused.All, maps.Clone(co.paused.Others)} }

// PausedApart is how many databases are paused while not all are, or the other way round.
func (co *Core) PausedApart() int { return len(co.paused.Others) }

// PausedOtherwise reports whether a database is one of them.
func (co *Core) PausedOtherwise(database string) bool { return co.paused.Others[database] }

// AnyPaused reports whether anything is paused.
func (co *Core) AnyPaused() bool { return co.paused.All || len(co.paused.Others) > 0 }
