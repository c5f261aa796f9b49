package schema

import "github.com/pgweir/pgweir/config/values"

// RateFields are the keys of [[rate]].
func RateFields(r *Rate) []Field {
	return []Field{
		{Key{
			Name: "name", Example: `"api"`,
			Doc: "Its name, in refusals and metrics. Without it, it is called by its place: \"1\", \"2\".",
		}, values.Name(&r.Name, "a name of at most 63 bytes", 63)},
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
		}, values.Choice(&r.Escalation, []Escalation{NoEscalation, Delay, Block})},
		{Key{
			Name: "mode", Default: `"enforce"`,
			Doc: "\"dry_run\" only counts what it would refuse, \"off\" does not even count.",
		}, values.Enum(&r.Mode, modes())},
	}
}

// RateMatchFields are the keys of [rate.match], which a file may also write as
// match = { ... } in its [[rate]].
func RateMatchFields(r *Rate) []Field {
	fields := MatchFields(&r.Match)
	for i := range fields {
		fields[i].Doc = rateMatchDocs()[fields[i].Name]
	}
	return append(fields, Field{Key{
		Name: "tenant", Example: `["free-*"]`,
		Doc: "Tenants whose work it is for.",
	}, values.Globs(&r.Tenant, "a list of names"+wildcards)})
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
