package integration

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/certs"
	"github.com/pgweir/pgweir/integration/child"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// modern is a Postgres newer than the host's, in a tree of its own. It does TLS, lets role
// app in by SCRAM over that only, and trusts its superuser.
type modern struct {
	pgtest.Endpoint
	ca *certs.Authority
}

// startModern starts one, or skips the test where there is none.
func startModern(t *testing.T, settings map[string]string) *modern {
	t.Helper()
	root := os.Getenv(peersEnv)
	if root == "" {
		t.Skip(peersEnv + " does not name a tree with a newer Postgres")
	}
	found, err := filepath.Glob(filepath.Join(root, "usr/lib/postgresql/*/bin/postgres"))
	if err != nil || len(found) == 0 {
		t.Skip("no Postgres in ", root)
	}
	program := strings.TrimPrefix(found[len(found)-1], strings.TrimSuffix(root, "/"))
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	m := &modern{Endpoint: pgtest.Endpoint{Host: "127.0.0.1", Port: port}}
	dir, err := os.MkdirTemp(filepath.Join(root, "tmp"), "pgweir-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	where := child.Where{Root: root, As: accountIn(t, root), OnDeath: syscall.SIGQUIT}
	give := func(path string) {
		t.Helper()
		if err := os.Chown(path, int(where.As.Uid), int(where.As.Gid)); err != nil {
			t.Skip("needs root's rights: ", err)
		}
	}
	give(dir)
	data := filepath.Join("/tmp", filepath.Base(dir), "data")
	initdb := filepath.Join(filepath.Dir(program), "initdb")
	if _, err := child.FirstLine(t.Context(), where, patience, initdb, "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"); err != nil {
		t.Fatal(err)
	}
	m.furnish(t, filepath.Join(dir, "data"), settings, give)
	cmd := exec.Command(program, "-D", data)
	cmd.Dir, cmd.Env = "/", []string{"TZ=UTC"}
	p, err := child.Start(cmd, where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(syscall.SIGINT, patience) })
	var admin *pgx.Conn
	eventually(t, "it answers", func() bool {
		admin, err = pgx.Connect(t.Context(), m.DSN("postgres", "postgres"))
		return err == nil
	})
	run(t, admin, "create role app login password 'one' in role pg_monitor", "create database app owner app")
	if err := admin.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return m
}

// furnish writes its files.
func (m *modern) furnish(t *testing.T, data string, settings map[string]string, give func(path string)) {
	t.Helper()
	dir := t.TempDir()
	var err error
	if m.ca, err = certs.New(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	pair, err := m.ca.Issue("server", certs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	conf := fmt.Sprintf("listen_addresses = '127.0.0.1'\nport = %d\nunix_socket_directories = ''\ndynamic_shared_memory_type = mmap\nfsync = off\nssl = on\n", m.Port)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		conf += name + " = " + settings[name] + "\n"
	}
	for name, text := range map[string]string{
		"server.crt": read(pair.CertFile), "server.key": read(pair.KeyFile), "postgresql.conf": conf,
		"pg_hba.conf": "host all postgres 127.0.0.1/32 trust\nhostssl all app 127.0.0.1/32 scram-sha-256\n",
	} {
		path := filepath.Join(data, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		give(path)
	}
}

// accountIn is the account of Postgres in a tree.
func accountIn(t *testing.T, root string) *syscall.Credential {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "etc/passwd"))
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = f.Close() }() // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); fields[0] == "postgres" && len(fields) > 3 {
			uid, err1 := strconv.ParseUint(fields[2], 10, 32)
			gid, err2 := strconv.ParseUint(fields[3], 10, 32)
			if err1 == nil && err2 == nil {
				return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
			}
		}
	}
	t.Skip("no account of Postgres in ", root)
	return nil
}

// reach writes pgweir's url anew.
func (o *operated) reach(t *testing.T, hosts, parameters string) {
	t.Helper()
	_, rest, _ := strings.Cut(o.text, "url       = \"")
	old, _, _ := strings.Cut(rest, `"`)
	o.rewrite(t, old, "postgres://app:one@"+hosts+"/app?"+parameters)
	o.console(t, "reload")
}

// Direct TLS to a Postgres that knows it, as everything else there; and to one that does not.
func TestServerDirectTLS(t *testing.T) {
	t.Parallel()
	m := startModern(t, nil)
	o := operate(t, plan{auth: "scram-sha-256", password: "one"})
	text := o.text
	for _, parameters := range []string{"", "&sslnegotiation=direct", "&sslnegotiation=direct&channel_binding=require&ssl_max_protocol_version=TLSv1.2"} {
		o.text = text
		o.reach(t, m.Addr(), "sslmode=verify-full&sslrootcert="+m.ca.File+parameters)
		c := o.join(t, o.app)
		wantOne(t, c, "select (current_setting('server_version_num')::int >= 170000 and ssl)::text from pg_stat_ssl where pid = pg_backend_pid()", "true")
		slow := o.join(t, o.app)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := one(ctx, slow, "select pg_sleep(600)::text"); done <- err }()
		eventually(t, "it sleeps", func() bool {
			n, err := one(t.Context(), c, "select count(*)::text from pg_stat_activity where query like '%pg_sleep(600)%' and pid <> pg_backend_pid() and state = 'active'")
			return err == nil && n == "1"
		})
		if err := slow.PgConn().CancelRequest(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; sqlstate(err) != "57014" {
			t.Error(err)
		}
		stop()
	}
	s := lockedUp(t, operate(t, plan{auth: "scram-sha-256", password: "one"}))
	s.url(t, "sslmode=require&sslnegotiation=direct")
	s.logged(t, "reload done")
	c, err := pgx.Connect(t.Context(), s.URL(s.app))
	if err == nil {
		_, err = one(t.Context(), c, "select 1::text")
		_ = c.Close(t.Context())
	}
	if err == nil {
		t.Error("a Postgres before 17 did direct TLS")
	}
}

// An upgrade by a move: clients that were there before hear of the new version, and of other
// defaults, before their next answer.
func TestUpgradeIsHeardOf(t *testing.T) {
	t.Parallel()
	m := startModern(t, map[string]string{"timezone": "'Asia/Tokyo'"})
	o := operate(t, plan{auth: "scram-sha-256", password: "one"})
	o.reach(t, o.cluster.Addr()+","+m.Addr(), "sslmode=prefer")
	plain := o.join(t, o.app)
	config, err := pgx.ParseConfig(o.URL(o.app))
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["timezone"] = "Europe/Zurich"
	own, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close(context.Background()) }) // at the end of all
	old := plain.PgConn().ParameterStatus("server_version")
	wantOne(t, plain, "select pg_catalog.current_setting('server_version')", old)
	if err := o.cluster.Halt(); err != nil {
		t.Fatal(err)
	}
	for c, zone := range map[*pgx.Conn]string{plain: "Asia/Tokyo", own: "Europe/Zurich"} {
		var version string
		eventually(t, "it is served", func() bool {
			version, err = one(t.Context(), c, "select pg_catalog.current_setting('server_version')")
			return err == nil
		})
		told := c.PgConn().ParameterStatus
		if version == old || told("server_version") != version || told("TimeZone") != zone {
			t.Errorf("%s; told %s and %s, want %s", version, told("server_version"), told("TimeZone"), zone)
		}
		wantOne(t, c, "show timezone", zone)
	}
}
