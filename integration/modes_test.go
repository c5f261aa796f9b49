package integration

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/wire"
)

// named sets the application_name of a pgx connection.
func named(name string) func(*pgx.ConnConfig) {
	return func(c *pgx.ConnConfig) { c.RuntimeParams["application_name"] = name }
}

// tryConnect is connect for a login that may fail.
func (f *front) tryConnect(ctx context.Context, name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(f.URL(f.app))
	if err != nil {
		return nil, err
	}
	named(name)(config)
	return pgx.ConnectConfig(ctx, config)
}

// wantRefusal wants an error of pgweir with this code and reason.
func wantRefusal(t *testing.T, err error, code, reason string) {
	t.Helper()
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != code || !strings.Contains(e.Detail, "reason="+reason+" ") {
		t.Errorf("the error is %v, %+v; want %s with reason=%s", err, e, code, reason)
	}
}

// reload gives pgweir another configuration, which it must like, and waits until it is in
// force.
func (f *front) reload(t *testing.T, change func(config string) string) {
	t.Helper()
	before, err := os.ReadFile(f.proc.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	after := change(string(before))
	if after == string(before) {
		t.Fatalf("nothing to change in\n%s", before)
	}
	if err := os.WriteFile(f.proc.ConfigFile, []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
	reloads := func() int {
		log, err := os.ReadFile(f.proc.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(log, []byte("reload refused")) {
			t.Fatalf("it is refused:\n%s", log)
		}
		return bytes.Count(log, []byte("reload done"))
	}
	n := reloads()
	f.proc.Signal(syscall.SIGHUP)
	eventually(t, "the configuration is reloaded", func() bool { return reloads() > n })
}

// sessionMode is a workload of session mode for keepers, beside the default one.
const sessionMode = `
[[workload]]
name         = "keepers"
match        = { application_name = ["keep*"] }
pool_mode    = "session"
share        = "100%"
lendable     = "100%"
max_wait     = "200ms"
session_wait = "200ms"

[[workload]]
name     = "default"
share    = "0%"
max_wait = "60s"
`

// A login in session mode waits for a server for session_wait, and is then refused; when a
// session leaves, the next one gets its server, clean.
func TestSessionWait(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 2, more: sessionMode})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	first, second := f.connect(t, named("keeper 1")), f.connect(t, named("keeper 2"))
	run(t, first, "create temp table mine(a int)", "listen somewhere", "select pg_advisory_lock(1)", "set work_mem = '7MB'")
	pid, err := one(t.Context(), first, "select pg_backend_pid()::text")
	if err != nil {
		t.Fatal(err)
	}
	run(t, second, "select 1")

	_, err = f.tryConnect(t.Context(), "keeper 3")
	wantRefusal(t, err, "53300", "queue_age")
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Severity != "FATAL" {
		t.Errorf("the refusal is no FATAL one: %v", err)
	}
	login := f.app
	login.Database = "app"
	cmd := f.Command(t.Context(), login, "psql", "-XAtqw", "-c", "select 1")
	cmd.Env = append(cmd.Env, "PGAPPNAME=keeper 4")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "FATAL:  pgweir: no server connection became free in time") {
		t.Errorf("psql: %v: %s", err, out)
	}

	// The one whose server it was must be gone first, whichever way.
	if err := first.PgConn().Conn().Close(); err != nil {
		t.Fatal(err)
	}
	var next *pgx.Conn
	eventually(t, "a place is free", func() bool {
		next, err = f.tryConnect(t.Context(), "keeper 5")
		return err == nil
	})
	defer func() { _ = next.Close(context.Background()) }()
	wantOne(t, next, "select pg_backend_pid()::text", pid)
	wantOne(t, next, "select coalesce(to_regclass('mine')::text, 'none')", "none")
	wantOne(t, next, "select current_setting('work_mem')", "4MB")
	wantOne(t, next, "select count(*)::text from pg_listening_channels()", "0")
	wantOne(t, next, "select count(*)::text from pg_locks where locktype = 'advisory'", "0")
	wantOne(t, second, "select 'kept'", "kept")
}

// A session that has a server still needs a slot for each transaction. Without one it waits
// and is refused like everybody else, and keeps its session and what is in it. While it is
// idle, or waits, its slot is others'.
func TestSessionsShareSlots(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 3, upstream: "slots = 1", more: sessionMode})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	f.psql(t, "select 1") // now pgweir can welcome others without a server
	a, b := f.connect(t, named("keeper a"), execMode(pgx.QueryExecModeExec)), f.connect(t, named("keeper b"), execMode(pgx.QueryExecModeExec))
	run(t, b, "create temp table mine(a int)", "insert into mine values (1)")
	run(t, a, "begin", "select 1")
	_, err := b.Exec(t.Context(), "select 2")
	wantRefusal(t, err, "53300", "queue_age")
	run(t, b, "begin")
	_, err = b.Exec(t.Context(), "insert into mine values (2)")
	wantRefusal(t, err, "53300", "queue_age")
	if _, err := b.Exec(t.Context(), "select 3"); sqlstate(err) != "25P02" {
		t.Errorf("in the refused transaction: %v", err)
	}
	run(t, b, "rollback")

	// While somebody waits he can be cancelled.
	raw, err := dialRaw(f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "application_name", Value: "patient"})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.reset()
	if err := raw.send(wire.AppendQuery(nil, "select 4")); err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() { // again and again: one that comes before the statement is for nothing
		for {
			_ = raw.cancel(f.Endpoint) // the answer tells whether one has worked
			select {
			case <-answered:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	got, err := raw.answer()
	close(answered)
	if err != nil || got.err == nil || got.err.code != "57014" {
		t.Errorf("a cancelled wait: %+v, %v", got, err)
	}
	run(t, a, "commit")
	wantOne(t, b, "select count(*)::text from mine", "1")
	wantOne(t, a, "select 'kept'", "kept")
}

// A client in session mode that vanishes in the middle of a transaction or a statement leaves
// nothing behind, and its server is cleaned for the next one.
func TestSessionClientVanishes(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 2, more: strings.Replace(sessionMode, `session_wait = "200ms"`, `session_wait = "60s"`, 1)})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	f.psql(t, "create table kept(a int)")
	for _, c := range []struct{ name, last string }{
		{"in a transaction", ""},
		{"in a read", "select pg_sleep(600)"},
		{"in a COPY", "copy public.kept from stdin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, err := dialRaw(f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "application_name", Value: "keeper"})
			if err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{"create temp table mine(a int)", "set role none", "begin", "insert into kept values (1)", "set search_path = pg_temp"} {
				if err := raw.exec(sql); err != nil {
					t.Fatal(err)
				}
			}
			if c.last != "" {
				if err := raw.send(wire.AppendQuery(nil, c.last)); err != nil {
					t.Fatal(err)
				}
				f.await(t, running(c.last, 1))
			}
			raw.reset()
			next := f.connect(t, named("keeper"))
			wantOne(t, next, "select count(*)::text from kept", "0")
			wantOne(t, next, "select current_schemas(false)::text || coalesce(to_regclass('mine')::text, ' none')", "{public} none")
			if err := next.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A session in session mode is told at once, in Postgres' words, that its backend has been
// ended, also while it is idle. Others are not disturbed.
func TestSessionBackendKilled(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 3, more: sessionMode})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	other := f.connect(t, named("keeper other"))
	run(t, other, "create temp table mine(a int)")
	for _, c := range []struct{ name, first string }{{"idle", ""}, {"in a transaction", "begin"}} {
		t.Run(c.name, func(t *testing.T) {
			raw, err := dialRaw(f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "application_name", Value: "keeper"})
			if err != nil {
				t.Fatal(err)
			}
			defer raw.reset()
			for _, sql := range []string{c.first, "select 1"} {
				if err := raw.exec(sql); err != nil {
					t.Fatal(err)
				}
			}
			f.sql(t, "app", "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'keeper'")
			_, _, err = raw.message()
			e, ok := errors.AsType[*rawError](err)
			if !ok || e.code != "57P01" || e.message != "terminating connection due to administrator command" {
				t.Errorf("the session is told %v", err)
			}
			if _, _, err := raw.message(); err == nil {
				t.Error("the session goes on")
			}
		})
	}
	wantOne(t, other, "select count(*)::text from mine", "0")
}

// A client that changes its application_name changes its workload, between transactions: so
// does pgJDBC, which sends it after the login. From session mode its server goes back clean.
func TestApplicationNameChangesTheWorkload(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 2, more: sessionMode + "max_pinned = \"0%\"\n"}) // one is left for transactions
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		t.Run(mode.String(), func(t *testing.T) {
			c, web := f.connect(t, named("web"), execMode(mode)), f.connect(t, named("web"))
			wantOne(t, c, "select 'a statement to be kept'", "a statement to be kept")
			if _, err := c.Exec(t.Context(), "create temp table mine(a int)"); sqlstate(err) != "53300" {
				t.Errorf("in transaction mode: %v", err)
			}
			// In a transaction the name counts only behind it.
			run(t, c, "begin", "set application_name = 'keeper'", "select 1", "commit")
			run(t, c, "create temp table mine(a int)", "insert into mine values (1)")
			wantOne(t, c, "select count(*)::text from mine", "1")
			if _, err := f.tryConnect(t.Context(), "keeper"); sqlstate(err) != "53300" {
				t.Errorf("a second session on one server: %v", err)
			}
			wantOne(t, c, "select 'a statement to be kept'", "a statement to be kept")
			run(t, c, "set application_name = 'web'", "insert into mine values (2)", "drop table mine") // until then the server is its own
			if _, err := c.Exec(t.Context(), "create temp table mine(a int)"); sqlstate(err) != "53300" {
				t.Errorf("back in transaction mode: %v", err)
			}
			wantOne(t, web, "select coalesce(to_regclass('mine')::text, 'none') || current_setting('application_name')", "noneweb")
			wantOne(t, c, "select 'a statement to be kept'", "a statement to be kept")
		})
	}
}

// A reload changes the pool mode of clients that are connected, when they are idle.
func TestReloadChangesTheMode(t *testing.T) {
	t.Parallel()
	mode := func(m string) string { return `pool_mode = "` + m + `"` }
	f := startFront(t, plan{slots: 2, more: "[[workload]]\nname = \"default\"\nshare = \"100%\"\nmax_pinned = \"0%\"\n" + mode("transaction") + "\n"})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	change := func(from, to string) {
		t.Helper()
		f.reload(t, func(config string) string { return strings.Replace(config, mode(from), mode(to), 1) })
	}
	c, busy := f.connect(t), f.connect(t)
	if _, err := c.Exec(t.Context(), "create temp table mine(a int)"); sqlstate(err) != "53300" {
		t.Errorf("a table that would be lost in transaction mode: %v", err)
	}
	run(t, busy, "begin", "create temp table of_the_block(a int) on commit drop")
	change("transaction", "session")
	run(t, c, "create temp table mine(a int)", "insert into mine values (1)")
	wantOne(t, c, "select count(*)::text from mine", "1")
	run(t, busy, "insert into of_the_block values (1)", "commit", "create temp table another(a int)", "insert into another values (1)")

	change("session", "statement")
	if _, err := c.Exec(t.Context(), "begin", pgx.QueryExecModeSimpleProtocol); sqlstate(err) != "0A000" {
		t.Errorf("in statement mode: %v", err)
	}
	// What a session has left on its server it does not lose: the server is its own until it is gone.
	wantOne(t, c, "select count(*)::text from mine", "1")
	run(t, c, "drop table mine")

	change("statement", "transaction")
	run(t, c, "begin", "select 1", "commit")
	wantOne(t, busy, "select count(*)::text from another", "1")
	run(t, busy, "drop table another")
	wantOne(t, c, "select coalesce(to_regclass('another')::text, 'none')", "none")
}

// Statement mode as drivers see it: an error they can understand, and a session that goes on.
func TestStatementMode(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 2, more: "[[workload]]\nname = \"default\"\npool_mode = \"statement\"\n"})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	f.psql(t, "create table single(a int)")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement} {
		t.Run(mode.String(), func(t *testing.T) {
			c := f.connect(t, execMode(mode))
			if _, err := c.Begin(t.Context()); sqlstate(err) != "0A000" {
				t.Errorf("begin: %v", err)
			}
			run(t, c, "insert into single values (1)")
			wantOne(t, c, "select (count(*) >= 1)::text from single", "true")
		})
	}
	out, err := f.Psql(t.Context(), f.app, "begin;\ninsert into single values (2);")
	if err == nil || !strings.Contains(err.Error(), "0A000: pgweir: transaction blocks are not allowed in statement mode") {
		t.Errorf("psql: %s, %v", out, err)
	}
	c := f.connect(t)
	if _, err := c.PgConn().Exec(t.Context(), "insert into single values (3); begin; insert into single values (4)").ReadAll(); sqlstate(err) != "0A000" {
		t.Errorf("a string: %v", err)
	}
	f.await(t, "count(*) = 0 from pg_stat_activity where state like 'idle in%'")
	if got := f.sql(t, "app", "select count(*) from single where a > 2"); got != "0" {
		t.Errorf("%s rows of a block are left", got)
	}
}

// writeFile writes a file that only its owner reads.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What drivers do they do in session mode as well, each connection with a server of its own.
func TestDriversInSessionMode(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 24, more: "[[workload]]\nname = \"default\"\nshare = \"100%\"\npool_mode = \"session\"\nmax_wait = \"60s\"\nsession_wait = \"60s\"\n"})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, *front)
	}{
		{"pgx: transfers by many connections", pgxTransfers},
		{"pgx: pipeline with several syncs", pgxPipeline},
		{"pgx: copy in and out", pgxCopy},
		{"pgx: copy in that the client gives up", pgxCopyAborted},
		{"pgx: more statements than a server keeps", pgxManyStatements},
		{"pgx: deallocate all", pgxDeallocateAll},
		{"pgx: every mode of execution", pgxExecModes},
		{"pgx: error in a transaction", pgxErrorInTransaction},
		{"pgx: cancel of a running statement", pgxCancelRunning},
		{"pgx: a client that hangs up", pgxHangUp},
		{"lib/pq: copy in with a bad row", pqCopyInFails},
		{"lib/pq: prepared by many", pqPreparedByMany},
		{"lib/pq: cancel of a transaction", pqCancelTransaction},
		{"psql: copy that fails", psqlCopyFails},
		{"psql: cancel of a running statement", psqlCancelRunning},
		{"settings at startup", settingsAtStartup},
		{"SET in a transaction that is rolled back", settingsRolledBack},
		{"SET that fails", settingsRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.psql(t, "drop table if exists account cascade;\ncreate table account(id int primary key, balance int not null);\ninsert into account select n, 1000 from generate_series(1, 20) n")
			c.test(t, f)
		})
	}
}
