package integration

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Sessions outlive the servers that they borrow: an idle client does not notice a restart
// of PostgreSQL.
func TestRestartOfPostgres(t *testing.T) {
	f := startFront(t, plan{})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	var clients []*pgx.Conn
	for i := range 8 {
		c := f.connect(t)
		wantOne(t, c, "select 'before'", "before")
		if _, err := c.Prepare(t.Context(), "kept", fmt.Sprintf("select 'client %d'", i)); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	if err := f.cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, c := range clients {
		wantOne(t, c, "select 'after'", "after")
		wantOne(t, c, "kept", fmt.Sprintf("client %d", i))
	}
}

// While PostgreSQL is away a session is refused, not ended, and works again afterwards.
func TestOutageOfPostgres(t *testing.T) {
	f := startFront(t, plan{more: "[[workload]]\nname = \"default\"\nno_server_wait = \"200ms\"\n"})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	c := f.connect(t, execMode(pgx.QueryExecModeSimpleProtocol))
	wantOne(t, c, "select 'before'", "before")
	if err := f.cluster.Halt(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "select 'during'"); sqlstate(err) != "53300" {
		t.Errorf("during the outage: %v", err)
	}
	if c.IsClosed() {
		t.Fatal("the session was ended")
	}
	if err := f.cluster.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session is served again", func() bool {
		got, err := one(t.Context(), c, "select 'after'")
		return err == nil && got == "after"
	})
	eventually(t, "the log says so, once", func() bool {
		log, err := f.proc.Log()
		return err == nil && strings.Count(string(log), "logins to servers work again") == 1
	})
}

// The state of an open transaction is lost with its server: its session must not go on.
func TestServerOfATransactionDies(t *testing.T) {
	f := startFront(t, plan{})
	f.psql(t, "create table lost(a int)")
	c, bystander := f.connect(t), f.connect(t)
	run(t, c, "begin", "insert into lost values (1)")
	pid, err := one(t.Context(), c, "select pg_backend_pid()::text")
	if err != nil {
		t.Fatal(err)
	}
	run(t, bystander, "begin", "insert into lost values (2)")
	f.sql(t, "app", "select pg_terminate_backend("+pid+")")
	f.await(t, "count(*) = 0 from pg_stat_activity where pid = "+pid)

	_, err = c.Exec(t.Context(), "insert into lost values (3)", pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		t.Error("the transaction went on without its server")
	} else if code := sqlstate(err); code != "57P01" && code != "" {
		t.Errorf("the client is told %v", err)
	}
	if !c.IsClosed() {
		t.Error("the session goes on")
	}
	run(t, bystander, "commit")
	if got := f.sql(t, "app", "select string_agg(a::text, ',') from lost"); got != "2" {
		t.Errorf("rows %q", got)
	}
	wantOne(t, f.connect(t), "select 'alive'", "alive")
}

// A client that disappears in a transaction gives its server back.
func TestVanishedClientsLeaveNothing(t *testing.T) {
	f := startFront(t, plan{slots: 2})
	f.psql(t, "create table vanished(a int)")
	for range 10 {
		c := f.connect(t)
		run(t, c, "begin", "insert into vanished values (1)")
		if err := c.PgConn().Conn().Close(); err != nil { // no Terminate
			t.Fatal(err)
		}
	}
	wantOne(t, f.connect(t), "select count(*)::text from vanished", "0")
	f.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app' and state <> 'idle'")
}

// The same while a statement runs, in each order in which the statement and the end of the
// connection can be seen: long before it, just before it, and together with it. Trap 46.
func TestStatementsOfVanishedClientsAreCancelled(t *testing.T) {
	f := startFront(t, plan{slots: 2})
	if f.proc == nil {
		t.Skip("PostgreSQL itself does not look while it works")
	}
	query := []byte("Q\x00\x00\x00\x19select pg_sleep(600)\x00")
	for _, c := range []struct {
		name     string
		begin    bool // in a transaction, on a server that is bound
		wait     bool // until the statement runs
		together bool // the end is there when the statement is read
	}{
		{"running", false, true, false},
		{"running in a transaction", true, true, false},
		{"just sent", false, false, false},
		{"just sent in a transaction", true, false, false},
		{"sent with the end", false, false, true},
		{"sent with the end in a transaction", true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer f.sql(t, "app", "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(600)%' and usename = 'app' and state = 'active'")
			for range 4 {
				conn := f.connect(t)
				if c.begin {
					run(t, conn, "begin", "select 1")
				}
				socket := conn.PgConn().Conn()
				if tcp, ok := socket.(*net.TCPConn); ok && c.together {
					if err := cork(tcp); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := socket.Write(query); err != nil {
					t.Fatal(err)
				}
				if c.wait {
					f.await(t, running("pg_sleep", 1))
				}
				if err := socket.Close(); err != nil {
					t.Fatal(err)
				}
				f.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app' and state <> 'idle'")
			}
		})
	}
}

// cork holds written bytes back until the connection is closed, so that they and its end
// leave in one segment.
func cork(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1)
	}); err != nil {
		return err
	}
	return set
}

// With every slot taken a statement is refused with 53300 when its wait is over; the session
// is kept, and so is a transaction, as a failed one. Trap 15.
func TestRefusalKeepsTheSession(t *testing.T) {
	f := startFront(t, plan{slots: 1, more: "[[workload]]\nname = \"default\"\nmax_wait = \"200ms\"\n"})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	f.psql(t, "create table refused(a int)")
	holder := f.connect(t)
	run(t, holder, "begin", "insert into refused values (1)")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) { refuse(t, f, mode) })
	}
	run(t, holder, "commit")
	if got := f.psql(t, "select count(*) from refused"); got != "1" {
		t.Errorf("%s rows", got)
	}
}

// refuse has a statement refused outside and inside of a transaction.
func refuse(t *testing.T, f *front, mode pgx.QueryExecMode) {
	c := f.connect(t, execMode(mode))
	const insert = "insert into refused values (2)"
	if _, err := c.Exec(t.Context(), insert); sqlstate(err) != "53300" {
		t.Errorf("outside: %v", err)
	}
	if status := c.PgConn().TxStatus(); status != 'I' {
		t.Errorf("outside: status %c", status)
	}
	tx, err := c.Begin(t.Context()) // needs no server
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), insert); sqlstate(err) != "53300" {
		t.Errorf("inside: %v", err)
	}
	if status := c.PgConn().TxStatus(); status != 'E' {
		t.Errorf("inside: status %c", status)
	}
	if _, err := tx.Exec(t.Context(), insert); sqlstate(err) != "25P02" {
		t.Errorf("after the refusal: %v", err)
	}
	if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("rollback: %v", err)
	}
	if c.IsClosed() {
		t.Error("the session was ended")
	}
}
