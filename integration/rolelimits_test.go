package integration

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// user is the role that a pgx connection logs in as.
func user(name string) func(*pgx.ConnConfig) {
	return func(c *pgx.ConnConfig) { c.User, c.Password = name, "" }
}

// A role's timeouts are what its sessions have on the server until they set them otherwise, and
// what RESET goes back to; a reload changes them, and other roles have none of it.
func TestTimeoutsAreDefaults(t *testing.T) {
	versions(t, func(t *testing.T, root string) {
		p := plan{root: root, more: "[role.app]\nstatement_timeout = \"61s\"\ntransaction_timeout = \"10m\"\nlock_timeout = \"2500ms\"\n"}
		behind := startBehind(t, p)
		behind.sql(t, "app", "create role other login")
		f := behind.before(t, p)
		if f.proc == nil {
			t.Skip("needs pgweir")
		}
		c := f.connect(t, simple)
		show := func(name, want string) {
			t.Helper()
			wantOne(t, c, "select current_setting('"+name+"', true)", want)
		}
		show("statement_timeout", "61s")
		show("lock_timeout", "2500ms")
		show("idle_in_transaction_session_timeout", "0")
		if f.sql(t, "app", "select current_setting('server_version_num')::int >= 170000") == "t" {
			show("transaction_timeout", "10min")
		}
		run(t, c, "set statement_timeout = 0", "reset statement_timeout")
		show("statement_timeout", "61s")
		run(t, c, "begin", "set statement_timeout = 0")
		show("statement_timeout", "0")
		run(t, c, "reset statement_timeout")
		show("statement_timeout", "61s")
		run(t, c, "commit", "discard all")
		show("statement_timeout", "61s")

		own := f.connect(t, func(c *pgx.ConnConfig) { c.RuntimeParams["statement_timeout"] = "7s" })
		wantOne(t, own, "show statement_timeout", "7s")
		wantOne(t, f.connect(t, user("other")), "show statement_timeout", "0")

		f.reload(t, func(config string) string { return strings.Replace(config, `"61s"`, `"62s"`, 1) })
		show("statement_timeout", "62s")
	})
}

// A role whose servers are another's has its own timeouts.
func TestTimeoutsOfAnotherUser(t *testing.T) {
	p := plan{more: "[database.shared]\ndbname = \"app\"\nuser = \"app\"\n" +
		"[role.app]\nstatement_timeout = \"61s\"\n[role.guest]\nstatement_timeout = \"3s\"\ntransaction_timeout = \"1h\"\n"}
	behind := startBehind(t, p)
	behind.sql(t, "app", "create role guest login")
	f := behind.before(t, p)
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	shared := func(c *pgx.ConnConfig) { c.Database = "shared" }
	guest, app := f.connect(t, user("guest"), shared), f.connect(t, shared)
	for range 2 {
		wantOne(t, guest, "select current_user || current_setting('statement_timeout')", "app3s")
		wantOne(t, app, "select current_user || current_setting('statement_timeout')", "app61s")
	}
}

// One client more than max_clients is refused as Postgres would, and let in when another has left
// or a reload makes room.
func TestMaxClients(t *testing.T) {
	o := operate(t, plan{more: "[database.small]\ndbname = \"app\"\nmax_clients = 1\n[role.app]\nmax_clients = 3\n"})
	full := func(want string, options ...func(*pgx.ConnConfig)) {
		t.Helper()
		config, err := pgx.ParseConfig(o.URL(o.app))
		if err != nil {
			t.Fatal(err)
		}
		for _, option := range options {
			option(config)
		}
		_, err = pgx.ConnectConfig(t.Context(), config)
		e, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || e.Code != "53300" || e.Severity != "FATAL" || e.Message != want || e.Detail != "reason=max_clients" {
			t.Errorf("%v, %+v; want %s", err, e, want)
		}
	}
	small := func(c *pgx.ConnConfig) { c.Database = "small" }
	first := o.connect(t, small)
	full(`too many connections for database "small"`, small)
	o.connect(t)
	o.connect(t)
	full(`too many connections for role "app"`)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client that left is not counted", func() bool {
		row := o.show(t, "pgweir", "ROLES").find(t, "user=app")
		return row["clients"] == "2" && row["max_clients"] == "3"
	})
	o.connect(t)
	full(`too many connections for role "app"`)
	o.reload(t, func(config string) string { return strings.Replace(config, "max_clients = 3", "max_clients = 4", 1) })
	o.connect(t)
	if row := o.show(t, "pgweir", "DATABASES").find(t, "name=small"); row["max_client_connections"] != "1" {
		t.Errorf("SHOW DATABASES: %v", row)
	}
	if n := o.show(t, "pgweir", "REFUSALS").count("reason=max_clients", "sqlstate=53300"); n != 3 {
		t.Errorf("%d refusals are shown, want 3", n)
	}
}

// The servers of a role, over all of its databases, are as many as it may have; a database that
// needs one gets that of another.
func TestMaxServerConnections(t *testing.T) {
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	p := plan{slots: 6, more: "[role.app]\nmax_server_connections = 2\n"}
	behind := startBehind(t, p)
	behind.sql(t, "postgres", "create database second owner app;\ncreate database third owner app")
	f := behind.before(t, p)
	most := func() string {
		return f.sql(t, "app", "select count(*) from pg_stat_activity where usename = 'app' and application_name <> 'pgweir'")
	}
	var all []*pgx.Conn
	for _, database := range []string{"app", "second", "third", "app", "second", "third"} {
		all = append(all, f.connect(t, func(c *pgx.ConnConfig) { c.Database = database }))
	}
	done := make(chan error)
	for _, c := range all {
		go func() {
			for range 5 {
				if _, err := c.Exec(t.Context(), "select pg_sleep(0.02)"); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := most(); n != "0" && n != "1" && n != "2" {
			t.Errorf("%s servers", n)
		}
	}
}
