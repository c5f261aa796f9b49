package integration

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What clients say about their requests is answered while every server is busy, whatever the
// driver and its way to send it.
func TestOwnParametersWhileNoServerIsFree(t *testing.T) {
	t.Parallel()
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	f := startFront(t, plan{slots: 1})
	f.psql(t, "select 1") // from now on its logins need no server
	conns := map[string]*pgx.Conn{}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeCacheStatement,
	} {
		conns[mode.String()] = f.connect(t, execMode(mode))
	}
	busy := f.connect(t, simple)
	run(t, busy, "begin", work)
	for mode, c := range conns {
		t.Run(mode, func(t *testing.T) {
			inItsWay(t, c, "set pgweir.class = 'sheddable'", "set session pgweir.deadline_ms to 250")
			wantOne(t, c, "show pgweir.class", "sheddable")
			inItsWay(t, c, "begin", "set local pgweir.class = 'critical'")
			wantOne(t, c, "show pgweir.class", "critical")
			inItsWay(t, c, "set pgweir.tenant = 'undone'", "rollback")
			wantOne(t, c, "show pgweir.class", "sheddable")
			wantOne(t, c, "show pgweir.tenant", "")
			inItsWay(t, c, "reset pgweir.class")
			wantOne(t, c, "show pgweir.class", "")
			if _, err := c.Exec(t.Context(), "set pgweir.clas = 'sheddable'"); sqlstate(err) != "42704" {
				t.Errorf("a parameter that there is not: %v", err)
			}
		})
	}
	got := f.psql(t, "set pgweir.class to 'urgent';\nshow pgweir.class;\nbegin;\nset local pgweir.class = critical;\ncommit;\nshow \"pgweir\".class;")
	if got != "urgent\nurgent" {
		t.Errorf("psql was told %q", got)
	}
	run(t, busy, "set local pgweir.class = 'critical'", work)
	wantOne(t, busy, "show pgweir.class", "critical")
	wantOne(t, busy, "select coalesce(current_setting('pgweir.class', true), 'the server knows nothing')", "the server knows nothing")
	run(t, busy, "commit")
	wantOne(t, busy, "show pgweir.class", "")
}

// What it says of its requests is not said of its login, which may need a server as well.
func TestOwnParametersOfTheStartupPacketAreNotAboutTheLogin(t *testing.T) {
	t.Parallel()
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	c := startFront(t, plan{}).connect(t, simple, func(c *pgx.ConnConfig) {
		c.RuntimeParams["options"] = "-c pgweir.attempt=9 -c pgweir.deadline_ms=0"
	})
	wantOne(t, c, "show pgweir.attempt", "9")
	if _, err := c.Exec(t.Context(), work); sqlstate(err) != "53400" {
		t.Errorf("the ninth attempt: %v", err)
	}
}

// What a client brings along is pgweir's, and RESET goes back to it.
func TestOwnParametersOfTheStartupPacket(t *testing.T) {
	t.Parallel()
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	f := startFront(t, plan{})
	c := f.connect(t, func(c *pgx.ConnConfig) {
		c.RuntimeParams["options"] = "-c pgweir.class=sheddable -c statement_timeout=7s"
		c.RuntimeParams["pgweir.tenant"] = "t1"
	})
	wantOne(t, c, "show pgweir.class", "sheddable")
	run(t, c, "set pgweir.class = critical", "set pgweir.tenant = other")
	wantOne(t, c, "show pgweir.class", "critical")
	run(t, c, "reset pgweir.class", "reset all")
	wantOne(t, c, "show pgweir.class", "sheddable")
	wantOne(t, c, "show pgweir.tenant", "t1")
	wantOne(t, c, "show statement_timeout", "7s")
	wantOne(t, c, "select coalesce(current_setting('pgweir.class', true), 'the server knows nothing')", "the server knows nothing")
	config, err := pgx.ParseConfig(f.URL(f.app))
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["pgweir.clas"] = "sheddable"
	if _, err := pgx.ConnectConfig(t.Context(), config); sqlstate(err) != "42704" {
		t.Errorf("a parameter that there is not: %v", err)
	}
}

// A refusal says whose request it was, as the request has said it.
func TestTagsOfARequest(t *testing.T) {
	t.Parallel()
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	f := startFront(t, plan{slots: 1, more: `
[[workload]]
name = "default"
max_wait = "100ms"
class = "sheddable_plus"
[role."*"]
max_class = "critical"
promote_share = "100%"
`})
	c, busy := f.connect(t), f.connect(t)
	if _, err := c.Exec(t.Context(), "select pg_sleep(600) /*pgweir.deadline_ms='100'*/"); sqlstate(err) != "57014" {
		t.Errorf("a statement past its deadline: %v", err)
	}
	run(t, busy, "begin", work)
	refused := func(statement string) *pgconn.PgError {
		t.Helper()
		_, err := c.Exec(t.Context(), statement)
		e, ok := errors.AsType[*pgconn.PgError](err)
		if !ok {
			t.Fatalf("%s: %v", statement, err)
		}
		return e
	}
	for _, r := range []struct{ tags, detail string }{
		{"", " class=sheddable_plus "},
		{"pgweir.class='sheddable',pgweir.tenant='t1'", " class=sheddable "},
		{"pgweir.class='critical_plus',pgweir.tenant='a%20b'", " class=critical "},
		{"pgweir.class='urgent',pgweir.tenant='t1'", " class=sheddable_plus "},
	} {
		e := refused(work + " /*" + r.tags + "*/")
		tenant := strings.Contains(e.Detail, ` tenant=t1`) || strings.Contains(e.Detail, ` tenant="a b"`)
		if e.Code != "53300" || !strings.Contains(e.Detail, r.detail) || tenant != strings.Contains(r.tags, "tenant") {
			t.Errorf("%s: %s %s", r.tags, e.Code, e.Detail)
		}
	}
	if e := refused(work + " /*pgweir.attempt='4'*/"); e.Code != "53400" || !strings.HasPrefix(e.Detail, "reason=attempts ") || e.Hint != "retry=no" {
		t.Errorf("the fourth try: %s %s, %s", e.Code, e.Detail, e.Hint)
	}
	run(t, busy, "commit")
	run(t, c, work)
}

// inItsWay runs statements one by one in the connection's own way.
func inItsWay(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
