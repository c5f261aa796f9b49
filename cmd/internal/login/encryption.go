package login

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
)

// SSLMode is libpq's sslmode: whether a connection to a server has to be encrypted, and how
// much of the server's certificate has to be right. The zero value is NoTLS.
type SSLMode uint8

// The values of sslmode, each stricter than the one before.
const (
	NoTLS      SSLMode = iota // disable
	AllowTLS                  // in clear, and with TLS if the server does not let us in so
	PreferTLS                 // with TLS if the server can, else in clear
	RequireTLS                // with TLS, whoever it is
	VerifyCA                  // and with a certificate that a trusted one has signed
	VerifyFull                // and that is for the name of the host
)

// ParseSSLMode reads a value of sslmode.
func ParseSSLMode(s string) (SSLMode, error) {
	for m := NoTLS; m <= VerifyFull; m++ {
		if m.String() == s {
			return m, nil
		}
	}
	return NoTLS, fmt.Errorf("%q is no sslmode", s)
}

// String returns the mode as libpq writes it.
func (m SSLMode) String() string {
	return [...]string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}[m]
}

// ChannelBinding is libpq's channel_binding: whether the proof of a password has to be bound
// to the server's certificate, so that nobody in between can use it.
type ChannelBinding uint8

// The values of channel_binding.
const (
	PreferBinding  ChannelBinding = iota // where TLS is and the server offers it
	DisableBinding                       // never
	RequireBinding                       // or there is no login: only SCRAM-SHA-256-PLUS will do
)

// ParseChannelBinding reads a value of channel_binding.
func ParseChannelBinding(s string) (ChannelBinding, error) {
	for b := PreferBinding; b <= RequireBinding; b++ {
		if b.String() == s {
			return b, nil
		}
	}
	return PreferBinding, fmt.Errorf("%q is no channel_binding", s)
}

// String returns the value as libpq writes it.
func (b ChannelBinding) String() string { return [...]string{"prefer", "disable", "require"}[b] }

// SystemRoots as a RootCert stands for the certificates that the system trusts.
const SystemRoots = "system"

// Encryption says how connections to servers are encrypted, in libpq's words. It never
// changes; equal ones mean the same. The zero value is sslmode=disable. Files are read anew
// for each connection, so they may be replaced at any time.
type Encryption struct {
	Mode   SSLMode
	Direct bool // sslnegotiation=direct: TLS from the first byte; with RequireTLS and stricter only
	NoSNI  bool // sslsni=0: the name of the host is not told in clear

	RootCert  string // file with trusted certificates, or SystemRoots; "": none, so nothing can be verified
	Cert, Key string // files with our own certificate and its key; "": none

	MinVersion, MaxVersion uint16 // as in crypto/tls; 0: TLS 1.2, and the newest
	Binding                ChannelBinding
}

// Verifies reports whether a server has to show a certificate that is trusted: also with
// RequireTLS if there is a RootCert, as in libpq.
func (e *Encryption) Verifies() bool {
	return e.Mode >= VerifyCA || e.Mode == RequireTLS && e.RootCert != ""
}

// Way is one of the two ways to talk to a server.
type Way uint8

// The ways. With FirstTLS a server that can't is talked to in clear, on the same connection.
const (
	Clear Way = iota
	FirstTLS
	OnlyTLS
)

// Ways returns how a server is to be tried, each on a connection of its own and the second
// only if the first has met what [Encryption.Falls] names. A Unix
// socket is never encrypted.
func (e *Encryption) Ways(network string) []Way {
	switch {
	case network == "unix" || e.Mode == NoTLS:
		return []Way{Clear}
	case e.Mode == AllowTLS:
		return []Way{Clear, OnlyTLS}
	case e.Mode == PreferTLS:
		return []Way{FirstTLS, Clear}
	}
	return []Way{OnlyTLS}
}

// Falls reports whether the other way may lead to a login where the first has met err: TLS
// did not come about (encrypting), or the server does not let us in so. Somebody who puts
// bytes of his own between ours is not evaded.
func (e *Encryption) Falls(err error, encrypting bool) bool {
	if _, ok := errors.AsType[*TLSError](err); ok || encrypting {
		return !errors.Is(err, ErrProtocol)
	}
	r, ok := errors.AsType[*Refusal](err)
	return ok && strings.HasPrefix(r.Told.Code, "28")
}

// TLSError is why a connection to a server is not encrypted as it has to be, or not bound as
// it has to be, and why one of a client is not encrypted. It is for the log: the names of files and certificates are none of the
// clients' business.
type TLSError struct{ Err error }

// Error says what is not right.
func (e *TLSError) Error() string { return "TLS: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *TLSError) Unwrap() error { return e.Err }

func tlsErrorf(format string, args ...any) error { return &TLSError{fmt.Errorf(format, args...)} }

// TLSTrouble marks errors of crypto/tls that are not the network's: an alert of either side,
// or bytes that are no TLS. A server that does not like our certificate may say so as late as
// with its first answer.
func TLSTrouble(err error) error {
	if _, known := errors.AsType[*TLSError](err); known {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return &TLSError{err}
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return &TLSError{err}
	}
	return err
}
