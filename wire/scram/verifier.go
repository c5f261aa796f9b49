package scram

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Verifier is what a server stores of a password. It does not allow to
// authenticate as the user, only to check who does.
type Verifier struct {
	Iterations int
	Salt       []byte
	StoredKey  Key
	ServerKey  Key
}

// prefix begins a verifier in the form of pg_authid.rolpassword.
const prefix = Mechanism + "$"

// IsVerifier reports whether s is meant as a verifier, be it well-formed or not.
func IsVerifier(s string) bool { return strings.HasPrefix(s, prefix) }

// ParseVerifier reads the form in which Postgres stores verifiers,
// SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey with base64 for the last
// three. The error does not quote s.
func ParseVerifier(s string) (*Verifier, error) {
	rest, ok := strings.CutPrefix(s, prefix)
	factors, keys, ok2 := strings.Cut(rest, "$")
	count, salt64, ok3 := strings.Cut(factors, ":")
	stored64, server64, ok4 := strings.Cut(keys, ":")
	if !ok || !ok2 || !ok3 || !ok4 || len(s) > MaxMessage {
		return nil, errors.New("scram: not of the form SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey")
	}
	v := &Verifier{}
	var err error
	if v.Iterations, err = parseCount(count); err != nil {
		return nil, err
	}
	if v.Salt, err = decode64(salt64); err != nil {
		return nil, errors.New("scram: the verifier's salt is not base64")
	}
	if err := checkFactors(v.Salt, v.Iterations); err != nil {
		return nil, err
	}
	if v.StoredKey, err = decodeKey(stored64); err != nil {
		return nil, fmt.Errorf("scram: the verifier's StoredKey %w", err)
	}
	if v.ServerKey, err = decodeKey(server64); err != nil {
		return nil, fmt.Errorf("scram: the verifier's ServerKey %w", err)
	}
	return v, nil
}

// NewVerifier makes a verifier of a password. Without a salt it makes one of
// SaltLen random bytes.
func NewVerifier(password string, salt []byte, iterations int) (*Verifier, error) {
	if salt == nil {
		salt = make([]byte, SaltLen)
		_, _ = rand.Read(salt) // never fails: it ends the program instead
	}
	keys, err := Derive(password, salt, iterations)
	if err != nil {
		return nil, err
	}
	return &Verifier{Iterations: iterations, Salt: salt, StoredKey: keys.Stored(), ServerKey: keys.Server}, nil
}

// String returns the form that Postgres stores and ParseVerifier reads.
func (v *Verifier) String() string {
	b64 := base64.StdEncoding.EncodeToString
	return prefix + strconv.Itoa(v.Iterations) + ":" + b64(v.Salt) + "$" + b64(v.StoredKey[:]) + ":" + b64(v.ServerKey[:])
}

// Check reports whether the password is the one that the verifier was made of.
// It derives keys.
func (v *Verifier) Check(password string) bool {
	keys, err := Derive(password, v.Salt, v.Iterations)
	if err != nil {
		return false
	}
	stored := keys.Stored()
	return subtle.ConstantTimeCompare(stored[:], v.StoredKey[:]) == 1
}

// MockSalt is a salt for a user that has none: always the same for one user and
// one secret of the server, and not to be told from a random one without that
// secret.
func MockSalt(user string, secret []byte) []byte {
	k := mac(secret, "pgweir mock salt\x00", user)
	return k[:SaltLen]
}

// parseCount reads an iteration count within the bounds: digits only, no sign,
// no leading zero.
func parseCount(s string) (int, error) {
	if s == "" || len(s) > 7 || s[0] == '0' {
		return 0, errors.New("scram: no iteration count within the bounds")
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errors.New("scram: no iteration count within the bounds")
		}
		n = n*10 + int(s[i]-'0')
	}
	if n > MaxIterations {
		return 0, fmt.Errorf("scram: %d iterations, allowed are 1 to %d", n, MaxIterations)
	}
	return n, nil
}

// decode64 reads base64 to the letter; the library would skip line ends.
func decode64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("line end in base64")
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}

// decodeKey reads a key in base64. The error continues a sentence.
func decodeKey(s string) (k Key, err error) {
	b, err := decode64(s)
	if err != nil || len(b) != len(k) {
		return k, errors.New("is not 32 bytes in base64")
	}
	copy(k[:], b)
	return k, nil
}
