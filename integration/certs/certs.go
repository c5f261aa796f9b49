// Package certs makes authorities and certificates for tests and measurements: keys that
// nobody else needs to trust, in PEM files below a directory of the caller's.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Kind is a kind of private key.
type Kind string

// The kinds.
const (
	ECDSA   Kind = "ecdsa" // P-256
	RSA     Kind = "rsa"   // 2048 bits
	Ed25519 Kind = "ed25519"
)

// Authority signs certificates.
type Authority struct {
	File string // its own certificate

	cert *x509.Certificate
	key  crypto.Signer
	dir  string
}

// Pair is a certificate with its key.
type Pair struct {
	CertFile, KeyFile string // that all may read, so that a test's children can run as anybody
	Leaf              *x509.Certificate
}

// Options are what a certificate is to be like; the zero one is good for a day.
type Options struct {
	Kind    Kind          // "" = ECDSA
	Expires time.Duration // from now; 0 = a day. It may be past
	Names   []string      // host names and addresses beside localhost and 127.0.0.1
}

// New makes an authority whose files lie in dir.
func New(dir, name string) (*Authority, error) {
	a := &Authority{dir: dir, File: filepath.Join(dir, name+".crt")}
	key, err := newKey(ECDSA)
	if err != nil {
		return nil, err
	}
	a.key = key
	template, err := newTemplate(name, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		return nil, err
	}
	return a, write(a.File, "CERTIFICATE", raw)
}

// Issue makes the certificate of a common name, good for servers and clients, in NAME.crt
// and NAME.key.
func (a *Authority) Issue(name string, o Options) (Pair, error) {
	p := Pair{CertFile: filepath.Join(a.dir, name+".crt"), KeyFile: filepath.Join(a.dir, name+".key")}
	key, err := newKey(o.Kind)
	if err != nil {
		return p, err
	}
	if o.Expires == 0 {
		o.Expires = 24 * time.Hour
	}
	template, err := newTemplate(name, o.Expires)
	if err != nil {
		return p, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, n := range o.Names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return p, err
	}
	if p.Leaf, err = x509.ParseCertificate(raw); err != nil {
		return p, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return p, err
	}
	return p, errors.Join(write(p.CertFile, "CERTIFICATE", raw), write(p.KeyFile, "PRIVATE KEY", secret))
}

func newKey(k Kind) (crypto.Signer, error) {
	switch k {
	case ECDSA, "":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case RSA:
		return rsa.GenerateKey(rand.Reader, 2048)
	case Ed25519:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("no kind of key is called %q", k)
}

func newTemplate(name string, expires time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(min(0, expires) - time.Hour), NotAfter: now.Add(expires),
	}, nil
}

// write replaces a file at once, as those who rotate certificates should.
func write(path, kind string, raw []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
