package proxy

import (
	"context"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
)

// A write that is cancelled while its commit waits for a synchronous standby is done, and
// its client is told that it is done: what the standby was for is lost. So before a write
// is cancelled it has to be known that commits wait for nobody, and that of this moment: an
// administrator may say otherwise in the next. Nothing is asked on a good day, only when the
// deadline of a write has passed, and the answer serves all of these that there are.

const (
	// aloneFor is for how long an answer counts, in ns: as long as it takes to act on it.
	aloneFor = int64(10 * time.Millisecond)
	// askEvery bounds how often it is asked, in ns: each time is a login.
	askEvery = int64(100 * time.Millisecond)
)

// CommitsAlone implements session.Env.
func (up *cluster) CommitsAlone(sv *session.Server) bool {
	b, ok := sv.Tag.(*backend)
	if !ok || b.site.left {
		return false
	}
	now := up.px.loop.Now()
	if b.site.told == 0 || now-b.site.told >= aloneFor {
		up.inquire(sv, now)
		return false
	}
	return b.site.alone
}

// inquire asks what commits wait for, in the place that is kept for control: without one
// nobody knows. Loop thread.
func (up *cluster) inquire(sv *session.Server, now int64) {
	if up.looking || up.o.Load().Control() == 0 || up.askedAt != 0 && now-up.askedAt < askEvery {
		return
	}
	up.looking, up.askedAt = true, now
	r := up.request(sv.Info())
	up.px.work.Go(func() {
		ctx, cancel := context.WithTimeout(up.px.life, lookTimeout)
		defer cancel()
		alone, where, err := false, upstream.Place{}, up.own.take(ctx)
		if err == nil {
			defer up.own.leave()
			alone, where, err = up.link.CommitsAlone(ctx, r)
		}
		up.px.post(func(now int64) {
			up.looking = false
			if err != nil {
				up.px.o.Log.Debug("not known what commits wait for", "upstream", up.name, "error", err)
				return
			}
			s := up.site(where)
			s.alone, s.told = alone, now
			up.core.LookAgain(now)
		})
	})
}
