package matrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// slots is how many transactions a pgweir lets run at once: fewer than there are workers.
const slots = 3

// places is how many may wait where it is crowded.
const places = 4

const password = "matrix"

// stage is PostgreSQL and what stands before it.
type stage struct {
	*pgtest.Cluster
	front    pgtest.Endpoint // a pgweir that is patient
	refusing *guarded        // one that is not
	crowded  *guarded        // one that is, but in which few may wait
	mu       sync.Mutex
	watch    *pgx.Conn // the superuser, directly
	driver   string    // whose turn it is
}

// guarded is a pgweir that refuses.
type guarded struct {
	pgtest.Endpoint
	http string
	hogs []*pgx.Conn
}

func newStage(t *testing.T) *stage {
	t.Helper()
	c, err := pgtest.Start(t.Context(), pgtest.Options{Auth: "scram-sha-256", Settings: map[string]string{"max_connections": "100", "deadlock_timeout": "50ms"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &stage{Cluster: c}
	if _, err := c.SQL(t.Context(), "postgres", "create role app login password '"+password+"';\ncreate database app owner app"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SQL(t.Context(), "app", schema); err != nil {
		t.Fatal(err)
	}
	s.watch = connect(t, c.SocketEndpoint().URL(pgtest.Login{User: pgtest.Superuser, Database: "app"}))
	s.front = pgtest.Pgweir(t, s.config(t, "[[workload]]\nname = \"default\"\nmax_wait = \"60s\"\n")).Endpoint
	s.refusing = s.guard(t, "[[workload]]\nname = \"default\"\nmax_wait = \"150ms\"\n")
	s.crowded = s.guard(t, fmt.Sprintf("[[workload]]\nname = \"default\"\nmax_wait = \"60s\"\nmax_waiting = %d\n", places))
	return s
}

// schema is what the themes work on.
const schema = `set role app;
create table item(w int, id int, name text not null, primary key (w, id));
create table part(w int, id int, foreign key (w, id) references item);
create table deal(id int primary key, n int not null);
insert into deal select n, 0 from generate_series(1, 10) n;
create table word(id int primary key, name text);
insert into word select n, 'word ' || n from generate_series(0, 99) n`

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// config is that of a pgweir before the cluster.
func (s *stage) config(t *testing.T, more string) string {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte(fmt.Sprintf("%q %q\n", "app", password)), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`shutdown_timeout = "5s"
[auth]
auth_type = "scram-sha-256"
auth_file = %q
[upstream.main]
url = "postgres://app:%s@%s/app?sslmode=disable"
budget = %d
reserve = 3
[database."*"]
upstream = "main"
%s`, users, password, s.Addr(), slots+3, more)
}

// guard starts a pgweir whose slots can be held, and whose logins can be counted.
func (s *stage) guard(t *testing.T, more string) *guarded {
	t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{http: fmt.Sprintf("127.0.0.1:%d", port)}
	g.Endpoint = pgtest.Pgweir(t, fmt.Sprintf("http = %q\n", g.http)+s.config(t, more)).Endpoint
	for range slots {
		g.hogs = append(g.hogs, connect(t, g.URL(pgtest.Login{User: "app", Password: password, Database: "app"})))
	}
	return g
}

// logins is how many clients pgweir has let in.
func (g *guarded) logins(t *testing.T) int {
	t.Helper()
	m, err := pgtest.Metrics(g.http)
	n, ok := m["pgweir_client_logins_total"]
	if err != nil || !ok {
		t.Fatalf("no metric of logins: %v", err)
	}
	return int(n)
}

// hold takes all slots, and returns what gives them back.
func (g *guarded) hold(t *testing.T) (release func()) {
	t.Helper()
	for _, c := range g.hogs {
		served(t, c, "begin")
		for {
			if _, err := c.Exec(t.Context(), "select 1 as held"); err == nil {
				break
			}
			served(t, c, "rollback")
			served(t, c, "begin")
		}
	}
	return sync.OnceFunc(func() {
		for _, c := range g.hogs {
			served(t, c, "rollback")
		}
	})
}

// served runs a statement that is never refused.
func served(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// ask runs a statement directly, as the superuser.
func (s *stage) ask(t *testing.T, sql string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var text string
	if err := s.watch.QueryRow(context.WithoutCancel(t.Context()), sql).Scan(&text); err != nil && err != pgx.ErrNoRows {
		t.Errorf("%s: %v", sql, err)
	}
	return text
}

// reset empties the tables.
func (s *stage) reset(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.watch.Exec(t.Context(), "truncate item, part; update deal set n = 0"); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition of the database.
func (s *stage) until(t *testing.T, what string, sql string) string {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(patience); time.Now().Before(until); <-tick.C {
		if text := s.ask(t, sql); text != "" {
			return text
		}
		if s.watch.IsClosed() {
			return ""
		}
	}
	t.Errorf("not within %v: %s", patience, what)
	return ""
}

// running waits for the backend in which a statement with this text sleeps; while it is only
// parsed a cancel would come too early.
func (s *stage) running(t *testing.T, text string) string {
	t.Helper()
	return s.until(t, text+" runs", sleeping(text))
}

// sleeping asks for that backend.
func sleeping(text string) string {
	return fmt.Sprintf(
		"select pid::text from pg_stat_activity where state = 'active' and wait_event = 'PgSleep' and query like '%%%s%%' and pid <> pg_backend_pid()", text)
}

// restarting is a pgweir that is started again on its port.
type restarting struct {
	pgtest.Endpoint
	restart func()
}

func (s *stage) restarting(t *testing.T) restarting {
	t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("listen = [\"127.0.0.1:%d\"]\n", port) + s.config(t, "[[workload]]\nname = \"default\"\nmax_wait = \"60s\"\n")
	p := pgtest.Pgweir(t, config)
	return restarting{p.Endpoint, func() {
		p.Signal(syscall.SIGTERM)
		<-p.Done()
		pgtest.Pgweir(t, config)
	}}
}

// stir keeps two clients at small transactions, so that servers do not stay where they are.
func (s *stage) stir(t *testing.T, to pgtest.Endpoint) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		c, err := pgx.Connect(ctx, to.URL(pgtest.Login{User: "app", Password: password, Database: "app"})+"&default_query_exec_mode=simple_protocol")
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer func() { _ = c.Close(context.Background()) }()
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = c.Exec(context.WithoutCancel(ctx), fmt.Sprintf("select pg_sleep(0.00%d), 'stir'", 1+i%7)) // it may be ended with all others
				if c.IsClosed() {
					return
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}
