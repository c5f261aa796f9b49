package console

import (
	"context"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// pins has a row for each client that keeps its server for what it has left there.
func pins(ctx context.Context, q *query) error {
	return q.c.guard.Clients(ctx, func(list []state.Client) error {
		for i := range list {
			c := &list[i]
			if c.Pinned == "" {
				continue
			}
			r := q.begin().text(c.Workload).text(c.Upstream).text(c.Database).text(c.Role).text(c.Application)
			r.text(c.Address).count(c.Port).text(c.State).text(c.Pinned).millis(c.PinnedFor)
			r.millis(c.Silent).number(int64(c.ServerPID)).text(pointer('s', c.Server)).total(c.ID)
			if err := q.end(r); err != nil {
				return err
			}
		}
		return nil
	})
}
