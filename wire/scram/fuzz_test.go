package scram

import (
	"bytes"
	"errors"
	"testing"
)

func FuzzParseVerifier(f *testing.F) {
	f.Add("SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")
	f.Add("SCRAM-SHA-256$1:AAAA$:")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseVerifier(s)
		if err != nil {
			return
		}
		if v.String() != s {
			t.Fatalf("%q became %q", s, v)
		}
		if checkFactors(v.Salt, v.Iterations) != nil {
			t.Fatal("out of bounds")
		}
	})
}

func FuzzServer(f *testing.F) {
	f.Add([]byte(rfcClientFirst), []byte(rfcClientFinal))
	f.Add([]byte("y,,n=,r=a,x=1"), []byte("c=eSws,r=a,p="))
	f.Add([]byte("p=tls-server-end-point,,n=,r=a"), []byte("c=,r=,"))
	stored := Keys{Client: Key{1}}.Stored()
	f.Fuzz(func(t *testing.T, first, final []byte) {
		v := &Verifier{Iterations: 1, Salt: []byte("salt"), StoredKey: stored}
		s, err := newServer(v, Mechanism, nil, rfcServerNonce)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.First(first)
		var syntax *SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			t.Fatal(err)
		}
		if len(answer) > MaxMessage {
			t.Fatalf("answers with %d bytes", len(answer))
		}
		if _, err := s.Final(final); err == nil {
			t.Fatal("let in by accident")
		}
	})
}

func FuzzClient(f *testing.F) {
	f.Add([]byte(rfcServerFirst), []byte(rfcServerFinal))
	f.Add([]byte("r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=1,x=2"), []byte("e=other-error"))
	f.Fuzz(func(t *testing.T, first, final []byte) {
		c := newClient(nil, "user", "rOprNGfwEbeRWgbNEkqO")
		salt, iterations, err := c.Challenge(first)
		var syntax *SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			t.Fatal(err)
		}
		if err == nil && checkFactors(salt, iterations) != nil {
			t.Fatalf("%d bytes of salt, %d iterations", len(salt), iterations)
		}
		answer := c.Respond(Keys{Server: Key{1}})
		if (answer == nil) != (err != nil) {
			t.Fatalf("%q, %v", answer, err)
		}
		if c.Verify(final) == nil {
			t.Fatal("believes by accident")
		}
	})
}

func FuzzPrepare(f *testing.F) {
	for _, s := range []string{"pencil", "e\u0301", "\u0627\u0628", "\u00ad", "\xff", "\u2168\U0001f600"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Prepare(s)
		if len(s) > 0 && once == "" {
			t.Fatal("a password became none")
		}
		if !bytes.Equal([]byte(Prepare(s)), []byte(once)) {
			t.Fatal("differs from call to call")
		}
	})
}
