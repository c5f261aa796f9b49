package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// dumpScaleEnv is pgbench's scale of the database that is dumped; 7 is about 100 MB.
const dumpScaleEnv = "PGWEIR_DUMP_SCALE"

// things are what a dump has beside pgbench's tables.
const things = `create type mood as enum ('sad', 'ok', 'happy');
create sequence ticket start 1000 increment 7;
create table thing(id bigint generated always as identity primary key, m mood default 'ok', t text, b bytea, j jsonb, a int[], made timestamptz default now());
create index on thing using gin (j);
create view happy as select id, t from thing where m = 'happy';
create materialized view sums as select m, count(*) as n from thing group by m;
create function twice(int) returns int language sql immutable as 'select 2 * $1';
create function stamp() returns trigger language plpgsql as $$ begin new.made := '2020-01-01'; return new; end $$;
insert into thing(m, t, b, j, a) select (array['sad', 'ok', 'happy'])[n % 3 + 1]::mood, E'line one\nline two\t' || n || ' ü',
	decode(md5(n::text), 'hex'), jsonb_build_object('n', n), array[n, n + 1] from generate_series(1, 2000) n;
create trigger stamp before insert on thing for each row execute function stamp();
comment on table thing is 'it''s a thing';
select nextval('ticket');
select lo_from_bytea(0, decode(repeat('00ff0a5c', 2000), 'hex'));
refresh materialized view sums;`

// pg_dump and pg_restore, in parallel and not, go through pgweir as they go to Postgres,
// while others work in transaction mode: the built-in workload knows them by their names. The
// dumps, and the databases restored from them, are identical.
func TestDumpAndRestore(t *testing.T) {
	scale := os.Getenv(dumpScaleEnv)
	if scale == "" {
		scale = "1"
	}
	f := startBehind(t, plan{settings: map[string]string{"shared_buffers": "'256MB'"}})
	f.sql(t, "postgres", "create database load owner app;\ncreate database from_directory owner app;\ncreate database from_custom owner app;\ncreate database directly owner app")
	load := f.app
	load.Database = "load"
	for _, prepare := range []func() (string, error){
		func() (string, error) { return f.Pgbench(t.Context(), f.app, "-i", "-q", "-s", scale) },
		func() (string, error) { return f.Psql(t.Context(), f.app, things) },
		func() (string, error) { return f.Pgbench(t.Context(), load, "-i", "-q", "-s", "1") },
	} {
		if out, err := prepare(); err != nil {
			t.Fatal(out, err)
		}
	}
	f.sql(t, "app", "vacuum analyze")
	d := &dumps{f: f.before(t, plan{slots: 24, more: "[console]\nstats_users = [\"app\"]\n[[workload]]\nname = \"default\"\nmax_wait = \"60s\"\n"}), direct: f.cluster.Endpoint, dir: t.TempDir()}
	if d.f.proc == nil {
		t.Skip("needs pgweir")
	}
	t.Logf("%s", f.sql(t, "postgres", "select 'the database has ' || pg_size_pretty(pg_database_size('app'))"))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	var rounds atomic.Int64
	for _, mode := range []string{"simple", "prepared"} {
		g.Go(func() error {
			for ctx.Err() == nil {
				if _, err := d.f.Pgbench(t.Context(), load, "-n", "-M", mode, "-c", "4", "-j", "2", "-t", "50"); err != nil {
					return fmt.Errorf("beside the dumps: %w", err)
				}
				rounds.Add(1)
			}
			return nil
		})
	}
	t.Run("identical", d.compare)
	if n, err := strconv.Atoi(d.f.workload(t, "tools", "granted")); err != nil || n < 2*5 {
		t.Errorf("tools had %d transactions, %v: the programs are not in their workload", n, err)
	}
	if n := rounds.Load(); n == 0 {
		eventually(t, "pgbench has worked as well", func() bool { return rounds.Load() > 0 })
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d transactions of pgbench beside it", 4*50*rounds.Load())
}

// dumps runs the programs directly and through pgweir.
type dumps struct {
	f      *front
	direct pgtest.Endpoint
	dir    string
}

func (d *dumps) compare(t *testing.T) {
	want := d.text(t, d.direct, "app")
	for _, to := range []struct {
		name string
		pgtest.Endpoint
	}{{"direct", d.direct}, {"pgweir", d.f.Endpoint}} {
		directory, custom := filepath.Join(d.dir, to.name), filepath.Join(d.dir, to.name+".dump")
		d.run(t, to.name, to.Endpoint, "app", "pg_dump", "-Fd", "-j4", "-Z0", "-f", directory)
		d.run(t, to.name, to.Endpoint, "app", "pg_dump", "-Fc", "-f", custom)
		if to.name == "direct" {
			d.run(t, to.name, to.Endpoint, "directly", "pg_restore", "-j4", "-d", "directly", directory)
			continue
		}
		d.sameFiles(t, filepath.Join(d.dir, "direct"), directory)
		d.run(t, to.name, to.Endpoint, "from_directory", "pg_restore", "-j4", "-d", "from_directory", "--exit-on-error", directory)
		d.run(t, to.name, to.Endpoint, "from_custom", "pg_restore", "-j4", "-d", "from_custom", "--exit-on-error", custom)
	}
	if got := d.text(t, d.f.Endpoint, "app"); !bytes.Equal(got, want) {
		t.Errorf("a plain dump through pgweir has other text: %s", firstDifference(want, got))
	}
	for _, restored := range []string{"from_directory", "from_custom"} {
		if got := d.text(t, d.direct, restored); !bytes.Equal(got, want) {
			t.Errorf("%s is another database: %s", restored, firstDifference(want, got))
		}
	}
}

// run runs one of the programs and logs how long it took.
func (d *dumps) run(t *testing.T, name string, to pgtest.Endpoint, db, program string, args ...string) {
	t.Helper()
	start := time.Now()
	cmd := to.Command(t.Context(), pgtest.Login{User: "app", Database: db}, program, args...)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%s %s %v: %v\n%s", name, program, args[:2], err, out)
	}
	t.Logf("%s: %s %s: %v", name, program, strings.Join(args[:2], " "), time.Since(start).Round(10*time.Millisecond))
}

// text is a plain dump of a database, without the random words that newer versions put in.
func (d *dumps) text(t *testing.T, from pgtest.Endpoint, db string) []byte {
	t.Helper()
	out, err := from.Command(t.Context(), pgtest.Login{User: "app", Database: db}, "pg_dump").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(bytes.SplitAfter(out, []byte("\n")), func(line []byte) bool {
		return bytes.HasPrefix(line, []byte(`\restrict `)) || bytes.HasPrefix(line, []byte(`\unrestrict `))
	})
	if len(lines) < 1000 {
		t.Fatalf("a dump of %d lines", len(lines))
	}
	return bytes.Join(lines, nil)
}

// sameFiles compares the files of data of two dumps in directories.
func (d *dumps) sameFiles(t *testing.T, a, b string) {
	t.Helper()
	files, err := os.ReadDir(a)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Errorf("only %d files in %s", len(files), a)
	}
	for _, file := range files {
		if file.Name() == "toc.dat" {
			continue // it has the time
		}
		want, err := os.ReadFile(filepath.Join(a, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(b, file.Name()))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, of the other %d; %v", file.Name(), len(want), len(got), err)
		}
	}
}

// firstDifference shows where two texts part.
func firstDifference(a, b []byte) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(i-100, 0)
	return fmt.Sprintf("at byte %d, %q and %q", i, a[from:min(i+100, len(a))], b[from:min(i+100, len(b))])
}
