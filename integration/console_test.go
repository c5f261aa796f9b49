package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// table is the answer to a SHOW: its rows, each by the names of the columns.
type table struct {
	columns []string
	rows    []map[string]string
}

// show asks the console over pgconn.
func (o *operated) show(t *testing.T, database, what string) table {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), o.URL(pgtest.Login{User: "app", Password: o.app.Password, Database: database}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }() // it was only read
	results := c.Exec(t.Context(), "SHOW "+what)
	var list table
	for results.NextResult() {
		r := results.ResultReader()
		for _, d := range r.FieldDescriptions() {
			list.columns = append(list.columns, d.Name)
		}
		for r.NextRow() {
			row := make(map[string]string)
			for i, v := range r.Values() {
				row[list.columns[i]] = string(v)
			}
			list.rows = append(list.rows, row)
		}
	}
	if err := results.Close(); err != nil {
		t.Fatalf("SHOW %s: %v", what, err)
	}
	return list
}

// find returns the only row with certain values, given as column=value.
func (l table) find(t *testing.T, want ...string) map[string]string {
	t.Helper()
	var found []map[string]string
	for _, row := range l.rows {
		if matches(row, want) {
			found = append(found, row)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d rows with %v in %v", len(found), want, l.rows)
	}
	return found[0]
}

// count counts the rows with certain values.
func (l table) count(want ...string) (n int) {
	for _, row := range l.rows {
		if matches(row, want) {
			n++
		}
	}
	return n
}

func matches(row map[string]string, want []string) bool {
	for _, w := range want {
		column, value, _ := strings.Cut(w, "=")
		if row[column] != value {
			return false
		}
	}
	return true
}

// number is a value as a number; -1 if it is none.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// wantRow compares some values of a row, given as column=value; with > instead of = the
// value must be greater.
func wantRow(t *testing.T, what string, row map[string]string, want ...string) {
	t.Helper()
	for _, w := range want {
		if column, least, ok := strings.Cut(w, ">"); ok {
			if number(row[column]) <= number(least) {
				t.Errorf("%s: %s is %q, want more than %s", what, column, row[column], least)
			}
		} else if !matches(row, []string{w}) {
			column, _, _ := strings.Cut(w, "=")
			t.Errorf("%s: %s is %q, want %s", what, column, row[column], w)
		}
	}
}

// crowd is a known load: four servers that work, three clients that wait, two that idle.
type crowd struct {
	working, waiting, idle []*pgx.Conn

	done chan error
}

// gather brings the crowd to an o with four slots. After a cancel of the working ones all
// of it is over.
func gather(t *testing.T, o *operated) *crowd {
	t.Helper()
	c := &crowd{done: make(chan error, 16)}
	exec := func(conn *pgx.Conn, sql string) {
		go func() {
			_, err := conn.Exec(t.Context(), sql)
			c.done <- err
		}()
	}
	named := func(name string) *pgx.Conn {
		return o.connect(t, execMode(pgx.QueryExecModeSimpleProtocol), func(c *pgx.ConnConfig) {
			c.RuntimeParams["application_name"] = name
		})
	}
	for range 2 {
		c.idle = append(c.idle, named("idle"))
	}
	for range 4 {
		conn := named("working")
		c.working = append(c.working, conn)
		exec(conn, "select pg_sleep(600)")
	}
	o.await(t, running("pg_sleep", 4))
	for range 3 {
		conn := named("waiting")
		c.waiting = append(c.waiting, conn)
		exec(conn, "select 'waited'")
	}
	eventually(t, "three wait", func() bool {
		return o.show(t, "pgweir", "POOLS").find(t, "database=app", "user=app")["cl_waiting"] == "3"
	})
	return c
}

// disperse ends it.
func (c *crowd) disperse(t *testing.T) {
	t.Helper()
	for _, conn := range c.working {
		if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
			t.Error(err)
		}
	}
	cancelled := 0
	for range len(c.working) + len(c.waiting) {
		switch err := <-c.done; {
		case sqlstate(err) == "57014":
			cancelled++
		case err != nil:
			t.Error(err)
		}
	}
	if cancelled != len(c.working) {
		t.Errorf("%d of %d were cancelled", cancelled, len(c.working))
	}
}

// Every SHOW has PgBouncer's columns first, and what it says is what is known of the load.
func TestConsoleShows(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{
		slots: 4, top: "max_client_conn = 100\n",
		more: "[[workload]]\nname = \"default\"\nmax_wait = \"1m\"\nmax_waiting = 3\n",
	})
	for range 10 {
		o.psql(t, "select 1")
	}
	c := gather(t, o)
	if _, err := c.idle[0].Exec(t.Context(), "select 'one too many'"); sqlstate(err) != "53300" {
		t.Errorf("a fourth waiter: %v", err)
	}
	t.Run("columns", func(t *testing.T) { consoleColumns(t, o) })
	t.Run("pools", func(t *testing.T) { consolePools(t, o) })
	t.Run("sockets", func(t *testing.T) { consoleSockets(t, o) })
	t.Run("stats", func(t *testing.T) { consoleStats(t, o) })
	t.Run("guard", func(t *testing.T) { consoleGuard(t, o) })
	t.Run("drivers", func(t *testing.T) { consoleDrivers(t, o) })
	c.disperse(t)
	eventually(t, "nobody waits", func() bool {
		row := o.show(t, "pgweir", "POOLS").find(t, "database=app", "user=app")
		return row["cl_waiting"] == "0" && row["sv_active"] == "0" && row["sv_idle"] == "4" && row["cl_active"] == "9"
	})
}

func consoleColumns(t *testing.T, o *operated) {
	list, err := os.ReadFile("../cmd/internal/console/testdata/pgbouncer-columns.txt")
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for line := range strings.Lines(string(list)) {
		name, columns, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		tables++
		want := strings.Fields(columns)
		if got := o.show(t, "pgbouncer", name).columns; !slices.Equal(got, want) {
			t.Errorf("SHOW %s at pgbouncer: %v, want %v", name, got, want)
		}
		if got := o.show(t, "pgweir", name).columns; len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("SHOW %s at pgweir: %v, want %v in front", name, got, want)
		}
	}
	if tables < 20 {
		t.Errorf("only %d tables", tables)
	}
}

func consolePools(t *testing.T, o *operated) {
	pool := func() map[string]string { return o.show(t, "pgbouncer", "POOLS").find(t, "database=app", "user=app") }
	row := pool()
	wantRow(t, "POOLS", row, "cl_active=6", "cl_waiting=3", "sv_active=4", "sv_idle=0", "sv_login=0", "sv_used=0",
		"cl_active_cancel_req=0", "sv_being_canceled=0", "pool_mode=transaction")
	before := number(row["maxwait"])*1e6 + number(row["maxwait_us"])
	eventually(t, "maxwait grows", func() bool {
		row := pool()
		return before > 0 && number(row["maxwait"])*1e6+number(row["maxwait_us"]) > before
	})
	wantRow(t, "DATABASES", o.show(t, "pgbouncer", "DATABASES").find(t, "name=app"), "host=127.0.0.1", "port="+strconv.Itoa(o.cluster.Port),
		"database=app", "force_user=", "pool_size=5", "reserve_pool_size=1", "current_connections=4", "current_client_connections=9",
		"max_connections=5", "paused=0", "disabled=0", "server_lifetime=3600")
	wantRow(t, "USERS", o.show(t, "pgbouncer", "USERS").find(t, "name=app"), "current_connections=4", "current_client_connections=9", "pool_mode=transaction")
	lists := o.show(t, "pgbouncer", "LISTS")
	for _, want := range []string{"databases=1", "users=1", "pools=1", "used_clients=10", "login_clients=0", "used_servers=4"} {
		name, n, _ := strings.Cut(want, "=")
		if name == "used_clients" { // an earlier console may still be on its way out
			eventually(t, want, func() bool { return o.show(t, "pgbouncer", "LISTS").find(t, "list="+name)["items"] == n })
			continue
		}
		wantRow(t, "LISTS "+name, lists.find(t, "list="+name), "items="+n)
	}
	state := o.show(t, "pgbouncer", "STATE")
	for _, want := range []string{"active=yes", "paused=no", "suspended=no"} {
		key, value, _ := strings.Cut(want, "=")
		wantRow(t, "STATE "+key, state.find(t, "key="+key), "value="+value)
	}
	wantRow(t, "CONFIG", o.show(t, "pgbouncer", "CONFIG").find(t, "key=max_client_conn"), "value=100", "default=10000", "changeable=yes")
	source := o.show(t, "pgweir", "CONFIG").find(t, "key=max_client_conn")["source"]
	if !strings.Contains(source, "pgweir.toml:") {
		t.Errorf("source %q", source)
	}
	for _, row := range o.show(t, "pgweir", "CONFIG").rows {
		for column, value := range row {
			if o.app.Password != "" && strings.Contains(value, o.app.Password) {
				t.Errorf("a password in %s of %s", column, row["key"])
			}
		}
	}
}

func consoleSockets(t *testing.T, o *operated) {
	clients, servers := o.show(t, "pgbouncer", "CLIENTS"), o.show(t, "pgbouncer", "SERVERS")
	for state, n := range map[string]int{"active": 4, "waiting": 3, "idle": 2} {
		if got := clients.count("state="+state, "user=app", "database=app", "type=C"); got != n {
			t.Errorf("%d clients are %s, want %d", got, state, n)
		}
	}
	for _, name := range []string{"working", "waiting", "idle"} {
		if clients.count("application_name="+name) == 0 {
			t.Errorf("no client is called %s", name)
		}
	}
	pids := strings.Fields(o.sql(t, "app", "select pid from pg_stat_activity where usename = 'app' order by 1"))
	for _, pid := range pids {
		row := servers.find(t, "remote_pid="+pid)
		wantRow(t, "SERVERS", row, "state=active", "user=app", "database=app", "addr=127.0.0.1", "port="+strconv.Itoa(o.cluster.Port),
			"application_name=working", "close_needed=0")
		client := clients.find(t, "ptr="+row["link"])
		wantRow(t, "the client of a server", client, "state=active", "link="+row["ptr"], "addr=127.0.0.1")
		if o.sql(t, "app", "select count(*) from pg_stat_activity where pid = "+pid+" and client_port = "+row["local_port"]) != "1" {
			t.Errorf("local_port %s is not the client_port of backend %s", row["local_port"], pid)
		}
	}
	if len(servers.rows) != len(pids) || len(pids) != 4 {
		t.Errorf("%d servers, %d backends", len(servers.rows), len(pids))
	}
	for _, row := range clients.rows {
		if row["state"] == "waiting" && number(row["wait"])*1e6+number(row["wait_us"]) <= 0 {
			t.Errorf("a waiting client that does not: %v", row)
		}
	}
	active := o.show(t, "pgbouncer", "ACTIVE_SOCKETS")
	if n := len(active.rows); n != 4+3+4 {
		t.Errorf("%d active sockets", n)
	}
}

func consoleStats(t *testing.T, o *operated) {
	// Ten of psql; the login of the first client, which learned what Postgres reports, may
	// count as one more.
	row := o.show(t, "pgbouncer", "STATS_TOTALS").find(t, "database=app")
	if n := number(row["xact_count"]); n != 10 && n != 11 {
		t.Errorf("%d transactions", n)
	}
	wantRow(t, "STATS_TOTALS", row, "query_count>9", "bytes_received>0", "bytes_sent>0", "xact_time>0", "query_time>0", "client_login_count=19")
	both := o.show(t, "pgbouncer", "STATS").find(t, "database=app")
	wantRow(t, "STATS", both, "total_xact_count="+row["xact_count"], "total_query_count="+row["query_count"], "total_client_login_count=19")
	totals := o.show(t, "pgbouncer", "TOTALS")
	wantRow(t, "TOTALS", totals.find(t, "name=total_xact_count"), "value="+row["xact_count"])
}

func consoleGuard(t *testing.T, o *operated) {
	wantRow(t, "WORKLOADS", o.show(t, "pgweir", "WORKLOADS").find(t, "workload=default"), "upstream=main", "pool_mode=transaction",
		"clients=9", "running=4", "waiting=3", "max_waiting=3", "max_wait_ms=60000", "refused=1", "refused_by=queue_full=1", "oldest_ms>0")
	wantRow(t, "UPSTREAMS", o.show(t, "pgweir", "UPSTREAMS").find(t, "upstream=main"), "budget=5", "reserve=1", "slots=4", "running=4",
		"waiting=3", "sv_active=4", "sv_idle=0", "paused=0", "down=0", "logins=4", "login_failures=0", "last_error=")
	wantRow(t, "REFUSALS_TOTALS", o.show(t, "pgweir", "REFUSALS_TOTALS").find(t, "reason=queue_full"), "workload=default", "user=app", "database=app",
		"application_name=idle", "refused=1")
	wantRow(t, "REFUSALS", o.show(t, "pgweir", "REFUSALS").find(t, "reason=queue_full"), "workload=default", "user=app", "database=app",
		"application_name=idle", "sqlstate=53300", "class=critical", "login=0", "client_id>0")
	wantRow(t, "QUEUES", o.show(t, "pgweir", "QUEUES").find(t, "workload=default"), "waiting=3", "max_waiting=3", "running=4", "slots=3.6", "oldest_ms>0", "critical=3", "sheddable=0", "queue=guard")
	wantRow(t, "GUARD", o.show(t, "pgweir", "GUARD").find(t, "workload=default"), "queue=guard", "mode=enforce", "class=critical",
		"waiting=3", "refused=1", "refused_by=queue_full=1", "would_refuse=0", "goodput>0", "granted>4", "oldest_ms>0", "max_wait_ms=60000")
}

// consoleDrivers asks as programs do that watch PgBouncer.
func consoleDrivers(t *testing.T, o *operated) {
	l := pgtest.Login{User: "app", Database: "pgbouncer"}
	db, err := sql.Open("postgres", o.URL(l)) // lib/pq
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var version string
	if err := db.QueryRowContext(t.Context(), "SHOW VERSION").Scan(&version); err != nil || !strings.HasPrefix(version, "pgweir ") {
		t.Errorf("lib/pq: %q, %v", version, err)
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		conn, err := pgx.Connect(t.Context(), o.URL(l)+"&default_query_exec_mode="+strings.ReplaceAll(mode.String(), " ", "_"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Query(t.Context(), "SHOW LISTS")
		if err != nil {
			t.Fatal(err)
		}
		n, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil || len(n) != 14 {
			t.Errorf("pgx %v: %d lists, %v", mode, len(n), err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if out, err := o.Psql(t.Context(), l, "\\x\nshow pools"); err != nil || !strings.Contains(out, "cl_waiting|3") {
		t.Errorf("psql: %q, %v", out, err)
	}
}

// authFile is the path of the password file.
func (o *operated) authFile(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`auth_file\s*=\s*"([^"]+)"`).FindStringSubmatch(o.text)
	if m == nil {
		t.Fatal("no auth_file")
	}
	return m[1]
}

// passwords makes the password file hold these pairs of roles and passwords.
func (o *operated) passwords(t *testing.T, pairs ...string) {
	t.Helper()
	var b []byte
	for i := 0; i < len(pairs); i += 2 {
		b = append(b, userlist(pairs[i], pairs[i+1])...)
	}
	if err := os.WriteFile(o.authFile(t), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Who may come to the console, and what for; also with every place taken, and while Postgres
// is away.
func TestConsoleRights(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pgweir-console-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // others come to the socket, and no further
		t.Fatal(err)
	}
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	o := operate(t, plan{
		auth: "scram-sha-256", password: "right",
		top:  fmt.Sprintf("listen = [\"127.0.0.1:%d\", %q]\nmax_client_conn = 6\nreserved_clients = 2\n", port, dir),
		more: "stats_users = [\"monitor\"]\n",
	})
	o.passwords(t, "app", "right", "monitor", "look", "other", "none")
	o.console(t, "reload")
	rights := func() {
		t.Helper()
		for _, c := range []struct{ user, password, command, want string }{
			{"app", "right", "show state", "active|yes"},
			{"app", "wrong", "show state", "password authentication failed"},
			{"monitor", "look", "show state", "active|yes"},
			{"monitor", "look", "pause", "42501"},
			{"monitor", "look", "set max_client_conn = 5", "42501"},
			{"monitor", "look", "shutdown", "42501"},
			{"other", "none", "show state", "may not use the console"},
			{"nobody", "none", "show state", "password authentication failed"}, // so nobody learns who may
		} {
			got, err := o.Psql(t.Context(), pgtest.Login{User: c.user, Password: c.password, Database: "pgweir"}, c.command)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s, %s: %s, want %s", c.user, c.command, got, c.want)
			}
		}
	}
	rights()
	for range 4 {
		wantOne(t, o.connect(t), "select 'in'", "in")
	}
	if _, err := o.Psql(t.Context(), o.app, "select 1"); err == nil || !strings.Contains(err.Error(), "max_client_conn") {
		t.Errorf("a fifth client: %v", err)
	}
	rights()
	consolePeers(t, pgtest.Endpoint{Programs: o.Programs, Host: dir, Port: port})
	if err := o.cluster.Halt(); err != nil {
		t.Fatal(err)
	}
	rights()
	if got := o.console(t, "show pools"); !strings.Contains(got, "app|app|") {
		t.Errorf("pools: %s", got)
	}
	if err := o.cluster.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// consolePeers comes over the Unix socket: without a password, but only as the system user
// that pgweir runs as.
func consolePeers(t *testing.T, at pgtest.Endpoint) {
	for _, user := range []string{"pgweir", "pgbouncer"} {
		out, err := at.Psql(t.Context(), pgtest.Login{User: user, Database: "pgweir"}, "show state;\nresume")
		if err == nil || !strings.Contains(err.Error(), "is not paused") || !strings.Contains(out, "active|yes") {
			t.Errorf("%s over the Unix socket: %q, %v", user, out, err)
		}
	}
	if os.Geteuid() != 0 {
		return // nobody else to be
	}
	cmd := at.Command(t.Context(), pgtest.Login{User: "pgweir", Database: "pgweir"}, "psql", "-Xwc", "show state")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{}}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed || !strings.Contains(string(out), "no password supplied") {
		t.Errorf("another system user: %s, %v", out, err)
	}
}
