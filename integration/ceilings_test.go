package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// peersRootEnv is a Debian tree with another PostgreSQL; see integration/peers.
const peersRootEnv = "PEERS_ROOT"

// ceiling is the limit of the roles in these tests.
const ceiling = 500 * time.Millisecond // and limit_ms=500

// ceilingRoles are a role for each timeout.
func ceilingRoles() (config string) {
	for _, timeout := range []string{"statement_timeout", "transaction_timeout", "idle_in_transaction_session_timeout", "lock_timeout"} {
		config += fmt.Sprintf("[role.%s]\nceiling = true\n%s = %q\n", timeout, timeout, ceiling)
	}
	return config
}

// versions runs a test before the PostgreSQL of this machine, and before that of another tree.
func versions(t *testing.T, test func(t *testing.T, root string)) {
	t.Run("here", func(t *testing.T) { test(t, "") })
	t.Run("other", func(t *testing.T) {
		root := os.Getenv(peersRootEnv)
		if root == "" {
			t.Skipf("$%s names no tree with another PostgreSQL", peersRootEnv)
		}
		test(t, root)
	})
}

// ceilings is a front with roles that have them.
type ceilings struct {
	*front
	major int    // version of PostgreSQL
	other string // where its programs are in another tree

	mu   sync.Mutex
	late map[string][]time.Duration // stops, by timeout
}

func startCeilings(t *testing.T, root, more string) *ceilings {
	t.Helper()
	p := plan{slots: 60, root: root, more: more, settings: map[string]string{"max_connections": "120"}}
	behind := startBehind(t, p)
	for _, role := range []string{"statement_timeout", "transaction_timeout", "idle_in_transaction_session_timeout", "lock_timeout"} {
		behind.sql(t, "app", "create role "+role+" login")
	}
	behind.sql(t, "app", "create table locked(a int);\ngrant all on locked to public")
	f := behind.before(t, p)
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	c := &ceilings{front: f, late: map[string][]time.Duration{}}
	var err error
	if c.major, err = strconv.Atoi(f.sql(t, "app", "select current_setting('server_version_num')::int / 10000")); err != nil {
		t.Fatal(err)
	}
	c.other = fmt.Sprintf("/usr/lib/postgresql/%d/bin", c.major)
	return c
}

// as is a connection of one of the roles.
func (f *ceilings) as(t *testing.T, role string, options ...func(*pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	return f.connect(t, append([]func(*pgx.ConnConfig){func(c *pgx.ConnConfig) { c.User = role }}, options...)...)
}

// stopped wants work that began at began to have been stopped by a timeout.
func (f *ceilings) stopped(t *testing.T, err error, timeout string, began time.Time) {
	t.Helper()
	late := time.Since(began) - ceiling
	code := map[string]string{
		"statement_timeout": "57014", "lock_timeout": "55P03", "transaction_timeout": "25P04", "idle_in_transaction_session_timeout": "25P03",
	}[timeout]
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != code {
		t.Errorf("after %v: %v, want %s", late+ceiling, err, code)
		return
	}
	if e.Detail != "" && !strings.HasPrefix(e.Detail, "reason="+timeout+" limit_ms=500") {
		t.Errorf("the DETAIL is %q", e.Detail)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late[timeout] = append(f.late[timeout], late)
}

// raises are the ways in which a session gets rid of a timeout, as a statement of a transaction.
func raises(timeout string) map[string]string {
	return map[string]string{
		"nothing":             "select 1",
		"SET":                 "set " + timeout + " = 0",
		"SET LOCAL":           "set local " + timeout + " = '1h'",
		"set_config":          "select set_config('" + timeout + "', '0', false)",
		"set_config is local": "select set_config('" + timeout + "', '0', true)",
		"DO":                  "do $$ begin perform set_config('" + timeout + "', '0', false); end $$",
		"RESET":               "reset " + timeout,
		"RESET ALL":           "reset all",
	}
}

// way is how a raise and work are sent. It returns when the work began, about, and its error.
type way struct {
	name string
	run  func(t *testing.T, c *pgx.Conn, raise, work string) (time.Time, error)
}

// inBlock sends them one after the other in a transaction block.
func inBlock(mode pgx.QueryExecMode) func(*testing.T, *pgx.Conn, string, string) (time.Time, error) {
	return func(t *testing.T, c *pgx.Conn, raise, work string) (time.Time, error) {
		run(t, c, "begin", raise)
		began := time.Now()
		_, err := c.Exec(t.Context(), work, mode)
		return began, err
	}
}

// pipelined sends both, and more, at once: in one batch, or with a Sync behind each. It returns
// the first error.
func pipelined(syncs bool) func(*testing.T, *pgx.Conn, string, string) (time.Time, error) {
	return func(t *testing.T, c *pgx.Conn, raise, work string) (time.Time, error) {
		began := time.Now()
		p := c.PgConn().StartPipeline(t.Context())
		list := []string{"begin", raise, work, "select 1", "commit"}
		for i, sql := range list {
			p.SendQueryParams(sql, nil, nil, nil, nil)
			if syncs || i == len(list)-1 {
				if err := p.Sync(); err != nil {
					return began, err
				}
			}
		}
		var first error
		for {
			result, err := p.GetResults()
			if r, ok := result.(*pgconn.ResultReader); ok && err == nil {
				_, err = r.Close()
			}
			if first == nil {
				first = err
			}
			switch {
			case err != nil && c.PgConn().IsClosed():
				return began, first
			case result == nil && err == nil:
				_ = p.Close() // says the same once more
				return began, first
			}
		}
	}
}

func ways() []way {
	return []way{
		{"simple", inBlock(pgx.QueryExecModeSimpleProtocol)},
		{"extended", inBlock(pgx.QueryExecModeExec)},
		{"prepared", inBlock(pgx.QueryExecModeCacheStatement)},
		{"one Query", func(t *testing.T, c *pgx.Conn, raise, work string) (time.Time, error) {
			began := time.Now()
			_, err := c.PgConn().Exec(t.Context(), "begin; "+raise+"; "+work+"; commit").ReadAll()
			return began, err
		}},
		{"pipeline", pipelined(true)},
		{"one Query, autocommit", func(t *testing.T, c *pgx.Conn, raise, work string) (time.Time, error) {
			began := time.Now()
			_, err := c.PgConn().Exec(t.Context(), raise+"; "+work).ReadAll()
			return began, err
		}},
		{"before, autocommit", func(t *testing.T, c *pgx.Conn, raise, work string) (time.Time, error) {
			run(t, c, raise)
			began := time.Now()
			_, err := c.Exec(t.Context(), work)
			return began, err
		}},
		{"one batch", pipelined(false)},
	}
}

// A client that raises its timeout by whatever means is stopped in time all the same. Traps
// 47, 48.
func TestCeilings(t *testing.T) {
	versions(t, func(t *testing.T, root string) {
		f := startCeilings(t, root, ceilingRoles())
		f.lock(t)
		b := &beside{t: t, room: make(chan struct{}, 12)}
		for raise, statement := range raises("statement_timeout") {
			for _, w := range ways() {
				b.run("statement_timeout/"+raise+"/"+w.name, func(t *testing.T) {
					f.raised(t, w, "statement_timeout", statement, "select pg_sleep(600)")
				})
			}
		}
		for timeout, work := range map[string]string{
			"statement_timeout":   "do $$ begin perform set_config('statement_timeout', '0', false); perform pg_sleep(600); end $$",
			"transaction_timeout": "select pg_sleep(600)",
			"lock_timeout":        "select * from locked",
		} {
			for raise, statement := range f.raisesOf(timeout) {
				for _, w := range ways()[:5] {
					b.run(timeout+"/"+raise+"/"+w.name+"/"+work[:2], func(t *testing.T) { f.raised(t, w, timeout, statement, work) })
				}
			}
		}
		for raise, statement := range raises("idle_in_transaction_session_timeout") {
			b.run("idle_in_transaction_session_timeout/"+raise, func(t *testing.T) { f.idles(t, statement) })
		}
		b.run("transaction_timeout/short statements", f.shortStatements)
		b.all.Wait()
		f.sql(t, "app", "alter role statement_timeout set statement_timeout = 0")
		b.run("statement_timeout/ALTER ROLE", f.otherwise)
		b.all.Wait()
		for timeout, late := range f.late {
			slices.Sort(late)
			t.Logf("PostgreSQL %d, %s: %d cases, %v late in the middle, %v at most", f.major, timeout, len(late),
				late[len(late)/2].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
		}
	})
}

// beside runs tests beside each other: all they do is wait.
type beside struct {
	t    *testing.T
	room chan struct{}
	all  sync.WaitGroup
}

func (b *beside) run(name string, test func(*testing.T)) {
	b.all.Go(func() {
		b.room <- struct{}{}
		defer func() { <-b.room }()
		b.t.Run(name, test)
	})
}

// idles keeps a transaction open.
func (f *ceilings) idles(t *testing.T, raise string) {
	const timeout = "idle_in_transaction_session_timeout"
	c := f.as(t, timeout)
	run(t, c, "begin", raise)
	began := time.Now()
	_, err := c.PgConn().ReceiveMessage(t.Context())
	f.stopped(t, err, timeout, began)
}

// shortStatements are a transaction that takes too long.
func (f *ceilings) shortStatements(t *testing.T) {
	c := f.as(t, "transaction_timeout")
	run(t, c, "begin")
	began := time.Now()
	var err error
	for err == nil {
		_, err = c.Exec(t.Context(), "select pg_sleep(0.02)")
	}
	f.stopped(t, err, "transaction_timeout", began)
}

// otherwise runs long statements where the role has another timeout, after a DISCARD ALL, which
// sets it.
func (f *ceilings) otherwise(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
		c := f.as(t, "statement_timeout", execMode(mode))
		run(t, c, "alter role current_user set statement_timeout = '2h'")
		if _, err := c.Exec(t.Context(), "discard all"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := c.Exec(t.Context(), "select pg_sleep(600)")
		f.stopped(t, err, "statement_timeout", began)
	}
}

// raisesOf are the raises of a timeout, or of another where this PostgreSQL does not have it.
func (f *ceilings) raisesOf(timeout string) map[string]string {
	if timeout == "transaction_timeout" && f.major < 17 {
		return raises("statement_timeout")
	}
	return raises(timeout)
}

// raised runs work that is to be stopped, and something after it if the session goes on.
func (f *ceilings) raised(t *testing.T, w way, timeout, raise, work string) {
	t.Helper()
	c := f.as(t, timeout)
	run(t, c, "select 1") // its server is there
	began, err := w.run(t, c, raise, work)
	f.stopped(t, err, timeout, began)
	if timeout == "transaction_timeout" {
		return
	}
	run(t, c, "rollback")
	wantOne(t, c, "select 'alive'", "alive")
}

// lock locks the table for the rest of the test.
func (f *ceilings) lock(t *testing.T) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), f.cluster.URL(pgtest.Login{User: pgtest.Superuser, Database: "app"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	run(t, c, "begin", "lock table locked in access exclusive mode")
}

// A dump is not stopped, nor is what is not for the role with the ceiling.
func TestCeilingsAreNotForDumps(t *testing.T) {
	versions(t, func(t *testing.T, root string) {
		f := startCeilings(t, root, "[role.app]\nceiling = true\nstatement_timeout = \"300ms\"\ntransaction_timeout = \"300ms\"\nlock_timeout = \"300ms\"\n")
		f.psql(t, "create table kept(a int);\ninsert into kept values (42)")
		locker, err := pgx.Connect(t.Context(), f.cluster.URL(pgtest.Login{User: pgtest.Superuser, Database: "app"}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = locker.Close(context.Background()) }()
		run(t, locker, "begin", "lock table kept in access exclusive mode")
		cmd := f.Command(t.Context(), f.app, "pg_dump")
		if root != "" { // that of this machine does not dump what is newer
			cmd = exec.CommandContext(t.Context(), f.other+"/pg_dump", cmd.Args[1:]...)
			cmd.Env = f.Command(t.Context(), f.app, "pg_dump").Env
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		}
		type output struct {
			text []byte
			err  error
		}
		done := make(chan output, 1)
		go func() {
			text, err := cmd.Output()
			done <- output{text, err}
		}()
		f.await(t, "count(*) = 1 from pg_stat_activity where application_name = 'pg_dump' and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '1 s'")
		_, err = f.as(t, "app").Exec(t.Context(), "select * from kept")
		if code := sqlstate(err); code != "57014" && code != "55P03" && code != "25P04" {
			t.Errorf("beside the dump: %v", err)
		}
		run(t, locker, "commit")
		if out := <-done; out.err != nil || !strings.Contains(string(out.text), "\n42\n") {
			t.Errorf("the dump: %v\n%s", out.err, out.text)
		}
	})
}
