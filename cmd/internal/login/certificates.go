package login

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// maxPEM is the most bytes that a file of certificates or a key may have.
const maxPEM = 4 << 20

// config reads the files. host is the server's name or address.
func (e *Encryption) config(host string, cpu CPU) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion: max(e.MinVersion, tls.VersionTLS10), MaxVersion: e.MaxVersion,
		NextProtos: []string{alpn},
		// Go would ask more than libpq does, and less; see verify.
		InsecureSkipVerify: true,
		// The loop writes whole batches of records: short ones would only cost.
		DynamicRecordSizingDisabled: true,
	}
	if e.MinVersion == 0 {
		c.MinVersion = tls.VersionTLS12
	}
	if !e.NoSNI {
		c.ServerName = host // of an address it is not told
	}
	if e.RootCert == "" && e.Mode >= VerifyCA {
		return nil, fmt.Errorf("sslmode=%s needs sslrootcert", e.Mode)
	}
	if e.RootCert != "" {
		roots, err := readRoots(e.RootCert)
		if err != nil {
			return nil, err
		}
		c.VerifyConnection = func(s tls.ConnectionState) error { return e.verify(s, roots, host) }
	}
	if e.Cert != "" {
		own, err := readOwn(e.Cert, e.Key, cpu)
		if err != nil {
			return nil, err
		}
		// Whatever authorities the server names: it is for it to judge, as with libpq.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	return c, nil
}

// Check reads the files as a login would, and reports what would be wrong now.
func (e *Encryption) Check() error {
	if e.Mode == NoTLS {
		return nil
	}
	_, err := e.config("", nil)
	return err
}

// verify judges the certificates of a server. As in libpq roots are used in whatever mode,
// once there are any; the name counts with VerifyFull only.
func (e *Encryption) verify(s tls.ConnectionState, roots *x509.CertPool, host string) error {
	leaf := s.PeerCertificates[0]
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(o); err != nil {
		return tlsErrorf("the server's certificate: %w", err)
	}
	if e.Mode == VerifyFull {
		if err := matches(leaf, host); err != nil {
			return &TLSError{err}
		}
	}
	return nil
}

// readRoots reads trusted certificates.
func readRoots(path string) (*x509.CertPool, error) {
	if path == SystemRoots {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("sslrootcert=system: %w", err)
		}
		return pool, nil
	}
	text, err := readPEM(path, false)
	if err != nil {
		return nil, fmt.Errorf("sslrootcert: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("sslrootcert: %s: no certificate in it", path)
	}
	return pool, nil
}

// readOwn reads our certificate and its key.
func readOwn(cert, key string, cpu CPU) (*tls.Certificate, error) {
	certText, err := readPEM(cert, false)
	if err != nil {
		return nil, fmt.Errorf("sslcert: %w", err)
	}
	keyText, err := readPEM(key, true)
	if err != nil {
		return nil, fmt.Errorf("sslkey: %w", err)
	}
	if encrypted(keyText) {
		return nil, fmt.Errorf("sslkey: %s: the key is encrypted, and pgweir knows no passphrase", key)
	}
	own, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, fmt.Errorf("sslcert %s with sslkey %s: %w", cert, key, err)
	}
	if s, ok := own.PrivateKey.(crypto.Signer); ok && cpu != nil {
		own.PrivateKey = slowSigner{s, cpu}
	}
	return &own, nil
}

// encrypted reports whether a key cannot be read without a passphrase.
func encrypted(text []byte) bool {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return false
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || bytes.Contains([]byte(block.Headers["Proc-Type"]), []byte("ENCRYPTED")) {
			return true
		}
		text = rest
	}
}

// slowSigner bounds how many signatures are made at once: with RSA each is a millisecond.
type slowSigner struct {
	crypto.Signer
	cpu CPU
}

// Sign signs when there is a place.
func (s slowSigner) Sign(rand io.Reader, digest []byte, o crypto.SignerOpts) (signature []byte, err error) {
	s.cpu.do(func() { signature, err = s.Signer.Sign(rand, digest, o) })
	return signature, err
}

// readPEM reads a file, which for a key must be one that others cannot read.
func readPEM(path string, secret bool) ([]byte, error) {
	// The errors of os name the path. Without O_NONBLOCK a pipe would keep the login waiting.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if secret {
		if err := KeyFileMode(info); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, maxPEM+1))
	if err == nil && len(text) > maxPEM {
		err = fmt.Errorf("%s: more than %d bytes", path, maxPEM)
	}
	return text, err
}

// KeyFileMode reports what libpq finds wrong with the permissions of a file with a private
// key: others may read it. A file of root's may be readable for its group.
func KeyFileMode(info os.FileInfo) error {
	closed := os.FileMode(0o077)
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid == 0 {
		closed = 0o037
	}
	if info.Mode().Perm()&closed != 0 {
		return errors.New("others may read the key: its mode has to be 0600, or 0640 if it belongs to root")
	}
	return nil
}
