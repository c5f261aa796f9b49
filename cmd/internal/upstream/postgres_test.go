package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire"
)

// startPrimary starts a Postgres from which a standby can be made.
func startPrimary(t *testing.T) *pgtest.Cluster {
	t.Helper()
	c, err := pgtest.Start(bounded(t), pgtest.Options{
		Settings: map[string]string{"wal_level": "replica", "max_wal_senders": "4", "max_connections": "20"},
		HBA: []string{
			"local all all trust", "local replication all trust",
			"host all secret 127.0.0.1/32 scram-sha-256", "host all all 127.0.0.1/32 trust",
		},
	})
	if errors.Is(err, pgtest.ErrNoPostgres) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// startStandby starts a streaming standby of a primary. It stops with the test.
func startStandby(t *testing.T, primary *pgtest.Cluster) pgtest.Endpoint {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgweir-standby-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// As the account that owns the primary's files: Postgres refuses to run as root.
	owner, err := os.Stat(primary.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	id := owner.Sys().(*syscall.Stat_t)
	if err := os.Chown(dir, int(id.Uid), int(id.Gid)); err != nil {
		t.Fatal(err)
	}
	run := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(primary.Programs.Path(program), args...)
		cmd.Dir, cmd.Env = dir, []string{"LC_ALL=C", "TZ=UTC"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id.Uid, Gid: id.Gid, Groups: []uint32{}}
		}
		return cmd
	}
	data := filepath.Join(dir, "data")
	backup := run("pg_basebackup", "-h", primary.SocketDir, "-p", fmt.Sprint(primary.Port), "-U", pgtest.Superuser,
		"-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync")
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	e := pgtest.Endpoint{Programs: primary.Programs, Host: "127.0.0.1"}
	if e.Port, err = pgtest.FreePort(); err != nil {
		t.Fatal(err)
	}
	server := run("postgres", "-D", data, "-c", fmt.Sprintf("port=%d", e.Port), "-c", "unix_socket_directories="+dir)
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The thread that has started it must live as long as it does: see Pdeathsig.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := server.Start()
		started <- err
		if err == nil {
			ended <- server.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // it may have ended
		if err := <-ended; err != nil || t.Failed() {
			t.Logf("the standby ended: %v\n%s", err, log.String())
		}
	})
	return e
}

func TestFailoverOfPostgres(t *testing.T) {
	t.Parallel()
	first := startPrimary(t)
	second := startStandby(t, first)
	a, b := Host{"tcp", first.Addr()}, Host{"tcp", second.Addr()}
	r := Request{Database: "postgres", Role: pgtest.Superuser}
	reach := func(l *lab) (*Session, error) {
		s, err := l.Dial(bounded(t), r)
		if s != nil {
			s.End(bounded(t))
		}
		return s, err
	}
	l := newLab(t, Options{Hosts: []Host{b, a}, Attrs: ReadWrite})
	if s, err := reach(l); err != nil || s.Where.Host != a {
		t.Fatal(s, err)
	}
	readers := newLab(t, Options{Hosts: []Host{a, b}, Attrs: Standby})
	await(t, "the standby lets readers in", func() bool {
		s, err := reach(readers)
		return err == nil && s.Where.Host == b
	})
	for attrs, want := range map[Attrs]Host{ReadOnly: b, PreferStandby: b, Primary: a} {
		s, err := reach(newLab(t, Options{Hosts: []Host{a, b}, Attrs: attrs}))
		if err != nil || s.Where.Host != want {
			t.Errorf("%v: %v, %v", attrs, s, err)
		}
	}
	if f, err := readers.Ask(bounded(t), r); err != nil || !f.InRecovery || f.Where.Host != b {
		t.Errorf("%+v, %v", f, err)
	}

	if err := first.Halt(); err != nil {
		t.Fatal(err)
	}
	await(t, "both are refused", func() bool {
		_, err := reach(l)
		return err != nil && err.Error() == fmt.Sprintf("%v: is a standby; %v: connection refused", b, a)
	})
	if _, err := second.Psql(bounded(t), pgtest.Login{User: pgtest.Superuser, Database: "postgres"}, "select pg_promote(wait => false)"); err != nil {
		t.Fatal(err)
	}
	await(t, "the new primary is found", func() bool {
		s, err := reach(l)
		return err == nil && s.Where.Host == b
	})
	if m := l.moved(); len(m) != 1 || m[0].from.Host != a || m[0].to.Host != b {
		t.Errorf("%v", m)
	}
	if err := first.Resume(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

func TestFactsOfPostgres(t *testing.T) {
	t.Parallel()
	c := startPrimary(t)
	ctx := bounded(t)
	script := `create role plain login connection limit 7; create role secret login password 'right';
create role narrow login connection limit 1; create database small connection limit 0;`
	if _, err := c.SQL(ctx, "postgres", script); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, Options{Hosts: []Host{{"unix", filepath.Join(c.SocketDir, fmt.Sprintf(".s.PGSQL.%d", c.Port))}, {"tcp", c.Addr()}}})
	other, err := l.Dial(ctx, Request{Database: "postgres", Role: pgtest.Superuser})
	if err != nil {
		t.Fatal(err)
	}
	defer other.End(ctx)
	for _, role := range []string{pgtest.Superuser, "plain"} {
		f, err := l.Ask(ctx, Request{Database: "postgres", Role: role})
		if err != nil {
			t.Fatal(err)
		}
		want := Facts{MaxConnections: 20, SuperuserReserved: 3, OtherBackends: 1, RoleLimit: -1, ServerVersion: other.Version, Where: other.Where}
		if role == "plain" {
			want.RoleLimit = 7
		}
		if f != want {
			t.Errorf("%s: %+v, expected %+v", role, f, want)
		}
	}

	tcp := newLab(t, Options{Hosts: []Host{{"tcp", c.Addr()}}, CPU: make(login.CPU, 1)})
	if _, err := tcp.Ask(ctx, Request{Database: "postgres", Role: "secret", Passwords: Command("echo right")}); err != nil {
		t.Error(err)
	}
	_, err = tcp.Ask(ctx, Request{Database: "postgres", Role: "secret", Passwords: Fixed("wrong")})
	if told, ok := errors.AsType[*wire.Error](err); !ok || told.Code != "28P01" || !Permanent(err) {
		t.Error(err)
	}
	_, err = tcp.Ask(ctx, Request{Database: "postgres", Role: "secret", Passwords: File("/nonexistent/password")})
	if err == nil || err.Error() != `password of role "secret": open /nonexistent/password: no such file or directory` {
		t.Error(err)
	}
	fullOfPostgres(t, tcp)
}

// fullOfPostgres meets the three kinds of no room.
func fullOfPostgres(t *testing.T, l *lab) {
	t.Helper()
	ctx := bounded(t)
	refused := func(database, role string, key, all bool) {
		t.Helper()
		s, err := l.Dial(ctx, Request{Database: database, Role: role})
		if err == nil {
			s.End(ctx)
			t.Errorf("%s in %s is let in", role, database)
			return
		}
		r, ok := errors.AsType[*login.Refusal](err)
		if k, a := Full(err); k != key || a != all || !ok || r.Routine == "" {
			t.Errorf("%s in %s: key %v, all %v: %#v", role, database, k, a, r)
			return
		}
		r.Told.Message = "in another language"
		if k, a := Full(err); k != key || a != all {
			t.Errorf("%s in %s: key %v, all %v by the routine %s", role, database, k, a, r.Routine)
		}
	}
	hold := func(database, role string) bool {
		s, err := l.Dial(ctx, Request{Database: database, Role: role})
		if err != nil {
			return false
		}
		t.Cleanup(func() { s.End(context.Background()) })
		return true
	}
	if !hold("postgres", "narrow") {
		t.Fatal("narrow is not let in")
	}
	refused("postgres", "narrow", true, false)
	refused("small", "plain", true, false)
	if _, err := l.Dial(ctx, Request{Database: "none", Role: "plain"}); !Permanent(err) {
		t.Error(err)
	}
	if n := 0; hold("postgres", pgtest.Superuser) {
		for ; hold("postgres", pgtest.Superuser); n++ {
			if n > 20 {
				t.Fatal("no end of connections")
			}
		}
	}
	refused("postgres", pgtest.Superuser, false, true)
	refused("postgres", "secret", false, true)
}

func TestCancelOfPostgres(t *testing.T) {
	t.Parallel()
	c := startPrimary(t)
	l := newLab(t, Options{Hosts: []Host{{"tcp", fmt.Sprintf("localhost:%d", c.Port)}}})
	s, err := l.Dial(bounded(t), Request{Database: "postgres", Role: pgtest.Superuser})
	if err != nil {
		t.Fatal(err)
	}
	defer s.End(bounded(t))
	ended := make(chan error, 1)
	go func() { _, err := s.Query(bounded(t), "select pg_sleep(60)"); ended <- err }()
	for {
		if err := l.Cancel(bounded(t), s.Where, false, s.PID, s.Secret); err != nil {
			t.Fatal(err)
		}
		select {
		case err = <-ended:
			if told, ok := errors.AsType[*wire.Error](err); !ok || told.Code != "57014" {
				t.Error(err)
			}
			return
		case <-time.After(50 * time.Millisecond): // the query had not begun
		}
	}
}
