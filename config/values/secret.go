package values

import (
	"crypto/subtle"
	"fmt"
	"io"

	"github.com/pgweir/pgweir/config/document"
)

// Secret holds a password. Whatever formats, logs or marshals it gets four asterisks; only
// [Secret.Reveal] gives the text. The zero Secret means that none was given.
//
// The text is behind a pointer for the cases that no method is asked about: %p, and a
// Secret in somebody's unexported field. For the same reason == does not compare; use
// [Secret.Equal].
type Secret struct{ text *string }

// NewSecret wraps a password.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal is the password itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsSet reports whether there is a password.
func (s Secret) IsSet() bool { return s.text != nil }

// Equal compares in a time that depends on the lengths only.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String is "****", or empty where no password was given.
func (s Secret) String() string {
	if !s.IsSet() {
		return ""
	}
	return document.Hidden
}

// Format writes the same for every verb: a forgotten %d or %#v must not be a leak.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText is String, for JSON and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
