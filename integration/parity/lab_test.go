package parity

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// schema is what the conversations use. Tables are emptied before each of those that
// write, not made anew: a RowDescription names their OIDs.
const schema = `
create table t(id int primary key, v text);
create table acct(id int primary key, n int not null);
create table def(id int, constraint def_id unique (id) deferrable initially deferred);
create table cp(a int, b text);
create table cpcheck(a int check (a < 100), b text);
create table cpfail(a int, b text);
create function refuse() returns trigger language plpgsql as
	'begin raise exception ''refused before the first row''; end';
create trigger refuse before insert on cpfail for each statement execute function refuse();
create function say(what text, level text) returns int language plpgsql as $$ begin
	if level = 'warning' then raise warning '%', what; else raise notice '%', what; end if; return 1; end $$;
create function fail(code text) returns int language plpgsql as $$ begin
	raise exception using errcode = code, message = 'failed with ' || code, detail = 'a detail', hint = 'a hint'; end $$;
create function setting(name text, value text) returns text language sql as
	'select pg_catalog.set_config(name, value, false)';
create type mood as enum ('sad', 'ok');
grant all on all tables in schema public to app;
`

// reset brings the tables back to what they were.
const reset = `truncate t, acct, def, cp, cpcheck, cpfail;
insert into acct select n, 100 from generate_series(1, 10) n`

// The pool modes.
const (
	transaction = "transaction"
	session     = "session"
	statement   = "statement"
)

// pgweir is one that stands before PostgreSQL.
type pgweir struct {
	pgtest.Endpoint
	mode    string
	servers int
}

func (p *pgweir) String() string { return fmt.Sprintf("%s mode with %d servers", p.mode, p.servers) }

// plays reports whether a conversation can be played with it.
func (p *pgweir) plays(s *sequence) bool {
	need := s.servers
	if p.mode == session { // everybody has one
		need = max(need, s.clients())
	}
	return need <= p.servers && (s.only == "" || s.only == p.mode) && s.never != p.mode
}

// lab is PostgreSQL with pgweir before it, in all pool modes, with few servers and more.
type lab struct {
	cluster *pgtest.Cluster
	version int       // major version of PostgreSQL
	behind  []*pgweir // in the order in which conversations are played

	mu      sync.Mutex
	control *pgconn.PgConn // superuser
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := emptyLab(t)
	for _, p := range []pgweir{
		{mode: transaction, servers: 1},
		{mode: transaction, servers: 3},
		{mode: session, servers: 1},
		{mode: session, servers: 4},
		{mode: statement, servers: 2},
	} {
		l.start(t, &p)
		l.behind = append(l.behind, &p)
	}
	return l
}

// emptyLab is PostgreSQL alone.
func emptyLab(t *testing.T) *lab {
	t.Helper()
	cluster, err := pgtest.Start(t.Context(), pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	l := &lab{cluster: cluster}
	if _, err := cluster.SQL(t.Context(), "postgres", "create role app login;\ncreate role other;\ncreate database app owner app"); err != nil {
		t.Fatal(err)
	}
	config := cluster.SocketEndpoint().DSN(pgtest.Superuser, "app")
	if l.control, err = pgconn.Connect(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.control.Close(context.WithoutCancel(t.Context())) })
	if err := l.exec(t.Context(), schema+reset); err != nil {
		t.Fatal(err)
	}
	version, err := l.ask(t.Context(), "select current_setting('server_version_num')::int / 10000")
	if err != nil {
		t.Fatal(err)
	}
	if l.version, err = strconv.Atoi(version); err != nil {
		t.Fatal(err)
	}
	return l
}

// start starts one. Its statements are few enough for the corpus to drive some out again.
func (l *lab) start(t *testing.T, p *pgweir) {
	t.Helper()
	p.Endpoint = pgtest.Pgweir(t, fmt.Sprintf(`
max_prepared_statements = 8
query_text_limit = "64KiB"

[log]
level = "debug"

[auth]
auth_type = "trust"

[upstream.main]
url = %q
budget = %d
reserve = 1

[database."*"]
upstream = "main"

[[workload]]
name = "default"
share = "100%%"
max_wait = "60s"
session_wait = "60s"
pool_mode = %q
max_pinned = "100%%"
`, l.cluster.DSN("app", "app"), p.servers+1, p.mode)).Endpoint
}

// exec runs SQL past pgweir.
func (l *lab) exec(ctx context.Context, sql string) error {
	_, err := l.ask(ctx, sql)
	return err
}

// ask returns all values of all results of SQL run past pgweir.
func (l *lab) ask(ctx context.Context, sql string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	results, err := l.control.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range results {
		for _, row := range r.Rows {
			for _, v := range row {
				fmt.Fprintf(&b, "%s ", v)
			}
		}
	}
	return strings.TrimSpace(b.String()), nil
}

// until polls a condition.
func (l *lab) until(ctx context.Context, condition string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := l.ask(ctx, "select "+condition)
		if got == "t" || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("in vain for %s", condition), ctx.Err())
		}
	}
}

// quiet waits until no statement and no transaction of the clients is left, and returns
// what they have left in the tables.
func (l *lab) quiet(ctx context.Context) (string, error) {
	if err := l.until(ctx, "count(*) = 0 from pg_stat_activity where usename = 'app' and state <> 'idle'"); err != nil {
		return "", err
	}
	return l.rows(ctx)
}

// rows is what is in the tables.
func (l *lab) rows(ctx context.Context) (string, error) {
	return l.ask(ctx, `select 't', id, v from t order by id; select 'acct', id, n from acct where n <> 100 order by id;
		select 'def', id from def order by id; select 'cp', a, b from cp order by a, b limit 50;
		select 'cp', count(*) from cp; select 'cpcheck', a, b from cpcheck order by a, b; select 'cpfail', a, b from cpfail`)
}
