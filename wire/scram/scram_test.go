package scram

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The example of RFC 7677, section 3.
const (
	rfcClientFirst = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
	rfcServerNonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	rfcServerFirst = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	rfcClientFinal = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcServerFinal = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func rfcVerifier(t *testing.T) *Verifier {
	t.Helper()
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewVerifier("pencil", salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestExampleOfTheStandard(t *testing.T) {
	v := rfcVerifier(t)
	s, err := newServer(v, Mechanism, nil, rfcServerNonce)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(nil, "user", "rOprNGfwEbeRWgbNEkqO")
	if got := string(c.First()); got != rfcClientFirst {
		t.Errorf("client first %q", got)
	}
	first, err := s.First([]byte(rfcClientFirst))
	if err != nil || string(first) != rfcServerFirst {
		t.Fatalf("server first %q, %v", first, err)
	}
	salt, iterations, err := c.Challenge(first)
	if err != nil || iterations != 4096 || !bytes.Equal(salt, v.Salt) {
		t.Fatal(salt, iterations, err)
	}
	keys, err := Derive("pencil", salt, iterations)
	if err != nil {
		t.Fatal(err)
	}
	final := c.Respond(keys)
	if string(final) != rfcClientFinal {
		t.Fatalf("client final %q", final)
	}
	last, err := s.Final(final)
	if err != nil || string(last) != rfcServerFinal {
		t.Fatalf("server final %q, %v", last, err)
	}
	if err := c.Verify(last); err != nil {
		t.Error(err)
	}
	if s.Keys() != keys {
		t.Error("the server has not learned the client's keys")
	}
}

// converse runs a whole conversation and returns each side's outcome.
func converse(t *testing.T, c *Client, s *Server, keys func(salt []byte, iterations int) Keys) (client, server error) {
	t.Helper()
	first, err := s.First(c.First())
	if err != nil {
		return nil, err
	}
	salt, iterations, err := c.Challenge(first)
	if err != nil {
		t.Fatal(err)
	}
	last, err := s.Final(c.Respond(keys(salt, iterations)))
	if err != nil {
		return nil, err
	}
	return c.Verify(last), nil
}

func withPassword(t *testing.T, password string) func([]byte, int) Keys {
	return func(salt []byte, iterations int) Keys {
		k, err := Derive(password, salt, iterations)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
}

func TestPassThrough(t *testing.T) {
	v, err := NewVerifier("pass", nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	front, err := NewServer(v, Mechanism, nil)
	if err != nil {
		t.Fatal(err)
	}
	if client, server := converse(t, NewClient(nil), front, withPassword(t, "pass")); client != nil || server != nil {
		t.Fatal(client, server)
	}
	// The keys alone open the same door again, whatever salt is told.
	back, err := NewServer(v, Mechanism, nil)
	if err != nil {
		t.Fatal(err)
	}
	learned := func([]byte, int) Keys { return front.Keys() }
	if client, server := converse(t, NewClient(nil), back, learned); client != nil || server != nil {
		t.Error(client, server)
	}
	other, err := NewVerifier("pass", nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	door, err := NewServer(other, Mechanism, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, server := converse(t, NewClient(nil), door, learned); server != ErrProof {
		t.Errorf("another salt: %v", server)
	}
}

func TestWrongPassword(t *testing.T) {
	v, err := NewVerifier("pass", nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(v, Mechanism, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := converse(t, NewClient(nil), s, withPassword(t, "Pass")); err != ErrProof {
		t.Error(err)
	}
	if s.Keys() != (Keys{}) {
		t.Error("keys of a client that was not let in")
	}
}

func TestMock(t *testing.T) {
	secret := []byte("the server's own")
	salts := make(map[string]string)
	for _, user := range []string{"a", "b", "a"} {
		s, err := NewMock(user, secret, DefaultIterations, Mechanism, nil)
		if err != nil {
			t.Fatal(err)
		}
		salt := ""
		_, err = converse(t, NewClient(nil), s, func(b []byte, n int) Keys {
			if salt = string(b); len(b) != SaltLen || n != DefaultIterations {
				t.Errorf("%d bytes of salt, %d iterations", len(b), n)
			}
			return Keys{}
		})
		if err != ErrProof {
			t.Errorf("%s: %v", user, err)
		}
		if before, ok := salts[user]; ok && before != salt {
			t.Error("the salt changes from one log-in to the next")
		}
		salts[user] = salt
	}
	if salts["a"] == salts["b"] || salts["a"] == string(MockSalt("a", []byte("another"))) {
		t.Error("the salt does not depend on user and secret")
	}
	// Not even the preimage of the mock's zero key may come in.
	s, err := NewMock("a", secret, DefaultIterations, Mechanism, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.verifier.StoredKey = Keys{}.Stored()
	if _, err := converse(t, NewClient(nil), s, func([]byte, int) Keys { return Keys{} }); err != ErrProof {
		t.Error(err)
	}
}

func TestChannelBinding(t *testing.T) {
	v, err := NewVerifier("pass", nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	here := &Binding{"tls-server-end-point", []byte("certificate")}
	there := &Binding{"tls-server-end-point", []byte("another")}
	exporter := &Binding{"tls-exporter", []byte("certificate")}
	for name, tc := range map[string]struct {
		mechanism      string
		server, client *Binding
		ok, syntax     bool
	}{
		"same channel":              {MechanismPlus, here, here, true, false},
		"not used":                  {Mechanism, here, nil, true, false},
		"man in the middle":         {MechanismPlus, here, there, false, false},
		"another type":              {MechanismPlus, here, exporter, false, true},
		"selected but not used":     {MechanismPlus, here, nil, false, true},
		"used but not selected":     {Mechanism, here, here, false, true},
		"selected but not offered":  {MechanismPlus, nil, here, false, true},
		"neither offered nor known": {"SCRAM-SHA-1", nil, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewServer(v, tc.mechanism, tc.server)
			if err == nil {
				var client error
				if client, err = converse(t, NewClient(tc.client), s, withPassword(t, "pass")); client != nil {
					t.Error(client)
				}
			}
			var syntax *SyntaxError
			if (err == nil) != tc.ok || errors.As(err, &syntax) != tc.syntax {
				t.Error(err)
			}
		})
	}
	// "y": the client could, and thinks that we could not.
	for binding, want := range map[*Binding]bool{nil: true, here: false} {
		s, err := NewServer(v, Mechanism, binding)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.First([]byte("y,,n=,r=abc")); (err == nil) != want {
			t.Errorf("offered %v: %v", binding != nil, err)
		}
	}
}

func TestServerRefuses(t *testing.T) {
	v := rfcVerifier(t)
	for name, msg := range map[string]string{
		"empty":               "",
		"no header":           "n=user,r=abc",
		"unknown flag":        "x,,n=user,r=abc",
		"flag with a tail":    "nn,,n=user,r=abc",
		"binding":             "p=tls-unique,,n=user,r=abc",
		"authorization id":    "n,a=admin,n=user,r=abc",
		"garbage for id":      "n,x,n=user,r=abc",
		"mandatory extension": "n,,m=x,n=user,r=abc",
		"no user":             "n,,r=abc",
		"no nonce":            "n,,n=user",
		"nonce twice removed": "n,,n=user,x=1,r=abc",
		"empty nonce":         "n,,n=user,r=",
		"nonce with a space":  "n,,n=user,r=a c",
		"nonce beyond ASCII":  "n,,n=user,r=a\xffc",
		"long nonce":          "n,,n=user,r=" + strings.Repeat("x", MaxNonce+1),
		"long message":        "n,,n=" + strings.Repeat("x", MaxMessage) + ",r=abc",
		"zero byte":           "n,,n=user,r=abc\x00",
		"bad extension":       "n,,n=user,r=abc,=",
		"cut header":          "n",
		"cut header, too":     "n,",
	} {
		s, err := NewServer(v, Mechanism, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.First([]byte(msg))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
	nonce := "rOprNGfwEbeRWgbNEkqO" + rfcServerNonce
	proof := ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	for name, msg := range map[string]string{
		"empty":           "",
		"other header":    "c=eSws,r=" + nonce + proof, // y,,
		"binding data":    "c=biwsYQ==,r=" + nonce + proof,
		"other nonce":     "c=biws,r=" + nonce + "x" + proof,
		"client's nonce":  "c=biws,r=rOprNGfwEbeRWgbNEkqO" + proof,
		"no proof":        "c=biws,r=" + nonce,
		"empty proof":     "c=biws,r=" + nonce + ",p=",
		"short proof":     "c=biws,r=" + nonce + ",p=AAAA",
		"long proof":      "c=biws,r=" + nonce + ",p=" + strings.Repeat("A", 44*40),
		"not base64":      "c=biws,r=" + nonce + strings.ReplaceAll(proof, "+", "!"),
		"after the proof": "c=biws,r=" + nonce + proof + ",x=1",
		"trailing comma":  "c=biws,r=" + nonce + proof + ",",
		"zero byte":       "c=biws,r=" + nonce + proof + "\x00",
	} {
		s, err := newServer(v, Mechanism, nil, rfcServerNonce)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.First([]byte(rfcClientFirst)); err != nil {
			t.Fatal(err)
		}
		answer, err := s.Final([]byte(msg))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
}

func TestServerOrder(t *testing.T) {
	s, err := newServer(rfcVerifier(t), Mechanism, nil, rfcServerNonce)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Final([]byte(rfcClientFinal)); err == nil {
		t.Error("a proof before the challenge")
	}
	if _, err := s.First([]byte(rfcClientFirst)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.First([]byte(rfcClientFirst)); err == nil {
		t.Error("a second beginning")
	}
	if _, err := s.Final([]byte(rfcClientFinal)); err != nil {
		t.Error(err)
	}
	if _, err := s.Final([]byte(rfcClientFinal)); err == nil {
		t.Error("a second proof")
	}
}

func TestClientRefuses(t *testing.T) {
	for name, msg := range map[string]string{
		"empty":               "",
		"mandatory extension": "m=x,r=abcd,s=AAAA,i=1",
		"another nonce":       "r=abd,s=AAAA,i=1",
		"only ours":           "r=abc,s=AAAA,i=1",
		"nonce with a space":  "r=abc d,s=AAAA,i=1",
		"long nonce":          "r=abc" + strings.Repeat("x", MaxNonce+1) + ",s=AAAA,i=1",
		"long message":        "r=abcd,s=" + strings.Repeat("A", MaxMessage) + ",i=1",
		"no salt":             "r=abcd,i=1",
		"empty salt":          "r=abcd,s=,i=1",
		"salt not base64":     "r=abcd,s=A,i=1",
		"long salt":           "r=abcd,s=" + strings.Repeat("AAAA", MaxSalt/3+1) + ",i=1",
		"no count":            "r=abcd,s=AAAA",
		"zero iterations":     "r=abcd,s=AAAA,i=0",
		"negative":            "r=abcd,s=AAAA,i=-1",
		"signed":              "r=abcd,s=AAAA,i=+1",
		"too many":            "r=abcd,s=AAAA,i=1000001",
		"far too many":        "r=abcd,s=AAAA,i=99999999999999999999",
		"not a number":        "r=abcd,s=AAAA,i=4096x",
		"zero byte":           "r=abcd,s=AAAA,i=1\x00",
		"bad extension":       "r=abcd,s=AAAA,i=1,x",
	} {
		c := newClient(nil, "", "abc")
		_, _, err := c.Challenge([]byte(msg))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: %v", name, err)
		}
		if c.Respond(Keys{}) != nil {
			t.Errorf("%s: answered", name)
		}
	}
}

func TestClientVerifies(t *testing.T) {
	keys, err := Derive("pencil", rfcVerifier(t).Salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	for msg, want := range map[string]error{
		rfcServerFinal:                       nil,
		rfcServerFinal + ",x=1":              nil,
		"v=" + strings.Repeat("A", 43) + "=": ErrProof,
		"e=invalid-proof":                    ErrProof,
		"":                                   &SyntaxError{},
		"v=":                                 &SyntaxError{},
		"v=AAAA":                             &SyntaxError{},
		"x=1":                                &SyntaxError{},
		rfcServerFinal + ",x":                &SyntaxError{},
	} {
		c := newClient(nil, "user", "rOprNGfwEbeRWgbNEkqO")
		if err := c.Verify([]byte(rfcServerFinal)); err == nil {
			t.Fatal("believes a server before it has asked")
		}
		if _, _, err := c.Challenge([]byte(rfcServerFirst)); err != nil {
			t.Fatal(err)
		}
		c.Respond(keys)
		err := c.Verify([]byte(msg))
		var syntax *SyntaxError
		if _, ok := want.(*SyntaxError); ok {
			if !errors.As(err, &syntax) {
				t.Errorf("%q: %v", msg, err)
			}
		} else if err != want {
			t.Errorf("%q: %v", msg, err)
		}
	}
	// A server whose signature is of all zeros must not pass for one before Respond.
	if err := NewClient(nil).Verify([]byte("v=" + strings.Repeat("A", 43) + "=")); err != ErrProof {
		t.Error(err)
	}
}

func TestVerifier(t *testing.T) {
	v, err := NewVerifier("secret", nil, 4096)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseVerifier(v.String())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(v, again); d != "" {
		t.Error(d)
	}
	if !v.Check("secret") || v.Check("Secret") || v.Check("") {
		t.Error("checks another password")
	}
	other, err := NewVerifier("secret", nil, 4096)
	if err != nil || cmp.Equal(v.Salt, other.Salt) {
		t.Error("the salt is not random", err)
	}
	for _, n := range []int{0, -1, MaxIterations + 1} {
		if _, err := NewVerifier("secret", nil, n); err == nil {
			t.Errorf("%d iterations", n)
		}
	}
	for _, salt := range [][]byte{{}, make([]byte, MaxSalt+1)} {
		if _, err := NewVerifier("secret", salt, 1); err == nil {
			t.Errorf("%d bytes of salt", len(salt))
		}
	}
}

func TestParseVerifierRefuses(t *testing.T) {
	good := rfcVerifier(t).String()
	if _, err := ParseVerifier(good); err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, s := range map[string]string{
		"empty":            "",
		"md5":              "md5c59ec932d911ffdf487595b5a2adf973",
		"another hash":     strings.Replace(good, "256", "512", 1),
		"lower case":       strings.ToLower(good),
		"no count":         "SCRAM-SHA-256$:AAAA$" + key + ":" + key,
		"zero iterations":  "SCRAM-SHA-256$0:AAAA$" + key + ":" + key,
		"too many":         "SCRAM-SHA-256$1000001:AAAA$" + key + ":" + key,
		"empty salt":       "SCRAM-SHA-256$1:$" + key + ":" + key,
		"salt not base64":  "SCRAM-SHA-256$1:!$" + key + ":" + key,
		"no keys":          "SCRAM-SHA-256$1:AAAA",
		"one key":          "SCRAM-SHA-256$1:AAAA$" + key,
		"short key":        "SCRAM-SHA-256$1:AAAA$AAAA:" + key,
		"key not base64":   "SCRAM-SHA-256$1:AAAA$" + key + ":!",
		"a third key":      "SCRAM-SHA-256$1:AAAA$" + key + ":" + key + ":" + key,
		"white space":      good + "\n",
		"loose base64":     strings.TrimSuffix(good, "="),
		"longer than sane": good + strings.Repeat("A", MaxMessage),
	} {
		if v, err := ParseVerifier(s); err == nil {
			t.Errorf("%s: %v", name, v)
		} else if strings.Contains(err.Error(), key) {
			t.Errorf("%s: the error quotes a key", name)
		}
	}
}
