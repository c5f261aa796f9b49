package schema

import (
	"time"

	"github.com/pgweir/pgweir/config/endpoint"
	"github.com/pgweir/pgweir/config/values"
)

// The keys in force, with their defaults, bounds and documentation, and the place in the
// File where each value goes: the only table of them.

func topFields(f *File) []Field {
	return []Field{
		{Key{
			Name: "listen", Restart: true, Default: `["127.0.0.1:6432"]`,
			Doc: "Where clients connect. An absolute path is a directory; the socket in it is called .s.PGSQL.PORT, with the port of the first host:port of the list, or 6432.",
		}, endpoint.Listeners(&f.Listen)},
		{Key{
			Name: "http", Restart: true, Default: `"127.0.0.1:6433"`,
			Doc: "Where /metrics, /healthz, /readyz and the status page are. Everybody who reaches it may read them.",
		}, endpoint.HTTPAddress(&f.HTTP, false)},
		{Key{
			Name: "admin_http", Restart: true, Default: `"none"`,
			Doc: "Where POST /reload and the profiles of pprof are. Everybody who reaches it may use them, so it is this machine or a Unix socket only.",
		}, endpoint.HTTPAddress(&f.AdminHTTP, true)},
		{Key{
			Name: "max_client_conn", Default: "10000", Unit: "clients",
			Doc: "Clients at once. One more is refused with FATAL 53300.",
		}, values.Integer(&f.MaxClientConn, 1, 1_000_000)},
		{Key{
			Name: "reserved_clients", Default: "10", Unit: "clients",
			Doc: "Of these kept for the console and for probes, so that a full house can still be looked at. Unless set it is no more than a tenth of max_client_conn.",
		}, values.Integer(&f.ReservedClients, 0, 1000)},
		{Key{
			Name: "client_login_timeout", Default: `"15s"`,
			Doc: "How long a client may take from connecting to the end of its authentication.",
		}, values.Period(&f.ClientLoginTimeout, 10*time.Millisecond, time.Hour)},
		{Key{
			Name: "client_idle_timeout", Default: `"none"`,
			Doc: "A client outside a transaction that sends nothing for so long is closed.",
		}, values.PeriodOrNone(&f.ClientIdleTimeout, time.Second, 365*24*time.Hour)},
		{Key{
			Name: "so_reuseport", Restart: true, Default: "false",
			Doc: "Whether several processes may listen on the same ports, for restarts without a gap and for more cores.",
		}, values.Boolean(&f.ReusePort)},
		{Key{
			Name: "io_uring", Restart: true, Default: "true",
			Doc: "Whether small sends to several connections go to the kernel with one system call, where it has io_uring and lets pgweir use it. Else each is a call of its own: the same for everybody but for some CPU time.",
		}, values.Boolean(&f.IOUring)},
		{Key{
			Name: "max_logins", Restart: true, Default: "256", Unit: "clients",
			Doc: "Clients at once that are not authenticated yet.",
		}, values.Integer(&f.MaxLogins, 1, 65536)},
		{Key{
			Name: "shutdown_timeout", Default: `"20s"`,
			Doc: "After SIGTERM: drain_delay, then running transactions may finish, then all is closed. This is the time for all of it; \"none\" waits for the last transaction.",
		}, values.PeriodOrNone(&f.ShutdownTimeout, time.Millisecond, 24*time.Hour)},
		{Key{
			Name: "drain_delay", Default: `"5s"`,
			Doc: "How long new work is still served after SIGTERM, for load balancers to notice. \"0s\" is none.",
		}, values.Period(&f.DrainDelay, 0, 24*time.Hour)},
		{Key{
			Name: "max_prepared_statements", Default: "200", Unit: "statements",
			Doc: "Prepared statements kept on each server connection; the one least recently used makes room.",
		}, values.Integer(&f.MaxPreparedStatements, 1, 100_000)},
		{Key{
			Name: "query_text_limit", Restart: true, Default: `"1MiB"`,
			Doc: "Longer statements are passed on in pieces and not looked at.",
		}, values.Bytes(&f.QueryTextLimit, 1<<10, 256<<20)},
		{Key{
			Name: "compat", Default: `"none"`,
			Doc: "\"pgbouncer\" refuses as PgBouncer does: a client that has waited in vain, or found the queue full, gets FATAL 08P01 query_wait_timeout and loses its connection. For those who watch for it.",
		}, values.Choice(&f.Compat, []Compat{NoCompat, PgBouncerCompat})},
	}
}

func logFields(l *Log) []Field {
	return []Field{
		{Key{
			Name: "level", Default: `"info"`,
			Doc: "The least important messages that are logged.",
		}, values.Choice(&l.Level, []LogLevel{Debug, Info, Warn, Error})},
		{Key{
			Name: "format", Restart: true, Default: `"text"`,
			Doc: "One line per message: key=value or JSON.",
		}, values.Choice(&l.Format, []LogFormat{Text, JSON})},
	}
}

func tlsFields(t *TLS) []Field {
	return []Field{
		{Key{
			Name: "sslmode", Default: `"prefer"`,
			Doc: "Encryption between clients and pgweir. \"prefer\" encrypts for who asks for it, if there is a cert_file; \"require\" refuses all others, but for Unix sockets; " +
				"\"verify-ca\" and \"verify-full\", which are the same here, let in only clients with a certificate of ca_file. A change is for new connections.",
		}, values.Choice(&t.SSLMode, []endpoint.SSLMode{endpoint.Disable, endpoint.Prefer, endpoint.Require, endpoint.VerifyCA, endpoint.VerifyFull})},
		{Key{
			Name: "cert_file", Default: `"none"`,
			Doc: "The certificate that clients see, and behind it those that lead to its authority, in PEM. Relative to the directory of this file. " +
				"It is taken into use when it changes, without a reload. Logins cost less with an ECDSA key than with RSA.",
		}, values.PathOrNone(&t.CertFile)},
		{Key{
			Name: "key_file", Default: `"none"`,
			Doc: "The private key of cert_file in PEM, without a passphrase.",
		}, values.PathOrNone(&t.KeyFile)},
		{Key{
			Name: "ca_file", Default: `"none"`,
			Doc: "Authorities in PEM. With them clients are asked for a certificate, and one that is none of theirs, or is no more valid, is refused in every sslmode.",
		}, values.PathOrNone(&t.CAFile)},
		{Key{
			Name: "ssl_min_protocol_version", Default: `"TLSv1.2"`,
			Doc: "The oldest version of TLS that is spoken. Which ciphers are safe is left to Go's crypto/tls.",
		}, values.Choice(&t.MinProtocol, []TLSProtocol{TLS12, TLS13}, "TLSv1", "TLSv1.1")},
	}
}

func authFields(a *Auth) []Field {
	return []Field{
		{Key{
			Name: "auth_type", Default: `"scram-sha-256"`,
			Doc: "How clients prove who they are. \"trust\" believes them. \"cert\" takes the common name of the client's certificate for the role, \"peer\" the system user at the other end of a Unix socket; \"hba\" does what the hba_file says.",
		}, values.Choice(&a.Type, []AuthType{Scram, MD5, Password, Cert, Peer, Trust, HBA})},
		{Key{
			Name: "auth_file", Default: `"userlist.txt"`,
			Doc: "Roles with their passwords or verifiers: lines of \"role\" \"secret\", as PgBouncer has them. Relative to the directory of this file. It is read again when it changes, without a reload. With auth_type = \"trust\", \"cert\" or \"peer\", or with an auth_query, there is none unless it is set.",
		}, values.PathOrNone(&a.File)},
		{Key{
			Name: "auth_query", Default: `"none"`,
			Doc: "Asks Postgres for the password of a role that is not in the auth_file: a statement with $1 for the role that gives the role and its password or verifier, such as SELECT rolname, rolpassword FROM pg_catalog.pg_authid WHERE rolname = $1. " +
				"pgweir's own role runs it, on the connection that reserve keeps, in the database of the url and with search_path = pg_catalog: other names need their schema. Whatever it gives, VALID UNTIL and NOLOGIN of the role count.",
		}, values.QueryOrNone(&a.Query)},
		{Key{
			Name: "auth_query_age", Default: `"30s"`,
			Doc: "How old an answer of the auth_query may be while Postgres does not answer. While it does, it is asked again after 5 s. 10,000 answers are kept.",
		}, values.Period(&a.QueryAge, 0, 24*time.Hour)},
		{Key{
			Name: "hba_file", Default: `"none"`,
			Doc: "Rules in the syntax of Postgres's pg_hba.conf, for auth_type = \"hba\": the first that fits says how a client proves who it is. The methods are trust, reject, md5, password, scram-sha-256, cert and peer. Relative to the directory of this file.",
		}, values.PathOrNone(&a.HBAFile)},
		{Key{
			Name: "ident_file", Default: `"none"`,
			Doc: "Maps of system users and certificates to roles, in the syntax of Postgres's pg_ident.conf, for map= in the hba_file. With auth_type = \"cert\" its map \"cert\" is used, with \"peer\" its map \"peer\". Relative to the directory of this file.",
		}, values.PathOrNone(&a.IdentFile)},
	}
}

func consoleFields(c *Console) []Field {
	return []Field{
		{Key{
			Name: "admin_users", Default: "[]",
			Doc: "Roles that may use every command of the console: psql -d pgweir, or -d pgbouncer. They log in with the auth_file, also when Postgres is away.",
		}, values.Names(&c.AdminUsers, "a list of roles")},
		{Key{
			Name: "stats_users", Default: "[]",
			Doc: "Roles that may use the console's SHOW commands.",
		}, values.Names(&c.StatsUsers, "a list of roles")},
	}
}

func upstreamFields(u *Upstream) []Field {
	return []Field{
		{Key{
			Name: "url", Example: `"postgres://pgweir:secret@10.0.0.5:5432/postgres?sslmode=verify-full"`,
			Doc: "Where Postgres is, and the role as which pgweir asks for limits and counts. " +
				"Several hosts are HOST1:PORT1,HOST2:PORT2, and target_session_attrs says which will do, as in libpq. " +
				"A Unix socket is ?host=/DIRECTORY&port=5432. " +
				"Encryption is libpq's: sslmode (prefer), sslrootcert (a file, or system; with verify-ca and verify-full else ~/.postgresql/root.crt), sslcert and sslkey, " +
				"sslnegotiation=direct, sslsni (1), ssl_min_protocol_version (TLSv1.2), ssl_max_protocol_version, channel_binding (prefer); " +
				"paths are relative to the directory of this file, and the files are read for each login to Postgres, so they may change. " +
				"Other parameters: keepalives_idle (30 s), keepalives_interval (10 s), keepalives_count (3). " +
				"The value may be \"${NAME}\", an environment variable.",
		}, endpoint.PostgresURL(&u.URL)},
		{Key{
			Name: "budget", Default: `"auto"`, Unit: "connections",
			Doc: "Server connections of all instances at once, over all databases and roles. \"auto\" is 0.7 x what max_connections leaves, at most the role's CONNECTION LIMIT.",
		}, values.CountOrAuto(&u.Budget, 1, 262_142)},
		{Key{
			Name: "reserve", Default: "3", Unit: "connections",
			Doc: "Of the budget kept back: 1 for pgweir's own queries, the rest for reserve_users. Unless set it shrinks to 0 under a budget of 4 or less.",
		}, values.Integer(&u.Reserve, 0, 262_141)},
		{Key{
			Name: "reserve_users", Default: "[]",
			Doc: "Roles that may use the rest of the reserve when all else is taken.",
		}, values.Names(&u.ReserveUsers, "a list of roles")},
		{Key{
			Name: "slots", Default: `"auto"`, Unit: "transactions",
			Doc: "Transactions running at once, over all instances. \"auto\" is budget - reserve; twice the database's cores is often better.",
		}, values.CountOrAuto(&u.Slots, 1, 262_142)},
		{Key{
			Name: "limit", Default: `"fixed"`,
			Doc: "Who decides how many transactions run at once. \"fixed\" is the number of slots.",
		}, values.Choice(&u.Limit, []Limit{Fixed}, "advise", "auto")},
		{Key{
			Name: "fleet", Default: `"static"`,
			Doc: "How the instances of pgweir divide budget, reserve and slots. \"static\" gives each the same part, rounded down.",
		}, values.Choice(&u.Fleet, []Fleet{Static}, "postgres")},
		{Key{
			Name: "instances", Default: "1", Unit: "processes",
			Doc: "How many pgweir processes share the budget, each with a file like this one.",
		}, values.Integer(&u.Instances, 1, 1000)},
		{Key{
			Name: "server_connect_timeout", Default: `"5s"`,
			Doc: "How long a login to Postgres may take from the start of the dial.",
		}, values.Period(&u.ServerConnectTimeout, 10*time.Millisecond, time.Hour)},
		{Key{
			Name: "connect_parallel", Default: "8", Unit: "logins",
			Doc: "Logins to Postgres at once.",
		}, values.Integer(&u.ConnectParallel, 1, 10_000)},
		{Key{
			Name: "connect_rate", Default: `"auto"`, Unit: "logins per second",
			Doc: "Logins to Postgres begun per second. \"auto\" is the budget, but at least 20.",
		}, values.CountOrAuto(&u.ConnectRate, 1, 100_000)},
		{Key{
			Name: "server_lifetime", Default: `"1h"`,
			Doc: "Age, give or take a fifth, at which an idle server connection is closed.",
		}, values.PeriodOrNone(&u.ServerLifetime, time.Second, 365*24*time.Hour)},
		{Key{
			Name: "server_idle_timeout", Default: `"10m"`,
			Doc: "A server connection that nobody used for so long is closed.",
		}, values.PeriodOrNone(&u.ServerIdleTimeout, time.Second, 365*24*time.Hour)},
		{Key{
			Name: "dns_max_ttl", Default: `"15s"`,
			Doc: "How often the names of hosts are looked up again while there are server connections. Those at an address that two lookups running lack are closed when their transactions end. \"none\": never, only new connections look names up.",
		}, values.PeriodOrNone(&u.DNSMaxTTL, time.Second, 24*time.Hour)},
		{Key{
			Name: "tcp_user_timeout", Default: `"30s"`,
			Doc: "How long Postgres's host may not be heard of before a connection counts as dead: data sent stays unacknowledged, or keepalives while an answer is waited for. \"none\" leaves it to the kernel, and to the keepalives of the url.",
		}, values.PeriodOrNone(&u.TCPUserTimeout, time.Millisecond, 24*time.Hour)},
	}
}

func databaseFields(d *Database) []Field {
	return []Field{
		{Key{
			Name: "upstream", Example: `"main"`,
			Doc: "The upstream that has the database. May be left out when there is only one.",
		}, values.Name(&d.Upstream, "the name of an upstream", 63)},
		{Key{
			Name: "dbname", Example: `"shop"`,
			Doc: "Its name there. Without this key it is the name that the client asked for.",
		}, values.Name(&d.DBName, "the name of a database, at most 63 bytes", 63)},
		{Key{
			Name: "user", Default: `"none"`,
			Doc: "The role of the server connections, whoever the client is. \"none\" is the client's own role.",
		}, values.RoleOrNone(&d.User)},
		{Key{
			Name: "password_file", Default: `"none"`,
			Doc: "A file with the password of user in its first line. It is read for each login to Postgres, so it may change. Relative to the directory of this file.",
		}, values.PathOrNone(&d.PasswordFile)},
		{Key{
			Name: "password_command", Default: `"none"`,
			Doc: "Or a command for /bin/sh -c, run for each login to Postgres, that prints the password of user as its first line.",
		}, values.CommandOrNone(&d.PasswordCommand)},
		{Key{
			Name: "max_clients", Default: `"none"`, Unit: "clients",
			Doc: "Its clients at once, of all roles. One more is refused with FATAL 53300. Of \"*\": for each name that it stands for.",
		}, values.IntegerOrNone(&d.MaxClients, 1, 1_000_000)},
		{Key{
			Name: "max_server_connections", Default: `"none"`, Unit: "connections",
			Doc: "Server connections at once to this database, of all roles. Its clients share them. Where several names lead to one database the smallest counts.",
		}, values.IntegerOrNone(&d.MaxServerConnections, 1, 262_142)},
	}
}
