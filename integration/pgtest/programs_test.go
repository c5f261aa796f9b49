package pgtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindProgramsPrefersThePath(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", t.TempDir()+":"+dir)
	got, err := FindPrograms()
	if err != nil || string(got) != dir {
		t.Errorf("FindPrograms() = %q, %v; want %q", got, err, dir)
	}
}

func TestCompleteWantsBothProgramsExecutable(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("initdb", 0o755)
	if complete(dir) {
		t.Error("complete without postgres")
	}
	write("postgres", 0o644)
	if complete(dir) {
		t.Error("complete with a postgres that cannot be run")
	}
	if err := os.Chmod(filepath.Join(dir, "postgres"), 0o755); err != nil {
		t.Fatal(err)
	}
	if !complete(dir) {
		t.Error("not complete")
	}
}

func TestMajor(t *testing.T) {
	for path, want := range map[string]int{
		"/usr/lib/postgresql/9.6/bin": 9,
		"/usr/lib/postgresql/15/bin":  15,
		"/usr/pgsql-18/bin":           18,
		"/usr/local/pgsql/bin":        0,
		"":                            0,
	} {
		if got := major(path); got != want {
			t.Errorf("major(%q) = %d, want %d", path, got, want)
		}
	}
}

func TestErrNoPostgresSaysWhatToInstall(t *testing.T) {
	if !strings.Contains(ErrNoPostgres.Error(), "apt-get install postgresql") {
		t.Error(ErrNoPostgres)
	}
}

func TestCleanEnvDropsWhatWouldRedirectLibpq(t *testing.T) {
	t.Setenv("PGHOST", "db.example.org")
	t.Setenv("PGSERVICE", "x")
	t.Setenv("PGWEIR_TEST_BINARY", "kept")
	for _, kv := range CleanEnv("PGPORT=1") {
		if strings.HasPrefix(kv, "PGHOST=") || strings.HasPrefix(kv, "PGSERVICE=") {
			t.Errorf("%s got through", kv)
		}
	}
	var got []string
	for _, kv := range CleanEnv("PGPORT=1") {
		if strings.HasPrefix(kv, "PG") && !strings.HasPrefix(kv, "PGWEIR_REQUIRE_") {
			got = append(got, kv)
		}
	}
	if diff := cmp.Diff([]string{"PGWEIR_TEST_BINARY=kept", "PGPORT=1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestURL(t *testing.T) {
	for _, c := range []struct {
		e    Endpoint
		l    Login
		want string
	}{
		{
			Endpoint{Host: "127.0.0.1", Port: 5432},
			Login{User: "app", Database: "shop"},
			"postgres://app@127.0.0.1:5432/shop?sslmode=disable",
		},
		{
			Endpoint{Host: "127.0.0.1", Port: 5432},
			Login{User: "a b", Password: "p:@/", Database: "x y"},
			"postgres://a%20b:p%3A%40%2F@127.0.0.1:5432/x%20y?sslmode=disable",
		},
		{
			Endpoint{Host: "/tmp/d", Port: 20001},
			Login{User: "app", Database: "shop"},
			"postgres://app@/shop?host=%2Ftmp%2Fd&port=20001&sslmode=disable",
		},
	} {
		if got := c.e.URL(c.l); got != c.want {
			t.Errorf("URL(%+v) = %s, want %s", c.l, got, c.want)
		}
	}
}
