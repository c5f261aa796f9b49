package drivers

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// patience bounds every wait for a condition.
const patience = 60 * time.Second

// behind starts PostgreSQL with a role app and its database.
func behind(t *testing.T) *pgtest.Cluster {
	t.Helper()
	c, err := pgtest.Start(t.Context(), pgtest.Options{Settings: map[string]string{"max_connections": "100"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.SQL(t.Context(), "postgres", "create role app login;\ncreate database app owner app"); err != nil {
		t.Fatal(err)
	}
	return c
}

// slots is how many transactions each pgweir lets run at once.
const slots = 2

// front is a pgweir with one way to refuse.
type front struct {
	pgtest.Endpoint
	http string
	door *door // before PostgreSQL
	hogs []*pgx.Conn
}

// before starts a pgweir before the cluster. more is the rest of its configuration.
func before(t *testing.T, c *pgtest.Cluster, more string) *front {
	t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	f := &front{http: fmt.Sprintf("127.0.0.1:%d", port), door: newDoor(t, c.Addr())}
	f.Endpoint = pgtest.Pgweir(t, fmt.Sprintf(`
http = %q
[auth]
auth_type = "trust"
[upstream.main]
url = "postgres://app@%s/app?sslmode=disable"
budget = %d
reserve = 3
[database."*"]
upstream = "main"
%s`, f.http, f.door.addr(), slots+3, more)).Endpoint
	for range slots {
		f.hogs = append(f.hogs, f.connect(t))
		run(t, f.hogs[0], "select 'known'") // from now on pgweir knows how to welcome clients
	}
	return f
}

// logins is how many clients pgweir has let in.
func (f *front) logins(t *testing.T) int {
	t.Helper()
	m, err := pgtest.Metrics(f.http)
	n, ok := m["pgweir_client_logins_total"]
	if err != nil || !ok {
		t.Fatalf("no metric of logins: %v", err)
	}
	return int(n)
}

// connect is a client of its own, by the simple protocol.
func (f *front) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(f.DSN("app", "app"))
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

// run runs statements that must be served within patience, however often they are refused.
func run(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, sql := range statements {
		for {
			_, err := c.Exec(ctx, sql)
			if err == nil {
				break
			}
			if r := pgxError(err); !isRefusal(r) || ctx.Err() != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			pause(ctx, 10*time.Millisecond)
		}
	}
}

func isRefusal(err error) bool { _, ok := err.(*refusal); return ok }

// hold takes all slots, and returns what gives them back.
func (f *front) hold(t *testing.T) (release func()) {
	t.Helper()
	for _, c := range f.hogs {
		run(t, c, "begin")
		for {
			_, err := c.Exec(t.Context(), "select 1 as held")
			if err == nil {
				break
			}
			run(t, c, "rollback", "begin")
		}
	}
	return func() {
		for _, c := range f.hogs {
			run(t, c, "rollback")
		}
	}
}

// door passes connections on to an address, unless it is shut.
type door struct {
	l  net.Listener
	to string

	mu      sync.Mutex
	isShut  bool
	through map[net.Conn]bool
}

func newDoor(t *testing.T, to string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{l: l, to: to, through: make(map[net.Conn]bool)}
	go d.serve()
	t.Cleanup(func() {
		_ = l.Close()
		d.shut()
	})
	return d
}

func (d *door) addr() string { return d.l.Addr().String() }

func (d *door) serve() {
	for {
		c, err := d.l.Accept()
		if err != nil {
			return
		}
		go d.pass(c)
	}
}

// pass passes on what both sides say until one closes.
func (d *door) pass(c net.Conn) {
	other, err := net.Dial("tcp", d.to)
	if err != nil || !d.enter(c, other) {
		_ = c.Close()
		if other != nil {
			_ = other.Close()
		}
		return
	}
	var both sync.WaitGroup
	for _, pair := range [2][2]net.Conn{{c, other}, {other, c}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
		})
	}
	both.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.through, c)
	delete(d.through, other)
}

func (d *door) enter(conns ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range conns {
		if !d.isShut {
			d.through[c] = true
		}
	}
	return !d.isShut
}

// shut closes everything, and whatever comes.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isShut = true
	for c := range d.through {
		_ = c.Close()
	}
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isShut = false
}
