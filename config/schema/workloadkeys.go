package schema

import (
	"time"

	"github.com/pgweir/pgweir/config/values"
)

// workloadFields are the keys of [[workload]]. The order is that of a file: who, how much,
// how long.
func workloadFields(w *Workload) []Field {
	return []Field{
		{Key{
			Name: "name", Default: `"default"`,
			Doc: "Its name, in logs, metrics and refusals. May be left out when there is only one. \"default\" is the last and gets every client that is left; without one of that name there is a built-in one.",
		}, values.Name(&w.Name, "a name of at most 63 bytes", 63)},
		{Key{
			Name: "pool_mode", Default: `"transaction"`,
			Doc: "How long a client keeps a server connection: until its transaction ends, until it leaves, or until its statement ends, and then BEGIN is refused.",
		}, values.Choice(&w.PoolMode, []PoolMode{Transaction, Session, Statement})},
		{Key{
			Name: "share", Default: `"auto"`,
			Doc: "Its own part of the slots and connections of each upstream. \"auto\" is an equal part of what the other shares leave.",
		}, values.PercentOrAuto(&w.Share)},
		{Key{
			Name: "lendable", Default: `"50%"`,
			Doc: "How much of its own part others may use while it is idle.",
		}, values.Percent(&w.Lendable)},
		{Key{
			Name: "borrow", Default: `"100%"`,
			Doc: "How much of all slots it may use on top of its own part when others lend.",
		}, values.Percent(&w.Borrow)},
		{Key{
			Name: "min_pool_size", Default: "0", Unit: "connections",
			Doc: "Server connections kept open for each database and role that it has used.",
		}, values.Integer(&w.MinPoolSize, 0, 10_000)},
		{Key{
			Name: "queue", Default: `"guard"`,
			Doc: "Who is next, and who is refused before max_wait. \"guard\" goes by class, then shares fairly between roles and tenants, and keeps the queue short. \"fifo\" is who has waited longest, even if it has left meanwhile, as most poolers do. The others are there to be compared.",
		}, values.Enum(&w.Queue, policies())},
		{Key{
			Name: "mode", Default: `"enforce"`,
			Doc: "Of queue = \"guard\": \"dry_run\" only counts what it would refuse, \"off\" does not even count. Either keeps the order, max_wait and max_waiting.",
		}, values.Enum(&w.Mode, modes())},
		{Key{
			Name: "class", Default: `"critical"`,
			Doc: "How much the work of clients matters that do not say: who goes first, and who is refused first. \"critical\" is what a user waits for. A tag or SET pgweir.class says otherwise for one statement or session; max_class of the role bounds both.",
		}, values.Enum(&w.Class, classes())},
		{Key{
			Name: "max_wait", Default: `"2s"`,
			Doc: "The longest wait for a slot. After it the client is refused with 53300 and keeps its connection. " +
				"By class it is { critical = \"2s\", sheddable = \"500ms\" }: each is for the named class and those below it, down to the next named one; those above the first named wait what they would without the key, or as long as the first if that is longer. " +
				"Of a patient workload it is \"1m\" unless set.",
		}, waits(w)},
		{Key{
			Name: "deadline", Default: `"none"`,
			Doc: "How long its clients wait for an answer. Work that cannot be done by then is refused with 57014, and a statement outside a transaction is cancelled then. \"learn\" takes what pgweir sees clients wait before they give up, and only for work that is not running yet. A tag or SET pgweir.deadline_ms says it for one statement.",
		}, deadline(w)},
		{Key{
			Name: "max_waiting", Default: `"auto"`, Unit: "clients",
			Doc: "Clients that wait at once; one more is refused at once. \"auto\" is max_wait x the rate at which transactions end, at most 1000, at least 4 x its slots.",
		}, values.CountOrAuto(&w.MaxWaiting, 1, 1_000_000)},
		{Key{
			Name: "patient", Default: "false",
			Doc: "For batches and cron jobs, which would rather wait long than be refused.",
		}, values.Boolean(&w.Patient)},
		{Key{
			Name: "no_server_wait", Default: `"2s"`,
			Doc: "How long clients wait for a Postgres that cannot be reached. \"0s\" refuses at once. The clock of max_wait stands still meanwhile, and while servers are being opened; but nobody waits for longer than max_wait (a login in session mode: session_wait) and this together, a PAUSE not counted.",
		}, values.Period(&w.NoServerWait, 0, time.Hour)},
		{Key{
			Name: "session_wait", Default: `"10s"`,
			Doc: "With pool_mode = \"session\": how long a login waits for a server connection.",
		}, values.Period(&w.SessionWait, time.Millisecond, time.Hour)},
		{Key{
			Name: "max_pinned", Default: `"10%"`,
			Doc: "How many of its connections, at least one, its clients may keep between transactions because they have left something there: LISTEN, temporary tables, advisory locks, SQL PREPARE, cursors WITH HOLD, LOAD. A statement beyond that is refused with 53300. With \"0%\" each is; pool_mode = \"session\" has no such bound.",
		}, values.Percent(&w.MaxPinned)},
		{Key{
			Name: "on_disconnect", Default: `"cancel"`,
			Doc: "What becomes of a statement whose client has vanished without Terminate: \"cancel\" stops it if it is known to be a read, \"finish\" lets it run.",
		}, values.Choice(&w.OnDisconnect, []OnDisconnect{Cancel, Finish})},
	}
}

// wildcards are those of a glob.
const wildcards = ` in which * is any text and ? is one character`

// MatchFields are the keys of [workload.match], which a file may also write as
// match = { ... } in its [[workload]].
func MatchFields(m *Match) []Field {
	return []Field{
		{Key{
			Name: "role", Example: `["app"]`,
			Doc: "Roles of its clients. Of all keys of match that are given, one element each has to fit; without any, all clients are its own.",
		}, values.Globs(&m.Role, "a list of names"+wildcards)},
		{Key{
			Name: "database", Example: `["shop*"]`,
			Doc: "Names of the databases that its clients ask for.",
		}, values.Globs(&m.Database, "a list of names"+wildcards)},
		{Key{
			Name: "application_name", Example: `["web-*"]`,
			Doc: "What its clients call themselves. A client that changes its name outside a transaction changes its workload.",
		}, values.Globs(&m.ApplicationName, "a list of names"+wildcards)},
		{Key{
			Name: "client", Example: `["10.0.0.0/8", "unix"]`,
			Doc: "Where its clients connect from; \"unix\" is a Unix socket.",
		}, clients(m)},
	}
}
