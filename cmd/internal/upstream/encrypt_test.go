package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/integration/certs"
	"github.com/pgweir/pgweir/wire"
)

// hall is a fake server that can do TLS, and what its connections were.
type hall struct {
	*fake
	certificate tls.Certificate
	refuses     string // "" = nobody; "clear" and "tls" as pg_hba.conf can
	answer      string // to a request for TLS, if it can't

	mu   sync.Mutex
	seen []string
	sni  []string
}

func newHall(t *testing.T) *hall {
	t.Helper()
	h := &hall{}
	h.fake = newFake(t, h.serve)
	return h
}

func (h *hall) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, what)
}

// took is what the connections were that came since the last call.
func (h *hall) took() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.seen, " ")
	h.seen = nil
	return text
}

func (h *hall) config() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{h.certificate}, NextProtos: []string{"postgresql"},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.sni = append(h.sni, hello.ServerName)
			return nil, nil
		},
	}
}

func (h *hall) serve(f *fake, tcp *net.TCPConn) {
	var conn net.Conn = tcp
	kind := "clear"
	p, err := wire.ReadStartup(conn)
	if _, asks := p.(wire.SSLRequest); asks {
		if h.answer != "" {
			if _, err := conn.Write([]byte(h.answer)); err != nil || h.answer != "N" {
				h.note("asked")
				return
			}
		} else {
			if _, err := conn.Write([]byte{'S'}); err != nil {
				return
			}
			secure := tls.Server(conn, h.config())
			if err := secure.HandshakeContext(context.Background()); err != nil {
				h.note("failed")
				return
			}
			kind, conn = "tls", secure
		}
		p, err = wire.ReadStartup(conn)
	}
	if err != nil {
		return
	}
	h.note(kind)
	if h.refuses == kind {
		_, _ = conn.Write(wire.AppendError(nil, &wire.Error{Severity: wire.SeverityFatal, Code: "28000", Message: "no entry for " + kind}))
		return
	}
	speakTo(f, conn, p, role{}, false)
}

// sorted has the words of a text in order.
func sorted(text string) string {
	words := strings.Fields(text)
	slices.Sort(words)
	return strings.Join(words, " ")
}

// papers are an authority and one that nobody trusts, with certificates.
type papers struct {
	dir                            string
	root                           string // the file of the authority
	right, expired, forged, absent tls.Certificate
}

func newPapers(t *testing.T) *papers {
	t.Helper()
	p := &papers{dir: t.TempDir()}
	trusted, err := certs.New(p.dir, "trusted")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := certs.New(p.dir, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	p.root = trusted.File
	for _, c := range []struct {
		to   *tls.Certificate
		by   *certs.Authority
		name string
		o    certs.Options
	}{
		{&p.right, trusted, "right", certs.Options{Names: []string{"db.test"}}},
		{&p.expired, trusted, "expired", certs.Options{Names: []string{"db.test"}, Expires: -time.Hour}},
		{&p.forged, stranger, "forged", certs.Options{Names: []string{"db.test"}}},
		{&p.absent, trusted, "absent", certs.Options{}},
	} {
		pair, err := c.by.Issue(c.name, c.o)
		if err != nil {
			t.Fatal(err)
		}
		if *c.to, err = tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// named is the options of a cluster whose host is called db.test.
func (h *hall) named(e login.Encryption) Options {
	_, port, _ := net.SplitHostPort(h.host.Address)
	return Options{
		Hosts: []Host{{"tcp", net.JoinHostPort("db.test", port)}}, Encryption: e,
		Resolve: resolver(map[string][]netip.Addr{"db.test": {netip.MustParseAddr("127.0.0.1")}}),
	}
}

// Every sslmode with every kind of server, as libpq's manual and source have it: what the
// connections were, the last of them that of the session, or why there is none.
func TestSSLModes(t *testing.T) {
	p := newPapers(t)
	servers := []struct {
		name string
		set  func(h *hall)
	}{
		{"no TLS", func(h *hall) { h.answer = "N" }},
		{"right", func(h *hall) { h.certificate = p.right }},
		{"stranger", func(h *hall) { h.certificate = p.forged }},
		{"expired", func(h *hall) { h.certificate = p.expired }},
		{"other name", func(h *hall) { h.certificate = p.absent }},
		{"hostssl", func(h *hall) { h.certificate, h.refuses = p.right, "clear" }},
		{"hostnossl", func(h *hall) { h.certificate, h.refuses = p.right, "tls" }},
		{"error", func(h *hall) { h.answer = "E" }},
	}
	const (
		noTLS    = "clear"
		stranger = "failed: unknown authority"
		expired  = "failed: expired"
		name     = `failed: not for "db.test"`
		noClear  = "clear: no entry for clear"
		noSecure = "tls: no entry for tls"
		refused  = "asked: answered with an error"
		cannot   = ": does not do TLS"
	)
	for _, tc := range []struct {
		mode login.SSLMode
		root string
		want []string // by server
	}{
		{login.NoTLS, p.root, []string{noTLS, noTLS, noTLS, noTLS, noTLS, noClear, noTLS, noTLS}},
		{login.AllowTLS, p.root, []string{noTLS, noTLS, noTLS, noTLS, noTLS, "clear tls", noTLS, noTLS}},
		{login.PreferTLS, "", []string{noTLS, "tls", "tls", "tls", "tls", "tls", "tls clear", "asked clear"}},
		{login.PreferTLS, p.root, []string{noTLS, "tls", "failed clear", "failed clear", "tls", "tls", "tls clear", "asked clear"}},
		{login.RequireTLS, "", []string{cannot, "tls", "tls", "tls", "tls", "tls", noSecure, refused}},
		{login.RequireTLS, p.root, []string{cannot, "tls", stranger, expired, "tls", "tls", noSecure, refused}},
		{login.VerifyCA, p.root, []string{cannot, "tls", stranger, expired, "tls", "tls", noSecure, refused}},
		{login.VerifyFull, p.root, []string{cannot, "tls", stranger, expired, name, "tls", noSecure, refused}},
		{login.VerifyFull, "", []string{": needs sslrootcert", ": needs sslrootcert", ": needs sslrootcert", ": needs sslrootcert", ": needs sslrootcert", ": needs sslrootcert", ": needs sslrootcert", ": needs sslrootcert"}},
	} {
		for i, server := range servers {
			t.Run(fmt.Sprintf("%s root %v %s", tc.mode, tc.root != "", server.name), func(t *testing.T) {
				h := newHall(t)
				server.set(h)
				l := newLab(t, h.named(login.Encryption{Mode: tc.mode, RootCert: tc.root}))
				s, err := l.dial()
				h.stop()
				h.work.Wait() // who shakes hands with a stranger notes it later
				took, text, _ := strings.Cut(tc.want[i], ": ")
				if got := h.took(); sorted(got) != sorted(took) { // who fails is noted when it has noticed
					t.Errorf("came %q, want %q (%v)", got, took, err)
				}
				switch {
				case text != "" && (err == nil || !strings.Contains(err.Error(), text)):
					t.Errorf("%v, want %q", err, text)
				case text == "" && err != nil:
					t.Error(err)
				case text == "" && (login.TLSInfo(s.Conn) != "") != strings.HasSuffix(took, "tls"):
					t.Errorf("TLS %q", login.TLSInfo(s.Conn))
				}
			})
		}
	}
}

// Whose proof is missing is no host that another login would reach.
func TestTLSErrorsLast(t *testing.T) {
	p := newPapers(t)
	h := newHall(t)
	h.certificate = p.forged
	err := newLab(t, h.named(login.Encryption{Mode: login.VerifyFull, RootCert: p.root})).fails()
	if !Permanent(err) {
		t.Errorf("%v is expected to pass", err)
	}
	// Another host may be who it says.
	good := newHall(t)
	good.certificate = p.right
	o := h.named(login.Encryption{Mode: login.VerifyCA, RootCert: p.root})
	o.Hosts = append(o.Hosts, good.host)
	newLab(t, o).reaches(good.host)
	// One that has no room for the question may have some later.
	h.answer = "E"
	if err := newLab(t, h.named(login.Encryption{Mode: login.RequireTLS})).fails(); Permanent(err) {
		t.Errorf("%v lasts", err)
	}
}

// What stands between the answer and the handshake was put in by somebody (CVE-2021-23222),
// and no way around it is tried. Of an error that nobody vouches for no word is passed on
// (CVE-2024-10977).
func TestBytesBeforeTheHandshake(t *testing.T) {
	h := newHall(t)
	for answer, want := range map[string]string{
		"S" + string(wire.AppendError(nil, &wire.Error{Severity: wire.SeverityFatal, Code: "28P01", Message: "poison"})): "unencrypted bytes",
		"N" + string(wire.AppendAuthentication(nil, wire.AuthCleartext, nil)):                                            "unencrypted bytes",
		"X": "does not follow the protocol",
		"":  "closed the connection",
		"E" + string(wire.AppendError(nil, &wire.Error{Severity: wire.SeverityFatal, Code: "28P01", Message: "poison"})[1:]): "answered with an error",
	} {
		h.become(func(_ *fake, conn *net.TCPConn) {
			if _, err := wire.ReadStartup(conn); err == nil {
				_, _ = conn.Write([]byte(answer))
			}
		})
		mode := login.PreferTLS
		if answer == "" || answer[0] == 'E' {
			mode = login.RequireTLS // or it would be tried in clear
		}
		before := h.accepted.Load()
		err := newLab(t, h.named(login.Encryption{Mode: mode})).fails()
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "poison") {
			t.Errorf("%q: %v, want %q", answer, err, want)
		}
		if told, ok := errors.AsType[*wire.Error](err); ok {
			t.Errorf("%q counts as Postgres's own word: %v", answer, told)
		}
		if n := h.accepted.Load() - before; n != 1 {
			t.Errorf("%q: %d connections", answer, n)
		}
	}
}

// A server that only sends garbage in the handshake, or nothing more, is no trouble.
func TestHandshakeWithGarbage(t *testing.T) {
	for _, answer := range []string{"SSSSSSSSSSSSSSSS", "S"} {
		f := newFake(t, func(_ *fake, conn *net.TCPConn) {
			if _, err := wire.ReadStartup(conn); err != nil {
				return
			}
			_, _ = conn.Write([]byte(answer[:1]))
			var hello [1]byte
			_, _ = conn.Read(hello[:])
			_, _ = conn.Write([]byte(answer[1:]))
			if answer == "S" {
				hangs(nil, conn)
			}
		})
		o := Options{Hosts: []Host{f.host}, Encryption: login.Encryption{Mode: login.RequireTLS}}
		if answer == "S" {
			o.ConnectTimeout = 200 * time.Millisecond
		}
		if err := newLab(t, o).fails(); err == nil {
			t.Error(answer)
		}
	}
}

func TestCancelIsAsSecretAsTheSession(t *testing.T) {
	p := newPapers(t)
	h := newHall(t)
	h.certificate = p.right
	l := newLab(t, h.named(login.Encryption{Mode: login.VerifyFull, RootCert: p.root}))
	s, err := l.dial()
	if err != nil {
		t.Fatal(err)
	}
	h.took()
	if err := l.Cancel(bounded(t), s.Where, true, s.PID, s.Secret); err != nil {
		t.Fatal(err)
	}
	if got := h.took(); got != "tls" {
		t.Errorf("came %q", got)
	}
	h.fake.mu.Lock()
	if d := cmp.Diff([]*wire.CancelRequest{{PID: 7, Secret: []byte("abcd")}}, h.cancels); d != "" {
		t.Error(d)
	}
	h.fake.mu.Unlock()
	for what, bad := range map[string]func(){
		"certificate": func() { h.certificate = p.forged },
		"no TLS":      func() { h.answer = "N" },
	} {
		bad()
		if err := l.Cancel(bounded(t), s.Where, true, s.PID, s.Secret); err == nil {
			t.Errorf("%s: the key was given away", what)
		}
	}
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	if len(h.cancels) != 1 {
		t.Error(h.cancels)
	}
}

func TestServerName(t *testing.T) {
	p := newPapers(t)
	h := newHall(t)
	h.certificate = p.right
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{h.named(login.Encryption{Mode: login.VerifyFull, RootCert: p.root}), "db.test"},
		{h.named(login.Encryption{Mode: login.VerifyFull, RootCert: p.root, NoSNI: true}), ""},
		{Options{Hosts: []Host{h.host}, Encryption: login.Encryption{Mode: login.VerifyFull, RootCert: p.root}}, ""},
	} {
		if _, err := newLab(t, tc.o).dial(); err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		if got := h.sni[len(h.sni)-1]; got != tc.want {
			t.Errorf("told %q, want %q", got, tc.want)
		}
		h.mu.Unlock()
	}
}

// Files are read for each login: what replaces them counts from the next one on.
func TestFilesAreReadAnew(t *testing.T) {
	p := newPapers(t)
	h := newHall(t)
	h.certificate = p.right
	file := filepath.Join(t.TempDir(), "root.crt")
	l := newLab(t, h.named(login.Encryption{Mode: login.VerifyFull, RootCert: file}))
	if err := l.fails(); !strings.Contains(err.Error(), "no such file") || !Permanent(err) {
		t.Error(err)
	}
	for _, step := range []struct{ from, want string }{
		{p.root, ""},
		{filepath.Join(p.dir, "stranger.crt"), "unknown authority"},
		{filepath.Join(p.dir, "right.key"), "no certificate in it"},
		{p.root, ""},
	} {
		text, err := os.ReadFile(step.from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := l.dial(); (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("%s: %v", step.from, err)
		}
	}
}
