package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/certs"
	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire"
)

// peersEnv is a Debian tree with newer programs than the host's.
const peersEnv = "PEERS_ROOT"

// secure is a pgweir that encrypts, and what its clients need to know.
type secure struct {
	*operated
	authority *certs.Authority
	server    certs.Pair
	foreign   *certs.Authority // that pgweir does not know
}

// operateTLS starts pgweir with sslmode = "prefer", a certificate and an authority; its
// tests' own clients ask for TLS.
func operateTLS(t *testing.T, p plan) *secure {
	t.Helper()
	s := &secure{}
	dir := t.TempDir()
	var err error
	if s.authority, err = certs.New(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	if s.foreign, err = certs.New(t.TempDir(), "foreign"); err != nil {
		t.Fatal(err)
	}
	if s.server, err = s.authority.Issue("server", certs.Options{}); err != nil {
		t.Fatal(err)
	}
	p.more += fmt.Sprintf("[tls]\nsslmode = \"prefer\"\ncert_file = %q\nkey_file = %q\nca_file = %q\n[log]\nlevel = \"debug\"\n",
		s.server.CertFile, s.server.KeyFile, s.authority.File)
	s.operated = operate(t, p)
	s.SSLMode = "require"
	return s
}

// psqlAs runs one command by psql with a connection string of libpq.
func (s *secure) psqlAs(t *testing.T, conninfo, command string) (string, error) {
	t.Helper()
	base := fmt.Sprintf("host=localhost hostaddr=127.0.0.1 port=%d user=app dbname=app sslrootcert=%s ", s.Port, s.authority.File)
	out, err := s.Command(t.Context(), s.app, "psql", "-XAtw", "-d", base+conninfo, "-c", command).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// clientCert is the options of a client that shows the certificate of an authority.
func clientCert(t *testing.T, a *certs.Authority, name string) string {
	t.Helper()
	p, err := a.Issue(name, certs.Options{})
	if err == nil {
		err = os.Chmod(p.KeyFile, 0o600) // libpq does not take one that others may read
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(" sslcert=%s sslkey=%s", p.CertFile, p.KeyFile)
}

// Every sslmode of libpq before every sslmode of pgweir: who gets in, encrypted or not, and
// what the others are told. A reload goes from one to the next.
func TestEverySSLMode(t *testing.T) {
	t.Parallel()
	const clear, encrypted = "clear", "TLSv1.3"
	s := operateTLS(t, plan{auth: "scram-sha-256", password: "right"})
	good, foreign := clientCert(t, s.authority, "app"), clientCert(t, s.foreign, "app")
	for _, mode := range []struct {
		name string
		want map[string]string // by the client's mode and certificate
	}{
		{"prefer", map[string]string{
			"disable": clear, "allow": clear, "prefer": encrypted, "require": encrypted, "verify-ca": encrypted, "verify-full": encrypted,
			"require good": encrypted, "require foreign": "unknown ca",
		}},
		{"disable", map[string]string{
			"disable": clear, "allow": clear, "prefer": clear,
			"require": "does not support SSL", "verify-ca": "does not support SSL", "verify-full": "does not support SSL",
		}},
		{"require", map[string]string{
			"disable": "SSL is required", "allow": encrypted, "prefer": encrypted, "require": encrypted, "verify-ca": encrypted, "verify-full": encrypted,
		}},
		{"verify-ca", map[string]string{
			"disable": "SSL is required", "prefer": "requires a valid client certificate", "require": "requires a valid client certificate",
			"require good": encrypted, "verify-full good": encrypted, "allow good": encrypted, "require foreign": "unknown ca",
		}},
		{"verify-full", map[string]string{"require": "requires a valid client certificate", "verify-full good": encrypted}},
	} {
		if mode.name != "prefer" {
			s.rewrite(t, `sslmode = "prefer"`, fmt.Sprintf("sslmode = %q", mode.name))
			s.proc.Signal(syscall.SIGHUP)
			s.logged(t, "msg=reload", "tls.sslmode", mode.name)
		}
		for client, want := range mode.want {
			sslmode, certificate, _ := strings.Cut(client, " ")
			out, err := s.psqlAs(t, "sslmode="+sslmode+map[string]string{"good": good, "foreign": foreign}[certificate], `\conninfo`)
			got := out
			if err == nil {
				got = clear
				if strings.Contains(out, "protocol: "+encrypted) {
					got = encrypted
				}
			}
			if !strings.Contains(got, want) || (err == nil) != (want == clear || want == encrypted) {
				t.Errorf("%s before %s: %v: %s, want %s", client, mode.name, err, out, want)
			}
		}
	}
}

// The proof of a password can be bound to the certificate, by libpq too, and who wants that
// is not let in without.
func TestChannelBinding(t *testing.T) {
	t.Parallel()
	s := operateTLS(t, plan{auth: "scram-sha-256", password: "right"})
	for _, info := range []string{"channel_binding=require sslmode=require", "channel_binding=require sslmode=verify-full", "channel_binding=disable sslmode=require"} {
		if out, err := s.psqlAs(t, info, "select 'in'"); err != nil || out != "in" {
			t.Errorf("%s: %v: %s", info, err, out)
		}
	}
	if out, err := s.psqlAs(t, "channel_binding=require sslmode=disable", "select 'in'"); err == nil {
		t.Errorf("bound in clear: %s", out)
	}
}

// shake connects and shakes hands after an SSLRequest.
func (s *secure) shake(t *testing.T, c *tls.Config) (*tls.Conn, error) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(wire.AppendSSLRequest(nil)); err != nil {
		return nil, err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil || answer[0] != 'S' {
		return nil, fmt.Errorf("answer %q: %w", answer, err)
	}
	secured := tls.Client(conn, c)
	return secured, secured.Handshake()
}

// insecure is a client that believes every certificate.
func insecure() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, ServerName: "db.example", NextProtos: []string{"postgresql"}}
}

// A session over TLS can be seen, cancelled over TLS, and looked at from a console over TLS.
func TestSessionsOverTLS(t *testing.T) {
	t.Parallel()
	s := operateTLS(t, plan{auth: "scram-sha-256", password: "right", slots: 4})
	config, err := pgconn.ParseConfig(s.URL(s.app))
	if err != nil {
		t.Fatal(err)
	}
	config.TLSConfig.ServerName = "db.example"
	c, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	row := s.show(t, "pgweir", "CLIENTS").find(t, "sni=db.example")
	if !strings.HasPrefix(row["tls"], "TLSv1.3/TLS_AES_") {
		t.Errorf("tls %q", row["tls"])
	}
	s.logged(t, "session began", "sni=db.example", "tls=", "TLSv1.3")
	s.logged(t, "msg=console", "TLSv1.3") // s.show is one
	if n := s.metric(t, `pgweir_tls_handshakes_total{result="done"}`); n == "" || n == "0" {
		t.Errorf("%q handshakes", n)
	}

	slow := c.Exec(t.Context(), "select pg_sleep(60)")
	s.await(t, running("pg_sleep(60)", 1))
	canceller, err := s.shake(t, insecure())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := canceller.Write(wire.AppendCancelRequest(nil, c.PID(), c.SecretKey())); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.ReadAll(); sqlstate(err) != "57014" {
		t.Errorf("cancelled over TLS: %v", err)
	}
	if rest, err := io.ReadAll(canceller); len(rest) > 0 || err != nil {
		t.Errorf("the cancel is answered by %q, %v", rest, err)
	}

	// Who is one too many hears it inside TLS.
	s.console(t, "SET max_client_conn = 2") // with the console, while it is there
	s.console(t, "SET reserved_clients = 1")
	_, err = s.psqlAs(t, "sslmode=require", "select 1")
	if out, err := s.psqlAs(t, "sslmode=require", "select 1"); err == nil || !strings.Contains(out, "max_client_conn") {
		t.Errorf("over max_client_conn: %v: %s", err, out)
	}
	if err == nil {
		t.Error("it was let in")
	}
}

// What is large goes both ways, whole, and so does what is pipelined.
func TestMuchOverTLS(t *testing.T) {
	t.Parallel()
	s := operateTLS(t, plan{})
	psqlCopyLarge(t, s.front)
	for _, mode := range []string{"simple", "extended", "prepared"} {
		if _, err := s.Pgbench(t.Context(), pgtest.Login{User: "app", Database: "app"}, "-n", "-M", mode, "-c", "8", "-t", "50", "-f", benchScript(t)); err != nil {
			t.Error(mode, err)
		}
	}
	got := s.psql(t, "select length(repeat('x', 3000000)), length('"+strings.Repeat("y", 300000)+"')")
	if got != "3000000|300000" {
		t.Errorf("lengths %s", got)
	}
	sum := s.psql(t, "select md5(string_agg(a::text, ',')) from generate_series(1, 200000) a")
	rows := s.psql(t, "select a from generate_series(1, 200000) a")
	if again := s.psql(t, "select md5('"+strings.ReplaceAll(rows, "\n", ",")+"')"); again != sum {
		t.Errorf("%s there and back is %s", sum, again)
	}
}

// benchScript is a transaction of several statements.
func benchScript(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.sql")
	if err := os.WriteFile(file, []byte("\\set n random(1, 100000)\nbegin;\nselect :n, repeat('x', :n);\nselect 1;\ncommit;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A certificate that is replaced is in use from the next second on, without a reload; one
// that can't be used is not, and log and metrics say so.
func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	s := operateTLS(t, plan{})
	serial := func() string {
		c, err := s.shake(t, insecure())
		if err != nil {
			t.Fatal(err)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	if got := serial(); got != s.server.Leaf.SerialNumber.String() {
		t.Fatalf("serial number %s", got)
	}
	next, err := s.authority.Issue("server", certs.Options{Kind: certs.RSA})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new certificate is shown", func() bool { return serial() == next.Leaf.SerialNumber.String() })
	s.logged(t, "certificate read again")
	if err := os.WriteFile(s.server.KeyFile, []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bad key is noticed", func() bool { return s.metric(t, "pgweir_tls_certificate_current") == "0" })
	s.logged(t, "level=ERROR", "key_file", "what_to_do")
	if got := serial(); got != next.Leaf.SerialNumber.String() {
		t.Errorf("serial number %s with a bad key", got)
	}
	if _, err := s.tryConsole(t.Context(), "RELOAD"); err == nil {
		t.Error("a reload accepts a bad key")
	}
	if n := s.metric(t, `pgweir_tls_certificate_reads_total{result="failed"}`); n != "1" {
		t.Errorf("%s failures", n)
	}
}

// Direct TLS as libpq 17 and newer do it. Trap 26.
func TestDirectTLS(t *testing.T) {
	t.Parallel()
	root := os.Getenv(peersEnv)
	if root == "" {
		t.Skip(peersEnv + " does not name a tree with a newer psql")
	}
	s := operateTLS(t, plan{auth: "scram-sha-256", password: "right"})
	psql := func(conninfo, command string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/usr/lib/postgresql/18/bin/psql", "-XAtw", "-d",
			fmt.Sprintf("host=127.0.0.1 port=%d user=app dbname=app password=right %s", s.Port, conninfo), "-c", command)
		cmd.SysProcAttr, cmd.Dir, cmd.Env = &syscall.SysProcAttr{Chroot: root}, "/", []string{"PGCONNECT_TIMEOUT=30"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", conninfo, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, info := range []string{"sslmode=require sslnegotiation=direct", "sslmode=require", "sslmode=require sslnegotiation=direct channel_binding=require", "sslmode=require min_protocol_version=3.2"} {
		if got := psql(info, "select 'in'"); got != "in" {
			t.Errorf("%s: %s", info, got)
		}
	}
	c, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	typ, body, err := wire.ReadMessage(c, 1000, wire.MsgErrorResponse)
	if e := errorOf(body); err != nil || typ != wire.MsgErrorResponse || e.code != "08P01" || !strings.Contains(e.message, "ALPN") {
		t.Errorf("without ALPN: %q, %v, %v", typ, e, err)
	}
	if _, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}); err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("another protocol: %v", err)
	}
}
