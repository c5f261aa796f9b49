package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// A name of [database] stands for another database, and for another role there, whose
// password comes from a file or a command. The password changes under load, the servers
// that logged in with the old one are replaced, and no client notices.
func TestDatabaseOfAnotherRole(t *testing.T) {
	t.Parallel()
	f := startBehind(t, plan{auth: "scram-sha-256", password: "of the app"})
	f.sql(t, "postgres", `create role filed login password 'first "password"';
create role told login password 'first "password"';
create database behind owner filed;
grant all on database behind to told`)
	dir := t.TempDir()
	secret := func(role string) string { return filepath.Join(dir, role) }
	for _, role := range []string{"filed", "told"} {
		writeFile(t, secret(role), "first \"password\"\nnot this line\n")
	}
	f = f.before(t, plan{auth: "scram-sha-256", password: "of the app", slots: 6, more: fmt.Sprintf(`
[console]
admin_users = ["app"]

[database.alias]
upstream      = "main"
dbname        = "behind"
user          = "filed"
password_file = %q

[database.other]
upstream         = "main"
dbname           = "behind"
user             = "told"
password_command = "cat '%s'"

[[workload]]
name     = "default"
max_wait = "60s"
`, secret("filed"), secret("told"))})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	for _, c := range []struct{ name, role string }{{"alias", "filed"}, {"other", "told"}} {
		t.Run(c.name, func(t *testing.T) {
			to := f.app
			to.Database = c.name
			out, err := f.Psql(t.Context(), to, "select current_user, session_user, current_database();")
			if want := c.role + "|" + c.role + "|behind"; err != nil || strings.TrimSpace(out) != want {
				t.Fatalf("%s, %v; want %s", out, err, want)
			}
			f.rotate(t, to, c.role, secret(c.role))
		})
	}
	// A name that is not mapped, and a role that may not log in.
	if got := f.psql(t, "select current_user, current_database()"); got != "app|app" {
		t.Errorf("not mapped: %s", got)
	}
	_, err := f.Psql(t.Context(), pgtest.Login{User: "filed", Password: `first "password"`, Database: "alias"}, "select 1")
	if err == nil || !strings.Contains(err.Error(), "password authentication failed") {
		t.Errorf("the role of the servers as a client: %v", err)
	}
}

// rotate changes the password of a role three times while clients work over its servers.
func (f *front) rotate(t *testing.T, to pgtest.Login, role, file string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var served atomic.Int64
	var g errgroup.Group
	for range 4 {
		config, err := pgx.ParseConfig(f.URL(to))
		if err != nil {
			t.Fatal(err)
		}
		g.Go(func() error {
			c, err := pgx.ConnectConfig(t.Context(), config)
			for err == nil && ctx.Err() == nil {
				_, err = c.Exec(t.Context(), "select 1 as work")
				served.Add(1)
			}
			if c != nil {
				_ = c.Close(context.WithoutCancel(t.Context()))
			}
			return err
		})
	}
	backends := "from pg_stat_activity where usename = '" + role + "'"
	console := f.app
	console.Database = "pgweir"
	for i := range 3 {
		n := served.Load()
		eventually(t, "work is done", func() bool { return served.Load() > n+20 })
		password := fmt.Sprintf("rotated %d", i)
		f.sql(t, "postgres", fmt.Sprintf("alter role %s password '%s'", role, password))
		writeFile(t, file+".new", password+"\r\n")
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
		old := f.sql(t, "postgres", "select string_agg(pid::text, ',') "+backends)
		if _, err := f.Psql(t.Context(), console, "reconnect"); err != nil {
			t.Fatal(err)
		}
		f.await(t, "count(*) filter (where pid in ("+old+")) = 0 and count(*) > 0 "+backends)
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Errorf("after %d statements: %v", served.Load(), err)
	}
}
