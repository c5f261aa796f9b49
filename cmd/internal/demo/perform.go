package demo

import (
	"context"
	"errors"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// errNoRest is why a run has no result: it would count what is still going on.
var errNoRest = errors.New("statements go on for too long after their clients have left")

// perform sends the requests of a schedule through a policy's pgweir and shows what comes of
// them, second by second.
func perform(ctx context.Context, th *theatre, p policy, list []stretch) (*result, error) {
	line := newTimeline(list, th.out)
	r, err := bench.Run(ctx, th.target(p), load(list), bench.Options{Look: line.look})
	line.end()
	switch {
	case err != nil:
		return nil, err
	case r.Unsettled:
		return nil, errNoRest
	}
	return newResult(p, list, r), nil
}

// An endless load is sent in pieces.
const piece = time.Hour

// keepUp sends a load until ctx ends, and shows what comes of it in one line if that can be
// rewritten.
func keepUp(ctx context.Context, th *theatre, multiple float64) error {
	list := []stretch{{phase{name: multipleName(multiple), load: multiple}, piece}}
	if th.out.Rewrites {
		th.out.Say("%s", th.out.heading())
	}
	for ctx.Err() == nil {
		line := newTimeline(list, th.out)
		_, err := bench.Run(ctx, th.target(policies()[guarded]), load(list), bench.Options{Look: line.passing, Forget: true})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// load is what is sent: requests at random times of a fixed mean, as they come from many
// users, which are the same in every run. Each binds a server for the nap and is counted in
// PostgreSQL when it is done; a client that gives up closes its connection.
func load(list []stretch) bench.Load {
	l := bench.Load{Seed: 1, Sessions: sessions, Streams: []bench.Stream{{
		Name: "demo", Application: "demo", Share: 1, Patience: patience, Leave: bench.Close,
		Queries: []bench.Query{{Statements: []string{bench.Nap}, Work: bench.Work{Mean: nap}}},
	}}}
	for _, s := range list {
		l.Phases = append(l.Phases, bench.Phase{Name: s.name, Rate: rate(s.load), For: s.length})
	}
	return l
}
