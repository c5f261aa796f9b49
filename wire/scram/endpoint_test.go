package scram

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"testing"
)

func TestEndPointHashesAsTheSignatureDoes(t *testing.T) {
	raw := []byte("a certificate")
	short, middle, long := sha256.Sum256(raw), sha512.Sum384(raw), sha512.Sum512(raw)
	for algorithm, want := range map[x509.SignatureAlgorithm][]byte{
		x509.MD5WithRSA: short[:], x509.SHA1WithRSA: short[:], x509.ECDSAWithSHA1: short[:],
		x509.SHA256WithRSA: short[:], x509.SHA256WithRSAPSS: short[:], x509.ECDSAWithSHA256: short[:],
		x509.SHA384WithRSA: middle[:], x509.SHA384WithRSAPSS: middle[:], x509.ECDSAWithSHA384: middle[:],
		x509.SHA512WithRSA: long[:], x509.SHA512WithRSAPSS: long[:], x509.ECDSAWithSHA512: long[:],
		x509.PureEd25519: nil, x509.UnknownSignatureAlgorithm: nil,
	} {
		b := EndPoint(&x509.Certificate{Raw: raw, SignatureAlgorithm: algorithm})
		if (b == nil) != (want == nil) || b != nil && (b.Type != "tls-server-end-point" || !bytes.Equal(b.Data, want)) {
			t.Errorf("%v: %v", algorithm, b)
		}
	}
}

func TestUnofferedClientFindsOutThatAnOfferWasTakenAway(t *testing.T) {
	v, err := NewVerifier("pass", nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	for binding, want := range map[*Binding]bool{nil: true, {"tls-server-end-point", []byte("x")}: false} {
		s, err := NewServer(v, Mechanism, binding)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := converse(t, NewUnofferedClient(), s, withPassword(t, "pass")); (err == nil) != want {
			t.Errorf("offered %v: %v", binding != nil, err)
		}
	}
}
