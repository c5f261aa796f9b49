package login

import (
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pgweir/pgweir/wire/scram"
)

// maxServerName bounds the name that a client may ask for, in bytes: it is kept.
const maxServerName = 255

// pair is a certificate with its key, as they are in use. It never changes.
type pair struct {
	config  *tls.Config
	binding *scram.Binding // nil: there is none for this kind of certificate
	leaf    *x509.Certificate
}

// load reads the files.
func (t *TLS) load() (*pair, error) {
	cert, err := readPair(t.o.CertFile, t.o.KeyFile)
	if err != nil {
		return nil, err
	}
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key_file: %s: it can't sign", t.o.KeyFile)
	}
	cert.PrivateKey = &boundedSigner{key, t}
	c := &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{alpn},
		MinVersion: cmp.Or(t.o.MinVersion, tls.VersionTLS12),
		// As with Postgres there is no resumption: each login shows a certificate of now,
		// to be verified against the authorities of now.
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // the loop writes whole batches of records: short ones would only cost
		GetConfigForClient:          checkHello,
	}
	if t.o.CAFile != "" {
		if c.ClientCAs, err = authorities(t.o.CAFile); err != nil {
			return nil, err
		}
		// Who needs one and has none is told in words of Postgres, after the handshake.
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return &pair{config: c, binding: scram.EndPoint(cert.Leaf), leaf: cert.Leaf}, nil
}

// readPair reads a certificate and its key.
func readPair(certFile, keyFile string) (cert tls.Certificate, err error) {
	certText, err := readPEM(certFile, false)
	if err != nil {
		return cert, fmt.Errorf("cert_file: %w", err)
	}
	keyText, err := readPEM(keyFile, false)
	if err != nil {
		return cert, fmt.Errorf("key_file: %w", err)
	}
	if encrypted(keyText) {
		return cert, fmt.Errorf("key_file: %s: the key is encrypted, and pgweir knows no passphrase", keyFile)
	}
	if cert, err = tls.X509KeyPair(certText, keyText); err != nil {
		return cert, fmt.Errorf("cert_file %s with key_file %s: %w", certFile, keyFile, err)
	}
	return cert, nil
}

// authorities reads the certificates of a file.
func authorities(file string) (*x509.CertPool, error) {
	text, err := readPEM(file, false)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca_file: %s: no certificate in it", file)
	}
	return pool, nil
}

// checkHello refuses what would be kept and is absurd.
func checkHello(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if len(hello.ServerName) > maxServerName {
		return nil, errors.New("server name too long")
	}
	return nil, nil
}

// boundedSigner is a private key whose use counts as CPU-heavy: many at once would leave the
// event loop none.
type boundedSigner struct {
	crypto.Signer
	t *TLS
}

// Sign implements crypto.Signer.
func (s *boundedSigner) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return slowSigner{s.Signer, s.t.cpu}.Sign(rand, digest, opts)
}

// changed takes note of what became of files that have changed.
func (t *TLS) changed(p *pair, err error) {
	if err == nil {
		t.count.Loaded.Add(1)
		t.log.Info("certificate read again", "file", t.o.CertFile, "not_after", p.leaf.NotAfter)
		return
	}
	t.count.LoadFailed.Add(1)
	t.log.Error("changed certificate can't be used, the one before stays", "error", err,
		"what_to_do", "make cert_file, key_file and ca_file fit together; they are tried again without a reload", "not_after", t.files.value.Load().leaf.NotAfter)
}

// CertificateState is what is known of the certificate in use.
type CertificateState struct {
	NotAfter time.Time
	Stale    error // why the files as they are now are not in use; nil: they are
}

// Certificate looks at the files, as a handshake does, and tells about them.
func (t *TLS) Certificate() CertificateState {
	p := t.files.current()
	return CertificateState{NotAfter: p.leaf.NotAfter, Stale: t.files.stale()}
}
