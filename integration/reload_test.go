package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// A reload brings databases, upstreams and workloads and takes them away; clients that are
// not concerned go on, the others are told.
func TestReload(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{top: "# top\n", more: "# more\n"})
	o.sql(t, "postgres", "create database second owner app")
	o.sql(t, "postgres", "create role worker login in role pg_monitor;\ngrant all on database app to worker")
	login := func(database string) pgtest.Login { return pgtest.Login{User: "app", Database: database} }
	connect := func(l pgtest.Login, options ...func(*pgx.ConnConfig)) *pgx.Conn {
		t.Helper()
		config, err := pgx.ParseConfig(o.URL(l))
		if err != nil {
			t.Fatal(err)
		}
		for _, option := range options {
			option(config)
		}
		c, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) }) // some were ended
		return c
	}
	reload := func() {
		t.Helper()
		o.console(t, "reload")
	}
	bystander := connect(login("app"))
	inside := connect(login("app"))
	run(t, inside, "begin", "create temporary table mine(a int) on commit drop")

	t.Run("database", func(t *testing.T) {
		if _, err := pgx.Connect(t.Context(), o.URL(login("nick"))); sqlstate(err) != "3D000" {
			t.Errorf("an unknown database: %v", err)
		}
		o.rewrite(t, "# more", "[database.nick]\nupstream = \"main\"\ndbname = \"second\"\n")
		reload()
		nick := connect(login("nick"))
		wantOne(t, nick, "select current_database()::text", "second")
		for _, table := range []string{"POOLS", "SERVERS", "CLIENTS"} { // by the name that clients use
			o.show(t, "pgbouncer", table).find(t, "database=nick", "user=app")
		}
		busy := connect(login("nick"))
		run(t, busy, "begin", "select 1")
		o.rewrite(t, "# more", "[database.nick]\nupstream = \"main\"\ndbname = \"app\"\n")
		reload() // it is another one now
		wantEnded(t, nick, "57P01", "reason=reload")
		wantOne(t, busy, "select current_database()::text", "second")
		run(t, busy, "commit")
		wantEnded(t, busy, "57P01", "reason=reload")
		wantOne(t, connect(login("nick")), "select current_database()::text", "app")
	})
	t.Run("role of the servers", func(t *testing.T) {
		o.rewrite(t, "# more", "[database.work]\nupstream = \"main\"\ndbname = \"app\"\nuser = \"worker\"\n")
		reload()
		wantOne(t, connect(login("work")), "select current_user::text", "worker")
	})
	t.Run("workload", func(t *testing.T) {
		named := connect(login("app"), func(c *pgx.ConnConfig) { c.RuntimeParams["application_name"] = "report-1" })
		wantOne(t, named, "select 'in default'", "in default")
		o.rewrite(t, "# more", "[[workload]]\nname = \"reports\"\nmatch = { application_name = [\"report-*\"] }\npool_mode = \"session\"\n")
		reload()
		run(t, named, "select 'in reports'")
		wantRow(t, "WORKLOADS", o.show(t, "pgweir", "WORKLOADS").find(t, "workload=reports"), "clients=1", "held=1", "pool_mode=session")
		o.write(t, o.text)
		reload()
		run(t, named, "select 'in default'")
		if n := o.show(t, "pgweir", "WORKLOADS").count("workload=reports"); n != 0 {
			t.Error("the workload is still shown")
		}
		eventually(t, "the server is free", func() bool {
			return o.show(t, "pgweir", "UPSTREAMS").find(t, "upstream=main")["sv_held"] == "0"
		})
	})
	t.Run("upstream", func(t *testing.T) { reloadUpstream(t, o, login, connect) })

	wantOne(t, inside, "select count(*)::text from mine", "0")
	run(t, inside, "commit")
	wantOne(t, bystander, "select 'undisturbed'", "undisturbed")
}

// reloadUpstream adds an upstream and takes it away.
func reloadUpstream(t *testing.T, o *operated, login func(string) pgtest.Login, connect func(pgtest.Login, ...func(*pgx.ConnConfig)) *pgx.Conn) {
	o.rewrite(t, "# more", fmt.Sprintf("[upstream.more]\nurl = %q\nbudget = 2\nreserve = 0\n[database.far]\nupstream = \"more\"\ndbname = \"second\"\n",
		o.cluster.URL(login("second"))))
	o.sql(t, "postgres", "alter role app connection limit 7") // five of the other
	o.console(t, "reload")
	far, busy := connect(login("far")), connect(login("far"))
	wantOne(t, far, "select current_database()::text", "second")
	run(t, busy, "begin", "select 1")
	wantRow(t, "UPSTREAMS", o.show(t, "pgweir", "UPSTREAMS").find(t, "upstream=more"), "budget=2", "slots=2")
	o.write(t, o.text)
	o.console(t, "reload")
	wantEnded(t, far, "57P01", "reason=reload")
	run(t, busy, "select 2", "commit")
	wantEnded(t, busy, "57P01", "reason=reload")
	o.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app' and datname = 'second' and application_name = ''")
	if _, err := pgx.Connect(t.Context(), o.URL(login("far"))); sqlstate(err) != "3D000" {
		t.Errorf("a database that is gone: %v", err)
	}
	eventually(t, "nobody speaks of it any more", func() bool {
		return len(o.show(t, "pgweir", "UPSTREAMS").rows) == 1
	})
}

// A reload reads the passwords again.
func TestReloadPasswords(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{auth: "scram-sha-256", front: "scram-sha-256", password: "old"})
	old := o.connect(t)
	wantOne(t, old, "select 'old'", "old")
	o.sql(t, "postgres", "alter role app password 'new'")
	o.passwords(t, "app", "new")
	renewed := o.app
	renewed.Password = "new"
	if _, err := pgx.Connect(t.Context(), o.URL(renewed)); sqlstate(err) != "28P01" {
		t.Errorf("before the reload: %v", err)
	}
	o.console(t, "reload")
	if _, err := pgx.Connect(t.Context(), o.URL(o.app)); sqlstate(err) != "28P01" {
		t.Errorf("the old password: %v", err)
	}
	wantOne(t, old, "select 'still in'", "still in")
	c, err := pgx.Connect(t.Context(), o.URL(renewed))
	if err != nil {
		t.Fatal(err)
	}
	o.app.Password = "new"
	o.console(t, "reconnect") // the next servers need the new password
	wantOne(t, c, "select 'new'", "new")
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// POST /reload does what SIGHUP does, and says what it has done.
func TestReloadByHTTP(t *testing.T) {
	t.Parallel()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	admin := fmt.Sprintf("127.0.0.1:%d", port)
	o := operate(t, plan{top: fmt.Sprintf("admin_http = %q\nmax_client_conn = 100\n", admin)})
	post := func() (int, string) {
		t.Helper()
		r, err := http.Post("http://"+admin+"/reload", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }() // only read
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	o.rewrite(t, "max_client_conn = 100", "max_client_conn = 200")
	if code, text := post(); code != 200 || !strings.Contains(text, "max_client_conn") || !strings.Contains(text, "200") {
		t.Errorf("%d %s", code, text)
	}
	o.rewrite(t, "max_client_conn = 100", "max_client_conn = many")
	if code, text := post(); code < 400 || !strings.Contains(text, "max_client_conn") || !strings.Contains(text, "pgweir.toml") {
		t.Errorf("%d %s", code, text)
	}
	if got := o.metric(t, "pgweir_clients_limit"); got != "200" {
		t.Errorf("max_client_conn %s", got)
	}
}
