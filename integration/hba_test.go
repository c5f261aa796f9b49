package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// hbaDir is a directory with a socket and the files of a configuration.
func hbaDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgweir-hba-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // others come to the socket
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestHBA has psql log in by every kind of rule, and compares what is said to who is not let
// in with Postgres's own words.
func TestHBA(t *testing.T) {
	t.Parallel()
	rules := []string{
		"local   all        all            peer map=system",
		"host    all        outcast        all           reject",
		"host    all        +staff         127.0.0.1/32  scram-sha-256",
		"host    samerole   all            127.0.0.1/32  trust",
		`host    /^p        "md5er",/^tr   127.0.0.0/8   trust`,
		"host    pgweir     dba            samehost      password",
	}
	dir := hbaDir(t, map[string]string{
		"hba":   strings.Join(rules[:3], "\n") + "\ninclude more\n",
		"more":  strings.Join(rules[3:], "\n") + "\n",
		"ident": "system root postgres\nsystem /^(no)body$ \\1one\n",
		"users": "\"dba\" \"look\"\n",
	})
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	f := startAsked(t, fmt.Sprintf("listen = [\"127.0.0.1:%d\", %q]\n[auth]\nauth_type = \"hba\"\nauth_file = %q\nhba_file = %q\nident_file = %q\nauth_query = %q\n",
		port, dir, dir+"/users", dir+"/hba", dir+"/ident", askGuard), "[console]\nadmin_users = [\"dba\"]\n")
	f.sql(t, "postgres", `create role staff; create role crew in role staff; grant crew to scram; create role trusted login; create role outcast login;
create role noone login; create database staff; grant scram to later;`)
	if err := os.WriteFile(filepath.Join(f.cluster.DataDir, "pg_hba.conf"), []byte("local all all trust\nhost all outcast all reject\nhost postgres trusted,md5er,pgweir,later,scram,postgres,noone 127.0.0.1/32 trust\nhost staff scram,later 127.0.0.1/32 trust\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.sql(t, "postgres", "select pg_reload_conf()")
	direct, socket := f.cluster.Endpoint, pgtest.Endpoint{Programs: f.Programs, Host: dir, Port: port}
	let := func(e pgtest.Endpoint, user, password, database, want string) {
		t.Helper()
		out, err := e.Psql(t.Context(), pgtest.Login{User: user, Password: password, Database: database}, "select session_user")
		switch {
		case want == "" && (err != nil || strings.TrimSpace(out) != user):
			t.Errorf("%s to %s: %q, %v", user, database, out, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s to %s: %v, want %s", user, database, err, want)
		}
	}
	let(f.Endpoint, "scram", "right", "postgres", "")
	let(f.Endpoint, "later", "right", "postgres", "")                            // of a role of a role of the group
	let(f.Endpoint, "scram", "wrong", "staff", "password authentication failed") // not the next rule, which would trust
	let(f.Endpoint, "trusted", "", "postgres", "")
	let(f.Endpoint, "md5er", "", "postgres", "")
	for _, e := range []pgtest.Endpoint{f.Endpoint, direct} {
		let(e, "always", "right", "postgres", `no pg_hba.conf entry for host "127.0.0.1", user "always", database "postgres", no encryption`)
		let(e, "outcast", "right", "postgres", `pg_hba.conf rejects connection for host "127.0.0.1", user "outcast", database "postgres", no encryption`)
	}
	if os.Geteuid() == 0 {
		let(socket, "postgres", "", "postgres", "")
		let(socket, "scram", "right", "postgres", `Peer authentication failed for user "scram"`)
		cmd := socket.Command(t.Context(), pgtest.Login{User: "noone", Database: "postgres"}, "psql", "-Xwc", "select 1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{}}}
		cmd.Dir = "/"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("nobody is not noone: %v, %s", err, out)
		}
	}
	console := pgtest.Login{User: "dba", Password: "look", Database: "pgweir"}
	if _, err := f.Psql(t.Context(), console, "show hba"); err == nil || !strings.Contains(err.Error(), "asks nothing of Postgres") {
		t.Errorf("a group before the console's rule: %v", err)
	}
	// The console's rule goes first, and a wrong file changes nothing.
	first := "host pgweir dba samehost password\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(dir+"/hba", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.proc.Signal(syscall.SIGHUP)
	}
	write(first + strings.Join(rules[:3], "\n") + "\ninclude more\n")
	var table string
	eventually(t, "the console's rule is in force", func() bool {
		table, _ = f.Psql(t.Context(), console, "show hba")
		return table != ""
	})
	if lines := strings.Split(strings.TrimSpace(table), "\n"); len(lines) != 7 || lines[3] != "4|"+dir+"/hba|4|host|all|+staff|127.0.0.1|255.255.255.255|scram-sha-256||0" || !strings.Contains(lines[4], "/more|1|host|samerole") {
		t.Errorf("SHOW HBA:\n%s", table)
	}
	write(first + "host all all all ldap\n")
	f.logs(t, dir+`/hba:2:18: pgweir does not have the authentication method \"ldap\"`)
	let(f.Endpoint, "scram", "right", "postgres", "")
}
