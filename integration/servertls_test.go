package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/certs"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// secured is a cluster that can do TLS, with the authority that vouches for it.
type secured struct {
	*operated
	ca *certs.Authority
}

// lockedUp makes a cluster do TLS with a certificate for 127.0.0.1, and lets nobody in without.
func lockedUp(t *testing.T, o *operated) *secured {
	t.Helper()
	s := &secured{operated: o}
	var err error
	if s.ca, err = certs.New(t.TempDir(), "ca"); err != nil {
		t.Fatal(err)
	}
	present(t, s.cluster, s.ca, certs.Options{})
	giveFile(t, s.cluster, "ca.crt", s.ca.File)
	s.hba(t, "local all all trust",
		"hostssl all certy 127.0.0.1/32 cert",
		"hostssl all \"both\" 127.0.0.1/32 scram-sha-256 clientcert=verify-full",
		"hostssl all all 127.0.0.1/32 scram-sha-256")
	s.sql(t, "postgres", "alter system set ssl = on")
	s.sql(t, "postgres", "alter system set ssl_ca_file = 'ca.crt'")
	s.sql(t, "postgres", "select pg_reload_conf()")
	s.await(t, "current_setting('ssl') = 'on'")
	return s
}

// present gives a server a certificate of an authority.
func present(t *testing.T, c *pgtest.Cluster, a *certs.Authority, o certs.Options) {
	t.Helper()
	p, err := a.Issue("server", o)
	if err != nil {
		t.Fatal(err)
	}
	giveFile(t, c, "server.key", p.KeyFile)
	giveFile(t, c, "server.crt", p.CertFile)
}

// giveFile puts a file into the data directory, as the server's own.
func giveFile(t *testing.T, c *pgtest.Cluster, name, from string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	give(t, c, name, text)
}

func give(t *testing.T, c *pgtest.Cluster, name string, text []byte) {
	t.Helper()
	owner, err := os.Stat(c.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	id, path := owner.Sys().(*syscall.Stat_t), filepath.Join(c.DataDir, name)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path+".new", int(id.Uid), int(id.Gid)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func (s *secured) hba(t *testing.T, lines ...string) {
	t.Helper()
	give(t, s.cluster, "pg_hba.conf", []byte(strings.Join(lines, "\n")+"\n"))
}

// private copies a key to where only we can read it.
func private(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(key))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// url gives pgweir's upstream these parameters in the place of its sslmode.
func (s *secured) url(t *testing.T, parameters string) {
	t.Helper()
	s.rewrite(t, "sslmode=disable", strings.ReplaceAll(parameters, "CA", s.ca.File))
	s.console(t, "reload")
}

// join opens a session through pgweir.
func (o *operated) join(t *testing.T, l pgtest.Login) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), o.URL(l))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // some were ended
	return c
}

const isSecure = "select ssl::text from pg_stat_ssl where pid = pg_backend_pid()"

// Connections to a Postgres that wants TLS, by SCRAM bound to its certificate.
func TestServerTLS(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{auth: "scram-sha-256", password: "one", more: "# more\n"})
	c := o.join(t, o.app)
	wantOne(t, c, isSecure, "false")
	s := lockedUp(t, o)
	s.url(t, "sslmode=verify-full&sslrootcert=CA&channel_binding=require")
	// A reload sends away what was not encrypted.
	wantOne(t, c, isSecure, "true")
	for _, row := range s.show(t, "pgweir", "SERVERS").rows {
		if row["state"] != "closing" && !strings.HasPrefix(row["tls"], "TLSv1.3/TLS_") {
			t.Errorf("SHOW SERVERS: %v", row)
		}
	}
	t.Run("traffic", func(t *testing.T) { serverTraffic(t, s) })
	t.Run("cancel", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		slow := s.join(t, s.app)
		go func() { _, err := one(ctx, slow, "select pg_sleep(600)::text"); done <- err }()
		s.await(t, running("pg_sleep(600)", 1))
		if err := slow.PgConn().CancelRequest(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; sqlstate(err) != "57014" {
			t.Error(err)
		}
		log, err := s.cluster.Log()
		if err != nil || strings.Contains(log, "could not accept SSL connection") {
			t.Error("a cancel request in clear", err)
		}
	})
	t.Run("rotation", func(t *testing.T) { serverRotation(t, s) })
}

// serverTraffic sends large and many things both ways.
func serverTraffic(t *testing.T, s *secured) {
	c := s.join(t, s.app)
	run(t, c, "create table lot(a text)")
	rows := bytes.Repeat([]byte(strings.Repeat("x", 999)+"\n"), 8000)
	if _, err := c.PgConn().CopyFrom(t.Context(), bytes.NewReader(rows), "copy lot from stdin"); err != nil {
		t.Fatal(err)
	}
	var back bytes.Buffer
	if _, err := c.PgConn().CopyTo(t.Context(), &back, "copy lot to stdout"); err != nil || !bytes.Equal(back.Bytes(), rows) {
		t.Errorf("%d bytes came back of %d, %v", back.Len(), len(rows), err)
	}
	var g errgroup.Group
	for client := range 12 {
		c := s.join(t, s.app)
		g.Go(func() error {
			for i := range 60 {
				want := fmt.Sprintf("%d of %d %s", i, client, strings.Repeat("y", i*300))
				var got string
				if err := c.QueryRow(t.Context(), "select $1::text", want).Scan(&got); err != nil || got != want {
					return fmt.Errorf("%q instead of %q: %w", got, want, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// serverRotation replaces the server's certificate by others, and then back, while pgweir runs.
func serverRotation(t *testing.T, s *secured) {
	c := s.join(t, s.app)
	stranger, err := certs.New(t.TempDir(), "stranger")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what  string
		by    *certs.Authority
		o     certs.Options
		works bool
	}{
		{"stranger", stranger, certs.Options{}, false},
		{"RSA", s.ca, certs.Options{Kind: certs.RSA}, true},
		{"expired", s.ca, certs.Options{Expires: -time.Minute}, false},
		{"right", s.ca, certs.Options{}, true},
	} {
		present(t, s.cluster, step.by, step.o)
		s.sql(t, "postgres", "select pg_reload_conf()")
		if step.works {
			eventually(t, step.what, func() bool {
				s.console(t, "reconnect")
				got, err := one(t.Context(), c, isSecure)
				return err == nil && got == "true"
			})
			continue
		}
		eventually(t, step.what, func() bool {
			s.console(t, "reconnect")
			_, err := one(t.Context(), c, isSecure)
			if err != nil && sqlstate(err) != "53300" || err != nil && strings.Contains(err.Error(), "certificate") {
				t.Fatalf("%s: %v", step.what, err)
			}
			return err != nil
		})
	}
	s.logged(t, "login to server failed", "unknown authority")
}

// Roles of which the server wants a certificate, beside a password or in its place.
func TestServerClientCertificate(t *testing.T) {
	t.Parallel()
	more := "[database.certdb]\nupstream = \"main\"\ndbname = \"app\"\nuser = \"certy\"\n" +
		"[database.bothdb]\nupstream = \"main\"\ndbname = \"app\"\nuser = \"both\"\npassword_command = \"echo two\"\n"
	o := operate(t, plan{auth: "scram-sha-256", password: "one", more: more})
	o.sql(t, "postgres", "create role certy login; create role \"both\" login password 'two'")
	s := lockedUp(t, o)
	login := func(database string) pgtest.Login {
		return pgtest.Login{User: "app", Password: "one", Database: database}
	}
	certificate := func(name string) string {
		p, err := s.ca.Issue(name, certs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return "&sslcert=" + p.CertFile + "&sslkey=" + private(t, p.KeyFile)
	}
	const verify = "sslmode=verify-ca&sslrootcert=CA"
	refused := func(database, code, text string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), s.URL(login(database)))
		if err == nil {
			_ = c.Close(t.Context())
		}
		if sqlstate(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %s %s", database, err, code, text)
		}
	}
	original := s.text
	s.url(t, verify)
	refused("certdb", "28000", "client certificate")
	refused("bothdb", "28000", "client certificate")
	s.text = original
	s.url(t, verify+certificate("certy"))
	wantOne(t, s.join(t, login("certdb")), "select current_user::text", "certy")
	refused("bothdb", "28P01", "") // a password is not enough with somebody else's certificate
	s.text = original
	s.url(t, verify+certificate("both"))
	wantOne(t, s.join(t, login("bothdb")), "select current_user::text", "both")
	// A key that others can read is none.
	key, err := s.ca.Issue("certy", certs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.text = original
	s.url(t, verify+"&sslcert="+key.CertFile+"&sslkey="+key.KeyFile)
	s.logged(t, "no login will work", "others may read the key")
	_, err = one(t.Context(), s.join(t, login("certdb")), "select 1::text")
	if sqlstate(err) != "53300" || strings.Contains(fmt.Sprintf("%+v", err), ".key") {
		t.Errorf("%+v", err)
	}
}
