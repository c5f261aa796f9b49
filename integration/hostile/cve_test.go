package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/wire"
)

// upgrade replaces a text in what a server says at its login.
func upgrade(old, with string) lie {
	return func(conn net.Conn, honest []byte) bool {
		_, err := conn.Write(bytes.Replace(honest, []byte(old), []byte(with), 1))
		return err == nil
	}
}

// CVE-2021-3935, PgBouncer: what was sent in clear behind a request for TLS was taken for
// something that came encrypted. Trap 24.
func TestCVE20213935(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	for _, more := range [][]byte{{0}, startup("fair"), wire.AppendQuery(nil, "select 1"), {0x16, 3, 1}} {
		h, err := knock(c.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Write(append(wire.AppendSSLRequest(nil), more...)); err != nil {
			t.Fatal(err)
		}
		told, err := h.end()
		if err != nil || told == nil || told.Code != "08P01" || !strings.Contains(told.Message, "unencrypted data after SSL request") {
			t.Errorf("told %v, %v", told, err)
		}
		_ = h.Close()
	}
}

// CVE-2021-23222 and CVE-2024-10977, libpq: a server, or somebody in the middle, puts words
// in clear behind or in the place of its answer to a request for TLS, and they are taken for
// the server's. Trap 24.
func TestCVE202123222(t *testing.T) {
	t.Parallel()
	c := convene(t)
	config, err := os.ReadFile(c.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	console, next := mustEnter(t, c.Endpoint, "pgweir"), mustEnter(t, c.Endpoint, "lies")
	secure := strings.Replace(string(config), "sslmode=disable", "sslmode=require", 1)
	if err := os.WriteFile(c.ConfigFile, []byte(secure), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"RELOAD", "SET workload.default.no_server_wait = '200ms'"} { // nobody will be served
		if err := console.query(command); err != nil {
			t.Fatal(err)
		}
	}
	welcome := bytes.Join([][]byte{wire.AppendAuthentication(nil, wire.AuthOK, nil), wire.AppendBackendKeyData(nil, 7, []byte("abcd")), ready('I')}, nil)
	injected := &wire.Error{Severity: "FATAL", Code: "28P01", Message: "injected: visit evil.example"}
	for name, says := range map[string][]byte{
		"a session behind the answer": append([]byte("S"), welcome...),
		"an error behind the answer":  append([]byte("S"), wire.AppendError(nil, injected)...),
		"an error as the answer":      wire.AppendError(nil, injected),
		"a session as the answer":     welcome,
		"no TLS, and a session":       append([]byte("N"), welcome...),
	} {
		t.Run(name, func(t *testing.T) {
			from := c.logLength(t)
			was, err := c.scrape()
			if err != nil {
				t.Fatal(err)
			}
			c.liar.at(leaves(says), nil)
			if err := console.query("RECONNECT lies"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a login has failed", func() bool { // it may be too soon for another try
				if err := next.query("select 1"); err == nil || strings.Contains(err.Error(), "evil") {
					t.Errorf("a client is told %v", err)
				}
				m, err := c.scrape()
				return err == nil && m.Sum("pgweir_server_logins_total", "liar", "failed") > was.Sum("pgweir_server_logins_total", "liar", "failed")
			})
			if log, err := c.Log(); err != nil || strings.Contains(log[from:], "evil") {
				t.Errorf("the log has it for the server's word, %v", err)
			}
		})
	}
}

// guarded is a pgweir that asks for passwords.
func guarded(t *testing.T) (*stand, *fake) {
	t.Helper()
	f := startFake(t)
	file := filepath.Join(t.TempDir(), "userlist.txt")
	if err := os.WriteFile(file, []byte("\"app\" \"secret\"\n\"stats\" \"secret\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, fmt.Sprintf(`
client_login_timeout = "1s"
[auth]
auth_type = "password"
auth_file = %q
[console]
admin_users = ["app"]
stats_users = ["stats"]
[upstream.main]
url = %q
budget = 3
reserve = 1
[database."*"]
`, file, f.url()))
	return s, f
}

// login is enterWith of the password "secret".
func (s *stand) login(t *testing.T, user, database string) *client {
	t.Helper()
	c, err := knock(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	packet, err := wire.AppendStartup(nil, 0, []wire.Param{{Name: "user", Value: user}, {Name: "database", Value: database}})
	if err == nil {
		_, err = c.ask(append(packet, wire.AppendPassword(nil, "secret")...))
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// CVE-2026-6664, PgBouncer: lengths inside a SCRAM message, before anybody has proved who he
// is, overflow. Trap 29.
func TestCVE20266664(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	config, err := os.ReadFile(s.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	admin := s.login(t, "app", "pgweir")
	if err := os.WriteFile(s.ConfigFile, bytes.Replace(config, []byte(`"password"`), []byte(`"scram-sha-256"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := admin.query("RELOAD"); err != nil {
		t.Fatal(err)
	}
	before := s.rest(t, 1)
	first := "n,,n=,r=abcdefghijkl"
	sasl := func(mechanism string, length uint32, data string) []byte {
		b := binary.BigEndian.AppendUint32([]byte(mechanism+"\x00"), length)
		return message('p', string(append(b, data...)))
	}
	for name, send := range map[string][]byte{
		"more than there is":       sasl("SCRAM-SHA-256", 1000, first),
		"two gigabytes":            sasl("SCRAM-SHA-256", 0x7fffffff, first),
		"negative":                 sasl("SCRAM-SHA-256", 0xfffffff0, first),
		"minus one, no answer":     sasl("SCRAM-SHA-256", 0xffffffff, ""),
		"less than there is":       sasl("SCRAM-SHA-256", 4, first),
		"no length":                message('p', "SCRAM-SHA-256\x00"),
		"no mechanism":             message('p', "SCRAM-SHA-256"),
		"another mechanism":        sasl("PLAIN", uint32(len(first)), first),
		"a nonce of 60 kB":         sasl("SCRAM-SHA-256", 60_008, "n,,n=,r="+strings.Repeat("n", 60_000)),
		"attributes without end":   sasl("SCRAM-SHA-256", 40_011, "n,,n=,r=abc"+strings.Repeat(",x=y", 10_000)),
		"a message of a gigabyte":  claims('p', 1<<30-1),
		"a message of three bytes": claims('p', 3),
		"a negative message":       claims('p', 0xffffffff),
		"nothing":                  message('p', ""),
		"a query":                  wire.AppendQuery(nil, "select 1"),
	} {
		t.Run(name, func(t *testing.T) {
			h, err := knock(s.Endpoint)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = h.Close() }()
			if _, err := h.Write(append(startup("app"), send...)); err != nil {
				t.Fatal(err)
			}
			told, err := h.end()
			if err != nil || told == nil || told.Severity != wire.SeverityFatal || (told.Code != "08P01" && told.Code != "28P01" && told.Code != "0A000") {
				t.Errorf("told %v, %v", told, err)
			}
		})
	}
	s.balanced(t, before)
	if m, err := s.scrape(); err != nil || m.Sum("go_memstats_heap_inuse_bytes") > 60<<20 {
		t.Errorf("%v bytes of memory, %v", m.Sum("go_memstats_heap_inuse_bytes"), err)
	}
}

// CVE-2026-6665, PgBouncer: a server's nonce that begins with ours and does not end. Trap 29.
func TestCVE20266665(t *testing.T) {
	t.Parallel()
	c := convene(t)
	console, next := mustEnter(t, c.Endpoint, "pgweir"), mustEnter(t, c.Endpoint, "lies")
	for _, n := range []int{1000, 3000, 9000, 20_000, 1 << 20} {
		asked := make(chan string, 1)
		c.liar.at(func(conn net.Conn, _ []byte) bool {
			if _, err := conn.Write(wire.AppendAuthSASL(nil, "SCRAM-SHA-256")); err != nil {
				return false
			}
			_, body, err := wire.ReadMessage(conn, 10_000, 'p')
			if err != nil {
				return false
			}
			_, first, err := wire.ParseSASLInitial(body)
			if err != nil {
				return false
			}
			_, nonce, _ := strings.Cut(string(first), "r=")
			asked <- nonce
			challenge := "r=" + nonce + strings.Repeat("n", n) + ",s=c2FsdHNhbHQ=,i=4096"
			_, _ = conn.Write(wire.AppendAuthentication(nil, wire.AuthSASLContinue, []byte(challenge)))
			drain(conn)
			return false
		}, nil)
		if err := console.query("RECONNECT lies"); err != nil {
			t.Fatal(err)
		}
		if err := next.query("select 1"); err != nil {
			t.Errorf("after a nonce of %d bytes: %v", n, err)
		}
		if nonce := <-asked; nonce == "" {
			t.Error("the server saw no nonce")
		}
	}
}

// CVE-2026-6666, PgBouncer: an error of the server without a SQLSTATE. Its text is kept, at a
// login and later, and it is given one. Trap 30.
func TestCVE20266666(t *testing.T) {
	t.Parallel()
	c := convene(t)
	console, next := mustEnter(t, c.Endpoint, "pgweir"), mustEnter(t, c.Endpoint, "lies")
	bare := message('E', "SERROR\x00Mno code\x00\x00")
	c.liar.at(nil, tells(bare, ready('I')))
	if err := next.query("nonce lie"); err == nil || !strings.Contains(err.Error(), "no code") {
		t.Errorf("told %v", err)
	}
	c.liar.at(leaves(message('E', "SFATAL\x00Mno code\x00\x00")), nil)
	if err := console.query("RECONNECT lies"); err != nil {
		t.Fatal(err)
	}
	if err := next.query("select 1"); err != nil {
		t.Error(err)
	}
	c.logged(t, 0, "login to server failed", "no code")
}

// CVE-2026-6667, PgBouncer: who may only look could end clients with KILL_CLIENT. Trap 33.
func TestCVE20266667(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	victim := s.login(t, "app", "app")
	if err := victim.query("select 1"); err != nil {
		t.Fatal(err)
	}
	stats := s.login(t, "stats", "pgweir")
	if err := stats.query("SHOW CLIENTS"); err != nil {
		t.Fatal(err)
	}
	for id := range 10 {
		if err := stats.query(fmt.Sprint("KILL_CLIENT ", id)); code(err) != "42501" {
			t.Errorf("KILL_CLIENT: %v", err)
		}
	}
	for _, verb := range []string{
		"KILL app", "PAUSE", "PAUSE app", "RESUME", "DISABLE app", "ENABLE app", "RECONNECT", "RELOAD", "SUSPEND", "SHUTDOWN",
		"SHUTDOWN WAIT_FOR_CLIENTS", "SET max_client_conn = 1", "WAIT_CLOSE app", "kill_client 1; show clients", "/* SHOW */ SHUTDOWN",
	} {
		if err := stats.query(verb); err == nil || code(err) != "42501" && code(err) != "42601" {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if err := victim.query("select 1"); err != nil {
		t.Errorf("the client is gone: %v", err)
	}
}
