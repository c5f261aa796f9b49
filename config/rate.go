package config

import (
	"net/netip"
	"strconv"

	"github.com/pgweir/pgweir/admission"
)

// Rate is how much one caller may ask for. It protects the others from that caller, not the
// database.
type Rate struct {
	Name       string // unique; its place in the file, "1" and so on, where the file gives none
	Per        RatePer
	Match      Match    // whose work it is for
	Tenant     []string // globs for the tenant of the work; empty: any
	Rate       string   // as the file has it: "150/s"
	PerSecond  float64  // statements, or with ServerTime seconds of server-time; more than 0
	ServerTime bool     // it counts how long slots are held
	Burst      float64  // in statements, at least 1, or in seconds of server-time: as much may come at once
	AutoBurst  bool     // the file does not say Burst: it is one second of the rate, but at least one statement
	Escalation Escalation
	Mode       admission.Mode

	burstIsTime bool // what the file says of it is a duration
}

// BurstText is Burst for people: "15", or "500ms" of server-time.
func (r *Rate) BurstText() string {
	if r.ServerTime || r.burstIsTime {
		return secondsOf(r.Burst).String()
	}
	return strconv.FormatFloat(r.Burst, 'f', -1, 64)
}

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

// rateFields are the keys of [[rate]].
func rateFields(r *Rate) []field {
	return []field{
		{Key{
			Name: "name", Example: `"api"`,
			Doc: "Its name, in refusals and metrics. Without it, it is called by its place: \"1\", \"2\".",
		}, name(&r.Name, "a name of at most 63 bytes", 63)},
		{Key{
			Name: "per", Example: `"tenant"`,
			Doc: "What has the rate: each \"client\", by its address, each \"role\", or each \"tenant\" of a role: the tag pgweir.tenant, or else the application_name. Of several rates per the same the first that matches counts.",
		}, perKind(r)},
		{Key{
			Name: "rate", Example: `"150/s"`,
			Doc: "Statements, or server-time as in \"500ms/s\": how long they hold slots. More is refused with 53400 and the exact time to wait. Server-time is charged afterwards, to a debt of one burst at most. A transaction that has begun is never refused.",
		}, paceKind(r)},
		{Key{
			Name: "burst", Default: `"auto"`, Unit: "statements",
			Doc: "How much may come at once after a silence. \"auto\" is one second of the rate, at least one statement.",
		}, burstKind(r)},
		{Key{
			Name: "escalation", Default: `"none"`,
			Doc: "What becomes of who asks again before the time that it was told. \"delay\" holds back the refusal, up to 5s; \"block\" then also ends its sessions with 53400 and lets address and role log in no more for 10s, doubling up to 5m. It eases by itself.",
		}, choice(&r.Escalation, []Escalation{NoEscalation, Delay, Block})},
		{Key{
			Name: "mode", Default: `"enforce"`,
			Doc: "\"dry_run\" only counts what it would refuse, \"off\" does not even count.",
		}, enum(&r.Mode, modes())},
	}
}

// rateMatchFields are the keys of [rate.match], which a file may also write as
// match = { ... } in its [[rate]].
func rateMatchFields(r *Rate) []field {
	fields := matchFields(&r.Match)
	for i := range fields {
		fields[i].Doc = rateMatchDocs()[fields[i].Name]
	}
	return append(fields, field{Key{
		Name: "tenant", Example: `["free-*"]`,
		Doc: "Tenants whose work it is for.",
	}, globs(&r.Tenant, "a list of names"+wildcards)})
}

// rateMatchDocs are the docs of the keys that a workload's match has, too.
func rateMatchDocs() map[string]string {
	return map[string]string{
		"role":             "Roles whose work it is for. Of all keys of match that are given, one element each has to fit; without any, it is for all work.",
		"database":         "Names of the databases that the clients ask for.",
		"application_name": "What the clients call themselves.",
		"client":           "Where the clients connect from; \"unix\" is a Unix socket.",
	}
}
