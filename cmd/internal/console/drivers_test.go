package console

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/lib/pq"

	"github.com/pgweir/pgweir/wire"
)

// listen serves consoles to everybody on loopback, as the proxy does once it has
// authenticated them, and returns the port.
func listen(t *testing.T, c *Console) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			work.Go(func() { welcome(ctx, t, c, conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		cancel()
		work.Wait()
	})
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// welcome lets a client in without asking, and serves it.
func welcome(ctx context.Context, t *testing.T, c *Console, conn net.Conn) {
	p, err := wire.ReadStartup(conn)
	for err == nil {
		s, ok := p.(*wire.Startup)
		if ok {
			who := Who{Admin: true, Key: wire.NewCancelKey(5, 0), Params: s.Params}
			for _, p := range s.Params {
				switch p.Name {
				case "user":
					who.User = p.Value
				case "database":
					who.Database = p.Value
				}
			}
			_, _ = conn.Write(wire.AppendAuthentication(nil, 0, nil))
			if err := c.Serve(ctx, conn, who); err != nil {
				t.Errorf("serving %s: %v", conn.RemoteAddr(), err)
			}
			return
		}
		_, _ = conn.Write([]byte("N"))
		p, err = wire.ReadStartup(conn)
	}
	_ = conn.Close()
	if !errors.Is(err, io.EOF) {
		t.Errorf("startup: %v", err)
	}
}

func TestPsql(t *testing.T) {
	path, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("no psql")
	}
	g := sampleGuard()
	port := listen(t, New(g, Options{Version: "1.2.3"}))
	psql := func(database string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, append([]string{"-X", "-h", "127.0.0.1", "-p", port, "-U", "dba", "-d", database}, args...)...)
		out, err := cmd.CombinedOutput()
		if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for _, test := range []struct {
		database, query string
		want            []string
	}{
		{"pgweir", "SHOW POOLS", []string{" shop     | app ", "(2 rows)", "last_error"}},
		{"pgbouncer", "SHOW POOLS", []string{"load_balance_hosts \n", "(2 rows)"}},
		{"pgweir", "show clients;", []string{"(4 rows)", "wéb"}},
		{"pgweir", "SHOW POLS", []string{"ERROR:  SHOW does not know POLS\nLINE 1: SHOW POLS\n             ^\nHINT:  Did you mean SHOW POOLS?"}},
		{"pgweir", "PAUSE", []string{"PAUSE"}},
		{"pgweir", "SELECT version()", []string{" pgweir 1.2.3\n"}},
	} {
		got := psql(test.database, "-c", test.query)
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", test.query, want, got)
			}
		}
	}
	if got := psql("pgweir", "-c", `\conninfo`, "-c", "SHOW STATE"); !strings.Contains(got, `connected to database "pgweir" as user "dba"`) {
		t.Error(got)
	}
}

func TestPgx(t *testing.T) {
	g := sampleGuard()
	port := listen(t, New(g, Options{Version: "1.2.3"}))
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cfg, err := pgx.ParseConfig("postgres://dba@127.0.0.1:" + port + "/pgweir?sslmode=prefer&target_session_attrs=read-write")
			if err != nil {
				t.Fatal(err)
			}
			cfg.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(ctx) }()
			if err := conn.Ping(ctx); err != nil {
				t.Error(err)
			}
			var share float64
			var name string
			var max int64
			for range 2 {
				rows, err := conn.Query(ctx, "SHOW WORKLOADS")
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for ; rows.Next(); n++ {
					v, err := rows.Values()
					if err != nil {
						t.Fatal(err)
					}
					if n == 0 {
						name, share, max = v[0].(string), v[4].(float64), v[11].(int64)
					}
				}
				if rows.Err() != nil || n != 2 || name != "api" || share != 0.6 || max != 1000 {
					t.Errorf("%d rows, %s %v %d, %v", n, name, share, max, rows.Err())
				}
			}
			var one int
			var recovery bool
			if err := conn.QueryRow(ctx, "SELECT 1, pg_is_in_recovery()").Scan(&one, &recovery); err != nil || one != 1 || recovery {
				t.Error(one, recovery, err)
			}
			tag, err := conn.Exec(ctx, "RECONNECT shop")
			if err != nil || tag.String() != "RECONNECT" {
				t.Error(tag, err)
			}
			_, err = conn.Exec(ctx, "SHOW POLS")
			if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42601" || e.Position != 6 {
				t.Error(err)
			}
			tx, err := conn.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(ctx, "RELOAD"); err != nil {
				t.Error(err)
			}
			if err := tx.Commit(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestJDBC sends what pgJDBC sends: SETs through the extended protocol at the start, named
// statements, a row limit.
func TestJDBC(t *testing.T) {
	p := dial(t, New(sampleGuard(), Options{}), dba())
	for _, q := range []string{"SET extra_float_digits = 3", "SET application_name = 'PostgreSQL JDBC Driver'"} {
		p.ask(&pgproto3.Parse{Query: q}, &pgproto3.Bind{}, &pgproto3.Execute{MaxRows: 1}, &pgproto3.Sync{})
		if got := p.until(wire.MsgReadyForQuery); !strings.Contains(got, "done SET\nready I") {
			t.Errorf("%s: %s", q, got)
		}
	}
	p.ask(&pgproto3.Parse{Name: "S_1", Query: "SHOW TRANSACTION ISOLATION LEVEL"}, &pgproto3.Describe{ObjectType: 'S', Name: "S_1"},
		&pgproto3.Bind{PreparedStatement: "S_1", DestinationPortal: "C_1"}, &pgproto3.Execute{Portal: "C_1", MaxRows: 1}, &pgproto3.Sync{})
	if got := p.until(wire.MsgReadyForQuery); !strings.Contains(got, "row read committed\nPortalSuspended\nready I") {
		t.Error(got)
	}
}

// TestExporter asks what pgbouncer_exporter asks, in its way, and reads what it reads.
func TestExporter(t *testing.T) {
	port := listen(t, New(sampleGuard(), Options{Version: "1.2.3"}))
	for _, database := range []string{"pgbouncer", "pgweir"} {
		t.Run(database, func(t *testing.T) {
			connector, err := pq.NewConnector("postgres://dba@127.0.0.1:" + port + "/" + database + "?sslmode=disable")
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			defer func() { _ = db.Close() }()
			db.SetMaxOpenConns(1)
			if rows, err := db.Query("SHOW STATS"); err != nil { // its ping
				t.Fatal(err)
			} else {
				_ = rows.Close()
			}
			var version string
			if err := db.QueryRow("SHOW VERSION;").Scan(&version); err != nil || version != "pgweir 1.2.3" {
				t.Error(version, err)
			}
			labels := map[string]string{"databases": "name host port database force_user pool_mode", "stats_totals": "database", "pools": "database user", "clients": "database user state"}
			numbers := map[string]string{
				"databases":    "pool_size reserve_pool_size max_connections current_connections paused disabled",
				"stats_totals": "query_count query_time bytes_received bytes_sent wait_time xact_count xact_time client_parse_count server_parse_count bind_count server_assignment_count",
				"pools":        "cl_active cl_active_cancel_req cl_waiting cl_waiting_cancel_req sv_active sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait",
				"lists":        "items",
			}
			for _, table := range []string{"databases", "stats_totals", "pools", "clients", "lists"} {
				all := collect(t, db, "SHOW "+table+";")
				if len(all) == 0 {
					t.Errorf("SHOW %s has no rows", table)
				}
				for _, row := range all {
					for _, l := range strings.Fields(labels[table]) {
						switch v, ok := row[l]; v.(type) {
						case string, int64, nil:
							if !ok {
								t.Errorf("SHOW %s has no %s", table, l)
							}
						default:
							t.Errorf("SHOW %s: label %s is a %T", table, l, v)
						}
					}
					for _, n := range strings.Fields(numbers[table]) {
						if _, ok := row[n].(int64); !ok {
							t.Errorf("SHOW %s: %s is a %T", table, n, row[n])
						}
					}
				}
			}
			config := collect(t, db, "SHOW CONFIG;")
			if config[0]["key"] != "max_client_conn" || config[0]["value"] != "500" {
				t.Error(config[0])
			}
			if database == "pgbouncer" && len(config[0]) != 4 {
				t.Errorf("SHOW CONFIG has %d columns: the exporter wants 4", len(config[0]))
			}
		})
	}
}

// collect reads all rows by column name.
func collect(t *testing.T, db *sql.DB, query string) []map[string]any {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	for rows.Next() {
		values, targets := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			t.Fatal(err)
		}
		row := make(map[string]any, len(names))
		for i, n := range names {
			row[n] = values[i]
		}
		list = append(list, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestLibPq(t *testing.T) {
	port := listen(t, New(sampleGuard(), Options{}))
	db, err := sql.Open("postgres", "postgres://dba@127.0.0.1:"+port+"/pgweir?sslmode=disable&connect_timeout=10")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		t.Error(err)
	}
	st, err := db.PrepareContext(ctx, "SHOW LISTS")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	var name string
	var n int
	if err := st.QueryRowContext(ctx).Scan(&name, &n); err != nil || name != "databases" || n != 2 {
		t.Error(name, n, err)
	}
	_, err = db.ExecContext(ctx, "SHUTDWON")
	if e, ok := errors.AsType[*pq.Error](err); !ok || e.Code != "42601" || !strings.Contains(e.Hint, "SHUTDOWN") {
		t.Error(err)
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf("SET %s = %s", pq.QuoteIdentifier("max_wait"), pq.QuoteLiteral("2s"))); err != nil {
		t.Error(err)
	}
}
