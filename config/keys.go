package config

import "time"

// The keys in force, with their defaults, bounds and documentation, and the place in the
// Config where each value goes: the only table of them.

func topFields(c *Config) []field {
	return []field{
		{Key{
			Name: "listen", Default: `["127.0.0.1:6432"]`,
			Doc: "Where clients connect. An absolute path is a directory; the socket in it is called .s.PGSQL.PORT, with the port of the first host:port of the list, or 6432.",
		}, listeners(&c.Listen)},
		{Key{
			Name: "max_client_conn", Default: "10000", Unit: "clients",
			Doc: "Clients at once. One more is refused with FATAL 53300.",
		}, integer(&c.MaxClientConn, 1, 1_000_000)},
		{Key{
			Name: "client_login_timeout", Default: `"15s"`,
			Doc: "How long a client may take from connecting to the end of its authentication.",
		}, period(&c.ClientLoginTimeout, 10*time.Millisecond, time.Hour)},
		{Key{
			Name: "max_logins", Default: "256", Unit: "clients",
			Doc: "Clients at once that are not authenticated yet.",
		}, integer(&c.MaxLogins, 1, 65536)},
		{Key{
			Name: "shutdown_timeout", Default: `"20s"`,
			Doc: "After SIGTERM: drain_delay, then running transactions may finish, then all is closed. This is the time for all of it; \"none\" waits for the last transaction.",
		}, periodOrNone(&c.ShutdownTimeout, time.Millisecond, 24*time.Hour)},
		{Key{
			Name: "drain_delay", Default: `"5s"`,
			Doc: "How long new work is still served after SIGTERM, for load balancers to notice. \"0s\" is none.",
		}, period(&c.DrainDelay, 0, 24*time.Hour)},
		{Key{
			Name: "max_prepared_statements", Default: "200", Unit: "statements",
			Doc: "Prepared statements kept on each server connection; the one least recently used makes room.",
		}, integer(&c.MaxPreparedStatements, 1, 100_000)},
		{Key{
			Name: "query_text_limit", Default: `"1MiB"`,
			Doc: "Longer statements are passed on in pieces and not looked at.",
		}, size(&c.QueryTextLimit, 1<<10, 256<<20)},
	}
}

func logFields(l *Log) []field {
	return []field{
		{Key{
			Name: "level", Default: `"info"`,
			Doc: "The least important messages that are logged.",
		}, choice(&l.Level, []LogLevel{Debug, Info, Warn, Error})},
		{Key{
			Name: "format", Default: `"text"`,
			Doc: "One line per message: key=value or JSON.",
		}, choice(&l.Format, []LogFormat{Text, JSON})},
	}
}

func tlsFields(t *TLS) []field {
	return []field{
		{Key{
			Name: "sslmode", Default: `"disable"`,
			Doc: "Encryption between clients and pgweir. This version has none: a client that asks for TLS is told so, and libpq's sslmode=prefer goes on in clear.",
		}, choice(&t.SSLMode, []SSLMode{Disable}, Prefer, "require", "verify-ca", "verify-full")},
	}
}

func authFields(a *Auth) []field {
	return []field{
		{Key{
			Name: "auth_type", Default: `"scram-sha-256"`,
			Doc: "How clients prove who they are. \"trust\" believes them.",
		}, choice(&a.Type, []AuthType{Scram, MD5, Password, Trust}, "cert", "peer", "hba")},
		{Key{
			Name: "auth_file", Default: `"userlist.txt"`,
			Doc: "Roles with their passwords or verifiers: lines of \"role\" \"secret\", as PgBouncer has them. Relative to the directory of this file. Not read with auth_type = \"trust\" unless it is set.",
		}, path(&a.File)},
	}
}

func upstreamFields(u *Upstream) []field {
	return []field{
		{Key{
			Name: "url", Example: `"postgres://pgweir:secret@10.0.0.5:5432/postgres?sslmode=disable"`,
			Doc: "Where Postgres is, and the role as which pgweir asks for limits and counts. A Unix socket is ?host=/DIRECTORY&port=5432. The value may be \"${NAME}\", an environment variable.",
		}, postgresURL(&u.URL)},
		{Key{
			Name: "budget", Default: `"auto"`, Unit: "connections",
			Doc: "Server connections at once, over all databases and roles. \"auto\" is 0.7 x what max_connections leaves, at most the role's CONNECTION LIMIT.",
		}, countOrAuto(&u.Budget, 1, 262_142)},
		{Key{
			Name: "reserve", Default: "3", Unit: "connections",
			Doc: "Of the budget kept back: 1 for pgweir's own queries, the rest for administrators. Unless set it shrinks to 0 under a budget of 4 or less.",
		}, integer(&u.Reserve, 0, 262_141)},
		{Key{
			Name: "slots", Default: `"auto"`, Unit: "transactions",
			Doc: "Transactions running at once. \"auto\" is budget - reserve; twice the database's cores is often better.",
		}, countOrAuto(&u.Slots, 1, 262_142)},
		{Key{
			Name: "server_connect_timeout", Default: `"5s"`,
			Doc: "How long a login to Postgres may take from the start of the dial.",
		}, period(&u.ServerConnectTimeout, 10*time.Millisecond, time.Hour)},
		{Key{
			Name: "connect_parallel", Default: "8", Unit: "logins",
			Doc: "Logins to Postgres at once.",
		}, integer(&u.ConnectParallel, 1, 10_000)},
		{Key{
			Name: "connect_rate", Default: `"auto"`, Unit: "logins per second",
			Doc: "Logins to Postgres begun per second. \"auto\" is the budget.",
		}, countOrAuto(&u.ConnectRate, 1, 100_000)},
		{Key{
			Name: "server_lifetime", Default: `"1h"`,
			Doc: "Age, give or take a fifth, at which an idle server connection is closed.",
		}, periodOrNone(&u.ServerLifetime, time.Second, 365*24*time.Hour)},
		{Key{
			Name: "server_idle_timeout", Default: `"10m"`,
			Doc: "A server connection that nobody used for so long is closed.",
		}, periodOrNone(&u.ServerIdleTimeout, time.Second, 365*24*time.Hour)},
		{Key{
			Name: "tcp_user_timeout", Default: `"30s"`,
			Doc: "How long data sent to Postgres may stay unacknowledged before the connection counts as dead. \"none\" leaves it to the kernel.",
		}, periodOrNone(&u.TCPUserTimeout, time.Millisecond, 24*time.Hour)},
	}
}

func databaseFields(d *Database) []field {
	return []field{
		{Key{
			Name: "upstream", Example: `"main"`,
			Doc: "The upstream that has the database. May be left out when there is only one.",
		}, name(&d.Upstream, "the name of an upstream", 63)},
		{Key{
			Name: "dbname", Example: `"shop"`,
			Doc: "Its name there. Without this key it is the name that the client asked for.",
		}, name(&d.DBName, "the name of a database, at most 63 bytes", 63)},
	}
}

func workloadFields(w *Workload) []field {
	return []field{
		{Key{
			Name: "name", Default: `"default"`,
			Doc: "The workload of all clients. This version has no other.",
		}, name(&w.Name, "a name", 63)},
		{Key{
			Name: "max_wait", Default: `"2s"`,
			Doc: "The longest wait for a slot. After it the client is refused with 53300 and keeps its connection.",
		}, period(&w.MaxWait, time.Millisecond, time.Hour)},
		{Key{
			Name: "max_waiting", Default: `"auto"`, Unit: "clients",
			Doc: "Clients that wait at once; one more is refused at once. \"auto\" is max_wait x the rate at which transactions end, at most 1000, at least 4 x slots.",
		}, countOrAuto(&w.MaxWaiting, 1, 1_000_000)},
		{Key{
			Name: "no_server_wait", Default: `"2s"`,
			Doc: "How long clients wait for a Postgres that cannot be reached. \"0s\" refuses at once.",
		}, period(&w.NoServerWait, 0, time.Hour)},
		{Key{
			Name: "on_disconnect", Default: `"cancel"`,
			Doc: "What becomes of a statement whose client has vanished without Terminate: \"cancel\" stops it if it is known to be a read, \"finish\" lets it run.",
		}, choice(&w.OnDisconnect, []OnDisconnect{Cancel, Finish})},
	}
}
