package drivers

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// openPgx opens a pool of pgx connections.
func openPgx(_ context.Context, job Job) (pool, error) {
	config, err := pgx.ParseConfig(job.To.DSN(job.User, job.Database))
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = job.Application
	p := &pgxPool{config: config, places: make(chan *pgx.Conn, job.Workers)}
	for range job.Workers {
		p.places <- nil
	}
	return p, nil
}

// pgxPool keeps and throws away connections by the rules of pgx's own pool, which is not
// among the modules of this one.
type pgxPool struct {
	config *pgx.ConnConfig
	places chan *pgx.Conn // nil: to be opened
}

func (p *pgxPool) lend(ctx context.Context, do func(conn) error) (err error) {
	var c *pgx.Conn
	select {
	case c = <-p.places:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.places <- c }()
	if c == nil {
		if c, err = pgx.ConnectConfig(ctx, p.config); err != nil {
			return err
		}
	}
	err = do(pgxConn{c})
	if p := c.PgConn(); c.IsClosed() || p.IsBusy() || p.TxStatus() != 'I' {
		_ = c.Close(ctx)
		c = nil
	}
	return err
}

func (p *pgxPool) close() {
	for range cap(p.places) {
		if c := <-p.places; c != nil {
			_ = c.Close(context.Background())
		}
	}
}

type pgxConn struct{ *pgx.Conn }

func (c pgxConn) pid() int { return int(c.PgConn().PID()) }

func (c pgxConn) plain(ctx context.Context, sql string) error {
	_, err := c.Exec(ctx, sql)
	return pgxError(err)
}

// several sends a batch: one pipeline.
func (c pgxConn) several(ctx context.Context, sql string) error {
	var b pgx.Batch
	for range 3 {
		b.Queue(sql)
	}
	return pgxError(c.SendBatch(ctx, &b).Close())
}

func (c pgxConn) tx(ctx context.Context, sql string, inside func(func(string) error)) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err // whatever it is: a BEGIN is not refused
	}
	if _, err := tx.Exec(ctx, sql); err != nil {
		inside(func(sql string) error {
			_, err := tx.Exec(ctx, sql)
			return pgxError(err)
		})
		if rollback := tx.Rollback(ctx); rollback != nil {
			return rollback
		}
		return pgxError(err)
	}
	return pgxError(tx.Commit(ctx))
}

// pgxError makes a refusal of what the server said.
func pgxError(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Severity == "ERROR" {
		return &refusal{e.Code, e.Detail, e.Hint}
	}
	return err
}
