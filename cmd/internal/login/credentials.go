package login

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// Credentials are what is known of a user that helps to log in to a server as
// that user. Any subset may be empty. They are secrets: never log them.
type Credentials struct {
	Password string     // serves every method
	MD5      string     // as Postgres stores it: serves md5
	Keys     scram.Keys // zero: none; serve SCRAM where the server stores the same verifier
}

// Secret is what is known about a user's password: of the three one is set, or
// none if the user has no password and cannot log in with one.
type Secret struct {
	Plain string          // the password
	MD5   string          // "md5" and 32 hexadecimal digits
	SCRAM *scram.Verifier // never changed
}

// IsZero reports whether there is no password.
func (s Secret) IsZero() bool { return s == Secret{} }

// Secrets knows the users. [Book] is one.
type Secrets interface {
	Lookup(user string) (Secret, bool)
}

// CPU bounds how many goroutines derive keys from passwords at once, about a
// millisecond each: it holds one element for each at work. A nil CPU has no
// bound.
type CPU chan struct{}

// do runs f when there is a place.
func (c CPU) do(f func()) {
	if c != nil {
		c <- struct{}{}
		defer func() { <-c }()
	}
	f()
}

// check reports whether password is the one that s, which is no verifier, was made of.
func (s Secret) check(user, password string) bool {
	if s.MD5 != "" {
		return equal(wire.MD5Password(user, password), s.MD5)
	}
	return equal(password, s.Plain)
}

// equal compares in a time that does not depend on where, and hardly on whether,
// the two differ.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
