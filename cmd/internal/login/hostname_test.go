package login

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"testing"
)

func TestCertificateOfAHost(t *testing.T) {
	cert := func(cn string, names ...string) *x509.Certificate {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: cn}}
		for _, n := range names {
			if ip := net.ParseIP(n); ip != nil {
				c.IPAddresses = append(c.IPAddresses, ip)
			} else {
				c.DNSNames = append(c.DNSNames, n)
			}
		}
		return c
	}
	for _, tc := range []struct {
		cert *x509.Certificate
		host string
		want bool
	}{
		{cert("", "db.test"), "db.test", true},
		{cert("", "DB.Test"), "db.tEST", true},
		{cert("", "db.test"), "db.test.", false},
		{cert("", "*.db.test"), "a.db.test", true},
		{cert("", "*.db.test"), "a.b.db.test", false},
		{cert("", "*.db.test"), "db.test", false},
		{cert("", "*.db.test"), ".db.test", false},
		{cert("", "*db.test"), "adb.test", false},
		{cert("", "a.*.test"), "a.b.test", false},
		{cert("", "*"), "db", false},
		{cert("", "db.test\x00.evil"), "db.test", false},
		{cert("\u212aelvin.test"), "kelvin.test", false},
		{cert("db.test"), "db.test", true},
		{cert("db.test", "other.test"), "db.test", false},  // a name of its kind: the common one does not count
		{cert("db.test", "10.0.0.1"), "db.test", true},     // none of its kind
		{cert("10.0.0.1", "other.test"), "10.0.0.1", true}, // likewise
		{cert("10.0.0.1", "10.0.0.2"), "10.0.0.1", false},  // one of its kind
		{cert("", "10.0.0.1"), "10.0.0.1", true},
		{cert("", "::ffff:10.0.0.1"), "10.0.0.1", true},
		{cert("", "fe80::1"), "fe80:0:0::1", true},
		{cert("", "fe80::1"), "fe80::2", false},
		{cert(""), "db.test", false},
	} {
		if err := matches(tc.cert, tc.host); (err == nil) != tc.want {
			t.Errorf("%q %q %v for %q: %v", tc.cert.Subject.CommonName, tc.cert.DNSNames, tc.cert.IPAddresses, tc.host, err)
		}
	}
}
