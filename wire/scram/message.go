package scram

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
)

// SyntaxError is a peer's message that is not as the mechanism has it. The text
// never quotes secrets.
type SyntaxError struct{ Detail string }

// Error returns the text for logs.
func (e *SyntaxError) Error() string { return "malformed SCRAM message: " + e.Detail }

func malformed(detail string) error { return &SyntaxError{Detail: detail} }

// attributes cuts a message into its attributes.
type attributes struct{ rest string }

// next takes the next attribute, which must be of that name, and returns its
// value.
func (a *attributes) next(name byte) (string, error) {
	got, value, err := a.any()
	if err == nil && got != name {
		err = malformed("attribute '" + string(name) + "' expected")
	}
	return value, err
}

// any takes the next attribute, of whatever name.
func (a *attributes) any() (name byte, value string, err error) {
	if len(a.rest) < 2 || !isLetter(a.rest[0]) || a.rest[1] != '=' {
		return 0, "", malformed("attribute expected")
	}
	name = a.rest[0]
	value, a.rest, _ = strings.Cut(a.rest[2:], ",")
	return name, value, nil
}

// skip takes all that is left, which must be attributes: extensions that both
// sides ignore.
func (a *attributes) skip() error {
	for a.rest != "" {
		if _, _, err := a.any(); err != nil {
			return err
		}
	}
	return nil
}

func isLetter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

// checkMessage bounds a message before anything else looks at it.
func checkMessage(msg []byte) (string, error) {
	if len(msg) > MaxMessage {
		return "", malformed("too long")
	}
	s := string(msg)
	if strings.IndexByte(s, 0) >= 0 {
		return "", malformed("zero byte")
	}
	return s, nil
}

// checkNonce accepts 1 to MaxNonce printable characters without a comma.
func checkNonce(s string) error {
	if s == "" || len(s) > MaxNonce {
		return malformed("nonce is empty or too long")
	}
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' || s[i] == ',' {
			return malformed("non-printable characters in SCRAM nonce")
		}
	}
	return nil
}

// newNonce makes 18 random bytes printable, as libpq and Postgres do.
func newNonce() string {
	var b [18]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return base64.StdEncoding.EncodeToString(b[:])
}

// Binding ties a conversation to the TLS channel that it runs over.
type Binding struct {
	Type string // "tls-server-end-point"
	Data []byte
}

// header is the GS2 header of a client that uses the binding, or has none.
func (b *Binding) header() string {
	if b == nil {
		return "n,,"
	}
	return "p=" + b.Type + ",,"
}

// input is the value of the attribute 'c', with the GS2 header in use.
func (b *Binding) input(header string) string {
	in := []byte(header)
	if b != nil {
		in = append(in, b.Data...)
	}
	return base64.StdEncoding.EncodeToString(in)
}
