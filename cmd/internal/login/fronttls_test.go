package login

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/certs"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// authority makes one for a test.
func authority(t *testing.T, name string) *certs.Authority {
	t.Helper()
	a, err := certs.New(t.TempDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *certs.Authority, name string, o certs.Options) certs.Pair {
	t.Helper()
	p, err := a.Issue(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// encrypting makes a TLS with the certificate "server" of an authority.
func encrypting(t *testing.T, a *certs.Authority, o TLSOptions) *TLS {
	t.Helper()
	p := issue(t, a, "server", certs.Options{})
	o.CertFile, o.KeyFile = p.CertFile, p.KeyFile
	x, err := NewTLS(o)
	if err != nil {
		t.Fatal(err)
	}
	x.Attach(make(CPU, 1), &TLSCount{}, slog.New(slog.DiscardHandler), nil)
	return x
}

// trusting is a client's configuration that knows the authority.
func trusting(t *testing.T, a *certs.Authority) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(a.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{alpn}}
}

// tcp returns both ends of a connection on loopback, closed at the end of the test.
func tcp(t *testing.T) (ours, peers net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if peers, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{ours, peers} {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	return ours, peers
}

// knock is a client that asks for TLS in a way, then says what.
func knock(conn net.Conn, way string, c *tls.Config, what ...string) (*tls.Conn, error) {
	gss, ssl := string(wire.AppendGSSENCRequest(nil)), string(wire.AppendSSLRequest(nil))
	var err error
	switch way {
	case "ssl":
		err = play(conn, "> "+ssl, "< S")
	case "gss, ssl":
		err = play(conn, "> "+gss, "< N", "> "+ssl, "< S")
	}
	if err != nil {
		return nil, err
	}
	t := tls.Client(conn, c)
	if err := t.Handshake(); err != nil {
		return t, err
	}
	return t, play(t, what...)
}

func TestAcceptOverTLS(t *testing.T) {
	a := authority(t, "ca")
	x := encrypting(t, a, TLSOptions{})
	joe := startup(t, 0, wire.Param{Name: "user", Value: "joe"})
	cancel := string(wire.AppendCancelRequest(nil, 7, []byte("abcd")))
	for _, way := range []string{"ssl", "gss, ssl", "direct"} {
		for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
			for _, packet := range []string{joe, cancel} {
				ours, peer := tcp(t)
				config := trusting(t, a)
				config.MaxVersion = version
				wait := background(func() error {
					_, err := knock(peer, way, config, "> "+packet)
					return err
				})
				in, err := Accept(ours, x)
				if err := errors.Join(err, wait()); err != nil {
					t.Fatal(way, name, err)
				}
				if _, encrypted := in.Conn.(*tls.Conn); !encrypted {
					t.Errorf("%s: answered on %T", way, in.Conn)
				}
				if packet == cancel {
					if in.Cancel == nil || in.Cancel.PID != 7 || in.Client != nil {
						t.Errorf("%+v", in)
					}
					continue
				}
				c := in.Client
				if c == nil || c.User != "joe" || c.TLS == nil || c.TLS.Version != version || c.TLS.ServerName != "localhost" {
					t.Fatalf("%s, %s: %+v", way, name, c)
				}
				if text := ChannelOf(c.TLS).String(); !strings.HasPrefix(text, "TLSv"+name+"/TLS_") || !strings.Contains(text, "/ECDH=") {
					t.Error(text)
				}
			}
		}
	}
	if n := x.count.Done.Load(); n != 12 {
		t.Errorf("%d handshakes counted", n)
	}
}

// What is refused inside TLS is told inside TLS. Trap 28.
func TestAcceptRefusesInsideTLS(t *testing.T) {
	a := authority(t, "ca")
	x := encrypting(t, a, TLSOptions{})
	ssl, gss := string(wire.AppendSSLRequest(nil)), string(wire.AppendGSSENCRequest(nil))
	silent := trusting(t, a)
	silent.NextProtos = nil
	for name, tc := range map[string]struct {
		way    string
		config *tls.Config
		says   []string
		want   string
	}{
		"direct without ALPN": {"direct", silent, nil, "08P01"},
		"ssl in ssl":          {"ssl", trusting(t, a), []string{"> " + ssl}, "0A000"},
		"gss in ssl":          {"ssl", trusting(t, a), []string{"> " + gss}, "0A000"},
		"ssl in direct":       {"direct", trusting(t, a), []string{"> " + ssl}, "0A000"},
		"TLS in TLS":          {"ssl", trusting(t, a), []string{"> \x16\x03\x01\x02\x00\x01\x00\x01\xfc"}, "08P01"},
		"no user":             {"ssl", trusting(t, a), []string{"> " + startup(t, 0)}, "28000"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, peer := tcp(t)
			var told *wire.Error
			wait := background(func() error {
				c, err := knock(peer, tc.way, tc.config, tc.says...)
				if err != nil {
					return err
				}
				_, body, err := wire.ReadMessage(c, 1000, wire.MsgErrorResponse)
				told = wire.ErrorFields(body)
				return err
			})
			in, err := Accept(ours, x)
			e, ok := errors.AsType[*wire.Error](err)
			if !ok || e.Code != tc.want {
				t.Fatal(err)
			}
			if _, err := in.Conn.Write(wire.AppendError(nil, e)); err != nil {
				t.Error(err)
			}
			_ = in.Conn.Close()
			if err := wait(); err != nil || told.Message != e.Message {
				t.Errorf("%v; told %+v", err, told)
			}
		})
	}
}

// A handshake that comes to nothing ends with an error, is counted, and nothing is said in
// clear afterwards.
func TestHandshakesThatFail(t *testing.T) {
	a := authority(t, "ca")
	ssl := string(wire.AppendSSLRequest(nil))
	wrong, old := trusting(t, a), trusting(t, a)
	wrong.NextProtos = []string{"http/1.1"}
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	long := trusting(t, a)
	long.ServerName = strings.Repeat("x.", 128) + "example"
	shake := func(c *tls.Config) func(net.Conn) error {
		return func(conn net.Conn) error {
			_, err := knock(conn, "ssl", c)
			if err == nil {
				return errors.New("it succeeded")
			}
			return nil
		}
	}
	for name, tc := range map[string]struct {
		peer func(net.Conn) error
		lost bool
	}{
		"another protocol": {peer: shake(wrong)},
		"an old version":   {peer: shake(old)},
		"an absurd name":   {peer: shake(long)},
		"no TLS at all":    {peer: func(c net.Conn) error { return play(c, "> "+ssl, "< S", "> SELECT 1; SELECT 2;") }},
		"a huge record": {peer: func(c net.Conn) error {
			return play(c, "> "+ssl, "< S", "> \x16\x03\x01\xff\xff"+strings.Repeat("x", 70000))
		}},
		"half a hello": {peer: func(c net.Conn) error {
			return play(c, "> "+ssl, "< S", "> \x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ".")
		}, lost: true},
		"half a hello, first": {peer: func(c net.Conn) error { return play(c, "> \x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ".") }, lost: true},
		"gone":                {peer: func(c net.Conn) error { return play(c, "> "+ssl, "< S", ".") }, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := encrypting(t, a, TLSOptions{})
			ours, peer := tcp(t)
			wait := background(func() error { return tc.peer(peer) })
			in, err := Accept(ours, x)
			_, failed := errors.AsType[*TLSError](err)
			if err == nil || failed == tc.lost || in.Client != nil || in.Cancel != nil {
				t.Errorf("%+v, %v", in, err)
			}
			if d, f, l := x.count.Done.Load(), x.count.Failed.Load(), x.count.Lost.Load(); d != 0 || f+l != 1 || (l == 1) != tc.lost {
				t.Errorf("counted %d, %d, %d", d, f, l)
			}
			if _, err := in.Conn.Write([]byte("in clear?")); err == nil {
				t.Error("something was written after a handshake that failed")
			}
			_ = in.Conn.Close()
			_ = wait() // what it wrote may have met a closed socket
		})
	}
}

// Bytes in clear that came with a request for encryption end the connection before any
// answer: they would be taken for something that came encrypted (CVE-2021-23214). Trap 24.
func TestClearTextBehindARequest(t *testing.T) {
	x := encrypting(t, authority(t, "ca"), TLSOptions{})
	ssl, gss := string(wire.AppendSSLRequest(nil)), string(wire.AppendGSSENCRequest(nil))
	for name, says := range map[string]string{
		"a packet": ssl + startup(t, 0, wire.Param{Name: "user", Value: "joe"}),
		"a hello":  ssl + "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"one byte": ssl + "Q",
		"gss":      gss + ssl,
	} {
		ours, peer := tcp(t)
		wait := background(func() error { return play(peer, "> "+says) })
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		in, err := Accept(ours, x)
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != "08P01" || in.Conn != ours {
			t.Errorf("%s: %v", name, err)
		}
		_ = ours.Close()
		if rest, err := io.ReadAll(peer); len(rest) > 0 {
			t.Errorf("%s: answered %q, %v", name, rest, err)
		}
	}
}

// On a Unix socket there is no TLS, as with Postgres.
func TestNoTLSOnUnixSockets(t *testing.T) {
	x := encrypting(t, authority(t, "ca"), TLSOptions{Mode: TLSRequire})
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	joe := startup(t, 0, wire.Param{Name: "user", Value: "joe"})
	wait := background(func() error {
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		return play(c, "> "+string(wire.AppendSSLRequest(nil)), "< N", "> "+joe)
	})
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if in, err := Accept(conn, x); err != nil || in.Client == nil || in.Client.TLS != nil {
		t.Errorf("%+v, %v", in, err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestClientCertificates(t *testing.T) {
	ours, foreign := authority(t, "ours"), authority(t, "foreign")
	for name, tc := range map[string]struct {
		by      *certs.Authority
		options certs.Options
		ca      bool // the server knows ours
		want    string
	}{
		"good":         {by: ours, ca: true, want: "verified"},
		"none":         {ca: true, want: "none"},
		"foreign":      {by: foreign, ca: true, want: "refused"},
		"expired":      {by: ours, options: certs.Options{Expires: -time.Minute}, ca: true, want: "refused"},
		"not asked":    {by: ours, want: "none"},
		"RSA":          {by: ours, options: certs.Options{Kind: certs.RSA}, ca: true, want: "verified"},
		"Ed25519":      {by: ours, options: certs.Options{Kind: certs.Ed25519}, ca: true, want: "verified"},
		"foreign, n/a": {by: foreign, want: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			o := TLSOptions{}
			if tc.ca {
				o.CAFile = ours.File
			}
			x := encrypting(t, ours, o)
			config := trusting(t, ours)
			if tc.by != nil {
				p := issue(t, tc.by, "joe", tc.options)
				own, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
				if err != nil {
					t.Fatal(err)
				}
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
			}
			server, peer := tcp(t)
			joe := startup(t, 0, wire.Param{Name: "user", Value: "joe"})
			wait := background(func() error {
				_, err := knock(peer, "ssl", config, "> "+joe)
				return err
			})
			in, err := Accept(server, x)
			if tc.want == "refused" {
				if _, ok := errors.AsType[*TLSError](err); !ok {
					t.Error(err)
				}
				_ = in.Conn.Close()
				_ = wait() // with TLS 1.3 it hears of it later
				return
			}
			if err := errors.Join(err, wait()); err != nil {
				t.Fatal(err)
			}
			state := in.Client.TLS
			if verified := len(state.VerifiedChains) > 0; verified != (tc.want == "verified") {
				t.Errorf("verified: %t", verified)
			} else if verified && state.PeerCertificates[0].Subject.CommonName != "joe" {
				t.Error(state.PeerCertificates[0].Subject)
			}
		})
	}
}

// The proof of a password is bound to the certificate that the client has seen.
func TestSCRAMBoundToTheCertificate(t *testing.T) {
	a := authority(t, "ca")
	x := encrypting(t, a, TLSOptions{})
	book := testBook(t)
	attempt := func(t *testing.T, user, password string, binding ChannelBinding, method Method) (server, client error) {
		t.Helper()
		ours, peer := tcp(t)
		wait := background(func() error {
			conn, err := knock(peer, "ssl", trusting(t, a))
			if err != nil {
				return err
			}
			tg := Target{User: user, Database: "d", Credentials: Credentials{Password: password}, Binding: binding}
			_, err = Login(deadline(t), conn, tg)
			return err
		})
		in, err := Accept(ours, x)
		if err == nil {
			err = Authenticate(in.Conn, in.Client, method, book, nil)
		}
		say := wire.AppendReadyForQuery(nil, wire.Idle)
		if e, ok := errors.AsType[*wire.Error](err); ok {
			say = wire.AppendError(nil, e)
		}
		if _, werr := in.Conn.Write(say); werr != nil {
			t.Log(werr)
		}
		_ = in.Conn.Close()
		return err, wait()
	}
	for _, method := range []Method{SCRAM, MD5} {
		for _, user := range []string{"scram", "plain"} {
			if method == MD5 && user == "plain" {
				continue // by an md5 hash, which nothing is bound to
			}
			for _, binding := range []ChannelBinding{PreferBinding, RequireBinding, DisableBinding} {
				if server, client := attempt(t, user, "right", binding, method); server != nil || client != nil {
					t.Errorf("%s, %s, %s: %v; %v", method, user, binding, server, client)
				}
			}
		}
	}
	for _, user := range []string{"scram", "stranger", "none"} {
		server, _ := attempt(t, user, "wrong", RequireBinding, SCRAM)
		if e, ok := errors.AsType[*wire.Error](server); !ok || e.Code != "28P01" {
			t.Errorf("%s: %v", user, server)
		}
	}
}

// Who could bind and has not been offered it talks through somebody who has changed the
// offer; and a proof that was bound to another certificate is no proof.
func TestSCRAMThroughSomebodyElse(t *testing.T) {
	a := authority(t, "ca")
	pair := issue(t, a, "other", certs.Options{})
	ourBinding := scram.EndPoint(issue(t, a, "server", certs.Options{}).Leaf)
	for name, tc := range map[string]struct {
		mechanism string
		client    *scram.Client
		want      string
	}{
		"offer taken away":    {scram.Mechanism, scram.NewUnofferedClient(), "28000"},
		"another certificate": {scram.MechanismPlus, scram.NewClient(scram.EndPoint(pair.Leaf)), "28P01"},
	} {
		ours, peer := pipe(t)
		wait := background(func() error {
			if _, _, err := wire.ReadMessage(peer, 1000, wire.MsgAuthentication); err != nil {
				return err
			}
			if _, err := peer.Write(wire.AppendSASLInitial(nil, tc.mechanism, tc.client.First())); err != nil {
				return err
			}
			_, body, err := wire.ReadMessage(peer, 1000, wire.MsgAuthentication)
			if err != nil {
				return nil // refused already
			}
			_, data, err := wire.ParseAuthentication(body)
			if err != nil {
				return err
			}
			salt, n, err := tc.client.Challenge(data)
			if err != nil {
				return err
			}
			keys, err := scram.Derive("right", salt, n)
			if err != nil {
				return err
			}
			_, err = peer.Write(wire.AppendMessage(nil, wire.MsgPassword, tc.client.Respond(keys)))
			return err
		})
		c := &Client{User: "scram", binding: ourBinding}
		err := Authenticate(ours, c, SCRAM, testBook(t), nil)
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != tc.want {
			t.Errorf("%s: %v", name, err)
		}
		_ = ours.Close()
		if err := wait(); err != nil {
			t.Error(name, err)
		}
	}
}

// Changed files are taken into use; what can't be used leaves the pair before in force, and
// log and counters say so once.
func TestCertificatesAreReadAgain(t *testing.T) {
	a := authority(t, "ca")
	x := encrypting(t, a, TLSOptions{CAFile: a.File})
	var log bytes.Buffer
	x.Attach(nil, &TLSCount{}, slog.New(slog.NewTextHandler(&log, nil)), nil)
	clock := time.Now()
	x.files.now = func() time.Time { return clock }
	serial := func() string { return x.files.current().leaf.SerialNumber.String() }
	first := serial()

	issue(t, a, "server", certs.Options{})
	if serial() != first {
		t.Error("looked again within a second")
	}
	clock = clock.Add(lookEvery)
	second := serial()
	if second == first {
		t.Fatal("the new pair is not in use")
	}
	if loaded, failed := x.count.Loaded.Load(), x.count.LoadFailed.Load(); loaded != 1 || failed != 0 {
		t.Errorf("counted %d and %d", loaded, failed)
	}

	other := issue(t, a, "other", certs.Options{})
	key, err := os.ReadFile(other.KeyFile)
	if err == nil {
		err = os.WriteFile(x.o.KeyFile, key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		clock = clock.Add(lookEvery)
		if serial() != second {
			t.Fatal("half of a pair is in use")
		}
	}
	if c := x.Certificate(); c.Stale == nil {
		t.Error("nothing is said about it")
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || x.count.LoadFailed.Load() != 1 || !strings.Contains(log.String(), x.o.KeyFile) {
		t.Errorf("%d lines, %d counted: %s", n, x.count.LoadFailed.Load(), &log)
	}

	cert, err := os.ReadFile(other.CertFile)
	if err == nil {
		err = os.WriteFile(x.o.CertFile, cert, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(lookEvery)
	if serial() != other.Leaf.SerialNumber.String() || x.Certificate().Stale != nil {
		t.Error("the other half has come, and the pair is not in use")
	}
	if err := os.Remove(x.o.CAFile); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(lookEvery)
	if x.files.current().config.ClientCAs == nil || x.Certificate().Stale == nil {
		t.Error("the authorities are gone")
	}
}

func TestUnusableCertificates(t *testing.T) {
	a := authority(t, "ca")
	p, other := issue(t, a, "server", certs.Options{}), issue(t, a, "other", certs.Options{Kind: certs.RSA})
	empty := t.TempDir() + "/empty"
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		o    TLSOptions
		want string // key of the configuration
	}{
		"no such file":   {TLSOptions{CertFile: "/nonexistent", KeyFile: p.KeyFile}, "cert_file"},
		"no such key":    {TLSOptions{CertFile: p.CertFile, KeyFile: "/nonexistent"}, "key_file"},
		"empty":          {TLSOptions{CertFile: empty, KeyFile: p.KeyFile}, "cert_file"},
		"another's key":  {TLSOptions{CertFile: p.CertFile, KeyFile: other.KeyFile}, "key_file"},
		"no authorities": {TLSOptions{CertFile: p.CertFile, KeyFile: p.KeyFile, CAFile: empty}, "ca_file"},
		"a directory":    {TLSOptions{CertFile: p.CertFile, KeyFile: p.KeyFile, CAFile: t.TempDir()}, "ca_file"},
	} {
		if _, err := NewTLS(tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Signatures wait for a place, handshakes do not: a client that stops half-way holds none.
func TestSignaturesAreBounded(t *testing.T) {
	a := authority(t, "ca")
	x := encrypting(t, a, TLSOptions{})
	cpu := make(CPU) // who wants a place, and leaves it, meets the test
	x.Attach(cpu, x.count, x.log, nil)
	slow, stopped := tcp(t)
	halfway := background(func() error { _, err := Accept(slow, x); return err })
	if err := play(stopped, "> "+string(wire.AppendSSLRequest(nil)), "< S", "> \x16\x03\x01\x02\x00"); err != nil {
		t.Fatal(err)
	}
	ours, peer := tcp(t)
	accepted := make(chan error, 1)
	go func() { _, err := Accept(ours, x); accepted <- err }()
	joe := startup(t, 0, wire.Param{Name: "user", Value: "joe"})
	wait := background(func() error { _, err := knock(peer, "ssl", trusting(t, a), "> "+joe); return err })
	select {
	case <-cpu:
		cpu <- struct{}{}
	case err := <-accepted:
		t.Fatalf("signed without a place: %v", err)
	}
	if err := errors.Join(<-accepted, wait()); err != nil {
		t.Error(err)
	}
	_ = stopped.Close()
	if err := halfway(); err == nil {
		t.Error("half a handshake is none")
	}
}
