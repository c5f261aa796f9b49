package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// Two hundred clients on ten slots of about 10 ms need 200 ms for a round, so that two
// seconds are enough for everybody at any time. When pgweir is started again, or
// PostgreSQL, all of them come back at once while the first servers are being opened.
// Nobody is refused whom waiting would have served.
func TestRestartsAtFullLoad(t *testing.T) {
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	clients := size(100, 200) // the race detector makes them slow
	const slots = 10
	f := startBehind(t, plan{settings: map[string]string{"synchronous_commit": "on"}})
	f.sql(t, "app", ledgerTable)
	f.sql(t, "postgres", fmt.Sprintf("alter role app connection limit %d", slots+1))
	users := filepath.Join(t.TempDir(), "userlist.txt")
	if err := os.WriteFile(users, userlist("app", ""), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`listen = ["127.0.0.1:%d"]
shutdown_timeout = "5s"
[auth]
auth_type = "trust"
auth_file = %q
[upstream.main]
url = %q
budget = %d
reserve = 1
[database."*"]
[[workload]]
max_wait = "2s"
no_server_wait = "2s"
`, port, users, f.cluster.URL(f.app), slots+1)
	proc := pgtest.Pgweir(t, config)
	front := &front{Endpoint: proc.Endpoint, cluster: f.cluster, proc: proc, app: f.app}
	watch := watchBackends(t, f.cluster)
	l := startLedger(t, front, clients, 10*time.Millisecond)
	servedAll := func() {
		t.Helper()
		from := time.Now()
		eventually(t, "everybody has been served", func() bool { return l.served(from) == clients })
	}
	servedAll()
	step := func(name string, do func()) {
		t.Helper()
		from := time.Now()
		do()
		back := time.Now()
		servedAll()
		t.Logf("%s: %s; afterwards: %s", name, l.report(from, back), l.report(back, time.Now()))
	}
	step("restart of pgweir", func() {
		proc.Signal(syscall.SIGTERM)
		<-proc.Done()
		f.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app'")
		pgtest.Pgweir(t, config)
	})
	step("restart of PostgreSQL", func() {
		if err := f.cluster.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	step("crash of PostgreSQL", func() {
		if err := f.cluster.Crash(); err != nil {
			t.Fatal(err)
		}
		if err := f.cluster.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	l.end()
	if n := l.count("53300", time.Time{}) + l.count("login 53300", time.Time{}) + l.count("login 57P03", time.Time{}); n > 0 {
		t.Errorf("%d were refused", n)
	}
	l.balance(t, f.cluster)
	watch.within(t, slots+1)
}
