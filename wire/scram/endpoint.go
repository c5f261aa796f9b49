package scram

import (
	"crypto"
	"crypto/x509"
)

// EndPoint is the binding tls-server-end-point of a server's certificate (RFC 5929), the
// only one that Postgres knows: a hash of the certificate, by the function of its signature,
// but by SHA-256 instead of MD5 or SHA-1. It is nil for a certificate whose signature has no
// hash function of its own, as Ed25519: then nothing can be bound.
func EndPoint(cert *x509.Certificate) *Binding {
	f := crypto.SHA256
	switch cert.SignatureAlgorithm {
	case x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1,
		x509.SHA256WithRSA, x509.SHA256WithRSAPSS, x509.DSAWithSHA256, x509.ECDSAWithSHA256:
	case x509.SHA384WithRSA, x509.SHA384WithRSAPSS, x509.ECDSAWithSHA384:
		f = crypto.SHA384
	case x509.SHA512WithRSA, x509.SHA512WithRSAPSS, x509.ECDSAWithSHA512:
		f = crypto.SHA512
	default:
		return nil
	}
	h := f.New()
	_, _ = h.Write(cert.Raw) // never fails
	return &Binding{Type: "tls-server-end-point", Data: h.Sum(nil)}
}
