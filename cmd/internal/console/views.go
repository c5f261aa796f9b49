package console

import (
	"cmp"
	"context"
	"slices"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// view is a table that SHOW shows.
type view struct {
	name string // upper case
	what string // one line for SHOW HELP

	columns []column
	theirs  int // how many columns are PgBouncer's; they come first. 0 in a table of ours

	// rows calls put for each row. The row is the view's to fill, again and again.
	rows func(ctx context.Context, q *query) error
}

// width is the number of columns that are shown.
func (v *view) width(strict bool) int {
	if strict && v.theirs > 0 {
		return v.theirs
	}
	return len(v.columns)
}

// query is one use of a view.
type query struct {
	c      *Console
	strict bool
	row    *row
	put    func(*row) error
}

// begin returns the row, empty.
func (q *query) begin() *row { return q.row.begin() }

// end sends the row.
func (q *query) end(r *row) error { return q.put(r) }

// allViews lists the tables in the order of SHOW HELP.
func allViews() []view {
	return slices.Concat(poolViews(), statViews(), socketViews(), guardViews(), otherViews(), emptyViews(), []view{helpView()})
}

// emptyViews are tables about what pgweir does not have.
func emptyViews() []view {
	none := func(context.Context, *query) error { return nil }
	list := []view{
		{name: "PEERS", what: "other processes: none are configured by hand", columns: columns("#peer_id", "host", "#port", "#pool_size")},
		{name: "PEER_POOLS", what: "connections to them: none", columns: columns("#peer_id", "#cl_active_cancel_req", "#cl_waiting_cancel_req", "#sv_active_cancel", "#sv_login")},
		{name: "DNS_ZONES", what: "of names: serial numbers are not looked at", columns: columns("zonename", "#serial", "#count")},
	}
	for i := range list {
		list[i].theirs, list[i].rows = len(list[i].columns), none
	}
	return list
}

// snapshotRows makes the rows of a view that needs a snapshot.
func snapshotRows(f func(q *query, s *state.Snapshot) error) func(context.Context, *query) error {
	return func(ctx context.Context, q *query) error {
		s, err := q.c.snapshot(ctx)
		if err != nil {
			return err
		}
		return f(q, s)
	}
}

// sorted sorts in place and returns its argument.
func sorted[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return list
}
