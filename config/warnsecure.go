package config

import (
	"slices"

	"github.com/pgweir/pgweir/config/endpoint"
)

// warnOfStrangers looks at whether somebody on the way to Postgres could be taken for it.
func (c *Config) warnOfStrangers(u *Upstream) {
	i := slices.IndexFunc(u.URL.Hosts, func(h endpoint.Host) bool { return !h.IsLocal() })
	if i < 0 {
		return
	}
	host, e := u.URL.Hosts[i].Address, &u.URL.Encryption
	switch {
	case e.SSLMode == endpoint.Disable:
		c.warn("upstream %q: sslmode=disable sends all in clear to %s; sslmode=verify-full does not", u.Name, host)
	case e.SSLMode == endpoint.Allow || e.SSLMode == endpoint.Prefer:
		c.warn("upstream %q: with sslmode=%s all may go in clear to %s, and to whoever answers there; write sslmode=verify-full", u.Name, e.SSLMode, host)
	case !e.Verifies():
		c.warn("upstream %q: sslmode=%s takes whoever answers at %s for Postgres; write sslmode=verify-full with sslrootcert", u.Name, e.SSLMode, host)
	case e.SSLMode != endpoint.VerifyFull:
		c.warn("upstream %q: sslmode=%s takes whoever at %s has any certificate of that authority for Postgres; sslmode=verify-full looks at its name too", u.Name, e.SSLMode, host)
	}
}
