package login

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"strings"
)

// matches reports why a certificate is not for a host, by libpq's rules: the names and
// addresses among its subject alternative names count; the common name only if there is none
// of the host's kind among them.
func matches(cert *x509.Certificate, host string) error {
	ip, err := netip.ParseAddr(host)
	numeric := err == nil
	common := len(cert.DNSNames) == 0
	if numeric {
		common = len(cert.IPAddresses) == 0
	}
	var names []string
	for _, name := range cert.DNSNames {
		if matchesName(name, host) {
			return nil
		}
		names = append(names, name)
	}
	for _, a := range cert.IPAddresses {
		known, ok := netip.AddrFromSlice(a)
		if ok && numeric && known.Unmap() == ip.Unmap() {
			return nil
		}
		names = append(names, a.String())
	}
	if cn := cert.Subject.CommonName; common && cn != "" {
		if matchesName(cn, host) {
			return nil
		}
		names = append(names, cn)
	}
	if len(names) == 0 {
		return fmt.Errorf("the server's certificate is for no host, and not for %q", host)
	}
	const few = 5
	more := ""
	if len(names) > few {
		more = fmt.Sprintf(" and %d more", len(names)-few)
		names = names[:few]
	}
	return fmt.Errorf("the server's certificate is for %q%s, and not for %q", names, more, host)
}

// matchesName compares a name in a certificate with a host's. A star stands for the first
// part of a name, and for no dot.
func matchesName(pattern, host string) bool {
	if strings.ContainsRune(pattern, 0) {
		return false // a name that ends there for some and not for others
	}
	pattern, host = lower(pattern), lower(host)
	if pattern == host {
		return true
	}
	tail, wild := strings.CutPrefix(pattern, "*")
	first, same := strings.CutSuffix(host, tail)
	return wild && same && strings.HasPrefix(tail, ".") && first != "" && !strings.Contains(first, ".")
}

// lower folds letters of ASCII only: others have too many likes.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
