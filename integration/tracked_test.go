package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pgweir/pgweir/wire"
	"golang.org/x/sync/errgroup"
)

// Clients that set what PostgreSQL does not report, in all ways, on few servers: each finds
// its own values, at any time, and nobody those of another.
func TestTrackedSettingsAreTheirOwners(t *testing.T) {
	versions(t, trackedOwners)
}

func trackedOwners(t *testing.T, root string) {
	f := startFront(t, plan{slots: 3, root: root})
	f.sql(t, "app", "create role one;\ncreate role two;\ngrant one, two to app")
	const clients, rounds = 12, 60
	g, ctx := errgroup.WithContext(t.Context())
	for i := range clients {
		c := f.connect(t)
		g.Go(func() error {
			o := settingOwner{c: c, rnd: rand.New(rand.NewPCG(uint64(i), 5)), id: i, now: defaults()}
			if i == 0 { // never sets anything
				for range rounds * 3 {
					if err := o.look(ctx); err != nil {
						return err
					}
				}
				return nil
			}
			for range rounds {
				if err := o.round(ctx); err != nil {
					return fmt.Errorf("client %d: %w", i, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// settingValues are what a client expects to find.
type settingValues struct{ mem, path, role, timeout string }

func defaults() settingValues {
	return settingValues{mem: "4MB", path: `"$user", public`, role: "app", timeout: "0"}
}

// settingOwner is a client that knows what it has set.
type settingOwner struct {
	c   *pgx.Conn
	rnd *rand.Rand
	id  int
	now settingValues
}

func (o *settingOwner) look(ctx context.Context) error {
	const query = `select concat_ws('|', current_setting('work_mem'), current_setting('search_path'), current_user, current_setting('statement_timeout'))`
	mode := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec}[o.rnd.IntN(3)]
	var got string
	if err := o.c.QueryRow(ctx, query, mode).Scan(&got); err != nil {
		return err
	}
	if want := strings.Join([]string{o.now.mem, o.now.path, o.now.role, o.now.timeout}, "|"); got != want {
		return fmt.Errorf("finds %s, has set %s", got, want)
	}
	return nil
}

// set sets something and returns what is expected then.
func (o *settingOwner) set(ctx context.Context, was settingValues) (settingValues, error) {
	var sql string
	switch n := o.rnd.IntN(9); n {
	case 0:
		was.mem = fmt.Sprintf("%dkB", 1025+o.id*100+o.rnd.IntN(50))
		sql = fmt.Sprintf("set work_mem = '%s'", was.mem)
	case 1:
		was.path = fmt.Sprintf(`s%d, "X%d"`, o.id, o.rnd.IntN(9))
		sql = "set search_path to " + was.path
	case 2:
		was.role = []string{"one", "two"}[o.rnd.IntN(2)]
		sql = "set role " + was.role
	case 3:
		was.role = "app"
		sql = []string{"reset role", "set role none"}[o.rnd.IntN(2)]
	case 4:
		was.timeout = fmt.Sprintf("%dms", 1000001+o.id*1000+o.rnd.IntN(50))
		sql = fmt.Sprintf("select set_config('statement_timeout', '%s', false)", was.timeout)
	case 5:
		was.mem = defaults().mem
		sql = "set work_mem to default"
	case 6:
		was.mem, was.path, was.timeout = defaults().mem, defaults().path, defaults().timeout
		sql = "reset all"
	case 7:
		was.path, was.mem = "pg_catalog", "77MB"
		sql = "set search_path = pg_catalog; set work_mem = '77MB'"
	case 8:
		sql = "set local work_mem = '99MB'" // for nobody, outside of a block
		if o.c.PgConn().TxStatus() != 'I' {
			sql = "select 1"
		}
	}
	mode := pgx.QueryExecModeSimpleProtocol
	if !strings.Contains(sql, ";") && o.rnd.IntN(2) == 0 {
		mode = pgx.QueryExecModeCacheStatement
	}
	_, err := o.c.Exec(ctx, sql, mode)
	return was, err
}

// round is a few settings, perhaps in a transaction, of which a part may be rolled back.
func (o *settingOwner) round(ctx context.Context) error {
	if o.rnd.IntN(2) == 0 {
		var err error
		if o.now, err = o.set(ctx, o.now); err != nil {
			return err
		}
		return o.look(ctx)
	}
	before := o.now
	exec := func(sql string) error {
		_, err := o.c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	err := exec("begin")
	if err == nil {
		o.now, err = o.set(ctx, o.now)
	}
	if err == nil && o.rnd.IntN(2) == 0 {
		kept := o.now
		err = exec("savepoint s")
		if err == nil {
			o.now, err = o.set(ctx, o.now)
		}
		if err == nil && o.rnd.IntN(2) == 0 {
			if o.rnd.IntN(2) == 0 {
				_ = exec("select 1/0")
			}
			o.now, err = kept, exec("rollback to s")
		}
	}
	if err == nil {
		err = o.look(ctx)
	}
	switch end := o.rnd.IntN(4); {
	case err != nil:
		return err
	case end == 0:
		o.now, err = before, exec("rollback")
	case end == 1:
		_ = exec("select 1/0")
		o.now, err = before, exec("commit")
	default:
		err = exec("commit")
	}
	return errors.Join(err, o.look(ctx))
}

// A role that is dropped meanwhile: nothing runs as another one, the client is told why,
// keeps its session, and can help itself.
func TestTrackedSettingRefused(t *testing.T) {
	f := startFront(t, plan{slots: 2})
	f.sql(t, "app", "create role short;\ngrant short to app")
	f.psql(t, "create table done(who text default current_user); grant insert on done to short")
	c, other := f.connect(t, execMode(pgx.QueryExecModeSimpleProtocol)), f.connect(t)
	run(t, c, "set work_mem = '7MB'", "set role short", "insert into done default values")
	f.sql(t, "app", "drop owned by short;\ndrop role short")
	run(t, other, "begin", "select 1", "commit") // the server that still is that role
	for _, sql := range []string{"insert into done default values", "select 1", "set lock_timeout = '1s'", "begin; insert into done default values; commit"} {
		_, err := c.Exec(t.Context(), sql)
		e, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || e.Code != "22023" || e.Detail != "reason=settings_refused" || !strings.Contains(e.Message, `"short" does not exist`) {
			t.Errorf("%s: %v", sql, err)
		}
		if _, err := c.Exec(t.Context(), "rollback"); err != nil {
			t.Fatal(err)
		}
	}
	// What fails to set it anew lets nothing through that comes behind it.
	_, err := c.PgConn().Exec(t.Context(), "set role nobody").ReadAll()
	if sqlstate(err) != "22023" {
		t.Errorf("set role nobody: %v", err)
	}
	wantOne(t, other, "select string_agg(who, ',') from done", "short")
	run(t, c, "set role none")
	wantOne(t, c, "select current_user || current_setting('work_mem')", "app7MB")
	run(t, c, "insert into done default values")
	wantOne(t, other, "select string_agg(who, ',' order by who) from done", "app,short")
}

// More settings than may follow are refused, not lost.
func TestTrackedSettingsAreBounded(t *testing.T) {
	f := startFront(t, plan{slots: 2})
	c := f.connect(t, execMode(pgx.QueryExecModeSimpleProtocol))
	for i := range 100 {
		run(t, c, fmt.Sprintf("set app.x%d = '%d'", i, i))
	}
	for _, sql := range []string{"set app.y = '1'", "select set_config('app.y', '1', false)", "set app.x1 = '" + strings.Repeat("x", 17<<10) + "'"} {
		if _, err := c.Exec(t.Context(), sql); sqlstate(err) != "53400" {
			t.Errorf("%.40s: %v", sql, err)
		}
		if _, err := c.Exec(t.Context(), sql, pgx.QueryExecModeExec); sqlstate(err) != "53400" {
			t.Errorf("%.40s, extended: %v", sql, err)
		}
	}
	run(t, c, "set app.x1 = 'other'", "reset app.x2", "set app.y = '1'")
	wantOne(t, c, "select current_setting('app.x1') || current_setting('app.x99') || current_setting('app.y')", "other991")
}

// A client that renames itself is treated as its new name says, at its next transaction.
func TestRenamedClientChangesItsWorkload(t *testing.T) {
	f := startFront(t, plan{slots: 2, more: "[console]\nstats_users = [\"app\"]\n[[workload]]\nname = \"named\"\nmatch = { application_name = [\"renamed-*\"] }\n"})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	c := f.connect(t, execMode(pgx.QueryExecModeSimpleProtocol))
	granted := func(want string) {
		t.Helper()
		if got := f.workload(t, "named", "granted"); got != want {
			t.Errorf("the workload had %s transactions, want %s", got, want)
		}
	}
	run(t, c, "select 1", "begin", "set application_name = 'renamed-1'", "select 1", "rollback", "select 1")
	granted("0")
	run(t, c, "set application_name = 'renamed-2'", "select 1", "select 1")
	granted("2")
	run(t, c, "select set_config('application_name', 'other', false)", "select 1")
	granted("3")
	if !slices.Contains([]string{"other"}, c.PgConn().ParameterStatus("application_name")) {
		t.Error("the client was not told its name")
	}
}

// ALTER TABLE under statements that are prepared on several servers.
func TestPreparedStatementsAfterAlterTable(t *testing.T) {
	f := startFront(t, plan{slots: 3})
	f.psql(t, "create table shape(id int primary key, v text); insert into shape select n, 'v' || n from generate_series(1, 9) n")
	var conns []*pgx.Conn
	for range 6 {
		conns = append(conns, f.connect(t))
	}
	// everywhere returns how often the statement has failed, once a client at most.
	everywhere := func(columns int) int64 {
		var failed atomic.Int64
		g, ctx := errgroup.WithContext(t.Context())
		for _, c := range conns {
			g.Go(func() error {
				for n := range 20 {
					rows, err := c.Query(ctx, "select * from shape where id = $1", 3)
					if err != nil {
						return err
					}
					for rows.Next() {
						if got := len(rows.RawValues()); got != columns {
							return fmt.Errorf("a row of %d columns", got)
						}
					}
					switch err := rows.Err(); {
					case err == nil:
					case n == 0 && sqlstate(err) == "0A000":
						failed.Add(1)
					default:
						return fmt.Errorf("at %d: %w", n, err)
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		return failed.Load()
	}
	if n := everywhere(2); n > 0 {
		t.Errorf("%d failures before any change", n)
	}
	// pgx goes by the description that it got when it prepared the statement, so it is told, as
	// PostgreSQL tells it: each client once, however many servers there are.
	f.psql(t, "alter table shape alter column v type varchar(100)")
	if n := everywhere(2); n > int64(len(conns)) {
		t.Errorf("%d failures of %d clients", n, len(conns))
	}
	f.psql(t, "alter table shape add column w int default 5")
	if n := everywhere(3); n > int64(len(conns)) {
		t.Errorf("%d failures of %d clients", n, len(conns))
	}
	// Who asks for a description each time is told nothing.
	f.psql(t, "alter table shape drop column w")
	for _, c := range conns {
		for _, want := range []int{2, 2} {
			r := c.PgConn().ExecPrepared(t.Context(), prepared(t, c), [][]byte{[]byte("3")}, nil, nil).Read()
			if r.Err != nil || len(r.Rows) != 1 || len(r.Rows[0]) != want {
				t.Errorf("%d rows, %v", len(r.Rows), r.Err)
			}
		}
	}
	f.psql(t, "alter table shape add column w int default 6")
	for _, c := range conns {
		r := c.PgConn().ExecPrepared(t.Context(), "mine", [][]byte{[]byte("3")}, nil, nil).Read()
		if r.Err != nil || len(r.Rows) != 1 || len(r.Rows[0]) != 3 || len(r.FieldDescriptions) != 3 {
			t.Errorf("%d rows, %v", len(r.Rows), r.Err)
		}
	}
}

// prepared prepares the statement under a name of its own, once.
func prepared(t *testing.T, c *pgx.Conn) string {
	t.Helper()
	if _, err := c.PgConn().Prepare(t.Context(), "mine", "select * from shape where id = $1", nil); err != nil && sqlstate(err) != "42P05" {
		t.Fatal(err)
	}
	return "mine"
}

// batchOf is Bind, Describe, Execute and Sync of a prepared statement without parameters.
func batchOf(name string, describe bool) []byte {
	b := wire.AppendBindNone(nil, name)
	if describe {
		b = wire.AppendDescribe(b, 'P', "")
	}
	return wire.AppendEmpty(wire.AppendExecute(b), wire.MsgSync)
}

// The same by hand: what is healed is run once, and what is not is told once. Trap 12.
func TestPreparedStatementHealed(t *testing.T) {
	f := startFront(t, plan{slots: 1})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	f.psql(t, "create table shape(id serial primary key, v text)")
	c, err := dialRaw(f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "database", Value: "app"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(b []byte, wantRows, wantError string) {
		t.Helper()
		a, err := c.ask(b)
		got := ""
		if a.err != nil {
			got = a.err.code
		}
		if err != nil || got != wantError || strings.Join(a.rows, ";") != wantRows {
			t.Errorf("rows %q, error %v, %v; want %q, %q", a.rows, a.err, err, wantRows, wantError)
		}
	}
	simple := func(sql, rows string) {
		t.Helper()
		ask(wire.AppendQuery(nil, sql), rows, "")
	}
	parse := func(name, sql string) []byte { return wire.AppendParse(nil, name, sql+"\x00\x00\x00") }
	sync := func(b []byte) []byte { return wire.AppendEmpty(b, wire.MsgSync) }
	ask(sync(parse("add", "insert into shape(v) values ('x') returning *")), "", "")
	ask(batchOf("add", true), "1|x", "")
	simple("alter table shape add column w int default 5", "")
	ask(batchOf("add", true), "2|x|5", "") // once: no number was left out
	ask(batchOf("add", true), "3|x|5", "")
	simple("select count(*), max(id), (select last_value from shape_id_seq) from shape", "3|3|3")

	// Without a description the client could not know of the new column.
	simple("alter table shape add column y int default 6", "")
	ask(batchOf("add", false), "", "0A000")
	ask(batchOf("add", false), "4|x|5|6", "")

	// In a transaction, also one that begins with it, the error is the client's.
	simple("alter table shape drop column y", "")
	simple("begin", "")
	ask(batchOf("add", true), "", "0A000")
	simple("rollback", "")
	ask(batchOf("add", true), "5|x|5", "")

	// Something else of the batch has been done.
	simple("alter table shape drop column w", "")
	ask(append(append(wire.AppendExecute(wire.AppendBindNone(parse("", "insert into shape(v) values ('y')"), "")), wire.AppendBindNone(nil, "add")...), batchOf("add", true)...), "", "0A000")
	ask(batchOf("add", true), "7|x", "")

	// Something is pipelined behind it: both are answered in their order.
	simple("alter table shape add column z int default 7", "")
	if err := c.send(append(batchOf("add", true), wire.AppendQuery(nil, "select 'behind'")...)); err != nil {
		t.Fatal(err)
	}
	first, err1 := c.answer()
	second, err2 := c.answer()
	if err1 != nil || err2 != nil || len(second.rows) != 1 || second.rows[0] != "behind" {
		t.Errorf("%v, %v, then %v, %v", first, err1, second, err2)
	}

	// A name of another client, whose text the server has known for long: only a description.
	simple("alter table shape drop column z", "")
	d, err := dialRaw(f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "database", Value: "app"})
	if err != nil {
		t.Fatal(err)
	}
	b := sync(wire.AppendDescribe(parse("mine", "insert into shape(v) values ('x') returning *"), 'S', "mine"))
	if a, err := d.ask(b); err != nil || a.err != nil {
		t.Errorf("%v, %v", a.err, err)
	}
}
