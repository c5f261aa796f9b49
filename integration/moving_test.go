package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// What those who come from PgBouncer count on and no other test is about: see pgbouncer_test.go.

// What databases there are, and which are disabled, is told to those who have logged in only.
// What Postgres says of a login has its own words.
func TestDatabasesAreToldAfterTheLogin(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{auth: "scram-sha-256", password: "one", more: "[database.gone]\nupstream = \"main\"\ndbname = \"nowhere\"\n"})
	o.write(t, strings.Replace(o.text, `[database."*"]`, "[database.app]", 1))
	o.sql(t, "postgres", "create role outside nologin password 'one'")
	o.passwords(t, "app", "one", "outside", "one")
	o.console(t, "reload")
	told := func(user, password, database string) string {
		t.Helper()
		c, err := pgx.Connect(t.Context(), o.URL(pgtest.Login{User: user, Password: password, Database: database}))
		if err == nil {
			_ = c.Close(t.Context())
			return ""
		}
		return err.Error()
	}
	for _, tc := range []struct{ user, password, database, want string }{
		{"app", "wrong", "nodb", "28P01"},
		{"nobody", "one", "nodb", "28P01"},
		{"app", "one", "nodb", `database "nodb" does not exist (SQLSTATE 3D000)`},
		{"app", "one", "gone", `database "nowhere" does not exist (SQLSTATE 3D000)`},
		{"outside", "one", "app", `role "outside" is not permitted to log in (SQLSTATE 28000)`},
		{"app", "one", "app", ""},
	} {
		if got := told(tc.user, tc.password, tc.database); !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s of %s: %q, want %s", tc.database, tc.user, got, tc.want)
		}
	}
	o.console(t, "disable app")
	if got := told("app", "wrong", "app"); !strings.Contains(got, "28P01") {
		t.Errorf("a disabled database to a stranger: %q", got)
	}
	if got := told("app", "one", "app"); !strings.Contains(got, "is disabled") {
		t.Errorf("a disabled database: %q", got)
	}
}

// KILL without a database is of all, and clients wait then until RESUME; KILL_CLIENT wants a
// number; and both say what is wrong.
func TestKillOfEverything(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{})
	o.sql(t, "postgres", "create database other owner app")
	other := o.app
	other.Database = "other"
	first, second := o.join(t, o.app), o.join(t, other)
	run(t, first, "begin", "select 1")
	wantOne(t, second, "select 'served'", "served")
	o.console(t, "kill")
	wantEnded(t, first, "57P01", "reason=killed")
	wantEnded(t, second, "57P01", "reason=killed")
	eventually(t, "nobody is left", func() bool { return len(o.show(t, "pgbouncer", "CLIENTS").rows) == 0 })
	o.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app' and application_name not like 'pgweir%'")
	if state := o.console(t, "show state"); !strings.Contains(state, "paused|yes") {
		t.Errorf("after KILL: %s", state)
	}
	late := o.join(t, o.app) // what Postgres reports is known: it needs no server
	served := make(chan error, 1)
	go func() {
		_, err := late.Exec(t.Context(), "select 1")
		served <- err
	}()
	eventually(t, "a new client waits", func() bool { return o.show(t, "pgbouncer", "CLIENTS").count("state=waiting") == 1 })
	o.console(t, "resume")
	if err := <-served; err != nil {
		t.Errorf("after RESUME: %v", err)
	}
	for command, want := range map[string]string{
		"kill_client 123456789": "no such client: 123456789",
		"kill_client everybody": "not the id of a client: everybody",
		"kill_client":           "needs the id of a client",
		"resume":                "pgweir is not paused",
		"show nothing":          "SHOW does not know nothing",
		"suspend":               "pgweir has no SUSPEND",
	} {
		if _, err := o.tryConsole(t.Context(), command); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
	// A pause of everything may be said twice, and covers what is paused by itself.
	for _, command := range []string{"pause", "pause", "pause app", "resume app", "resume"} {
		o.console(t, command)
	}
}

// A client that is silent outside a transaction is closed in the end; one that works, or is in
// a transaction, is not. Servers that are too old or too long unused go when they are idle.
func TestIdleClientsAndOldServersGo(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{top: "client_idle_timeout = \"1s\"\n", upstream: "server_lifetime = \"1s\"\n"})
	silent, busy := o.connect(t), o.connect(t)
	run(t, busy, "begin", "select 1")
	first := o.sql(t, "app", "select count(*) from pg_stat_activity where usename = 'app' and state = 'idle in transaction'")
	if first != "1" {
		t.Errorf("%s transactions", first)
	}
	wantEnded(t, silent, "57P05", "reason=idle_timeout")
	run(t, busy, "select 2", "commit")
	pid := 0
	if err := o.connect(t).QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	o.await(t, fmt.Sprintf("count(*) = 0 from pg_stat_activity where pid = %d", pid))
	if err := o.connect(t).QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pid); err != nil {
		t.Errorf("after the old servers: %v", err)
	}
}

// SHOW STATS counts as PgBouncer does: transactions, queries but for a BEGIN, which goes with the
// next one, logins, and what is prepared by clients, on servers, and bound.
func TestStatisticsCountAsPgBouncers(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{})
	row := func() map[string]int64 {
		found := make(map[string]int64)
		for column, value := range o.show(t, "pgbouncer", "STATS_TOTALS").find(t, "database=app") {
			found[column] = number(value)
		}
		return found
	}
	o.psql(t, "select 1")
	before := row()
	for range 4 {
		o.psql(t, "select 1")
	}
	c := o.connect(t, execMode(pgx.QueryExecModeSimpleProtocol))
	for range 2 {
		run(t, c, "begin", "select 1", "select 1", "select 1", "commit")
	}
	p := o.connect(t, execMode(pgx.QueryExecModeCacheStatement))
	for i := range 5 {
		if n := 0; p.QueryRow(t.Context(), "select $1::int + 17", i).Scan(&n) != nil || n != i+17 {
			t.Errorf("%d + 17 is %d", i, n)
		}
	}
	_ = p.Close(t.Context())
	after := row()
	for column, want := range map[string]int64{
		"xact_count": 4 + 2 + 6, "query_count": 4 + 2*4 + 6, "client_login_count": 4 + 2, "server_assignment_count": 4 + 2 + 6,
		"client_parse_count": 1, "server_parse_count": 1, "bind_count": 5,
	} {
		if got := after[column] - before[column]; got != want {
			t.Errorf("%s: %d more, want %d", column, got, want)
		}
	}
	if o.show(t, "pgbouncer", "STATS").count("database=pgbouncer") != 0 {
		t.Error("the console is counted")
	}
}

// Every row of CLIENTS and SERVERS has its times, also of a client that has asked for nothing:
// programs that watch PgBouncer take them apart.
func TestEveryRowHasItsTimes(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{})
	o.psql(t, "select 1")
	o.connect(t)
	for _, name := range []string{"CLIENTS", "SERVERS"} {
		rows := o.show(t, "pgbouncer", name).rows
		if len(rows) != 1 {
			t.Errorf("SHOW %s: %v", name, rows)
		}
		for _, row := range rows {
			for _, column := range []string{"connect_time", "request_time"} {
				if _, err := time.Parse("2006-01-02 15:04:05 MST", row[column]); err != nil {
					t.Errorf("SHOW %s: %s: %v", name, column, err)
				}
			}
		}
	}
}

// A parameter of the startup packet that PgBouncer would refuse is kept, as Postgres keeps it;
// one that Postgres refuses is refused in its words, and the login has failed.
func TestStartupParametersThatPgBouncerRefuses(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{})
	with := func(name, value string) (*pgx.Conn, error) {
		config, err := pgx.ParseConfig(o.URL(o.app))
		if err != nil {
			t.Fatal(err)
		}
		config.RuntimeParams[name] = value
		return pgx.ConnectConfig(t.Context(), config)
	}
	for _, p := range [][3]string{
		{"extra_float_digits", "2", "extra_float_digits"},
		{"options", "-c enable_seqscan=off", "enable_seqscan"},
		{"application_name", "", "application_name"},
		{"options", "-c application_name=" + strings.Repeat("x", 5000), "application_name"},
	} {
		c, err := with(p[0], p[1])
		if err != nil {
			t.Errorf("%s=%.40s: %v", p[0], p[1], err)
			continue
		}
		want := p[1][strings.LastIndexByte(p[1], '=')+1:]
		wantOne(t, c, "show "+p[2], want[:min(len(want), 63)])
		_ = c.Close(context.WithoutCancel(t.Context()))
	}
	for value, code := range map[string]string{"-c nosuch=1": "42704", "-c TimeZone=nowhere": "22023", "-d": "42601"} {
		if _, err := with("options", value); sqlstate(err) != code {
			t.Errorf("options=%s: %v, want %s", value, err, code)
		}
	}
}

// The console speaks the extended protocol, too, and what it is sent in one string is done in
// order.
func TestConsoleCommandsInOneString(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{})
	c := o.join(t, pgtest.Login{User: "app", Password: o.app.Password, Database: "pgbouncer"})
	results, err := c.PgConn().Exec(t.Context(), "pause app; show databases; resume app;").ReadAll()
	if err != nil || len(results) != 3 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for i, want := range []string{"PAUSE", "SHOW", "RESUME"} {
		if got := results[i].CommandTag.String(); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	var version string
	if err := c.QueryRow(t.Context(), "show version").Scan(&version); err != nil || !strings.HasPrefix(version, "pgweir ") {
		t.Errorf("extended: %q, %v", version, err)
	}
}

// The servers of clients in session mode are replaced, and a pause is complete, when the clients
// have left, and not before. In a pause their statements wait, other than with PgBouncer.
func TestPauseWaitsForSessions(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{more: "[[workload]]\nname = \"default\"\npool_mode = \"session\"\n"})
	c := o.connect(t)
	wantOne(t, c, "select 'there'", "there")
	o.console(t, "reconnect app")
	rows := o.show(t, "pgbouncer", "SERVERS")
	if rows.count("close_needed=1", "state=active") != 1 {
		t.Errorf("after RECONNECT: %v", rows)
	}
	ended := make(chan error, 2)
	command := func(text string) {
		_, err := o.tryConsole(t.Context(), text)
		ended <- err
	}
	go command("wait_close app")
	wantOne(t, c, "select 'still served'", "still served")
	go command("pause app")
	eventually(t, "paused", func() bool { return o.show(t, "pgbouncer", "DATABASES").find(t, "name=app")["paused"] == "1" })
	served := make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), "select 'waits'")
		served <- err
	}()
	eventually(t, "it waits", func() bool { return o.show(t, "pgbouncer", "CLIENTS").count("state=waiting") == 1 })
	select {
	case err := <-ended:
		t.Errorf("a command has ended before the client left: %v", err)
	default:
	}
	o.console(t, "resume app")
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// With compat = "pgbouncer" a client that has waited in vain hears what PgBouncer says, and its
// session is over; without it is not.
func TestWaitingInVain(t *testing.T) {
	t.Parallel()
	for _, compat := range []bool{false, true} {
		t.Run(strconv.FormatBool(compat), func(t *testing.T) {
			top := ""
			if compat {
				top = "compat = \"pgbouncer\"\n"
			}
			o := operate(t, plan{slots: 1, top: top, more: "[[workload]]\nname = \"default\"\nmax_wait = \"100ms\"\n"})
			busy, late := o.connect(t), o.connect(t)
			run(t, busy, "begin", "select 1")
			front := late.PgConn().Frontend()
			front.Send(&pgproto3.Query{String: "select 2"})
			if err := front.Flush(); err != nil {
				t.Fatal(err)
			}
			_ = late.PgConn().Conn().SetReadDeadline(time.Now().Add(patience))
			m, err := front.Receive()
			e, ok := m.(*pgproto3.ErrorResponse)
			switch {
			case err != nil || !ok:
				t.Fatalf("%T, %v", m, err)
			case compat && (e.Severity != "FATAL" || e.Code != "08P01" || e.Message != "query_wait_timeout"):
				t.Errorf("%+v", e)
			case !compat && (e.Severity != "ERROR" || e.Code != "53300"):
				t.Errorf("%+v", e)
			}
			_, err = front.Receive() // ReadyForQuery, or the end
			if compat != (err != nil) {
				t.Errorf("after it: %v", err)
			}
			run(t, busy, "commit")
		})
	}
}

// A reload that changes nothing leaves servers where they are; what is wrong with an auth_query is
// in the log, in Postgres's words; and who may not replicate hears it from Postgres, too.
func TestReloadsAndWordsOfPostgres(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{auth: "scram-sha-256", password: "one", settings: map[string]string{"wal_level": "logical", "max_wal_senders": "2"}})
	c := o.connect(t)
	pid, err := one(t.Context(), c, "select pg_backend_pid()::text")
	if err != nil {
		t.Fatal(err)
	}
	o.console(t, "reload")
	wantOne(t, c, "select pg_backend_pid()::text", pid)
	config, err := pgx.ParseConfig(o.URL(o.app))
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["replication"] = "database"
	if _, err = pgx.ConnectConfig(t.Context(), config); sqlstate(err) != "42501" && sqlstate(err) != "28000" || strings.Contains(err.Error(), "reason=") {
		t.Errorf("replication: %v", err)
	}
	o.rewrite(t, "[upstream.main]", "auth_query = \"select rolname, secret from no_such_table where rolname = $1\"\n[upstream.main]")
	o.console(t, "reload")
	if _, err := pgx.Connect(t.Context(), o.URL(pgtest.Login{User: "nobody", Password: "one", Database: "app"})); sqlstate(err) != "57P03" {
		t.Errorf("a role that can't be asked about: %v", err)
	}
	o.logged(t, "Postgres can't be asked about roles", "no_such_table")
}
