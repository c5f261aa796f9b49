package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/config"
)

// encryption says how an upstream's connections are encrypted. config knows the same words.
func encryption(e *config.Encryption) login.Encryption {
	out := login.Encryption{
		Direct: e.Direct, NoSNI: e.NoSNI, RootCert: e.RootCert, Cert: e.Cert, Key: e.Key,
		MinVersion: tlsVersion(e.MinVersion), MaxVersion: tlsVersion(e.MaxVersion),
	}
	out.Mode, _ = login.ParseSSLMode(string(e.SSLMode))
	out.Binding, _ = login.ParseChannelBinding(e.ChannelBinding)
	if out.RootCert == "" && out.Mode >= login.VerifyCA {
		out.RootCert = homeRoots()
	}
	return out
}

// encryptionWarnings says to which upstreams no login works, because of files.
func encryptionWarnings(c *config.Config) (list []string) {
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		e := encryption(&u.URL.Encryption)
		if err := e.Check(); err != nil {
			list = append(list, fmt.Sprintf("upstream %q: no login will work until this is right: %v", u.Name, err))
		}
	}
	return list
}

// homeRoots is where libpq looks for certificates to trust; "" where there is no home.
func homeRoots() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".postgresql", "root.crt")
}

// tlsVersion is a version of TLS in crypto/tls; 0 = none is named.
func tlsVersion(name string) uint16 {
	switch name {
	case "TLSv1":
		return tls.VersionTLS10
	case "TLSv1.1":
		return tls.VersionTLS11
	case "TLSv1.2":
		return tls.VersionTLS12
	case "TLSv1.3":
		return tls.VersionTLS13
	}
	return 0
}
