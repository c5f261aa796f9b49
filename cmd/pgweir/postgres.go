package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/config"
)

// How long pgweir waits at its start for a Postgres that it must ask.
const (
	askPatience = 30 * time.Second
	askInterval = 500 * time.Millisecond
)

// factsQuery asks for the limits, and for the client backends that are not
// pgweir's.
const factsQuery = `SELECT current_setting('max_connections'),
 current_setting('superuser_reserved_connections'),
 coalesce(current_setting('reserved_connections', true), '0'),
 (SELECT count(*) FROM pg_catalog.pg_stat_activity
  WHERE backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid())::text,
 (SELECT rolconnlimit FROM pg_catalog.pg_roles WHERE rolname = current_user)::text`

// askPostgres asks an upstream what budget = "auto" is worked out from. A
// Postgres that does not answer yet is waited for.
func askPostgres(ctx context.Context, u config.Upstream, log *slog.Logger) (config.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	for {
		facts, err := askOnce(ctx, u)
		if err == nil {
			return facts, nil
		}
		log.Warn("waiting for Postgres to work out budget = \"auto\"", "upstream", u.Name, "address", u.URL.Hosts[0].Address, "error", err)
		select {
		case <-ctx.Done():
			return facts, fmt.Errorf("upstream %s: budget = \"auto\" needs an answer from Postgres: %w; start Postgres, or give the budget as a number", u.Name, err)
		case <-time.After(askInterval):
		}
	}
}

func askOnce(ctx context.Context, u config.Upstream) (facts config.Facts, err error) {
	conn, err := pgconn.Connect(ctx, u.URL.Reveal())
	if err != nil {
		return facts, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it has done its work
	results, err := conn.Exec(ctx, factsQuery).ReadAll()
	if err != nil {
		return facts, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return facts, fmt.Errorf("unexpected answer to the question for max_connections")
	}
	row := results[0].Rows[0]
	for i, to := range []*int{&facts.MaxConnections, &facts.SuperuserReserved, &facts.ReservedConnections, &facts.OtherBackends, &facts.RoleLimit} {
		if *to, err = strconv.Atoi(string(row[i])); err != nil {
			return facts, fmt.Errorf("unexpected number in the answer: %w", err)
		}
	}
	return facts, nil
}
