package integration

import (
	"database/sql"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// exporterColumns are the columns that PgBouncer's exporter for Prometheus makes metrics of,
// by the table, and before the bar those that it makes labels of.
func exporterColumns() map[string]string {
	return map[string]string{
		"databases": "name host port database force_user pool_mode | pool_size reserve_pool_size max_connections current_connections paused disabled",
		"stats_totals": "database | query_count query_time bytes_received bytes_sent wait_time xact_count xact_time" +
			" client_parse_count server_parse_count bind_count server_assignment_count",
		"pools": "database user | cl_active cl_active_cancel_req cl_waiting cl_waiting_cancel_req sv_active sv_active_cancel" +
			" sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait",
	}
}

// PgBouncer's exporter gets all that it asks for, as it asks: by lib/pq over one connection,
// SHOW STATS first. Its labels are texts or whole numbers, no two rows have the same ones,
// and all else is a number.
func TestExporter(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{more: "# more\n"})
	o.rewrite(t, "# more", fmt.Sprintf("[upstream.more]\nurl = %q\nbudget = 2\nreserve = 0\n[role.\"*\"]\nmax_server_connections = 9\n[database.far]\nupstream = \"more\"\ndbname = \"app\"\n",
		o.cluster.URL(o.app)))
	o.sql(t, "postgres", "alter role app connection limit 7")
	o.console(t, "reload")
	far := o.app
	far.Database = "far" // the same name on another upstream
	for _, l := range []pgtest.Login{o.app, far} {
		if _, err := o.Psql(t.Context(), l, "select 1"); err != nil {
			t.Fatal(err)
		}
	}
	connector, err := pq.NewConnector(o.URL(pgtest.Login{User: "app", Database: "pgbouncer"}))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "SHOW STATS"); err != nil {
		t.Fatal(err)
	}
	for name, columns := range exporterColumns() {
		exported(t, db, name, columns)
	}
	for name, want := range map[string]string{"lists": "databases users pools free_clients used_clients login_clients free_servers used_servers dns_names dns_zones dns_queries", "config": "max_client_conn max_user_connections"} {
		found := make(map[string]bool)
		for _, row := range export(t, db, name) {
			key, value := fmt.Sprint(row[0].value), fmt.Sprint(row[1].value)
			if key == "max_user_connections" && value != "9" {
				t.Errorf("SHOW %s: %s is %s", name, key, value)
			}
			if found[key] = true; slices.Contains(strings.Fields(want), key) {
				if _, err := strconv.ParseFloat(value, 64); err != nil {
					t.Errorf("SHOW %s: %s is %q", name, key, value)
				}
			}
		}
		for _, key := range strings.Fields(want) {
			if !found[key] {
				t.Errorf("SHOW %s has no %s", name, key)
			}
		}
	}
	if rows := export(t, db, "version"); len(rows) != 1 || len(rows[0]) != 1 || rows[0][0].column != "version" {
		t.Errorf("SHOW VERSION: %v", rows)
	}
	if rows := export(t, db, "clients"); len(rows) != 0 { // psql has left; the console is none
		t.Errorf("SHOW CLIENTS: %v", rows)
	}
}

// cell is a value as database/sql has it.
type cell struct {
	column string
	value  any
}

// export reads a table.
func export(t *testing.T, db *sql.DB, name string) (list [][]cell) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SHOW "+name+";")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }() // it was only read
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		row, targets := make([]cell, len(columns)), make([]any, len(columns))
		for i := range row {
			row[i].column, targets[i] = columns[i], &row[i].value
		}
		if err := rows.Scan(targets...); err != nil {
			t.Fatal(err)
		}
		list = append(list, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// exported checks a table of which labels and metrics are made.
func exported(t *testing.T, db *sql.DB, name, columns string) {
	t.Helper()
	labels, metrics, _ := strings.Cut(columns, "|")
	rows := export(t, db, name)
	if len(rows) != 2 {
		t.Errorf("SHOW %s: %d rows, want those of two databases", name, len(rows))
	}
	seen := make(map[string]bool)
	for _, row := range rows {
		byName := make(map[string]any)
		for _, c := range row {
			byName[c.column] = c.value
		}
		var series string
		for _, l := range strings.Fields(labels) {
			switch v := byName[l].(type) {
			case string, int64, nil:
				series += fmt.Sprintf("%s=%v ", l, v)
			default:
				t.Errorf("SHOW %s: label %s is a %T", name, l, v)
			}
		}
		if seen[series] {
			t.Errorf("SHOW %s: two rows with %s", name, series)
		}
		seen[series] = true
		for _, m := range strings.Fields(metrics) {
			if _, err := strconv.ParseFloat(fmt.Sprintf("%s", byName[m]), 64); err != nil {
				if _, ok := byName[m].(int64); !ok {
					t.Errorf("SHOW %s: metric %s is %v, a %T", name, m, byName[m], byName[m])
				}
			}
		}
	}
}

// The metrics are what promtool approves of, and they move with the load.
func TestMetricsUnderLoad(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{slots: 4, more: "[[workload]]\nname = \"default\"\nmax_wait = \"1m\"\nmax_waiting = 3\n"})
	of := func(series string) float64 {
		t.Helper()
		v, err := strconv.ParseFloat(o.metric(t, series), 64)
		if err != nil {
			t.Errorf("%s: %v", series, err)
		}
		return v
	}
	const (
		served  = `pgweir_requests_total{outcome="served",upstream="main",workload="default"}`
		refused = `pgweir_refusals_total{reason="queue_full",upstream="main",workload="default"}`
		waits   = `pgweir_wait_seconds_count{outcome="served",upstream="main",workload="default"}`
		waited  = `pgweir_wait_seconds_sum{outcome="served",upstream="main",workload="default"}`
	)
	o.psql(t, "select 1")
	before := map[string]float64{}
	for _, s := range []string{served, refused, waits, waited, `pgweir_bytes_total{direction="sent",side="client"}`, "pgweir_client_logins_total"} {
		before[s] = of(s)
	}
	c := gather(t, o)
	if _, err := c.idle[0].Exec(t.Context(), "select 'one too many'"); sqlstate(err) != "53300" {
		t.Errorf("a fourth waiter: %v", err)
	}
	for series, want := range map[string]float64{
		`pgweir_slots{state="running",upstream="main"}`:      4,
		`pgweir_slots{state="limit",upstream="main"}`:        4,
		`pgweir_connections{state="active",upstream="main"}`: 4,
		`pgweir_budget_connections{upstream="main"}`:         5,
		`pgweir_waiting_clients{upstream="main"}`:            3,
		`pgweir_clients{state="active"}`:                     4,
		`pgweir_clients{state="waiting"}`:                    3,
		`pgweir_clients{state="idle"}`:                       2,
		`pgweir_up`:                                          1,
		refused:                                              before[refused] + 1,
		`pgbouncer_pools_client_waiting_connections{database="app",upstream="main",user="app"}`: 3,
	} {
		if got := of(series); got != want {
			t.Errorf("%s %v, want %v", series, got, want)
		}
	}
	c.disperse(t)
	if n := of(served) - before[served]; n != 7 {
		t.Errorf("%v served, want 7", n)
	}
	for series, was := range before {
		if now := of(series); now <= was {
			t.Errorf("%s was %v and is %v", series, was, now)
		}
	}
	promtool(t, o)
}

// promtool lints a scrape, where it is installed.
func promtool(t *testing.T, o *operated) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool: .ci/setup promtool installs it")
	}
	code, text, err := httpGet(o.http, "/metrics")
	if err != nil || code != 200 {
		t.Fatalf("%d, %v", code, err)
	}
	cmd := exec.CommandContext(t.Context(), path, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	if n := len(regexp.MustCompile(`(?m)^# TYPE `).FindAllString(text, -1)); n < 50 {
		t.Errorf("only %d metrics", n)
	}
}
