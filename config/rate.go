package config

import "net/netip"

// RatesOf are the rates for the work of a client, as indices into Rates in their order, as
// far as that is known without its tenant: ask [Config.RateHasTenant] for each. Of those
// with the same Per only the first that has the tenant counts. database is the name that
// the client asked for; the zero client is a Unix socket.
func (c *Config) RatesOf(database, role, application string, client netip.Addr) []int {
	var list []int
	client = client.Unmap().WithZone("")
	for i := range c.rates {
		if c.rates[i].matches(database, role, application, client) {
			list = append(list, i)
		}
	}
	return list
}

// RateHasTenant reports whether a rate, by its index, is for the work of a tenant.
func (c *Config) RateHasTenant(rate int, tenant string) bool {
	return c.rates[rate].tenant.match(tenant)
}

// newRates prepares the rates of a configuration.
func newRates(list []Rate) []rule {
	var rules []rule
	for _, r := range list {
		rule := newRule(r.Match)
		rule.tenant = newPatterns(r.Tenant)
		rules = append(rules, rule)
	}
	return rules
}
