package pgtest

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// start is Start for a test that needs a server.
func start(t *testing.T, o Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), o)
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

func TestClusterServesRestartsAndGoes(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := start(t, Options{Settings: map[string]string{"max_connections": "17"}})
	ctx := t.Context()

	me := Login{User: Superuser, Database: "postgres"}
	got, err := c.Psql(ctx, me, "create table kept(a int); insert into kept values (1);\nshow max_connections;")
	if err != nil || got != "17\n" {
		t.Fatalf("over TCP: %q, %v", got, err)
	}
	before := c.Port
	if err := c.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if c.Port != before {
		t.Errorf("the port changed from %d to %d", before, c.Port)
	}
	if got, err = c.SQL(ctx, "postgres", "select a from kept"); err != nil || got != "1\n" {
		t.Errorf("after the restart: %q, %v", got, err)
	}
	if log, err := c.Log(); err != nil || strings.Count(log, "ready to accept connections") != 2 {
		t.Errorf("log with two starts expected: %v\n%s", err, log)
	}

	dir := c.SocketDir
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	if conn, err := net.Dial("tcp", c.Addr()); err == nil {
		t.Errorf("someone still listens on %s", c.Addr())
		_ = conn.Close()
	}
	if err := c.Restart(ctx); err == nil {
		t.Error("a stopped cluster was restarted")
	}
}

func TestClusterHaltedAnswersNobodyUntilResumed(t *testing.T) {
	c := start(t, Options{})
	if err := c.Halt(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SQL(t.Context(), "postgres", "select 1"); err == nil {
		t.Error("a halted cluster answers")
	}
	if err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Resume(t.Context()); err == nil {
		t.Error("a running cluster was resumed")
	}
	if _, err := c.SQL(t.Context(), "postgres", "select 1"); err != nil {
		t.Error(err)
	}
}

func TestClusterAuthentication(t *testing.T) {
	for _, method := range []string{"trust", "md5", "scram-sha-256"} {
		t.Run(method, func(t *testing.T) {
			o := Options{Auth: method}
			if method == "md5" {
				o.Settings = map[string]string{"password_encryption": "md5"}
			}
			c := start(t, o)
			ctx := t.Context()
			if _, err := c.SQL(ctx, "postgres", "create role app login password 'se cret'"); err != nil {
				t.Fatal(err)
			}
			verifier, err := c.SQL(ctx, "postgres", "select rolpassword from pg_authid where rolname = 'app'")
			if want := map[string]string{"md5": "md5"}[method]; err != nil || !strings.HasPrefix(verifier, want) {
				t.Errorf("verifier %q, %v", verifier, err)
			}
			right := Login{User: "app", Password: "se cret", Database: "postgres"}
			if got, err := c.Psql(ctx, right, "select current_user"); err != nil || got != "app\n" {
				t.Errorf("right password: %q, %v", got, err)
			}
			wrong := right
			wrong.Password = "secret"
			_, err = c.Psql(ctx, wrong, "select 1")
			if (err == nil) != (method == "trust") {
				t.Errorf("wrong password: %v", err)
			}
		})
	}
}

func TestClusterTakesTheCallersHBA(t *testing.T) {
	c := start(t, Options{HBA: []string{"local all all trust", "host template1 all all trust"}})
	if _, err := c.Psql(t.Context(), Login{User: Superuser, Database: "template1"}, "select 1"); err != nil {
		t.Error(err)
	}
	_, err := c.Psql(t.Context(), Login{User: Superuser, Database: "postgres"}, "select 1")
	if err == nil || !strings.Contains(err.Error(), "no pg_hba.conf entry") {
		t.Errorf("a line that is not there let in: %v", err)
	}
}

func TestStartTellsTheServersOwnWordsWhenItFails(t *testing.T) {
	_, err := Start(t.Context(), Options{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error %v", err)
	}
}

func TestStartLeavesNothingBehindWhenItFails(t *testing.T) {
	dir := shortDir(t)
	_, err := Start(t.Context(), Options{Dir: dir, Settings: map[string]string{"port": "'x'"}})
	if err == nil {
		t.Fatal("started with port x")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStartHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := Start(ctx, Options{}); err == nil {
		t.Errorf("started: %v", c.Stop())
	}
}

// shortDir is a directory that the server's account can enter, unlike t.TempDir's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
