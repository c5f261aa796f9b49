package drivers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/child"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// peersEnv names the tree in which PgBouncer is installed; see integration/peers.
const peersEnv = "PEERS_ROOT"

// TestDriversBesidePgBouncer is for people who want to see the difference: the same overload
// through pgweir and through PgBouncer, which ends the sessions of those who wait for too
// long. It judges pgweir only.
func TestDriversBesidePgBouncer(t *testing.T) {
	if os.Getenv(peersEnv) == "" || os.Getenv(longEnv) == "" {
		t.Skipf("%s and %s are not set", peersEnv, longEnv)
	}
	c := behind(t)
	list := scenes(t)
	overload := list[len(list)-1]
	front := before(t, c, "[[workload]]\nname = \"default\"\nmax_wait = \"200ms\"\n")
	theirs := startPgBouncer(t, c, os.Getenv(peersEnv))
	for _, name := range append(Names(), Careless) {
		for _, by := range []struct {
			pooler string
			to     pgtest.Endpoint
		}{{"pgweir", front.Endpoint}, {"PgBouncer", theirs}} {
			t.Run(name+"/"+by.pooler, func(t *testing.T) {
				driver, err := Start(name)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = driver.Close() }() // it may have failed by what has happened
				seen, before := make(map[string]int), front.logins(t)
				var done Event
				err = driver.Do(t.Context(), overload.job(by.to, name), func(e Event) {
					if seen[e.Kind]++; e.Kind == Done {
						done = e
					}
					if e.Kind == Broken && seen[Broken] == 1 {
						t.Logf("the first: %s", e.Text)
					}
				})
				t.Logf("%d served, %d refused, %d errors without a session, %d connections, %v; pgweir had %d logins",
					done.Served, seen[Refused], seen[Broken], len(done.PIDs), err, front.logins(t)-before)
				if by.pooler == "pgweir" && name != Careless && (err != nil || seen[Broken] > 0 || front.logins(t)-before > places) {
					t.Error("a connection was lost")
				}
			})
		}
	}
}

// startPgBouncer runs PgBouncer in a Debian tree before the cluster, with as many servers as
// the others have slots, and a patience of 200 ms.
func startPgBouncer(t *testing.T, c *pgtest.Cluster, root string) pgtest.Endpoint {
	t.Helper()
	as, err := child.Unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(root, os.TempDir()), "pgweir-drivers-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	to := pgtest.Endpoint{Programs: c.Programs, Host: "127.0.0.1"}
	if to.Port, err = pgtest.FreePort(); err != nil {
		t.Fatal(err)
	}
	inside := strings.TrimPrefix(dir, root)
	for name, text := range map[string]string{
		"users": `"app" ""` + "\n",
		"conf": fmt.Sprintf("[databases]\n* = host=%s port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = trust\n"+
			"auth_file = %s/users\npool_mode = transaction\ndefault_pool_size = %d\nmax_prepared_statements = 200\nquery_wait_timeout = 0.2\nignore_startup_parameters = extra_float_digits\nlog_connections = 0\nlog_disconnections = 0\n",
			c.Host, c.Port, to.Port, inside, slots),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/sbin/pgbouncer", inside+"/conf")
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	p, err := child.Start(cmd, child.Where{Root: root, As: as})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(syscall.SIGQUIT, patience) })
	for until := time.Now().Add(patience); ; pause(t.Context(), 20*time.Millisecond) {
		conn, err := pgx.Connect(t.Context(), to.DSN("app", "app"))
		if err == nil {
			_ = conn.Close(t.Context())
			return to
		}
		if ended := p.Ended(); ended != nil || time.Now().After(until) {
			t.Fatalf("PgBouncer: %v, %v", err, ended)
		}
	}
}
