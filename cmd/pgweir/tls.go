package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/config/schema"
)

// frontTLS reads what clients' connections are encrypted with; nil if they are not.
func frontTLS(t *schema.TLS) (*login.TLS, error) {
	if !t.Enabled() {
		return nil, nil
	}
	o := login.TLSOptions{
		Mode: login.TLSMode(t.SSLMode), CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile, MinVersion: tls.VersionTLS12,
	}
	if t.MinProtocol == schema.TLS13 {
		o.MinVersion = tls.VersionTLS13
	}
	front, err := login.NewTLS(o)
	if err != nil {
		return nil, fmt.Errorf("[tls]: %w", err)
	}
	return front, nil
}

// soon is for how long before a certificate's end somebody should hear of it.
const soon = 14 * 24 * time.Hour

// tlsWarnings tells what is odd about certificate and key.
func tlsWarnings(t *schema.TLS, front *login.TLS, now time.Time) (list []string) {
	if front == nil {
		return nil
	}
	switch end := front.Certificate().NotAfter; {
	case now.After(end):
		list = append(list, fmt.Sprintf("cert_file %s: the certificate was good until %s; clients with sslmode=verify-ca or verify-full turn away", t.CertFile, end.UTC().Format(time.RFC3339)))
	case now.Add(soon).After(end):
		list = append(list, fmt.Sprintf("cert_file %s: the certificate is good only until %s", t.CertFile, end.UTC().Format(time.RFC3339)))
	}
	if info, err := os.Stat(t.KeyFile); err == nil && info.Mode().Perm()&0o007 != 0 {
		list = append(list, fmt.Sprintf("key_file %s: every user of this machine may read or change it; chmod o= %s", t.KeyFile, t.KeyFile))
	}
	return list
}

// tlsOf tells which clients encrypt.
func tlsOf(c *config.Config) string {
	t := &c.TLS
	if !t.Enabled() {
		if t.CertFile == "" {
			return "nobody encrypts: there is no cert_file in [tls]"
		}
		return "nobody encrypts"
	}
	text := "for who asks for it"
	switch login.TLSMode(t.SSLMode) {
	case login.TLSRequire:
		text = "required, but on Unix sockets"
	case login.TLSVerifyCA, login.TLSVerifyFull:
		text = "required, with a certificate of " + t.CAFile + ", but on Unix sockets"
	}
	return fmt.Sprintf("%s; %s or newer, certificate %s", text, t.MinProtocol, t.CertFile)
}
