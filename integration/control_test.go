package integration

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// benched runs f while pgbench reads, by twelve clients. None of them may meet an error:
// pgbench would say so and go on without it.
func (o *operated) benched(t *testing.T, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := o.Command(ctx, o.app, "pgbench", "-n", "-b", "select-only", "-M", "prepared", "-T", "3600", "-c", "12", "-j", "2")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		err := cmd.Wait()
		if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.Exited() || strings.Contains(said.String(), "error") || strings.Contains(said.String(), "abort") {
			t.Errorf("pgbench: %v, %s", err, said.String())
		}
	}()
	f()
}

// backends is how many server connections there are.
func (o *operated) backends(t *testing.T) int64 {
	t.Helper()
	return number(o.sql(t, "app", "select count(*) from pg_stat_activity where usename = 'app'"))
}

// workload is the row of the default workload.
func (o *operated) workload(t *testing.T) map[string]string {
	t.Helper()
	return o.show(t, "pgweir", "WORKLOADS").find(t, "workload=default")
}

// What an administrator does to a pgweir under load, and its clients do not notice.
func TestControlUnderLoad(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{slots: 6, more: "[[workload]]\nname = \"default\"\nmax_wait = \"1500ms\"\n"})
	if _, err := o.Pgbench(t.Context(), o.app, "-i", "-q", "-s", "1"); err != nil {
		t.Fatal(err)
	}
	o.benched(t, func() {
		eventually(t, "it runs", func() bool { return o.workload(t)["clients"] == "12" })
		for _, c := range []struct {
			name string
			act  func(*testing.T, *operated)
		}{
			{"pause for longer than max_wait", controlPause},
			{"pause a database", controlPauseDatabase},
			{"reconnect", controlReconnect},
			{"set", controlSet},
		} {
			t.Run(c.name, func(t *testing.T) {
				rounds := 1
				if long() {
					rounds = 20
				}
				for range rounds {
					before := number(o.workload(t)["granted"])
					c.act(t, o)
					eventually(t, "the clients go on", func() bool { return number(o.workload(t)["granted"]) > before })
				}
				wantRow(t, "WORKLOADS", o.workload(t), "refused=0", "clients=12")
			})
		}
	})
}

func controlPause(t *testing.T, o *operated) {
	o.console(t, "pause")
	if n := o.backends(t); n != 0 {
		t.Errorf("%d backends in the pause", n)
	}
	if got := o.show(t, "pgbouncer", "STATE").find(t, "key=paused"); got["value"] != "yes" {
		t.Errorf("state %v", got)
	}
	eventually(t, "somebody waits for longer than max_wait", func() bool { return number(o.workload(t)["oldest_ms"]) > 2000 })
	o.console(t, "resume")
}

func controlPauseDatabase(t *testing.T, o *operated) {
	o.console(t, "pause app")
	if n := o.backends(t); n != 0 {
		t.Errorf("%d backends in the pause", n)
	}
	if row := o.show(t, "pgbouncer", "DATABASES").find(t, "name=app"); row["paused"] != "1" {
		t.Errorf("not paused: %v", row)
	}
	o.console(t, "resume app")
	if _, err := o.tryConsole(t.Context(), "resume app"); err == nil || !strings.Contains(err.Error(), "is not paused") {
		t.Errorf("a second resume: %v", err)
	}
}

func controlReconnect(t *testing.T, o *operated) {
	before := o.sql(t, "app", "select clock_timestamp()")
	o.console(t, "reconnect")
	o.console(t, "wait_close")
	if n := o.sql(t, "app", "select count(*) from pg_stat_activity where usename = 'app' and backend_start < '"+before+"'"); n != "0" {
		t.Errorf("%s backends were not replaced", n)
	}
}

func controlSet(t *testing.T, o *operated) {
	o.console(t, "set upstream.main.budget = 3")
	eventually(t, "two backends", func() bool { return o.backends(t) <= 2 })
	wantRow(t, "UPSTREAMS", o.show(t, "pgweir", "UPSTREAMS").find(t, "upstream=main"), "budget=3", "slots=2")
	o.console(t, "set upstream.main.slots = 1")
	o.console(t, "set workload.default.max_wait = '20s'")
	wantRow(t, "WORKLOADS", o.workload(t), "max_wait_ms=20000")
	eventually(t, "one works", func() bool {
		return number(o.show(t, "pgweir", "UPSTREAMS").find(t, "upstream=main")["running"]) <= 1
	})
	if got := o.show(t, "pgweir", "CONFIG").find(t, "key=upstream.main.slots"); got["value"] != "1" || got["source"] != "SET" {
		t.Errorf("SHOW CONFIG: %v", got)
	}
	o.console(t, "reload")
	wantRow(t, "UPSTREAMS", o.show(t, "pgweir", "UPSTREAMS").find(t, "upstream=main"), "budget=7", "slots=6")
	wantRow(t, "WORKLOADS", o.workload(t), "max_wait_ms=1500")
	eventually(t, "more than two backends", func() bool { return o.backends(t) > 2 })
	for _, wrong := range []string{"set upstream.main.budget = 0", "set nothing = 1", "set listen = 3", "set workload.default.max_wait = 5"} {
		if _, err := o.tryConsole(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "nothing has changed") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// What clients notice of an administrator, and how they are told.
func TestControlOfClients(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{slots: 4})
	o.sql(t, "postgres", "create database other owner app")
	other := o.app
	other.Database = "other"
	connect := func(l pgtest.Login) *pgx.Conn {
		t.Helper()
		c, err := pgx.Connect(t.Context(), o.URL(l))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) }) // some were killed
		return c
	}
	bystander := connect(other)
	wantOne(t, bystander, "select 'before'", "before")
	t.Run("KILL", func(t *testing.T) { controlKill(t, o, connect) })
	t.Run("KILL_CLIENT", func(t *testing.T) {
		victim, neighbour := connect(o.app), connect(o.app)
		run(t, victim, "set application_name = 'victim'", "select 1")
		o.console(t, "kill_client "+o.show(t, "pgbouncer", "CLIENTS").find(t, "application_name=victim")["id"])
		wantEnded(t, victim, "57P01", "reason=killed")
		wantOne(t, neighbour, "select 'alive'", "alive")
		if _, err := o.tryConsole(t.Context(), "kill_client 123456789"); err == nil || !strings.Contains(err.Error(), "no such client") {
			t.Errorf("nobody: %v", err)
		}
	})
	t.Run("DISABLE", func(t *testing.T) {
		old := connect(o.app)
		o.console(t, "disable app")
		wantOne(t, old, "select 'alive'", "alive")
		if _, err := pgx.Connect(t.Context(), o.URL(o.app)); sqlstate(err) != "57P03" {
			t.Errorf("a new client: %v", err)
		}
		wantRow(t, "DATABASES", o.show(t, "pgbouncer", "DATABASES").find(t, "name=app"), "disabled=1")
		o.console(t, "enable app")
		wantOne(t, connect(o.app), "select 'new'", "new")
	})
	t.Run("max_client_conn", func(t *testing.T) {
		old := connect(o.app)
		o.console(t, "set max_client_conn = 10")
		var in []*pgx.Conn
		for range 10 {
			c, err := pgx.Connect(t.Context(), o.URL(o.app))
			if err == nil {
				in = append(in, c)
			} else if sqlstate(err) != "53300" {
				t.Errorf("one too many: %v", err)
			}
		}
		if len(in) == 0 || len(in) > 8 {
			t.Errorf("%d clients came in", len(in))
		}
		wantOne(t, old, "select 'alive'", "alive")
		for _, c := range in {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		o.console(t, "reload")
	})
	// PAUSE may come before the first client of a name that only "*" covers.
	t.Run("no such database", func(t *testing.T) {
		for _, verb := range []string{"kill", "reconnect", "wait_close"} {
			if _, err := o.tryConsole(t.Context(), verb+" nowhere"); err == nil || !strings.Contains(err.Error(), "no such database") {
				t.Errorf("%s: %v", verb, err)
			}
		}
	})
	t.Run("a pause that is cancelled goes on", func(t *testing.T) {
		busy := connect(o.app)
		run(t, busy, "begin", "select 1")
		admin := connect(pgtest.Login{User: "app", Database: "pgweir"})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := admin.Exec(ctx, "pause app", pgx.QueryExecModeSimpleProtocol)
			done <- err
		}()
		eventually(t, "paused", func() bool {
			return o.show(t, "pgbouncer", "DATABASES").find(t, "name=app")["paused"] == "1"
		})
		if err := admin.PgConn().CancelRequest(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; sqlstate(err) != "57014" {
			t.Errorf("pause: %v", err)
		}
		cancel()
		run(t, busy, "select 2", "commit")
		o.console(t, "resume app")
		wantOne(t, busy, "select 'served'", "served")
	})
	wantOne(t, bystander, "select 'after'", "after")
}

func controlKill(t *testing.T, o *operated, connect func(pgtest.Login) *pgx.Conn) {
	idle, busy := connect(o.app), connect(o.app)
	wantOne(t, idle, "select 'idle'", "idle")
	done := make(chan error, 1)
	go func() {
		_, err := busy.Exec(t.Context(), "select pg_sleep(600)")
		done <- err
	}()
	o.await(t, running("pg_sleep", 1))
	o.console(t, "kill app")
	if err := <-done; sqlstate(err) != "57P01" {
		t.Errorf("the busy one: %v", err)
	}
	wantEnded(t, idle, "57P01", "reason=killed")
	o.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app' and datname = 'app'")
	late := connect(o.app) // what Postgres reports is known: it needs no server
	go func() {
		_, err := late.Exec(t.Context(), "select 1")
		done <- err
	}()
	eventually(t, "a new client waits", func() bool {
		return o.show(t, "pgbouncer", "CLIENTS").count("state=waiting", "database=app") == 1
	})
	o.console(t, "resume app")
	if err := <-done; err != nil {
		t.Errorf("after the resume: %v", err)
	}
}

// wantEnded wants a session to have been ended with a last word.
func wantEnded(t *testing.T, c *pgx.Conn, words ...string) {
	t.Helper()
	conn := c.PgConn()
	defer func() { _ = conn.Conn().Close() }() // pgweir waits a while for that
	if err := conn.Conn().SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	m, err := conn.Frontend().Receive()
	if err != nil {
		t.Errorf("%v instead of the reason", err)
		return
	}
	e, ok := m.(*pgproto3.ErrorResponse)
	if !ok {
		t.Errorf("told %T", m)
		return
	}
	for _, w := range words {
		if w != e.Code && !strings.Contains(e.Detail, w) {
			t.Errorf("told %s %s %s, want %s", e.Code, e.Message, e.Detail, w)
		}
	}
}
