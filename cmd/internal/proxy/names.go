package proxy

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
)

// Where a name has got other addresses, as after a failover that is done by DNS, new servers
// are opened there. Those at the old address stay until somebody looks: so while there are any,
// names are looked up again now and then.

const (
	// goneAfter is how many lookups running must lack an address before its servers are given
	// up: a name may answer with some of its addresses at a time.
	goneAfter = 2
	// lookupTimeout bounds all lookups of an upstream at one time.
	lookupTimeout = 10 * time.Second
)

// naming is what the names of an upstream's hosts stand for. Owned by the loop thread.
type naming struct {
	at      int64 // when they are looked up next; 0 = when there is a server at one
	pending bool
	lookups uint64
	known   map[upstream.Host]*addresses
}

// addresses is what a name stood for.
type addresses struct {
	list   []string
	at     int64                  // when that was
	absent map[upstream.Place]int // places with servers, by how many lookups lacked them
}

// namesDue has the next lookup come when there is something to look up. It is called at the
// end of every turn.
func (up *cluster) namesDue(now int64) {
	if up.naming.at != 0 || up.naming.pending {
		return
	}
	u := up.o.Load()
	if u.DNSMaxTTL <= 0 || !u.HasNames() {
		return
	}
	if st := up.core.Set().Stats(); st.Idle+st.Busy > 0 {
		// Many pgweirs that were started together do not ask together for ever.
		up.naming.at = now + int64(float64(u.DNSMaxTTL)*(0.9+0.2*rand.Float64()))
		up.px.loop.WakeAt(up.naming.at)
	}
}

// lookNames looks the names up when it is time, and returns when it is.
func (up *cluster) lookNames(now int64) (next int64) {
	switch at := up.naming.at; {
	case at == 0:
		return math.MaxInt64
	case now < at:
		return at
	}
	up.naming.at = 0 // namesDue says whether there will be another
	hosts := make(map[upstream.Host]bool)
	for p := range up.places() {
		if p.Host.Named() {
			hosts[p.Host] = true
		}
	}
	if len(hosts) == 0 {
		return math.MaxInt64
	}
	up.naming.pending = true
	up.px.work.Go(func() {
		ctx, cancel := context.WithTimeout(up.px.life, lookupTimeout)
		defer cancel()
		found := make(map[upstream.Host][]string, len(hosts))
		for h := range hosts {
			list, err := up.link.Lookup(ctx, h)
			if err != nil {
				// That a name server does not answer says nothing about the servers.
				up.px.o.Log.Debug("host of upstream not looked up", "upstream", up.name, "host", h.String(), "error", err)
				continue
			}
			slices.Sort(list)
			found[h] = list
		}
		up.px.post(func(now int64) { up.renamed(now, found) })
	})
	return math.MaxInt64
}

// places is where there are servers.
func (up *cluster) places() map[upstream.Place]bool {
	places := make(map[upstream.Place]bool)
	for _, p := range up.core.Set().Servers(nil) {
		if sv, ok := p.Payload.(*session.Server); ok && sv.Tag != nil {
			places[sv.Tag.(*backend).place] = true
		}
	}
	return places
}

// renamed gives up the servers at addresses that their names have not had for long enough.
func (up *cluster) renamed(now int64, found map[upstream.Host][]string) {
	n := &up.naming
	n.pending = false
	n.lookups++
	if n.known == nil {
		n.known = make(map[upstream.Host]*addresses)
	}
	for h := range n.known {
		if !slices.Contains(up.o.Load().Hosts.Hosts, h) {
			delete(n.known, h)
		}
	}
	places := up.places()
	for h, list := range found {
		a := n.known[h]
		if a == nil {
			a = &addresses{}
			n.known[h] = a
		}
		before := a.absent
		a.list, a.at, a.absent = list, now, make(map[upstream.Place]int)
		for p := range places {
			if p.Host != h || slices.Contains(list, p.Address) {
				continue
			}
			if a.absent[p] = before[p] + 1; a.absent[p] == goneAfter {
				up.desert(now, p, list)
			}
		}
	}
}

// desert closes the servers of a place that its name does not stand for any more.
func (up *cluster) desert(now int64, p upstream.Place, list []string) {
	up.px.o.Log.Info("host of upstream has other addresses: its servers at the old one are closed when their transactions end",
		"upstream", up.name, "host", p.Host.String(), "old", p.Address, "new", strings.Join(list, ","))
	up.site(p).left = true
	up.core.Retire(now, func(sv *session.Server) bool {
		b, ok := sv.Tag.(*backend)
		return ok && b.place == p
	})
}

// nameStates is what is known of names. Loop thread.
func (up *cluster) nameStates(now int64) (list []state.HostName) {
	for h, a := range up.naming.known {
		list = append(list, state.HostName{Name: h.Address, TTL: time.Duration(max(up.naming.at-now, 0)), Addresses: a.list})
	}
	slices.SortFunc(list, func(a, b state.HostName) int { return strings.Compare(a.Name, b.Name) })
	return list
}
