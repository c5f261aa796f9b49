package proxy

import (
	"context"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/session"
)

// Whether a statement waits for a lock, only Postgres knows. It is asked when a statement of a
// role with a lock_timeout as a ceiling has run for longer than that, for all servers at once.

// AskLocks implements session.Env. It asks in the place that is kept for control; without one
// nobody knows.
func (up *cluster) AskLocks(sv *session.Server) {
	now := up.px.loop.Now()
	if up.looking || up.o.Load().Control() == 0 || up.locksAskedAt != 0 && now-up.locksAskedAt < askEvery {
		return
	}
	asked := make(map[uint32]*session.Server)
	var pids []uint32
	for _, p := range up.core.Set().Servers(nil) {
		o, ok := p.Payload.(*session.Server)
		if !ok {
			continue
		}
		if b, ok := o.Tag.(*backend); ok && b.pid != 0 && o.Limited() {
			asked[b.pid] = o
			pids = append(pids, b.pid)
		}
	}
	up.looking, up.locksAskedAt = true, now
	r := up.request(sv.Info())
	up.px.work.Go(func() {
		ctx, cancel := context.WithTimeout(up.px.life, lookTimeout)
		defer cancel()
		began := time.Now()
		waits, where, err := up.link.LockWaits(ctx, r, pids)
		took := time.Since(began)
		up.px.post(func(now int64) {
			up.looking = false
			if err != nil {
				up.px.o.Log.Debug("not known who waits for locks", "upstream", up.name, "error", err)
				return
			}
			at := now - int64(took) // it is no older than that
			since := make(map[*session.Server]int64)
			for pid, wait := range waits {
				o := asked[pid]
				if b, ok := o.Tag.(*backend); !ok || b.place != where {
					continue // the process id of another host
				}
				if since[o] = 0; wait >= 0 {
					since[o] = max(now-int64(wait), 1)
				}
			}
			up.core.LockWaits(now, at, since)
		})
	})
}

// Stopped implements session.Env.
func (up *cluster) Stopped(cl *session.Client, t session.Timeout, after time.Duration) {
	px, h, g := up.px, cl.Tag.(*clientConn), cl.Group()
	px.stopped.Note(px.o.Log, stoppedKind{g.Role, t}, px.loop.Now(), "stopped by a ceiling",
		"reason", t.String(), "upstream", up.name, "database", g.Database, "role", g.Role, "workload", g.Workload.Name,
		"application_name", clip(cl.Application()), "client", h.addr, "after", after.Round(time.Millisecond))
}

// stoppedKind tells lines of the log about ceilings apart.
type stoppedKind struct {
	role    string
	timeout session.Timeout
}
