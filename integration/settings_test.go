package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// settingsQuery asks for the settings that a client may give at startup.
const settingsQuery = `select concat_ws(' ', current_setting('TimeZone'), current_setting('DateStyle'),
	current_setting('client_encoding'), current_setting('application_name'), current_setting('search_path'))`

// runtime sets startup parameters.
func runtime(params map[string]string) func(*pgx.ConnConfig) {
	return func(c *pgx.ConnConfig) {
		for name, value := range params {
			c.RuntimeParams[name] = value
		}
	}
}

// Nobody meets another's settings, however the servers go from hand to hand.
func TestSettings(t *testing.T) {
	f := startFront(t, plan{slots: 2})
	for _, c := range []struct {
		name string
		test func(*testing.T, *front)
	}{
		{"at startup", settingsAtStartup},
		{"by SET", settingsBySet},
		{"SET in a transaction that is rolled back", settingsRolledBack},
		{"SET LOCAL", settingsLocal},
		{"SET that fails", settingsRefused},
		{"search path decides what a name means", settingsSearchPath},
		{"what others have set is not there", settingsOfOthers},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}

// one runs a query for a single text.
func one(ctx context.Context, c *pgx.Conn, query string) (string, error) {
	var text string
	err := c.QueryRow(ctx, query).Scan(&text)
	return text, err
}

// wantOne runs a query for a single text and compares it.
func wantOne(t *testing.T, c *pgx.Conn, query, want string) {
	t.Helper()
	if got, err := one(t.Context(), c, query); err != nil || got != want {
		t.Errorf("%s: %q, %v; want %q", query, got, err, want)
	}
}

// run runs statements one by one by the simple protocol, and wants them to succeed.
func run(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.Exec(t.Context(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func settingsAtStartup(t *testing.T, f *front) {
	zones := []string{"UTC", "Asia/Tokyo", "Europe/Berlin", "America/New_York"}
	styles := []string{"ISO, MDY", "ISO, DMY", "German, DMY"}
	encodings := []string{"UTF8", "LATIN1"}
	g, ctx := errgroup.WithContext(t.Context())
	for i := range 12 {
		params := map[string]string{
			"TimeZone": zones[i%4], "DateStyle": styles[i%3], "client_encoding": encodings[i%2],
			"application_name": fmt.Sprintf("app-%d", i),
			"options":          fmt.Sprintf("-c search_path=schema%d,public", i),
		}
		want := fmt.Sprintf("%s %s %s app-%d schema%d,public", zones[i%4], styles[i%3], encodings[i%2], i, i)
		c := f.connect(t, runtime(params), execMode(pgx.QueryExecModeExec))
		g.Go(func() error {
			for range 30 {
				if got, err := one(ctx, c, settingsQuery); err != nil || got != want {
					return fmt.Errorf("client %d: %q, %v; want %q", i, got, err, want)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func settingsBySet(t *testing.T, f *front) {
	mine, others := f.connect(t), f.connect(t)
	before, err := one(t.Context(), others, "show timezone")
	if err != nil {
		t.Fatal(err)
	}
	run(t, mine, "set timezone = 'Pacific/Auckland'", "set application_name to 'renamed'", "set datestyle = 'sql, dmy'")
	for range 10 { // on whatever server it comes to
		wantOne(t, others, "show timezone", before)
		wantOne(t, mine, "show timezone", "Pacific/Auckland")
		wantOne(t, mine, "select current_setting('application_name') || current_setting('DateStyle')", "renamedSQL, DMY")
	}
	if got := mine.PgConn().ParameterStatus("TimeZone"); got != "Pacific/Auckland" {
		t.Errorf("the client was told %q", got)
	}
	run(t, mine, "reset timezone")
	wantOne(t, mine, "show timezone", before)
	wantOne(t, mine, "show application_name", "renamed")
	run(t, mine, "reset all")
	wantOne(t, mine, "show application_name", "")
}

func settingsRolledBack(t *testing.T, f *front) {
	c := f.connect(t)
	run(t, c, "set timezone = 'Asia/Tokyo'", "begin", "set timezone = 'Asia/Seoul'")
	wantOne(t, c, "show timezone", "Asia/Seoul")
	run(t, c, "rollback")
	wantOne(t, c, "show timezone", "Asia/Tokyo")
	run(t, c, "begin", "set timezone = 'Asia/Seoul'", "commit")
	wantOne(t, c, "show timezone", "Asia/Seoul")
	if got := c.PgConn().ParameterStatus("TimeZone"); got != "Asia/Seoul" {
		t.Errorf("the client was told %q", got)
	}
}

func settingsLocal(t *testing.T, f *front) {
	c := f.connect(t)
	run(t, c, "set timezone = 'Asia/Tokyo'", "begin", "set local timezone = 'Asia/Seoul'")
	wantOne(t, c, "show timezone", "Asia/Seoul")
	run(t, c, "commit")
	wantOne(t, c, "show timezone", "Asia/Tokyo")
}

func settingsRefused(t *testing.T, f *front) {
	c := f.connect(t)
	run(t, c, "set timezone = 'Asia/Tokyo'")
	if _, err := c.Exec(t.Context(), "set timezone = 'No/Such'", pgx.QueryExecModeSimpleProtocol); sqlstate(err) != "22023" {
		t.Errorf("error %v", err)
	}
	wantOne(t, c, "show timezone", "Asia/Tokyo")
}

// Statements are shared by their text among all who prepared them, but each server has to
// have planned them under the path of who runs them.
func settingsSearchPath(t *testing.T, f *front) {
	const tenants = 6
	var script strings.Builder
	for i := range tenants {
		fmt.Fprintf(&script, "create schema tenant%d; create table tenant%d.who(name text); insert into tenant%d.who values ('tenant%d');\n", i, i, i, i)
	}
	f.psql(t, script.String())
	g, ctx := errgroup.WithContext(t.Context())
	for i := range tenants {
		c := f.connect(t, runtime(map[string]string{"search_path": fmt.Sprintf("tenant%d", i)}))
		g.Go(func() error {
			for range 50 {
				if got, err := one(ctx, c, "select name from who"); err != nil || got != fmt.Sprintf("tenant%d", i) {
					return fmt.Errorf("tenant%d reads %q, %v", i, got, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// What PostgreSQL does not report follows its client all the same, and is found by nobody else.
func settingsOfOthers(t *testing.T, f *front) {
	for _, leave := range []string{
		"set work_mem = '77MB'", "set search_path = nowhere", "set statement_timeout = '77s'",
		"select set_config('search_path', 'nowhere', false)", "set role pg_monitor",
		"set session characteristics as transaction read only",
	} {
		var leavers []*pgx.Conn
		for range 3 { // all servers, whoever gets them
			c := f.connect(t)
			run(t, c, leave)
			leavers = append(leavers, c)
		}
		for range 4 {
			wantOne(t, f.connect(t), `select concat_ws(' ', current_setting('work_mem'), current_setting('search_path'),
				current_setting('statement_timeout'), current_user, current_setting('transaction_read_only'))`,
				`4MB "$user", public 0 app off`)
		}
		for _, c := range leavers {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
