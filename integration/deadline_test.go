package integration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire"
)

// Forty clients with little patience want long statements from four slots. However they
// leave, no more than four run at once, and nothing is left of them.
func TestClientsThatDoNotWait(t *testing.T) {
	const clients, slots, patience = 40, 4, 100 * time.Millisecond
	f := startFront(t, plan{slots: slots})
	if f.proc == nil {
		t.Skip("PostgreSQL itself does not look while it works")
	}
	query := wire.AppendQuery(nil, "select pg_sleep(600)")
	for name, leave := range map[string]func(*rawClient) error{
		"closes": func(c *rawClient) error { return c.conn.Close() },
		"cancels": func(c *rawClient) error {
			if err := c.cancel(f.Endpoint); err != nil {
				return err
			}
			if a, err := c.answer(); err != nil || a.err == nil || a.err.code != "57014" {
				return fmt.Errorf("after the cancel: %+v, %w", a, err)
			}
			return c.exec("select 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			most := watchActive(t, f)
			var all sync.WaitGroup
			busy := make(chan struct{}) // closed when all slots are
			for range clients {
				c, err := dialRaw(f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "database", Value: "app"})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.conn.Close() })
				all.Go(func() {
					if err := c.send(query); err != nil {
						t.Error(err)
						return
					}
					<-busy
					<-time.After(patience)
					if err := leave(c); err != nil {
						t.Error(err)
					}
				})
			}
			f.await(t, running("pg_sleep", slots))
			close(busy)
			all.Wait()
			f.await(t, running("pg_sleep", 0))
			if n := most(); n > slots {
				t.Errorf("%d statements at once, want %d", n, slots)
			}
		})
	}
}

// watchActive watches how many sessions of role app run a statement; the result ends it.
func watchActive(t *testing.T, f *front) (most func() int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c, err := pgx.Connect(ctx, f.cluster.URL(pgtest.Login{User: pgtest.Superuser, Database: "app"}))
	if err != nil {
		t.Fatal(err)
	}
	n, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			now := 0
			err := c.QueryRow(ctx, "select count(*) from pg_stat_activity where usename = 'app' and state = 'active' and query like '%pg_sleep(600)%'").Scan(&now)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			n = max(n, now)
		}
	}()
	end := sync.OnceFunc(func() {
		stop()
		<-done
		_ = c.Close(context.WithoutCancel(ctx))
	})
	t.Cleanup(end)
	return func() int { end(); return n }
}

// Past its deadline a statement is refused unsent while it waits, and cancelled when it runs;
// its session goes on.
func TestDeadlines(t *testing.T) {
	f := startFront(t, plan{slots: 1, more: "[[workload]]\nname = \"patient\"\nmatch = { application_name = [\"patient\"] }\n" +
		"[[workload]]\nname = \"default\"\ndeadline = \"300ms\"\nmax_wait = \"60s\"\n"})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	f.psql(t, "create table late(a int)")
	c := f.connect(t)
	for range 2 {
		for _, sql := range []string{"select pg_sleep(600)", "insert into late select 1 from (select pg_sleep(600)) s"} {
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement} {
				if _, err := c.Exec(t.Context(), sql, mode); sqlstate(err) != "57014" {
					t.Errorf("%s, %s: %v", sql, mode, err)
				}
			}
		}
		wantOne(t, c, "select 'alive'", "alive")
	}
	copyPastDeadline(t, f)
	waitPastDeadline(t, f, c)
	run(t, c, "begin", "select pg_sleep(0.5)", "commit") // a transaction has no deadline
	wantOne(t, c, "select count(*)::text from late", "0")
}

// waitPastDeadline waits while another has the slot.
func waitPastDeadline(t *testing.T, f *front, c *pgx.Conn) {
	t.Helper()
	busy := f.connect(t, func(c *pgx.ConnConfig) { c.RuntimeParams["application_name"] = "patient" })
	done := make(chan error, 1)
	go func() {
		_, err := busy.Exec(t.Context(), "select pg_sleep(600)", pgx.QueryExecModeSimpleProtocol)
		done <- err
	}()
	f.await(t, running("pg_sleep", 1))
	_, err := c.Exec(t.Context(), "insert into late values (2)", pgx.QueryExecModeSimpleProtocol)
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "57014" || !strings.HasPrefix(e.Detail, "reason=deadline ") || e.Hint != "retry=no" {
		t.Errorf("while it waits: %v", err)
	}
	f.sql(t, "app", "select pg_cancel_backend(pid) from pg_stat_activity where usename = 'app' and query like '%pg_sleep%'")
	if err := <-done; sqlstate(err) != "57014" {
		t.Errorf("the other: %v", err)
	}
}

// copyPastDeadline stops in the middle of a COPY FROM STDIN.
func copyPastDeadline(t *testing.T, f *front) {
	t.Helper()
	c, err := dialRaw(f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "database", Value: "app"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.conn.Close() }()
	data := wire.AppendMessage(nil, wire.MsgCopyData, []byte("1\n"))
	if err := c.send(append(wire.AppendQuery(nil, "copy late from stdin"), data...)); err != nil {
		t.Fatal(err)
	}
	if a, err := c.answer(); err != nil || !a.copyIn {
		t.Fatalf("COPY: %+v, %v", a, err)
	}
	a, err := c.answer()
	if err != nil || a.err == nil || a.err.code != "57014" || !strings.Contains(a.err.message, "deadline") {
		t.Fatalf("COPY: %+v, %v", a, err)
	}
	if err := c.send(append(data, wire.AppendEmpty(nil, wire.MsgCopyDone)...)); err != nil { // it had not heard yet
		t.Fatal(err)
	}
	if err := c.exec("select 1"); err != nil {
		t.Errorf("after the COPY: %v", err)
	}
}

// PostgreSQL reports a write as done that is cancelled while it waits for a standby. So while
// a standby is waited for no write is cancelled, neither at its deadline nor when its client
// leaves; reads are. Without one, writes are cancelled as well.
func TestWritesThatWaitForAStandby(t *testing.T) {
	f := startPair(t, pairPlan{
		slots: 6, standby: true, workload: `deadline = "300ms"`,
		settings: map[string]string{"synchronous_standby_names": "''"},
	})
	f.sql(t, "app", "create table kept(a text); grant all on kept to app")
	name := func(names string) {
		t.Helper()
		f.sql(t, "postgres", "alter system set synchronous_standby_names = '"+names+"'")
		f.sql(t, "postgres", "select pg_reload_conf()")
		f.await(t, "current_setting('synchronous_standby_names') = '"+names+"'")
	}
	slow := "insert into kept select 'slow' from (select pg_sleep(600)) s"
	if _, err := f.connect(t).Exec(t.Context(), slow, pgx.QueryExecModeSimpleProtocol); sqlstate(err) != "57014" {
		t.Errorf("a write that nothing waits for: %v", err)
	}
	name("*")
	if err := f.standby.Halt(); err != nil {
		t.Fatal(err)
	}
	waiting := func(n int) string {
		return "count(*) = " + strconv.Itoa(n) + " from pg_stat_activity where usename = 'app' and wait_event = 'SyncRep'"
	}
	late := make(chan error, 2) // of clients that wait on, past their deadline
	for i, sql := range []string{"insert into kept values ('late')", "begin; insert into kept values ('block'); commit"} {
		c := f.connect(t)
		go func() {
			_, err := c.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
			late <- err
		}()
		f.await(t, waiting(i+1))
	}
	gone := f.connect(t)
	if _, err := gone.PgConn().Conn().Write(wire.AppendQuery(nil, "insert into kept values ('gone')")); err != nil {
		t.Fatal(err)
	}
	f.await(t, waiting(3))
	if err := gone.PgConn().Conn().Close(); err != nil {
		t.Fatal(err)
	}
	for range 8 { // in their time the deadlines of the writes pass, several times
		if _, err := f.connect(t).Exec(t.Context(), "select pg_sleep(600)", pgx.QueryExecModeSimpleProtocol); sqlstate(err) != "57014" {
			t.Errorf("a read past its deadline: %v", err)
		}
	}
	f.await(t, waiting(3))
	if err := f.standby.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range cap(late) {
		if err := <-late; err != nil {
			t.Errorf("a write that waited for the standby: %v", err)
		}
	}
	f.await(t, waiting(0))
	if got := f.sql(t, "app", "select string_agg(a, ',' order by a) from kept"); got != "block,gone,late" {
		t.Errorf("kept %q", got)
	}
	if log, err := f.cluster.Log(); err != nil || strings.Contains(log, "canceling wait for synchronous replication") {
		t.Errorf("a write was cancelled: %v", err)
	}
}
