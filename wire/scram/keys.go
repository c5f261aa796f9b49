package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"fmt"
)

// Mechanisms of SASL that this package knows.
const (
	Mechanism     = "SCRAM-SHA-256"
	MechanismPlus = "SCRAM-SHA-256-PLUS" // bound to the TLS channel
)

// Bounds of what a peer or a file may ask for.
const (
	DefaultIterations = 4096
	MaxIterations     = 1_000_000 // about a quarter of a second of CPU
	MaxSalt           = 1024      // bytes
	MaxNonce          = 1024      // characters, of either side
	MaxMessage        = 8192      // bytes of any message
	SaltLen           = 16        // bytes of a salt that is made here, as in Postgres
)

// Key is a key or signature of the mechanism.
type Key [sha256.Size]byte

// Keys are what a password becomes with a salt and an iteration count. Who has
// them can authenticate as the user wherever salt and count are the same.
type Keys struct {
	Client Key // proves the client to the server
	Server Key // by which the server proves itself to the client
}

// Derive makes the keys of a password. Salt and iterations must be within the
// bounds of this package.
func Derive(password string, salt []byte, iterations int) (Keys, error) {
	if err := checkFactors(salt, iterations); err != nil {
		return Keys{}, err
	}
	salted, err := pbkdf2.Key(sha256.New, Prepare(password), salt, iterations, sha256.Size)
	if err != nil {
		return Keys{}, err
	}
	return Keys{Client: mac(salted, "Client Key"), Server: mac(salted, "Server Key")}, nil
}

// Stored returns the key by which a server checks a client's proof.
func (k Keys) Stored() Key { return sha256.Sum256(k.Client[:]) }

func checkFactors(salt []byte, iterations int) error {
	if len(salt) == 0 || len(salt) > MaxSalt {
		return fmt.Errorf("scram: salt of %d bytes, allowed are 1 to %d", len(salt), MaxSalt)
	}
	if iterations < 1 || iterations > MaxIterations {
		return fmt.Errorf("scram: %d iterations, allowed are 1 to %d", iterations, MaxIterations)
	}
	return nil
}

// mac is HMAC-SHA-256 of the parts joined.
func mac(key []byte, parts ...string) (k Key) {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
	}
	h.Sum(k[:0])
	return k
}

// xor combines a key with a signature, which is its own inverse.
func xor(a, b Key) Key {
	for i := range a {
		a[i] ^= b[i]
	}
	return a
}

// authMessage is what both sides sign.
func authMessage(clientFirstBare, serverFirst, clientFinalBare string) string {
	return clientFirstBare + "," + serverFirst + "," + clientFinalBare
}
