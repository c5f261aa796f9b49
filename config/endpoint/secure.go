package endpoint

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/config/values"
)

// Encryption is how connections to Postgres are encrypted, by libpq's parameters.
type Encryption struct {
	SSLMode        SSLMode
	RootCert       string // sslrootcert: path of a file, SystemRoots, or "" for the one in the home directory
	Cert, Key      string // sslcert and sslkey: paths, both or none
	Direct         bool   // sslnegotiation=direct
	NoSNI          bool   // sslsni=0
	MinVersion     string // ssl_min_protocol_version: TLSv1.2 ...
	MaxVersion     string // ssl_max_protocol_version; "": the newest
	ChannelBinding string // channel_binding: disable, prefer or require
}

// SystemRoots as the RootCert stands for the certificates that the system trusts.
const SystemRoots = "system"

// usualEncryption is what holds unless the URL says.
func usualEncryption() Encryption {
	return Encryption{SSLMode: Prefer, MinVersion: "TLSv1.2", ChannelBinding: "prefer"}
}

// tlsVersions are the versions of TLS in libpq's words, the oldest first.
func tlsVersions() []string { return []string{"TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"} }

// Verifies reports whether a server has to show a certificate that is trusted.
func (e *Encryption) Verifies() bool {
	return e.SSLMode == VerifyCA || e.SSLMode == VerifyFull || e.SSLMode == Require && e.RootCert != ""
}

// parameters are those of a URL that are not as usual, but for sslmode.
func (e *Encryption) parameters() []string {
	usual := usualEncryption()
	var list []string
	add := func(name, value, usual string) {
		if value != usual {
			list = append(list, name+"="+escaped(value))
		}
	}
	add("sslrootcert", e.RootCert, "")
	add("sslcert", e.Cert, "")
	add("sslkey", e.Key, "")
	if e.Direct {
		list = append(list, "sslnegotiation=direct")
	}
	if e.NoSNI {
		list = append(list, "sslsni=0")
	}
	add("ssl_min_protocol_version", e.MinVersion, usual.MinVersion)
	add("ssl_max_protocol_version", e.MaxVersion, "")
	add("channel_binding", e.ChannelBinding, usual.ChannelBinding)
	return list
}

// secureParameters are the names of the parameters about encryption.
func secureParameters() []string {
	return []string{
		"sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "sslsni",
		"ssl_min_protocol_version", "ssl_max_protocol_version", "channel_binding",
	}
}

// secure reads one of them.
func (p *urlParser) secure(key, text string, from, to int) {
	e := &p.url.Encryption
	switch key {
	case "sslmode":
		e.SSLMode = SSLMode(p.word(key, text, from, to, "disable", "allow", "prefer", "require", "verify-ca", "verify-full"))
		p.sslModeGiven = true
	case "sslrootcert":
		e.RootCert = SystemRoots
		if text != SystemRoots {
			e.RootCert = p.path(key, text, from, to)
		}
	case "sslcert":
		e.Cert = p.path(key, text, from, to)
	case "sslkey":
		e.Key = p.path(key, text, from, to)
	case "sslnegotiation":
		e.Direct = p.word(key, text, from, to, "postgres", "direct") == "direct"
	case "sslsni":
		e.NoSNI = p.word(key, text, from, to, "0", "1") == "0"
	case "ssl_min_protocol_version":
		e.MinVersion = p.word(key, text, from, to, tlsVersions()...)
	case "ssl_max_protocol_version":
		e.MaxVersion = p.word(key, text, from, to, tlsVersions()...)
	case "channel_binding":
		e.ChannelBinding = p.word(key, text, from, to, "disable", "prefer", "require")
	}
}

// word reads a value that is one of some words.
func (p *urlParser) word(key, text string, from, to int, words ...string) string {
	if slices.Contains(words, text) {
		return text
	}
	advice := "Write " + values.OrList(words) + "."
	if near := values.Nearest(text, words); near != "" {
		advice = "Did you mean " + near + "?"
	}
	p.complain(from, to, "libpq knows no such "+key, advice)
	return words[0]
}

// path reads the path of a file, relative to the directory of the configuration.
func (p *urlParser) path(key, text string, from, to int) string {
	if text == "" || strings.ContainsFunc(text, values.IsControl) {
		p.complain(from, to, key+" is not the path of a file", "")
		return ""
	}
	if filepath.IsAbs(text) {
		return filepath.Clean(text)
	}
	return filepath.Join(p.dir, text)
}

// checkSecure sees to it that the parameters go together, by libpq's rules.
func (p *urlParser) checkSecure() {
	e := &p.url.Encryption
	if e.RootCert == SystemRoots && !p.sslModeGiven {
		e.SSLMode = VerifyFull // as libpq does: so many are trusted by the system that the name has to count
	}
	strong := e.SSLMode == Require || e.SSLMode == VerifyCA || e.SSLMode == VerifyFull
	switch versions := tlsVersions(); {
	case e.RootCert == SystemRoots && e.SSLMode != VerifyFull:
		p.complain(0, len(p.text), "sslrootcert=system needs sslmode=verify-full: whoever has a certificate for any name would be trusted", "Write sslmode=verify-full.")
	case e.Direct && !strong:
		p.complain(0, len(p.text), "sslnegotiation=direct needs sslmode=require, verify-ca or verify-full", "Write sslmode=verify-full.")
	case e.ChannelBinding == "require" && e.SSLMode == Disable:
		p.complain(0, len(p.text), "channel_binding=require needs encryption, and sslmode is disable", "Write sslmode=verify-full.")
	case (e.Cert == "") != (e.Key == ""):
		p.complain(0, len(p.text), "sslcert and sslkey go together, and only one of them is there", "")
	case e.MaxVersion != "" && slices.Index(versions, e.MaxVersion) < slices.Index(versions, e.MinVersion):
		p.complain(0, len(p.text), "ssl_max_protocol_version is before ssl_min_protocol_version, which is "+e.MinVersion, "")
	}
}
