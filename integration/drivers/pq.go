package drivers

import (
	"context"
	"database/sql"
	"errors"
	"net/url"

	"github.com/lib/pq"
)

// openPq opens a pool of database/sql with lib/pq.
func openPq(_ context.Context, job Job) (pool, error) {
	db, err := sql.Open("postgres", job.To.DSN(job.User, job.Database)+"&application_name="+url.QueryEscape(job.Application))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(job.Workers)
	db.SetMaxIdleConns(job.Workers)
	return &pqPool{db}, nil
}

type pqPool struct{ *sql.DB }

func (p *pqPool) close() { _ = p.Close() }

func (p *pqPool) lend(ctx context.Context, do func(conn) error) error {
	c, err := p.Conn(ctx)
	if err != nil {
		return pqError(err)
	}
	defer func() { _ = c.Close() }() // into the pool
	return do(pqConn{c})
}

type pqConn struct{ *sql.Conn }

// pid is not told by lib/pq.
func (c pqConn) pid() int { return 0 }

func (c pqConn) plain(ctx context.Context, text string) error {
	_, err := c.ExecContext(ctx, text)
	return pqError(err)
}

// several sends one string: lib/pq has no pipeline.
func (c pqConn) several(ctx context.Context, text string) error {
	return c.plain(ctx, text+";"+text+";"+text)
}

func (c pqConn) tx(ctx context.Context, text string, inside func(func(string) error)) error {
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err // whatever it is: a BEGIN is not refused
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		inside(func(text string) error {
			_, err := tx.ExecContext(ctx, text)
			return pqError(err)
		})
		if rollback := tx.Rollback(); rollback != nil {
			return rollback
		}
		return pqError(err)
	}
	return pqError(tx.Commit())
}

// pqError makes a refusal of what the server said.
func pqError(err error) error {
	if e, ok := errors.AsType[*pq.Error](err); ok && e.Severity == "ERROR" {
		return &refusal{string(e.Code), e.Detail, e.Hint}
	}
	return err
}
