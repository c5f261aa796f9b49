package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// longEnv makes some tests heavy: more rounds, more clients, more time.
const longEnv = "PGWEIR_LONG"

func long() bool { return os.Getenv(longEnv) != "" }

// shared is a front whose port and socket are served by one process after the other.
type shared struct {
	*front
	t      *testing.T
	port   int
	dir    string // of the Unix socket
	budget int
	more   string // of the configuration, above its tables
	proc   *pgtest.Proc
	http   string // of proc
}

// startShared prepares a cluster for two processes at once and starts the first.
func startShared(t *testing.T, more string) *shared {
	t.Helper()
	const slots = 6
	f := startBehind(t, plan{})
	dir, err := os.MkdirTemp("", "pgweir-shared-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &shared{front: f, t: t, dir: dir, budget: slots + 1, more: more}
	if s.port, err = pgtest.FreePort(); err != nil {
		t.Fatal(err)
	}
	f.sql(t, "postgres", fmt.Sprintf("alter role app connection limit %d", 2*s.budget))
	s.proc, s.http = s.process()
	s.Endpoint = s.proc.Endpoint
	return s
}

// process starts one more process on the port.
func (s *shared) process() (p *pgtest.Proc, http string) {
	s.t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		s.t.Fatal(err)
	}
	http = fmt.Sprintf("127.0.0.1:%d", port)
	top := fmt.Sprintf("listen = [\"127.0.0.1:%d\", %q]\nso_reuseport = true\nhttp = %q\n%s", s.port, s.dir, http, s.more)
	return pgtest.Pgweir(s.t, s.config(s.t, plan{top: top}, s.budget)), http
}

// replace starts a successor and ends the process by SIGTERM, while it looks at /readyz.
func (s *shared) replace() {
	s.t.Helper()
	old, oldHTTP := s.proc, s.http
	s.proc, s.http = s.process()
	wantReady(s.t, s.http, 200, "ok")
	old.Signal(syscall.SIGTERM)
	eventually(s.t, "draining on /readyz", func() bool {
		code, text, err := httpGet(oldHTTP, "/readyz")
		return err == nil && code == 503 && strings.HasPrefix(text, "draining")
	})
	select {
	case <-old.Done():
	case <-time.After(patience):
		s.t.Fatal("it does not end")
	}
}

// bookkeeping is what the clients of a rolling restart have seen.
type bookkeeping struct {
	served, connects, ended, cancels, met atomic.Int64

	mu   sync.Mutex
	odd  map[string]int // errors at connecting, by text
	lost map[string]int // errors in the middle of things
}

func (b *bookkeeping) note(m *map[string]int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *m == nil {
		*m = make(map[string]int)
	}
	(*m)[err.Error()]++
}

func (b *bookkeeping) report(t *testing.T) {
	t.Helper()
	t.Logf("%d transactions, %d connections, %d times 57P01, %d cancel requests, %d queries cancelled",
		b.served.Load(), b.connects.Load(), b.ended.Load(), b.cancels.Load(), b.met.Load())
	for _, list := range []struct {
		what string
		m    map[string]int
	}{{"could not connect", b.odd}, {"failed", b.lost}} {
		for _, text := range slices.Sorted(maps.Keys(list.m)) {
			t.Errorf("%s, %d times: %s", list.what, list.m[text], text)
		}
	}
}

// roller is one client of a rolling restart.
type roller struct {
	*bookkeeping
	url  string
	conn *pgx.Conn
}

// connected makes sure that there is a connection.
func (r *roller) connected(ctx context.Context) bool {
	if r.conn != nil && !r.conn.IsClosed() {
		return true
	}
	config, err := pgx.ParseConfig(r.url)
	if err == nil {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		r.conn, err = pgx.ConnectConfig(ctx, config)
	}
	if err != nil {
		if ctx.Err() == nil {
			r.note(&r.odd, err)
		}
		return false
	}
	r.connects.Add(1)
	return true
}

func (r *roller) close() {
	if r.conn != nil {
		_ = r.conn.Close(context.Background()) // it may have ended by itself
	}
}

// judge looks at what became of a transaction. A session that was ended between two of
// them is one to open again.
func (r *roller) judge(ctx context.Context, err error, begun bool) {
	switch {
	case err == nil:
		r.served.Add(1)
	case ctx.Err() != nil:
	case sqlstate(err) == "57P01" && !begun:
		r.ended.Add(1)
		r.close()
	default:
		r.note(&r.lost, fmt.Errorf("begun=%v: %w", begun, err))
		r.close()
	}
}

// transactions writes, several statements at a time.
func (r *roller) transactions(ctx context.Context) error {
	defer r.close()
	for ctx.Err() == nil {
		if !r.connected(ctx) {
			continue
		}
		tx, err := r.conn.Begin(ctx)
		begun := err == nil
		for _, sql := range []string{"insert into rolled values (1)", "select 1", "insert into rolled values (-1)"} {
			if err == nil {
				_, err = tx.Exec(ctx, sql)
			}
		}
		if err == nil {
			err = tx.Commit(ctx)
		}
		r.judge(ctx, err, begun)
	}
	return nil
}

// statements runs one at a time, on a connection for each if churn is set.
func (r *roller) statements(ctx context.Context, churn bool) error {
	defer r.close()
	for ctx.Err() == nil {
		if !r.connected(ctx) {
			continue
		}
		_, err := r.conn.Exec(ctx, "select 1")
		r.judge(ctx, err, false)
		if churn {
			r.close()
		}
	}
	return nil
}

// cancelled runs what is meant to be cancelled, and cancels it.
func (r *roller) cancelled(ctx context.Context) error {
	defer r.close()
	for ctx.Err() == nil {
		if !r.connected(ctx) {
			continue
		}
		done := make(chan error, 1)
		go func() {
			_, err := r.conn.Exec(ctx, "select pg_sleep(600)")
			done <- err
		}()
		err := r.cancelUntil(ctx, done)
		if sqlstate(err) == "57014" {
			r.met.Add(1)
			err = nil
		}
		r.judge(ctx, err, false)
	}
	return nil
}

// cancelUntil sends cancel requests on connections of their own until the query has ended:
// one that comes too early meets nothing.
func (r *roller) cancelUntil(ctx context.Context, done <-chan error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			r.cancels.Add(1)
			if err := r.conn.PgConn().CancelRequest(ctx); err != nil && ctx.Err() == nil {
				r.note(&r.odd, fmt.Errorf("cancel: %w", err))
			}
		}
	}
}

// Processes follow each other on a TCP port and a Unix socket while clients write, read,
// connect and cancel. Nobody loses a transaction, nobody fails to connect, and a cancel
// request meets the query that was meant, whichever process gets it, and no other.
func TestRollingRestart(t *testing.T) {
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	t.Parallel()
	s := startShared(t, `drain_delay = "100ms"`+"\n")
	s.sql(t, "app", "create table rolled(n int);\ngrant all on rolled to app")
	rounds, each := 3, 1
	if long() {
		rounds, each = 12, 3
	}
	var books bookkeeping
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	unix := pgtest.Endpoint{Programs: s.Programs, Host: s.dir, Port: s.port}
	for _, to := range []pgtest.Endpoint{s.Endpoint, unix} {
		client := func() *roller { return &roller{bookkeeping: &books, url: to.URL(s.app)} }
		for range 2 * each {
			g.Go(func() error { return client().transactions(ctx) })
			g.Go(func() error { return client().statements(ctx, false) })
			g.Go(func() error { return client().statements(ctx, true) })
		}
		g.Go(func() error { return client().cancelled(ctx) })
	}
	for range rounds {
		before := books.served.Load()
		eventually(t, "the clients work", func() bool { return books.served.Load() > before+100 })
		s.replace()
	}
	stop()
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	books.report(t)
	if books.ended.Load() == 0 || books.met.Load() == 0 {
		t.Error("no session ended, or no query was cancelled: nothing was tested")
	}
	if sum := s.sql(t, "app", "select coalesce(sum(n), 0) from rolled"); sum != "0" {
		t.Errorf("half transactions: %s", sum)
	}
}
