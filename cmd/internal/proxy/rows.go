package proxy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/pool"
)

// clientID names a session for KILL_CLIENT.
func clientID(cl *session.Client) uint64 { return cl.Tag.(*clientConn).id }

// serverID names a server connection.
func serverID(p *pool.Server) uint64 { return uint64(p.ID) }

// rowsPerTurn bounds the sessions that are described in one turn of the loop.
const rowsPerTurn = 256

// Clients implements state.Inspector.
func (px *Proxy) Clients(ctx context.Context, f func([]state.Client) error) error {
	for at, more := 0, true; more; {
		var list []state.Client
		err := px.do(ctx, func(now int64) {
			end := min(at+rowsPerTurn, len(px.sessions.slots))
			wall := time.Now()
			for _, cl := range px.sessions.slots[min(at, end):end] {
				if cl != nil {
					list = append(list, px.clientRow(cl, now, wall))
				}
			}
			at, more = end, end < len(px.sessions.slots)
			if !more {
				for _, r := range px.replicas.open {
					list = append(list, r.clientState())
				}
			}
		})
		if err != nil {
			return err
		}
		if err := f(list); err != nil {
			return err
		}
	}
	return nil
}

func (px *Proxy) clientRow(cl *session.Client, now int64, wall time.Time) state.Client {
	h, g := cl.Tag.(*clientConn), cl.Group()
	c := state.Client{
		ID: h.id, Database: g.Database, Role: g.Role, Application: cl.Application(), Workload: g.Workload.Name,
		Upstream: h.up.name, State: cl.State().String(), Transaction: cl.InTransaction(), Prepared: cl.Prepared(),
		Connected: state.TimeOfDay(cl.Since(), now, wall), Requested: state.TimeOfDay(cmp.Or(cl.Requested(), cl.Since()), now, wall), CancelPID: cl.Key().PID,
	}
	c.TLS, c.ServerName = h.channel.String(), h.channel.ServerName
	c.Address, c.Port = splitAddress(h.addr)
	c.LocalAddress, c.LocalPort = splitAddress(h.local)
	if cl.State() == session.Waiting {
		c.Wait = time.Duration(now - cl.Requested())
	}
	c.Silent = time.Duration(now - cl.Seen())
	if sv := cl.Server(); sv != nil {
		c.Server = serverID(sv.Pool())
		if b, ok := sv.Tag.(*backend); ok {
			c.ServerPID = b.pid
		}
		if p, since := sv.Pinned(); p != 0 {
			c.Pinned, c.PinnedFor = p.String(), time.Duration(now-since)
		}
	}
	return c
}

// splitAddress splits what addressOf made.
func splitAddress(a string) (host string, port int) {
	if a == "unix" || a == "" {
		return a, 0
	}
	return hostPort("tcp", a)
}

// Servers implements state.Inspector.
func (px *Proxy) Servers(ctx context.Context) (list []state.Server, err error) {
	err = px.do(ctx, func(now int64) {
		wall := time.Now()
		for _, up := range px.upstreams {
			servers := up.core.Set().Servers(nil)
			names := up.namesOf(servers)
			for _, p := range servers {
				list = append(list, px.serverRow(up, p, names[p.Key], now, wall))
			}
		}
		for _, r := range px.replicas.open {
			if !r.dialled.IsZero() {
				list = append(list, r.serverState())
			}
		}
	})
	slices.SortFunc(list, func(a, b state.Server) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.ID>>32, b.ID>>32), cmp.Compare(a.ID&0xffff, b.ID&0xffff))
	})
	return list, err
}

// namesOf returns what clients call the databases of some servers, as [view.names] does. Loop
// thread.
func (up *cluster) namesOf(servers []*pool.Server) map[admission.Key]string {
	names := make(map[admission.Key]string)
	for _, p := range servers {
		names[p.Key] = ""
	}
	s := up.px.settings.Load()
	for _, g := range up.core.Groups() {
		name, wanted := names[g.Key.Key]
		if !wanted || name == g.Database {
			continue
		}
		if db, real := s.Route(g.Database); db != nil && db.Upstream == up.name && real == g.Key.Database {
			names[g.Key.Key] = betterName(name, g.Database, real)
		}
	}
	for k, name := range names {
		names[k] = cmp.Or(name, up.core.KeyInfo(k).Database)
	}
	return names
}

func (px *Proxy) serverRow(up *cluster, p *pool.Server, database string, now int64, wall time.Time) state.Server {
	k := up.core.KeyInfo(p.Key)
	r := state.Server{
		ID: serverID(p), Upstream: up.name, Database: database, Role: k.Role, State: stateOf(p),
		Connected: state.TimeOfDay(p.Born(), now, wall), Requested: state.TimeOfDay(p.Since(), now, wall),
		Since: time.Duration(now - p.Since()), CloseNeeded: p.Doomed(),
	}
	sv, ok := p.Payload.(*session.Server)
	if !ok {
		return r
	}
	r.Prepared = sv.Prepared()
	if b, ok := sv.Tag.(*backend); ok {
		r.PID, r.TLS = b.pid, b.tls
		if b.place.Host.Network == "unix" {
			r.Address, r.LocalAddress = "unix", "unix"
			_, r.Port = hostPort("unix", b.place.Address)
		} else {
			r.Address, r.Port = hostPort("tcp", b.place.Address)
			r.LocalAddress, r.LocalPort = splitAddress(b.local)
		}
	}
	if cl := sv.Client(); cl != nil {
		r.Client, r.Application = clientID(cl), cl.Application()
		pinned, _ := sv.Pinned()
		r.Pinned = pinned.String()
	}
	return r
}

// stateOf is a server's state as SHOW SERVERS has it.
func stateOf(p *pool.Server) string {
	sv, ok := p.Payload.(*session.Server)
	switch {
	case p.State() == pool.Dialling:
		return "login"
	case p.Held():
		return "being_canceled"
	case p.State() == pool.Busy && ok && sv.Kept():
		return "held"
	case p.State() == pool.Busy:
		return "active"
	}
	return p.State().String()
}
