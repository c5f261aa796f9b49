package integration

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// refusal returns what pgweir says of a refused statement, or "".
func refusal(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "53300" {
		return e.Detail
	}
	return ""
}

// A PostgreSQL that hangs accepts connections and answers nothing: log-ins to it end only
// by server_connect_timeout, which does not make anybody wait for longer than
// no_server_wait. Nothing has to be restarted afterwards.
func TestFrozenPostgres(t *testing.T) {
	t.Parallel()
	f := startPair(t, pairPlan{
		slots: 4, upstream: `server_connect_timeout = "1h"`,
		workload: "max_wait = \"500ms\"\nno_server_wait = \"500ms\"",
	})
	watch := watchBackends(t, f.cluster)
	bare := f.through(t, f.rest, "") // has no server, and no client was welcomed yet
	busy, waiting := f.connect(t, execMode(pgx.QueryExecModeSimpleProtocol)), f.connect(t, execMode(pgx.QueryExecModeSimpleProtocol))
	run(t, busy, "begin", "insert into ledger values (1, 1)") // on the only server that there is
	thaw, err := f.cluster.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = thaw() }()
	eventually(t, "a statement without a server is refused", func() bool {
		_, err := waiting.Exec(t.Context(), "insert into ledger values (2, 1)")
		return refusal(err) != ""
	})
	if waiting.IsClosed() {
		t.Error("the session was ended")
	}
	bare.wantRefused(t, "the first log-in")
	if err := thaw(); err != nil {
		t.Error(err)
	}
	run(t, busy, "commit")
	wantOne(t, bare.connect(t), "select 'after'", "after")
	eventually(t, "statements are served again", func() bool {
		got, err := one(t.Context(), waiting, "select string_agg(id::text, ',') from ledger")
		return err == nil && got == "1"
	})
	watch.within(t, f.budget)
}

// pgweir starts and reloads whether PostgreSQL is there or not.
func TestStartWithoutPostgres(t *testing.T) {
	t.Parallel()
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	behind := startBehind(t, plan{settings: map[string]string{"max_connections": "30"}})
	if err := behind.cluster.Halt(); err != nil {
		t.Fatal(err)
	}
	var fronts []*front
	for _, budget := range []string{"4", `"auto"`} {
		f := behind.through(t, fmt.Sprintf("[upstream.main]\nurl = %q\nbudget = %s\n[database.\"*\"]\n[[workload]]\nno_server_wait = \"200ms\"\n",
			behind.cluster.URL(behind.app), budget), "")
		fronts = append(fronts, f)
		f.wantRefused(t, "after the start")
		config, err := os.ReadFile(f.proc.ConfigFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.proc.ConfigFile, []byte(strings.Replace(string(config), "200ms", "300ms", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		f.proc.Signal(syscall.SIGHUP)
		f.logs(t, "reload done")
		f.wantRefused(t, "after the reload")
	}
	if err := behind.cluster.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range fronts {
		eventually(t, "clients are let in", func() bool {
			c, err := pgx.Connect(t.Context(), f.URL(f.app))
			if err != nil {
				return false
			}
			defer func() { _ = c.Close(t.Context()) }()
			got, err := one(t.Context(), c, "select 'there'")
			return err == nil && got == "there"
		})
	}
	fronts[1].logs(t, "0.7 x (30 - 3")
}

// wantRefused wants a log-in to fail because there is no server.
func (f *front) wantRefused(t *testing.T, when string) {
	t.Helper()
	if _, err := pgx.Connect(t.Context(), f.URL(f.app)); sqlstate(err) != "57P03" {
		t.Errorf("%s: %v", when, err)
	}
}

// logs waits until pgweir's log contains a text.
func (f *front) logs(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the log has "+text, func() bool {
		log, err := f.proc.Log()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(log, text)
	})
}

// Servers that nobody uses end, and nobody notices.
func TestIdleServersEnd(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 6})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	var clients []*pgx.Conn
	for i := range 6 {
		mode := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement}[i%3]
		clients = append(clients, f.connect(t, execMode(mode)))
	}
	for round := range size(3, 200) {
		for i, c := range clients { // so that there is a server for each
			run(t, c, "begin")
			wantOne(t, c, fmt.Sprintf("select '%d %d'", round, i), fmt.Sprint(round, " ", i))
		}
		for _, c := range clients {
			run(t, c, "commit")
		}
		ended := f.sql(t, "app", "select string_agg(pid::text, ',') from (select pid from pg_stat_activity where usename = 'app' offset 0) a where pg_terminate_backend(pid)")
		f.await(t, "count(*) = 0 from pg_stat_activity where pid in ("+ended+")")
	}
}

// full is a PostgreSQL of which pgweir can't have as much as its budget says.
func full(t *testing.T, settings map[string]string, roles string) *front {
	t.Helper()
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	c, err := pgtest.Start(t.Context(), pgtest.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	f := &front{Endpoint: c.Endpoint, cluster: c, app: pgtest.Login{User: "app", Database: "app"}}
	f.sql(t, "postgres", roles+"create database app owner app")
	f.sql(t, "app", ledgerTable)
	return f
}

// refusedLogins counts in PostgreSQL's log those that it had no room for.
func (f *front) refusedLogins(t *testing.T) int {
	t.Helper()
	log, err := f.cluster.Log()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(log, "FATAL:  too many connections for role") + strings.Count(log, "FATAL:  remaining connection slots are reserved") +
		strings.Count(log, "FATAL:  sorry, too many clients already")
}

// Somebody else takes all connections. Clients are told so, PostgreSQL is not stormed, and
// when there is room everybody is served.
func TestFullPostgres(t *testing.T) {
	t.Parallel()
	f := full(t, map[string]string{"max_connections": "8"}, "create role app login;\ncreate role other login;\n")
	var others []*pgx.Conn
	for range 5 { // three are reserved for superusers
		c, err := pgx.Connect(t.Context(), f.DSN("other", "app"))
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, c)
	}
	front := f.through(t, fmt.Sprintf("[upstream.main]\nurl = %q\nbudget = 6\nreserve = 1\n[database.\"*\"]\n[[workload]]\nno_server_wait = \"200ms\"\n", f.cluster.URL(f.app)), "")
	if _, err := pgx.Connect(t.Context(), front.URL(front.app)); sqlstate(err) != "53300" {
		t.Errorf("%v", err)
	}
	l := startLedger(t, front, 30, time.Millisecond)
	start := time.Now()
	const enough = 80
	eventually(t, "enough clients are refused", func() bool { return l.count("login 53300", start) >= enough })
	t.Logf("%d log-ins refused by PostgreSQL, %d by pgweir in %v", f.refusedLogins(t), l.count("login 53300", start), time.Since(start))
	if n := f.refusedLogins(t); n > enough/3 {
		t.Errorf("PostgreSQL had to refuse %d log-ins", n)
	}
	for _, c := range others {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	served(t, l)
	l.end()
	l.onlyOutcomes(t, "ok", "login 53300")
	l.balance(t, f.cluster)
}

// A role whose CONNECTION LIMIT is below what it could use is served by what it may have,
// and keeps nobody else waiting.
func TestRoleWithALimit(t *testing.T) {
	t.Parallel()
	f := full(t, nil, "create role app login;\ncreate role narrow login connection limit 2 in role app;\n")
	front := f.through(t, fmt.Sprintf("[upstream.main]\nurl = %q\nbudget = 9\nreserve = 1\n[database.\"*\"]\n", f.cluster.URL(f.app)), "")
	narrow := *front
	narrow.app.User = "narrow"
	l, limited := startLedger(t, front, 12, 5*time.Millisecond), startLedger(t, &narrow, 8, 5*time.Millisecond)
	start := time.Now()
	const enough = 200
	eventually(t, "both are served and the limit is met", func() bool {
		return min(l.count("ok", start), limited.count("ok", start)) >= enough && f.refusedLogins(t) > 0
	})
	t.Logf("in %v %d of the one and %d of the limited one, %d log-ins refused", time.Since(start),
		l.count("ok", start), limited.count("ok", start), f.refusedLogins(t))
	l.end()
	limited.end()
	l.onlyOutcomes(t, "ok")
	limited.onlyOutcomes(t, "ok")
}
