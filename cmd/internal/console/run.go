package console

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/wire"
)

// plan is a command, ready to run any number of times.
type plan struct {
	tag     string
	counted bool     // the number of rows follows the tag
	columns []column // nil: it has no rows
	admin   bool     // only an administrator may run it
	waits   bool     // it may wait for long: the end of the peer stops it

	rows func(ctx context.Context, r *row, put func(*row) error) error // if it has columns
	do   func(ctx context.Context) error                               // if not
}

// tagOf is the tag of CommandComplete after so many rows.
func (p *plan) tagOf(rows uint64) []byte {
	if p.counted {
		return strconv.AppendUint([]byte(p.tag+" "), rows, 10)
	}
	return []byte(p.tag)
}

var (
	errClosed    = errors.New("the portal was closed")
	errCancelled = errors.New("cancelled")
	errGone      = errors.New("the administrator left")
)

// plan makes a plan of a command.
func (s *session) plan(cmd command) *plan {
	switch cmd.verb {
	case "SHOW":
		return s.planView(s.c.views[cmd.arg])
	case "PARAMETER":
		return s.planParameter(cmd.arg)
	case "SELECT":
		return s.planSelect(cmd.items)
	case "OK":
		return &plan{tag: cmd.arg, do: func(context.Context) error { return nil }}
	case "BEGIN", "COMMIT":
		return s.planTransaction(cmd)
	case "DEALLOCATE":
		return &plan{tag: "DEALLOCATE", do: func(context.Context) error { return s.deallocate(cmd.arg) }}
	case "SET":
		return s.planSet(cmd)
	}
	return s.planControl(cmd)
}

func (s *session) planView(v *view) *plan {
	strict := s.who.strict()
	return &plan{
		tag: "SHOW", columns: v.columns[:v.width(strict)],
		rows: func(ctx context.Context, r *row, put func(*row) error) error {
			return v.rows(ctx, &query{c: s.c, strict: strict, row: r, put: put})
		},
	}
}

func (s *session) planParameter(name string) *plan {
	return &plan{
		tag: "SHOW", columns: columns(name),
		rows: func(_ context.Context, r *row, put func(*row) error) error {
			return put(r.begin().text(s.params[name]))
		},
	}
}

func (s *session) planSelect(items []item) *plan {
	p := &plan{tag: "SELECT", counted: true}
	for _, it := range items {
		p.columns = append(p.columns, column{it.name, it.typ})
	}
	p.rows = func(_ context.Context, r *row, put func(*row) error) error {
		r.begin()
		for _, it := range items {
			s.evaluate(it, r)
		}
		return put(r)
	}
	return p
}

func (s *session) planTransaction(cmd command) *plan {
	return &plan{tag: cmd.arg, do: func(context.Context) error {
		s.state = wire.Idle
		if cmd.verb == "BEGIN" {
			s.state = wire.InTransaction
		}
		return nil
	}}
}

func (s *session) deallocate(name string) error {
	if name != "" {
		if s.statements[name] == nil {
			return fail(wire.CodeInvalidStatementName, "prepared statement %q does not exist", shorten(name))
		}
		s.forget(name)
		return nil
	}
	clear(s.statements)
	s.texts = 0
	return nil
}

// permit refuses what only an administrator may do.
func (s *session) permit(p *plan) error {
	if p.admin && !s.who.Admin {
		return fail(wire.CodeInsufficientPrivilege, "%s needs an administrator", p.tag).
			because("Role " + strconv.Quote(s.who.User) + " may only SHOW. Name it in admin_users of [console].")
	}
	return nil
}

// row makes the row that a plan fills.
func (s *session) row(p *plan, f formats) *row { return &row{formats: f, width: len(p.columns)} }

// run runs a plan and returns its tag.
func (s *session) run(p *plan, f formats) (string, error) {
	ctx, done := s.interruptible(p.waits)
	defer done()
	if p.rows == nil {
		return string(p.tagOf(0)), s.explain(p, p.do(ctx))
	}
	var n uint64
	err := p.rows(ctx, s.row(p, f), func(r *row) error {
		n++
		s.out.send(&r.message, r.size+4*len(r.message.Values))
		if s.out.err == nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return s.out.err
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return string(p.tagOf(n)), s.explain(p, err)
}

// interruptible returns a context that ends when a cancel request comes and, for what
// waits, when the peer leaves.
func (s *session) interruptible(waits bool) (context.Context, func()) {
	select {
	case <-s.who.Cancel: // it came too late for the command before
	default:
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	gone := s.in.gone
	if !waits {
		gone = nil
	}
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-s.who.Cancel:
			cancel(errCancelled)
		case <-gone:
			cancel(errGone)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watcher.Wait()
	}
}

// explain turns what went wrong into what is told.
func (s *session) explain(p *plan, err error) error {
	_, told := errors.AsType[*failure](err)
	switch {
	case err == nil || told:
		return err
	case errors.Is(err, errCancelled):
		return fail(wire.CodeQueryCanceled, "canceling statement due to user request")
	case errors.Is(err, errGone):
		return fail(wire.CodeQueryCanceled, "canceling statement: nothing more will come from the client")
	case errors.Is(err, control.ErrEnded), s.ctx.Err() != nil:
		return fail(wire.CodeCannotConnectNow, "pgweir is shutting down")
	case errors.Is(err, context.DeadlineExceeded):
		return fail(wire.CodeInternalError, "pgweir did not answer within %s", answerTime).because("Its event loop is busy or stuck. SHOW VERSION and SHOW CONFIG need none.")
	}
	return fail(wire.CodeInternalError, "%s failed: %s", p.tag, err)
}
