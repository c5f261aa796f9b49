package proxy

import (
	"context"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/session"
)

// A write that is cancelled while its commit waits for a synchronous standby is done, and
// its client is told that it is done: what the standby was for is lost. So before a write
// is cancelled it has to be known that commits wait for nobody. Nothing is asked on a good
// day: the question comes when the deadline of a write has passed.

// aloneFor is for how long the answer counts, in ns: an administrator may change it.
const aloneFor = int64(time.Second)

// CommitsAlone implements session.Env.
func (up *cluster) CommitsAlone(sv *session.Server) bool {
	b, ok := sv.Tag.(*backend)
	if !ok || b.site.left {
		return false
	}
	now := up.px.loop.Now()
	if b.site.told == 0 || now-b.site.told >= aloneFor {
		up.inquire(sv)
		return false
	}
	return b.site.alone
}

// inquire asks what commits wait for, in the place that is kept for control: without one
// nobody knows. Loop thread.
func (up *cluster) inquire(sv *session.Server) {
	if up.looking || up.o.Load().control() == 0 {
		return
	}
	up.looking = true
	r, asked := up.request(sv.Info()), up.px.loop.Now()
	up.px.work.Go(func() {
		ctx, cancel := context.WithTimeout(up.px.life, lookTimeout)
		defer cancel()
		alone, where, err := up.link.CommitsAlone(ctx, r)
		if err != nil {
			up.px.o.Log.Debug("not known what commits wait for", "upstream", up.name, "error", err)
		}
		up.px.post(func(int64) {
			up.looking = false
			if err == nil {
				s := up.site(where)
				s.alone, s.told = alone, asked
			}
		})
	})
}
