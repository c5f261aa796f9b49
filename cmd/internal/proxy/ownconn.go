package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/login/roster"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
)

// ownIdle is for how long the connection that asks about roles is kept unused.
const ownIdle = time.Minute

// ownConn is the connection that is kept in an upstream's budget for pgweir's own queries, of
// which there is one at a time. Whoever has its place may open one, and ends it, or leaves
// the one that asks about roles for the next. For any goroutine.
type ownConn struct {
	place chan struct{}

	// Owned by who has the place.
	idle  *upstream.Session // nil = there is none
	asker upstream.Request  // as whom it has logged in
	since time.Time         // when it was last used
	timer *time.Timer
	ended bool
}

func newOwnConn() *ownConn { return &ownConn{place: make(chan struct{}, 1)} }

// take takes the place, if need be from a connection that is idle.
func (o *ownConn) take(ctx context.Context) error {
	select {
	case o.place <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	o.drop(ctx)
	return nil
}

func (o *ownConn) leave() { <-o.place }

// drop ends the idle connection.
func (o *ownConn) drop(ctx context.Context) {
	if o.idle != nil {
		o.idle.End(ctx)
		o.idle = nil
	}
}

// run puts questions to Postgres, on the connection of before if it is good.
func (o *ownConn) run(ctx context.Context, link *upstream.Cluster, r upstream.Request, list []login.Select) ([][][]*string, error) {
	select {
	case o.place <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer o.leave()
	if o.ended {
		return nil, control.ErrEnded
	}
	if o.idle != nil {
		if _, newest := link.Current(); !sameLogin(r, o.asker) || o.idle.Generation != newest {
			o.drop(ctx)
		}
	}
	if o.idle != nil {
		rows, err := o.ask(ctx, list)
		if err == nil || o.idle != nil || ctx.Err() != nil {
			return rows, err
		}
		// It had ended unnoticed. These are only questions: another one may put them again.
	}
	s, err := link.Dial(ctx, r)
	if err != nil {
		return nil, err
	}
	o.idle, o.asker = s, r
	return o.ask(ctx, list)
}

// ask asks on the idle connection, which is gone if it is good for nothing any more.
func (o *ownConn) ask(ctx context.Context, list []login.Select) ([][][]*string, error) {
	rows, err := o.idle.Select(ctx, list...)
	if refused, ok := errors.AsType[*login.Refusal](err); ok && refused.Told.Severity == "ERROR" {
		err = &roster.QueryError{Err: err}
	} else if err != nil {
		_ = o.idle.Conn.Close()
		o.idle = nil
		return nil, err
	}
	o.since = time.Now()
	if o.timer == nil {
		o.timer = time.AfterFunc(ownIdle, o.sweep)
	}
	return rows, err
}

// sweep ends a connection that nobody has used for long.
func (o *ownConn) sweep() {
	o.place <- struct{}{}
	defer o.leave()
	switch left := ownIdle - time.Since(o.since); {
	case o.idle == nil || o.ended:
		o.timer = nil
	case left > 0:
		o.timer.Reset(left)
	default:
		o.timer = nil
		o.drop(context.Background())
	}
}

// end ends it for good.
func (o *ownConn) end() {
	o.place <- struct{}{}
	defer o.leave()
	o.ended = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.drop(context.Background())
}

// sameLogin reports whether two requests are of the same role with the same password.
func sameLogin(a, b upstream.Request) bool {
	return a.Database == b.Database && a.Role == b.Role && a.Credentials == b.Credentials
}
