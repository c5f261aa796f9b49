package proxy

import (
	"context"
	"math"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/pool"
)

// A host that hangs ends no connection: whoever waits for it would wait on, and with all
// connections taken nobody would log in any more and find the host that has taken over.
// So while servers owe answers and nothing is heard from their host, somebody goes and
// looks, and what is left at a host that serves no longer is given up.

// How long a host may owe answers without a word before it is looked for. While it answers
// to that, and says nothing else, the pauses between two looks double: a long statement is
// no reason for many log-ins.
const (
	silence        = int64(time.Second)
	longestSilence = 16 * silence
)

// site is a place at which an upstream has servers, or had. Owned by the loop thread.
type site struct {
	heard int64 // when one of its servers last said something
	left  bool  // another place has taken over
	alone bool  // its commits waited for no standby,
	told  int64 // when it last said what they do; 0 = never
}

// maxSites bounds how many are remembered: names may resolve to ever new ones.
const maxSites = 64

// site returns the site of a place.
func (up *cluster) site(p upstream.Place) *site {
	s := up.sites[p]
	if s == nil {
		if len(up.sites) >= maxSites {
			clear(up.sites) // its servers still know theirs
		}
		s = &site{}
		up.sites[p] = s
	}
	return s
}

// several reports whether there is another host to go to.
func (up *cluster) several() bool { return len(up.o.Load().Hosts.Hosts) > 1 }

// rouse has the next patrol go when there is something to look at. It is called at the end
// of every turn.
func (up *cluster) rouse(now int64) {
	if up.patrolAt != 0 || !up.several() {
		return
	}
	if st := up.core.Set().Stats(); st.Busy+st.Closing > 0 {
		up.patrolAt = now + silence
		up.px.loop.WakeAt(up.patrolAt)
	}
}

// patrolled looks after the servers when it is time, and returns when it is.
func (up *cluster) patrolled(now int64) (next int64) {
	if up.patrolAt == 0 {
		return math.MaxInt64
	}
	if now < up.patrolAt {
		return up.patrolAt
	}
	up.patrolAt = 0 // rouse says whether there will be another
	if next := up.patrol(now); next < now+silence {
		up.patrolAt = max(next, now+silence/patrolsPerSilence)
		return up.patrolAt
	}
	return math.MaxInt64
}

// patrolsPerSilence bounds how many patrols there are in the time of one silence.
const patrolsPerSilence = 8

// patrol gives up what is left at places that serve no longer and do not answer, and looks
// for another place if that of now says nothing. It returns when there may be one that has said
// nothing for long enough, of those that have not now.
func (up *cluster) patrol(now int64) (next int64) {
	only := up.onlyOne()
	next = math.MaxInt64
	var owes *session.Server // for longest, at the place of now
	for _, p := range up.core.Set().Servers(nil) {
		sv, ok := p.Payload.(*session.Server)
		if !ok || sv.Tag == nil {
			continue // it is logging in
		}
		b := sv.Tag.(*backend)
		asked := sv.Unanswered()
		since := max(asked, b.site.heard)
		quiet := asked != 0 && now-since >= silence
		if asked != 0 && !quiet {
			next = min(next, since+silence)
		}
		switch {
		case !b.site.left:
			if quiet && (owes == nil || asked < owes.Unanswered()) {
				owes = sv
			}
		case p.State() == pool.Closing && now-p.Since() >= silence, quiet && only:
			// Its place in the budget was one at the other host.
			up.px.o.Log.Info("server of a host that serves no longer given up", "upstream", up.name, "host", b.place.String(), "backend_pid", b.pid)
			sv.Gone(now)
		}
	}
	if owes != nil {
		up.look(owes, now)
	}
	return next
}

// onlyOne reports whether at most one of the hosts can be what is wanted: if another is,
// this one was mistaken for it.
func (up *cluster) onlyOne() bool {
	attrs := up.o.Load().Hosts.Attrs
	return attrs == upstream.ReadWrite || attrs == upstream.Primary
}

// look logs in as sv did, in the place that is kept for control. If the cluster has moved
// it finds out, and moved does the rest.
func (up *cluster) look(sv *session.Server, now int64) {
	if up.looking || up.o.Load().Control() == 0 {
		return
	}
	if heard := sv.Tag.(*backend).site.heard; heard > up.lookedAt {
		up.lookPause = 0
	} else if now < up.lookedAt+up.lookPause {
		return
	}
	up.looking, up.lookedAt, up.lookPause = true, now, min(max(2*up.lookPause, silence), longestSilence)
	r := up.request(sv.Info())
	up.px.work.Go(func() {
		ctx, cancel := context.WithTimeout(up.px.life, lookTimeout)
		defer cancel()
		err := up.own.take(ctx)
		if err == nil {
			defer up.own.leave()
			var s *upstream.Session
			if s, err = up.link.Dial(ctx, r); err == nil {
				s.End(ctx)
			}
		}
		if err != nil {
			up.px.o.Log.Debug("no host answers", "upstream", up.name, "error", err)
		}
		up.px.post(func(int64) { up.looking = false })
	})
}

// lookTimeout bounds a look, beside server_connect_timeout.
const lookTimeout = 10 * time.Second
