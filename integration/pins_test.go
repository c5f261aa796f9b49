package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pinning lets one of five connections be pinned: 30 % of them.
const pinning = `
[console]
stats_users = ["app"]

[[workload]]
name       = "default"
max_wait   = "5s"
share      = "100%"
max_pinned = "30%"
`

// pins is SHOW PINS.
func (f *front) pins(t *testing.T) string {
	t.Helper()
	console := f.app
	console.Database = "pgweir"
	out, err := f.Psql(t.Context(), console, "\\pset format unaligned\nshow pins;")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// A session that listens keeps its server and hears of others at once, while they share what is
// left; one more is refused, until the bound is raised or the first has gone.
func TestPinned(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 5, more: pinning})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	listener := f.connect(t, named("listener"), execMode(pgx.QueryExecModeExec))
	run(t, listener, "listen news")
	other := f.connect(t, execMode(pgx.QueryExecModeExec))
	run(t, other, "notify news, 'one'", "begin", "notify news, 'two'", "commit")
	for _, want := range []string{"one", "two"} {
		n, err := listener.WaitForNotification(ctx)
		if err != nil || n.Payload != want {
			t.Fatalf("heard %+v (%v), want %s", n, err, want)
		}
	}
	if got := f.workload(t, "default", "pinned") + " of " + f.workload(t, "default", "max_pinned"); got != "1 of 1" {
		t.Errorf("%s are pinned", got)
	}
	if out := f.pins(t); !strings.Contains(out, "listener") || !strings.Contains(out, "|listen|") {
		t.Errorf("SHOW PINS: %s", out)
	}

	run(t, other, "begin", "select 1")
	_, err := other.Exec(ctx, "create temp table mine(a int)")
	wantRefusal(t, err, "53300", "pins")
	if _, err := other.Exec(ctx, "select 1"); sqlstate(err) != "25P02" {
		t.Errorf("in the refused transaction: %v", err)
	}
	run(t, other, "rollback", "begin", "create temp table mine(a int) on commit drop", "commit")

	f.reload(t, func(config string) string { return strings.Replace(config, `"30%"`, `"60%"`, 1) })
	run(t, other, "create temp table mine(a int)", "insert into mine values (1)")
	wantOne(t, other, "select count(*)::text from mine", "1")
	lock := f.connect(t, execMode(pgx.QueryExecModeExec))
	run(t, lock, "select pg_advisory_lock(1)")
	_, err = f.connect(t, execMode(pgx.QueryExecModeExec)).Exec(ctx, "prepare q as select 1")
	wantRefusal(t, err, "53300", "pins")

	run(t, other, "drop table mine")
	run(t, listener, "unlisten *")
	run(t, lock, "select pg_advisory_unlock(1)")
	if got := f.pins(t); got != "" {
		t.Errorf("still pinned: %s", got)
	}
	for range 20 { // whoever gets their servers finds nothing there
		wantOne(t, other, "select count(*)::text from pg_listening_channels()", "0")
	}
}

// If Postgres ends the server of an idle session that is pinned, the session hears why.
func TestPinnedServerEnds(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 5, more: pinning})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	listener := f.connect(t, execMode(pgx.QueryExecModeExec))
	run(t, listener, "listen news")
	pid, err := one(ctx, listener, "select pg_backend_pid()::text")
	if err != nil {
		t.Fatal(err)
	}
	f.sql(t, "postgres", "select pg_terminate_backend("+pid+")")
	_, err = listener.WaitForNotification(ctx)
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "57P01" || e.Severity != "FATAL" {
		t.Errorf("it hears %v", err)
	}
	if got := f.workload(t, "default", "pinned"); got != "0" {
		t.Errorf("%s are pinned", got)
	}
	wantOne(t, f.connect(t), "select 'goes on'", "goes on")
}
