package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// directEnv, set to anything, takes pgweir out of the way.
const directEnv = "PGWEIR_TEST_DIRECT"

// patience bounds every wait for a condition. It is no measurement: a test that needs it
// has failed.
const patience = 60 * time.Second

// plan says what a test wants before it: a cluster, pgweir, a role and a database.
type plan struct {
	slots    int               // transactions at once; 0 means 4
	auth     string            // how PostgreSQL asks for passwords; empty: trust
	front    string            // how pgweir asks its clients; empty: as PostgreSQL does
	password string            // of role app
	settings map[string]string // of PostgreSQL, beyond the package's
	top      string            // configuration of pgweir before its first table
	more     string            // further tables of it
	reserve  int               // connections beside the slots; 0 means 1, the one for control
	upstream string            // more keys of its upstream
	root     string            // a Debian tree with the PostgreSQL to be used; empty: that of this machine
}

// front is where the clients of a test connect: pgweir with a cluster behind it, or, in
// direct mode, the cluster. Role "app" owns database "app" and is no superuser.
type front struct {
	pgtest.Endpoint
	cluster *pgtest.Cluster
	proc    *pgtest.Proc // nil in direct mode
	app     pgtest.Login
}

// startFront starts all that p asks for.
func startFront(t *testing.T, p plan) *front {
	t.Helper()
	return startBehind(t, p).before(t, p)
}

// startBehind starts what is behind pgweir: a cluster with the role and its database.
func startBehind(t *testing.T, p plan) *front {
	t.Helper()
	c, err := pgtest.Start(t.Context(), pgtest.Options{Auth: p.auth, Settings: p.settings, Root: p.root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endCluster(t, c) })
	f := &front{
		Endpoint: c.Endpoint, cluster: c,
		app: pgtest.Login{User: "app", Password: p.password, Database: "app"},
	}
	f.sql(t, "postgres", "create role app login password '"+p.password+"' in role pg_monitor;\ncreate database app owner app")
	return f
}

// before puts pgweir before the cluster, unless the mode is direct, and returns the new
// front. PostgreSQL lets the role have exactly as many connections as pgweir's budget: it
// would refuse one more, and the end of the test looks for that in its log.
func (f *front) before(t *testing.T, p plan) *front {
	t.Helper()
	if os.Getenv(directEnv) != "" {
		return f
	}
	slots := p.slots
	if slots == 0 {
		slots = 4
	}
	budget := slots + max(p.reserve, 1)
	f.sql(t, "postgres", "alter role app connection limit "+strconv.Itoa(budget))
	f.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app'") // of an earlier pgweir
	proc := pgtest.Pgweir(t, f.config(t, p, budget))
	return &front{Endpoint: proc.Endpoint, cluster: f.cluster, proc: proc, app: f.app}
}

// endCluster stops the cluster and fails the test if it had to refuse a connection.
func endCluster(t *testing.T, c *pgtest.Cluster) {
	t.Helper()
	log, err := c.Log()
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "too many c") { // connections of the role, or clients at all
			t.Errorf("more backends than the budget: %s", line)
		}
	}
	if t.Failed() {
		lines := strings.Split(log, "\n")
		t.Logf("end of PostgreSQL's log:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

// config is the text of pgweir's configuration for p.
func (f *front) config(t *testing.T, p plan, budget int) string {
	t.Helper()
	auth := p.front
	if auth == "" {
		auth = p.auth
	}
	if auth == "" {
		auth = "trust"
	}
	file := filepath.Join(t.TempDir(), "userlist.txt")
	if err := os.WriteFile(file, userlist("app", p.password), 0o600); err != nil {
		t.Fatal(err)
	}
	more := p.more
	if !strings.Contains(more, "[[workload]]") {
		// A loaded machine may be slow; that is no reason to refuse.
		more += fmt.Sprintf("[[workload]]\nname = \"default\"\nmax_wait = %q\n", patience)
	}
	return fmt.Sprintf(`%s
[auth]
auth_type = %q
auth_file = %q

[upstream.main]
url       = %q
budget    = %d
reserve   = %d
instances = 1
%s

[database."*"]
upstream = "main"

%s
`, p.top, auth, file, f.cluster.URL(f.app), budget, max(p.reserve, 1), p.upstream, more)
}

// userlist is a line of a password file in PgBouncer's format, where a quote is doubled and
// nothing else is special.
func userlist(user, password string) []byte {
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	return []byte(quote(user) + " " + quote(password) + "\n")
}

// sql runs a script as superuser in the cluster itself, past pgweir.
func (f *front) sql(t *testing.T, db, script string) string {
	t.Helper()
	out, err := f.cluster.SQL(t.Context(), db, script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// psql runs a script through the front and wants it to succeed.
func (f *front) psql(t *testing.T, script string) string {
	t.Helper()
	out, err := f.Psql(t.Context(), f.app, script)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out)
}

// await polls a condition over SQL, past pgweir, until it answers "t".
func (f *front) await(t *testing.T, condition string) {
	t.Helper()
	eventually(t, condition, func() bool { return f.sql(t, "app", "select "+condition) == "t" })
}

// eventually polls until done says so, and else fails with what more says.
func eventually(t *testing.T, what string, done func() bool, more ...func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, f := range more {
				t.Log(f())
			}
			t.Fatalf("it never came true: %s", what)
		}
	}
}

// running is an SQL condition: how many sessions of role app run a statement that contains
// the text.
func running(text string, n int) string {
	return fmt.Sprintf("count(*) = %d from pg_stat_activity where usename = 'app' and state = 'active' and query like '%%%s%%'", n, text)
}
