package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// front accepts one client on loopback, authenticates it and welcomes it.
type front struct {
	listener net.Listener
	method   Method
	secrets  Secrets
	cpu      CPU
}

func newFront(t *testing.T, m Method, s Secrets) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &front{l, m, s, make(CPU, 1)}
}

// serve takes one client through its log-in, says goodbye, and returns it.
func (f *front) serve() (*Client, error) {
	conn, err := f.listener.Accept()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	a, err := Accept(conn, nil)
	c := a.Client
	if err == nil {
		err = Authenticate(conn, c, f.method, f.secrets, f.cpu)
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		_, werr := conn.Write(wire.AppendError(nil, e))
		return c, errors.Join(err, werr)
	}
	if err != nil {
		return c, err
	}
	welcome := wire.NewCancelKey(0, c.Startup.Speaks()).Append(nil)
	welcome = wire.AppendReadyForQuery(wire.AppendParameterStatus(welcome, "server_version", "18.0"), wire.Idle)
	if _, err := conn.Write(welcome); err != nil {
		return c, err
	}
	_, _, err = wire.ReadMessage(conn, 0, wire.MsgTerminate)
	return c, err
}

// connect logs a pgx client in and out.
func (f *front) connect(user, password string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	config, err := pgconn.ParseConfig("postgres://" + f.listener.Addr().String() + "/db?sslmode=prefer")
	if err != nil {
		return err
	}
	config.User, config.Password = user, password
	config.Fallbacks = nil
	config.TLSConfig = nil
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func testBook(t *testing.T) *Book {
	t.Helper()
	return NewBook(map[string]Secret{
		"plain": {Plain: "right"},
		"md5":   {MD5: wire.MD5Password("md5", "right")},
		"scram": {SCRAM: verifier(t, "right")},
		"none":  {},
	})
}

func TestAuthenticate(t *testing.T) {
	book := testBook(t)
	in := map[Method]string{ // users that their password lets in
		Trust:    "plain md5 scram none stranger",
		Password: "plain md5 scram",
		MD5:      "plain md5 scram",
		SCRAM:    "plain scram",
	}
	for method, may := range in {
		for _, user := range []string{"plain", "md5", "scram", "none", "stranger"} {
			for _, password := range []string{"right", "Right", "wrong password"} {
				want := strings.Contains(may, user) && (password == "right" || method == Trust)
				t.Run(fmt.Sprintf("%s/%s/%s", method, user, password), func(t *testing.T) {
					f := newFront(t, method, book)
					wait := background(func() error { return f.connect(user, password) })
					c, err := f.serve()
					client := wait()
					if (err == nil) != want || (client == nil) != want {
						t.Fatalf("%v; the client: %v", err, client)
					}
					if want {
						checkCredentials(t, method, user, c.Credentials)
						return
					}
					e, ok := errors.AsType[*pgconn.PgError](client)
					if !ok || e.Code != "28P01" || e.Severity != "FATAL" || e.Message != `password authentication failed for user "`+user+`"` {
						t.Errorf("%v", client)
					}
					if c.Credentials != (Credentials{}) {
						t.Error("credentials of a client that was not let in")
					}
				})
			}
		}
	}
}

// checkCredentials says what must be known after a log-in.
func checkCredentials(t *testing.T, m Method, user string, got Credentials) {
	t.Helper()
	v := verifier(t, "right")
	keys, err := scram.Derive("right", v.Salt, v.Iterations)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Credentials{
		"plain": {Password: "right"},
		"md5":   {MD5: wire.MD5Password("md5", "right")},
		"scram": {Keys: keys},
	}[user]
	switch {
	case m == Password:
		want = Credentials{Password: "right"}
	case m == Trust && user == "scram":
		want = Credentials{} // nobody has proved anything
	case user == "plain" && m == SCRAM:
		got.Keys = scram.Keys{} // of an invented salt
	}
	if got != want {
		t.Errorf("credentials %+v", got)
	}
}

func TestUsersWithoutSecretAreNotLetIn(t *testing.T) {
	book := testBook(t)
	for _, user := range []string{"none", "stranger"} {
		for _, b := range []*Book{book, NewBook(nil)} {
			for _, m := range []Method{Password, MD5} {
				answer := func(salt []byte) string {
					if m == MD5 {
						return wire.MD5Response(wire.MD5Password(user, ""), [4]byte(salt))
					}
					return ""
				}
				if err := ask(t, b, m, user, answer); !isCode(err, "28P01") {
					t.Errorf("%s, %s: %v", m, user, err)
				}
			}
		}
	}
	if err := ask(t, nil, Password, "x", func([]byte) string { return "x" }); !isCode(err, "28P01") {
		t.Errorf("no users at all: %v", err)
	}
}

// ask authenticates one user by a PasswordMessage that answer makes.
func ask(t *testing.T, s Secrets, m Method, user string, answer func(salt []byte) string) error {
	t.Helper()
	ours, peer := pipe(t)
	wait := background(func() error {
		_, body, err := wire.ReadMessage(peer, 100, wire.MsgAuthentication)
		if err != nil {
			return err
		}
		if _, err = peer.Write(wire.AppendPassword(nil, answer(body[4:]))); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, peer) // until the end, whatever comes
		return err
	})
	err := Authenticate(ours, &Client{User: user}, m, s, nil)
	_ = ours.Close()
	if err := wait(); err != nil {
		t.Error(err)
	}
	return err
}

func isCode(err error, code string) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Code == code && e.Severity == "FATAL"
}

// challenge returns the salt and iteration count that a user is asked with.
func challenge(t *testing.T, s Secrets, user string) string {
	t.Helper()
	ours, peer := pipe(t)
	var first string
	wait := background(func() error {
		if _, _, err := wire.ReadMessage(peer, 100, wire.MsgAuthentication); err != nil {
			return err
		}
		if _, err := peer.Write(wire.AppendSASLInitial(nil, scram.Mechanism, []byte("n,,n=,r=abc"))); err != nil {
			return err
		}
		_, body, err := wire.ReadMessage(peer, 1000, wire.MsgAuthentication)
		_, first, _ = strings.Cut(string(body), ",")
		return errors.Join(err, peer.Close())
	})
	if err := Authenticate(ours, &Client{User: user}, SCRAM, s, nil); err == nil {
		t.Error("let in without a proof")
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	return first
}

func TestStrangersLookLikeUsers(t *testing.T) {
	v, err := scram.NewVerifier("x", nil, 5000)
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]Secret{"scram": {SCRAM: v}, "plain": {Plain: "x"}, "md5": {MD5: wire.MD5Password("md5", "x")}}
	book, twin := NewBook(entries), NewBook(entries)
	for _, user := range []string{"scram", "plain", "md5", "stranger"} {
		first := challenge(t, book, user)
		if !strings.HasSuffix(first, ",i=5000") || len(first) != len(challenge(t, book, "scram")) {
			t.Errorf("%s: %s", user, first)
		}
		if again := challenge(t, book, user); again != first {
			t.Errorf("%s: %s, then %s", user, first, again)
		}
		if other := challenge(t, twin, user); other != first {
			t.Errorf("%s: %s, and from another instance %s", user, first, other)
		}
	}
	if challenge(t, book, "stranger") == challenge(t, book, "strangest") {
		t.Error("all strangers have one salt")
	}
	empty, alsoEmpty := NewBook(nil), NewBook(nil)
	if challenge(t, empty, "x") == challenge(t, alsoEmpty, "x") {
		t.Error("salts that anyone can compute")
	}
	changed := NewBook(map[string]Secret{"plain": {Plain: "y"}})
	if challenge(t, NewBook(map[string]Secret{"plain": {Plain: "x"}}), "x") == challenge(t, changed, "x") {
		t.Error("salts do not depend on the secrets")
	}
}

// TestMethodOfStrangers: with md5 a user is asked by the kind of the secret, and
// one that does not exist as most are.
func TestMethodOfStrangers(t *testing.T) {
	s, m := Secret{SCRAM: verifier(t, "x")}, Secret{MD5: wire.MD5Password("a", "x")}
	for _, tc := range []struct {
		entries map[string]Secret
		want    uint32
	}{
		{map[string]Secret{"a": m, "b": s, "c": s}, wire.AuthSASL},
		{map[string]Secret{"a": m, "b": m, "c": s}, wire.AuthMD5},
		{map[string]Secret{"a": {Plain: "x"}}, wire.AuthMD5},
	} {
		ours, peer := pipe(t)
		var kind uint32
		wait := background(func() error {
			_, body, err := wire.ReadMessage(peer, 100, wire.MsgAuthentication)
			if err == nil {
				kind, _, err = wire.ParseAuthentication(body)
			}
			return errors.Join(err, peer.Close())
		})
		if err := Authenticate(ours, &Client{User: "stranger"}, MD5, NewBook(tc.entries), nil); err == nil {
			t.Error("let in")
		}
		if err := wait(); err != nil || kind != tc.want {
			t.Errorf("%v: kind %d, %v", tc.entries, kind, err)
		}
	}
}

func TestKeysOfAPasswordAreDerivedOnce(t *testing.T) {
	book := testBook(t)
	first := book.verifier("plain", "right", nil)
	full := make(CPU, 1)
	full <- struct{}{} // deriving now would wait for ever
	if book.verifier("plain", "right", full) != first {
		t.Error("derived again")
	}
}

func TestAuthenticateRefusesMessages(t *testing.T) {
	initial := string(wire.AppendSASLInitial(nil, scram.Mechanism, []byte("n,,n=,r=abc")))
	for name, tc := range map[string]struct {
		method Method
		sends  string
		code   string
	}{
		"a query":           {Password, string(wire.AppendQuery(nil, "select 1")), "08P01"},
		"terminate":         {MD5, string(wire.AppendEmpty(nil, wire.MsgTerminate)), "08P01"},
		"too long":          {Password, "p\x00\x01\x00\x04", "08P01"},
		"below its own":     {Password, "p\x00\x00\x00\x00", "08P01"},
		"no terminator":     {Password, "p\x00\x00\x00\x05x", "08P01"},
		"another mechanism": {SCRAM, string(wire.AppendSASLInitial(nil, "SCRAM-SHA-256-PLUS", []byte("p=tls-server-end-point,,n=,r=abc"))), "08P01"},
		"not SASL":          {SCRAM, string(wire.AppendPassword(nil, "right")), "08P01"},
		"channel binding":   {SCRAM, string(wire.AppendSASLInitial(nil, scram.Mechanism, []byte("p=x,,n=,r=abc"))), "08P01"},
		"no response":       {SCRAM, "p\x00\x00\x00\x16SCRAM-SHA-256\x00\xff\xff\xff\xff", "08P01"},
		"garbage":           {SCRAM, initial + string(wire.AppendMessage(nil, 'p', []byte("x"))), "08P01"},
		"another proof":     {SCRAM, initial + string(wire.AppendMessage(nil, 'p', []byte("c=biws,r=abc,p="+strings.Repeat("A", 43)+"="))), "08P01"},
		"unknown method":    {Method("peer"), "", "XX000"},
		"longest password":  {Password, string(wire.AppendPassword(nil, strings.Repeat("x", wire.MaxToken-1))), "28P01"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, peer := pipe(t)
			drained := background(func() error { // whatever we are asked
				b := make([]byte, 1000)
				for {
					if _, err := peer.Read(b); err != nil {
						return nil
					}
				}
			})
			sent := background(func() error { _, err := peer.Write([]byte(tc.sends)); return err })
			if err := Authenticate(ours, &Client{User: "scram"}, tc.method, testBook(t), nil); !isCode(err, tc.code) {
				t.Error(err)
			}
			_ = ours.Close()
			_, _ = sent(), drained() // both end with the connection
		})
	}
}
