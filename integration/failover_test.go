package integration

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/certs"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// size is one of two numbers: for every day, or with longEnv.
func size[T any](short, long T) T {
	if os.Getenv(longEnv) != "" {
		return long
	}
	return short
}

// pair is a primary and its standby behind one pgweir.
type pair struct {
	*front
	standby *pgtest.Cluster
	budget  int
	rest    string // of the configuration; see through
	http    string // its listener for HTTP, if it is encrypted
}

// pairPlan says what is special about a pair.
type pairPlan struct {
	slots    int
	standby  bool // else there is only one host
	settings map[string]string
	workload string // further keys of the workload
	upstream string // further keys of the upstream
	query    string // more of the URL
	schema   string // more that is made in the database
	top      string // configuration before its first table
	tables   string // further tables
	// encrypted: clients and servers talk over TLS, servers ask for a password.
	encrypted bool
}

// startPair starts all that p asks for. Whatever PostgreSQL acknowledges it keeps, also
// when it crashes.
func startPair(t *testing.T, p pairPlan) *pair {
	t.Helper()
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	settings := map[string]string{"synchronous_commit": "on"}
	for k, v := range p.settings {
		settings[k] = v
	}
	o := pgtest.Options{Replicas: p.standby, Settings: settings}
	app := pgtest.Login{User: "app", Database: "app"}
	if p.encrypted {
		app.Password = "right"
		o.HBA = []string{"local all all trust", "hostssl all all 127.0.0.1/32 scram-sha-256"}
	}
	c, err := pgtest.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endCluster(t, c) })
	r := &pair{front: &front{Endpoint: c.Endpoint, cluster: c, app: app}, budget: p.slots + 1}
	r.sql(t, "postgres", "create role app login password '"+app.Password+"' connection limit "+strconv.Itoa(r.budget)+";\ncreate database app owner app")
	r.sql(t, "app", ledgerTable+";\n"+p.schema)
	p.query = "sslmode=disable" + p.query
	if p.encrypted {
		p = r.encrypt(t, p)
	}
	hosts := r.cluster.Addr()
	if p.standby {
		if r.standby, err = c.Standby(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { endCluster(t, r.standby) })
		hosts += "," + r.standby.Addr()
		p.query += "&target_session_attrs=read-write"
	}
	r.rest = fmt.Sprintf(`
[upstream.main]
url = "postgres://%s@%s/app?%s"
budget = %d
reserve = 1
%s
[database."*"]
[[workload]]
%s
%s
`, url.UserPassword(app.User, app.Password), hosts, p.query, r.budget, p.upstream, p.workload, p.tables)
	r.front = r.through(t, r.rest, p.top)
	if p.encrypted {
		r.SSLMode = "require"
	}
	return r
}

// encrypt has the primary do TLS, with what its standby will be a copy of, and pgweir with both
// sides.
func (r *pair) encrypt(t *testing.T, p pairPlan) pairPlan {
	t.Helper()
	authority, err := certs.New(t.TempDir(), "ca")
	if err != nil {
		t.Fatal(err)
	}
	front, err := authority.Issue("front", certs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	present(t, r.cluster, authority, certs.Options{})
	r.sql(t, "postgres", "alter system set ssl = on")
	r.sql(t, "postgres", "select pg_reload_conf()")
	r.await(t, "current_setting('ssl') = 'on'")
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	r.http = fmt.Sprintf("127.0.0.1:%d", port)
	p.query = "sslmode=verify-full&channel_binding=require&sslrootcert=" + authority.File
	p.top += fmt.Sprintf("http = %q\n", r.http)
	p.tables += fmt.Sprintf("[tls]\nsslmode = \"require\"\ncert_file = %q\nkey_file = %q\n", front.CertFile, front.KeyFile)
	return p
}

// through starts a pgweir that trusts app with the rest of a configuration, and the keys
// in front of all.
func (f *front) through(t *testing.T, rest, top string) *front {
	t.Helper()
	users := filepath.Join(t.TempDir(), "userlist.txt")
	if err := os.WriteFile(users, append(userlist("app", f.app.Password), userlist("narrow", "")...), 0o600); err != nil {
		t.Fatal(err)
	}
	proc := pgtest.Pgweir(t, top+fmt.Sprintf("\n[auth]\nauth_type = \"trust\"\nauth_file = %q\n", users)+rest)
	return &front{Endpoint: proc.Endpoint, cluster: f.cluster, proc: proc, app: f.app}
}

// served waits until clients of the ledger that began now have been served.
func served(t *testing.T, l *ledger) {
	t.Helper()
	const enough = 40
	now := time.Now()
	eventually(t, "the clients are served", func() bool { return l.count("ok", now) >= enough })
}

// PostgreSQL goes away under load and comes back in every way that it has. Whoever lost a
// server is told 57P01 and comes back; the others wait, and are refused only if it is away
// for longer than no_server_wait.
func TestPostgresComesBack(t *testing.T) {
	t.Parallel()
	f := startPair(t, pairPlan{slots: 10, workload: `no_server_wait = "1s"`})
	watch := watchBackends(t, f.cluster)
	l := startLedger(t, f.front, size(20, 50), 5*time.Millisecond)
	served(t, l)
	step := func(name string, do func() error) {
		t.Helper()
		from := time.Now()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		served(t, l)
		t.Logf("%s: %s; after it was back: %s", name, l.report(from, back), l.report(back, time.Now()))
	}
	away := func(d time.Duration) func() error {
		return func() error {
			select {
			case <-time.After(d):
			case <-t.Context().Done():
			}
			return f.cluster.Resume(t.Context())
		}
	}
	step("fast restart", func() error { return f.cluster.Restart(t.Context()) })
	step("crash", func() error { return errors.Join(f.cluster.Crash(), away(size(0, 3*time.Second))()) })
	step("long stop", func() error { return errors.Join(f.cluster.Halt(), away(size(2*time.Second, 6*time.Second))()) })
	l.end()
	l.onlyOutcomes(t, "ok", "53300", "57P01", "57P02", "57P03", "lost", "login 57P03", "login 53300")
	l.balance(t, f.cluster)
	watch.within(t, f.budget)
}

// The primary ends and its standby takes over: the same sessions go on there. Until then
// nobody waits for longer than no_server_wait, and everybody is told why.
func TestFailover(t *testing.T) {
	t.Parallel()
	f := startPair(t, pairPlan{slots: 10, standby: true, workload: fmt.Sprintf("no_server_wait = %q", size(300*time.Millisecond, 2*time.Second))})
	watch, there := watchBackends(t, f.cluster), watchBackends(t, f.standby)
	l := startLedger(t, f.front, size(20, 50), 5*time.Millisecond)
	served(t, l)
	c := f.connect(t, execMode(pgx.QueryExecModeSimpleProtocol))
	from := time.Now()
	if err := f.cluster.Halt(); err != nil {
		t.Fatal(err)
	}
	halted := time.Now()
	_, err := c.Exec(t.Context(), "select 'between'")
	if d := refusal(err); !strings.Contains(d, "reason=no_server ") || !strings.HasSuffix(d, " last_error=57P03") {
		t.Errorf("%v, detail %q", err, d)
	}
	asked := time.Now()
	if err := f.standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	promoted := time.Now()
	served(t, l)
	wantOne(t, c, "select 'after'", "after")
	t.Logf("halted in %v, promoted in %v: %s; after it was promoted: %s", halted.Sub(from), promoted.Sub(asked), l.report(from, promoted), l.report(promoted, time.Now()))
	l.end()
	l.onlyOutcomes(t, "ok", "53300", "57P01", "57P03", "lost", "login 57P03", "login 53300")
	l.balance(t, f.standby)
	watch.within(t, f.budget)
	there.within(t, f.budget)
}

// The primary hangs and its standby takes over. No connection ends by itself then.
func TestFailoverFromAFrozenPrimary(t *testing.T) {
	t.Parallel()
	f := startPair(t, pairPlan{slots: 10, standby: true})
	watch, there := watchBackends(t, f.cluster), watchBackends(t, f.standby)
	l := startLedger(t, f.front, size(20, 50), 5*time.Millisecond)
	served(t, l)
	from := time.Now()
	thaw, err := f.cluster.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = thaw() })
	if err := f.standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	promoted := time.Now()
	served(t, l)
	t.Logf("promoted in %v: %s; after it was promoted: %s", promoted.Sub(from), l.report(from, promoted), l.report(promoted, time.Now()))
	l.end()
	if err := thaw(); err != nil {
		t.Error(err)
	}
	f.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app'")
	l.onlyOutcomes(t, "ok", "53300", "57P01")
	l.balance(t, f.standby, f.cluster)
	watch.within(t, f.budget)
	there.within(t, f.budget)
}
