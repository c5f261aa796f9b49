package schema

import (
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/config/values"
)

// Role is what a Postgres role may ask for.
type Role struct {
	Name string // "*": every role that no other Role has

	StatementTimeout       values.Duration // of its sessions on the server; each may be None
	Ceiling                bool            // and the most that its work may take, whatever a session sets
	TransactionTimeout     values.Duration
	IdleTransactionTimeout values.Duration
	LockTimeout            values.Duration

	MaxClass             admission.Class
	PromoteShare         values.Share // of its work, in server-time, that may be above its workload's class
	MaxClients           int          // at once; 0 = as many as there may be
	MaxServerConnections int          // likewise, on each upstream
}

// longestTimeout is the longest that Postgres takes for a timeout, in whole days.
const longestTimeout = 24 * 24 * time.Hour

// DefaultRole is a role that no section is about, without a name.
func DefaultRole() Role {
	var r Role
	SetDefaults(roleFields(&r), "")
	return r
}

// roleFields are the keys of [role.NAME].
func roleFields(r *Role) []Field {
	return []Field{
		{Key{
			Name: "statement_timeout", Default: `"none"`,
			Doc: "What statement_timeout is on the servers of its sessions until they SET it otherwise. With \"none\" nothing is sent, and it is what Postgres says.",
		}, timeout(&r.StatementTimeout)},
		{Key{
			Name: "ceiling", Default: "false",
			Doc: "Whether pgweir stops what takes longer than the timeouts here, by its own timer, whatever the session has set: by SET, set_config, in a function or DO block. Not for the clients of the built-in workload \"tools\".",
		}, values.Boolean(&r.Ceiling)},
		{Key{
			Name: "transaction_timeout", Default: `"none"`,
			Doc: "The same for a whole transaction. Postgres has it since version 17, a ceiling works with all versions.",
		}, timeout(&r.TransactionTimeout)},
		{Key{
			Name: "idle_in_transaction_session_timeout", Default: `"none"`,
			Doc: "The same for the time in which a transaction waits for its client.",
		}, timeout(&r.IdleTransactionTimeout)},
		{Key{
			Name: "lock_timeout", Default: `"none"`,
			Doc: "The same for the wait for a lock. As a ceiling it needs a reserve in the upstream: Postgres is asked who waits when a statement has run for longer than this.",
		}, timeout(&r.LockTimeout)},
		{Key{
			Name: "max_class", Default: `"critical"`,
			Doc: "The highest class of its work, whatever it asks for and whatever its workload says. \"critical_plus\" is never refused to make room, so nobody has it who is not given it here.",
		}, values.Enum(&r.MaxClass, classes())},
		{Key{
			Name: "promote_share", Default: `"30%"`,
			Doc: "How much of its work, in server-time, may be above the class of its workload. What it asks for beyond that is taken as of its workload's class, and counted.",
		}, values.Percent(&r.PromoteShare)},
		{Key{
			Name: "max_clients", Default: `"none"`, Unit: "clients",
			Doc: "Its clients at once, over all databases. One more is refused with FATAL 53300.",
		}, values.IntegerOrNone(&r.MaxClients, 1, 1_000_000)},
		{Key{
			Name: "max_server_connections", Default: `"none"`, Unit: "connections",
			Doc: "Server connections at once that are logged in as this role, on each upstream, over all databases. Its clients share them.",
		}, values.IntegerOrNone(&r.MaxServerConnections, 1, 262_142)},
	}
}

// timeout is a time that Postgres takes for a timeout.
func timeout(target *values.Duration) values.Type {
	return values.PeriodOrNone(target, time.Millisecond, longestTimeout)
}
