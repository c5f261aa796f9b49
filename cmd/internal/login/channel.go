package login

import (
	"crypto/tls"
	"strings"
)

// Channel is what is kept of a client's TLS connection for as long as the client stays.
type Channel struct {
	ServerName      string // that the client has asked for (SNI); at most 255 bytes, printable
	Version, Cipher uint16 // 0: no TLS
	Curve           tls.CurveID
}

// ChannelOf describes a connection; nil is one in clear.
func ChannelOf(s *tls.ConnectionState) Channel {
	if s == nil {
		return Channel{}
	}
	return Channel{strings.Map(printable, s.ServerName), s.Version, s.CipherSuite, s.CurveID}
}

// printable makes a name fit for logs and tables.
func printable(r rune) rune {
	if r <= ' ' || r > '~' {
		return '?'
	}
	return r
}

// String is the channel in the form of PgBouncer's column tls: version, cipher and curve.
// It is empty in clear.
func (c Channel) String() string {
	if c.Version == 0 {
		return ""
	}
	text := versionName(c.Version) + "/" + tls.CipherSuiteName(c.Cipher)
	if c.Curve != 0 {
		text += "/ECDH=" + c.Curve.String()
	}
	return text
}
