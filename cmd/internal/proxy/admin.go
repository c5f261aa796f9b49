package proxy

import (
	"context"
	"slices"
	"sync"

	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/pool"
)

var _ interface {
	control.Control
	state.Inspector
	state.Pulse
} = (*Proxy)(nil)

// maxApart bounds the databases of an upstream that may be paused, or disabled, by their names
// before anybody has used them. All names are good where the configuration has "*".
const maxApart = 1000

// names is a set of names, for any goroutine.
type names struct {
	mu sync.Mutex
	m  map[string]bool
}

func (n *names) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.m[name]
}

// set reports whether there was room.
func (n *names) set(name string, in bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.m == nil {
		n.m = make(map[string]bool)
	}
	switch {
	case !in:
		delete(n.m, name)
	case len(n.m) >= maxApart && !n.m[name]:
		return false
	default:
		n.m[name] = true
	}
	return true
}

// scope is the servers of a database as clients name it, or all.
type scope struct {
	up       *cluster // nil = all
	database string   // on the server; "" = all of the upstream
}

// meant reports whether a key of up is in the scope.
func (sc scope) meant(up *cluster) func(*session.KeyInfo) bool {
	return func(k *session.KeyInfo) bool {
		return sc.up == nil || sc.up == up && k.Database == sc.database
	}
}

// each calls f for every upstream that the scope touches.
func (sc scope) each(px *Proxy, f func(up *cluster, meant func(*session.KeyInfo) bool)) {
	for _, up := range px.upstreams {
		if sc.up == nil || sc.up == up {
			f(up, sc.meant(up))
		}
	}
}

// scopeOf finds what a database's name stands for. A name that only "*" covers counts once
// a client has used it, or, with ahead, before. Loop thread.
func (px *Proxy) scopeOf(name string, ahead bool) (scope, error) {
	if name == "" {
		return scope{}, nil
	}
	db, dbname := px.settings.Load().Route(name)
	if db == nil {
		return scope{}, control.ErrNoDatabase
	}
	up := px.upstreams[db.Upstream]
	if db.Name == "*" && !up.named(name) {
		switch {
		case !ahead:
			return scope{}, control.ErrNoDatabase
		case up.core.PausedApart() >= maxApart && !up.core.PausedOtherwise(dbname):
			return scope{}, control.ErrTooManyNames
		}
	}
	return scope{up, dbname}, nil
}

// named reports whether a client has ever asked for a database by this name. Loop thread.
func (up *cluster) named(database string) bool {
	return slices.ContainsFunc(up.core.Groups(), func(g *session.Group) bool { return g.Database == database })
}

// control runs f on the loop thread with what a database's name stands for.
func (px *Proxy) control(ctx context.Context, database string, ahead bool, f func(now int64, sc scope)) (err error) {
	ended := px.do(ctx, func(now int64) {
		var sc scope
		if sc, err = px.scopeOf(database, ahead); err == nil {
			f(now, sc)
		}
	})
	if ended != nil {
		return ended
	}
	return err
}

// until waits for a condition that f has set up.
func (px *Proxy) until(ctx context.Context, w *watcher) error {
	select {
	case <-w.done:
		return nil
	case <-px.ended:
		return control.ErrEnded
	case <-ctx.Done():
		px.post(func(int64) { px.unwatch(w) })
		return context.Cause(ctx)
	}
}

// Pause implements control.Control.
func (px *Proxy) Pause(ctx context.Context, database string) (ahead bool, err error) {
	var w *watcher
	err = px.control(ctx, database, true, func(now int64, sc scope) {
		px.paused = px.paused || sc.up == nil
		sc.each(px, func(up *cluster, meant func(*session.KeyInfo) bool) {
			up.core.Pause(now, sc.database)
			ahead = sc.up != nil && !slices.ContainsFunc(up.core.Keys(), meant)
		})
		w = px.await(func() bool { return px.count(sc, func(*pool.Server) bool { return true }) == 0 })
		px.watch()
	})
	if err != nil {
		return false, err
	}
	px.o.Log.Info("paused", "database", all(database))
	return ahead, px.until(ctx, w)
}

func all(database string) string {
	if database == "" {
		return "all"
	}
	return database
}

// Resume implements control.Control.
func (px *Proxy) Resume(ctx context.Context, database string) (changed bool, err error) {
	err = px.control(ctx, database, true, func(now int64, sc scope) {
		if sc.up == nil {
			changed, px.paused = px.paused, false
		}
		sc.each(px, func(up *cluster, _ func(*session.KeyInfo) bool) {
			changed = up.core.Resume(now, sc.database) || changed
		})
	})
	if changed {
		px.o.Log.Info("resumed", "database", all(database))
	}
	return changed, err
}

// Reconnect implements control.Control.
func (px *Proxy) Reconnect(ctx context.Context, database string) error {
	return px.control(ctx, database, false, func(now int64, sc scope) {
		sc.each(px, func(up *cluster, meant func(*session.KeyInfo) bool) { up.core.Reconnect(now, meant) })
	})
}

// WaitClose implements control.Control.
func (px *Proxy) WaitClose(ctx context.Context, database string) error {
	var w *watcher
	err := px.control(ctx, database, false, func(_ int64, sc scope) {
		w = px.await(func() bool { return px.count(sc, (*pool.Server).Doomed) == 0 })
		px.watch()
	})
	if err != nil {
		return err
	}
	return px.until(ctx, w)
}

// count counts servers. Loop thread.
func (px *Proxy) count(sc scope, which func(*pool.Server) bool) (n int) {
	sc.each(px, func(up *cluster, meant func(*session.KeyInfo) bool) {
		for _, p := range up.core.Set().Servers(nil) {
			if meant(up.core.KeyInfo(p.Key)) && which(p) {
				n++
			}
		}
	})
	return n
}

var killed = session.Say("killed")

// Kill implements control.Control.
func (px *Proxy) Kill(ctx context.Context, database string) error {
	px.o.Log.Warn("kill", "database", all(database))
	return px.control(ctx, database, false, func(now int64, sc scope) {
		px.paused = px.paused || sc.up == nil
		sc.each(px, func(up *cluster, meant func(*session.KeyInfo) bool) {
			up.core.Pause(now, sc.database)
			px.sessions.each(up.core, func(cl *session.Client) {
				if meant(cl.Info()) {
					cl.Kill(killed, session.Killed, now)
				}
			})
			up.core.KillServers(now, meant)
			px.replicas.end(killed, func(r *replica) bool {
				return r.up == up && meant(&session.KeyInfo{Database: r.who.dbname, Role: r.who.user})
			})
		})
	})
}

// KillClient implements control.Control.
func (px *Proxy) KillClient(ctx context.Context, id uint64) (err error) {
	ended := px.do(ctx, func(now int64) {
		err = control.ErrNoClient
		px.sessions.all(func(cl *session.Client) {
			if clientID(cl) == id {
				cl.Kill(killed, session.Killed, now)
				err = nil
			}
		})
		if px.replicas.end(killed, func(r *replica) bool { return r.id == id }) {
			err = nil
		}
	})
	if ended != nil {
		return ended
	}
	return err
}

// Disable implements control.Control.
func (px *Proxy) Disable(ctx context.Context, database string) error {
	return px.able(ctx, database, true)
}

// Enable implements control.Control.
func (px *Proxy) Enable(ctx context.Context, database string) error {
	return px.able(ctx, database, false)
}

func (px *Proxy) able(ctx context.Context, database string, disabled bool) error {
	if database == "" {
		return control.ErrNoDatabase
	}
	if db, _ := px.settings.Load().Route(database); db == nil {
		return control.ErrNoDatabase
	}
	if !px.disabled.set(database, disabled) {
		return control.ErrTooManyNames
	}
	px.o.Log.Info("database", "name", database, "disabled", disabled)
	return ctx.Err()
}

// Shutdown implements control.Control.
func (px *Proxy) Shutdown(how control.Shutdown) {
	select {
	case px.stop <- how:
	default: // so many have been said before that this one changes nothing
	}
}

// Apply puts new settings into force: at once where nothing stands in the way, and for
// each client before its next transaction. Sessions whose database has moved or is gone end
// at their next boundary.
func (px *Proxy) Apply(ctx context.Context, s *plan.Settings) error {
	px.prepare(s)
	return px.do(ctx, func(now int64) {
		px.mu.Lock()
		known := make(map[string]bool)
		for i := range s.Upstreams {
			u := &s.Upstreams[i]
			known[u.Name] = true
			if px.upstreams[u.Name] == nil {
				up := newCluster(px, u, s, px.shared)
				if px.paused {
					up.core.Pause(now, "")
				}
				px.upstreams[u.Name] = up
			}
		}
		px.mu.Unlock()
		px.settings.Store(s)
		px.shared.MaxPrepared = s.MaxPrepared
		px.limit(now, s)
		for i := range s.Upstreams {
			u := &s.Upstreams[i]
			up := px.upstreams[u.Name]
			up.relocate(u)
			up.reconfigure(now, u, s)
		}
		for _, up := range px.upstreams {
			px.sessions.each(up.core, func(cl *session.Client) {
				if g := cl.Group(); !up.houses(s, g.Database, g.Role, g.Key) {
					cl.Depart(now, moved, session.Reloaded)
				}
			})
			if !known[up.name] {
				up.disown(now)
			}
		}
		px.loop.WakeAt(now)
	})
}

// relocate tells the upstream's link where its hosts are now. What follows from it is done on
// a goroutine: it may call back.
func (up *cluster) relocate(u *plan.Upstream) { up.px.work.Go(up.link.Reconfigure(up.hosts(u))) }

var moved = session.Say("reload")
