package main

import (
	"fmt"
	"strconv"

	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire/scram"
)

// maxClients is what every contender is allowed to accept.
const maxClients = 12000

// site is what a contender is to be configured for.
type site struct {
	port      int
	upstream  pgtest.Endpoint
	dir       string      // of its files, as the process sees it
	cert, key string      // PEM texts; empty: no TLS
	verifier  string      // of the superuser's password, to be proved by SCRAM; empty: clients are trusted
	keys      *scram.Keys // that the verifier is of
	http      int         // port of pgweir's page; 0: none,
	admin     int         // and of its admin_http
}

// files are a configuration with the files that it names.
func (s *site) files(name, text string) map[string]string {
	all := map[string]string{name: text, "users": strconv.Quote(pgtest.Superuser) + " " + strconv.Quote(s.verifier) + "\n"}
	if s.cert != "" {
		all["server.crt"], all["server.key"] = s.cert, s.key
	}
	return all
}

// method is how clients authenticate.
func (s *site) method() string {
	if s.verifier != "" {
		return "scram-sha-256"
	}
	return "trust"
}

// pgweirFiles is pgweir's configuration: as many servers for transactions as the peers
// have, and three more for what those do not do.
func pgweirFiles(s *site) map[string]string {
	encryption := ""
	if s.cert != "" {
		encryption = "[tls]\ncert_file = \"server.crt\"\nkey_file = \"server.key\"\n"
	}
	web := `http            = "none"`
	if s.http != 0 {
		web = fmt.Sprintf("http            = \"127.0.0.1:%d\"\nadmin_http      = \"127.0.0.1:%d\"", s.http, s.admin)
	}
	return s.files("pgweir.toml", fmt.Sprintf(`listen          = ["127.0.0.1:%d"]
%s
max_client_conn = %d
drain_delay     = "0s"
shutdown_timeout = "2s"
max_prepared_statements = 200

[auth]
auth_type = %q
auth_file = "users"

%s
[upstream.main]
url     = %q
budget  = %d
reserve = 3
slots   = %d

[database."*"]
upstream = "main"
`, s.port, web, maxClients, s.method(), encryption, s.upstream.DSN(pgtest.Superuser, "postgres"), slots+3, slots))
}

// pgbouncerFiles is PgBouncer's: its defaults but for what is compared, and the log lines
// of each connection switched off.
func pgbouncerFiles(s *site) map[string]string {
	encryption := ""
	if s.cert != "" {
		encryption = fmt.Sprintf("client_tls_sslmode = allow\nclient_tls_cert_file = %[1]s/server.crt\nclient_tls_key_file = %[1]s/server.key\n", s.dir)
	}
	return s.files("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%d

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = %s
auth_file = %s/users
pool_mode = transaction
default_pool_size = %d
max_client_conn = %d
max_prepared_statements = 200
log_connections = 0
log_disconnections = 0
%s`, s.upstream.Host, s.upstream.Port, s.port, s.method(), s.dir, slots, maxClients, encryption))
}

// odysseyFiles is Odyssey's with one worker, which is its default.
func odysseyFiles(s *site) map[string]string {
	return map[string]string{"odyssey.conf": fmt.Sprintf(`daemonize no
unix_socket_dir "%[1]s"
unix_socket_mode "0600"
locks_dir "%[1]s"
enable_online_restart no
log_to_stdout yes
log_format "%%t %%l %%m\n"
log_session no
log_stats no
workers 1
resolvers 1
client_max %[2]d

listen {
	host "127.0.0.1"
	port %[3]d
	backlog 512
	tls "disable"
}

storage "main" {
	type "remote"
	host "%[4]s"
	port %[5]d
	tls "disable"
}

database default {
	user default {
		authentication "none"
		storage "main"
		pool "transaction"
		pool_size %[6]d
		pool_reserve_prepared_statement yes
		pool_discard no
		pool_smart_discard no
	}
}
`, s.dir, maxClients, s.port, s.upstream.Host, s.upstream.Port, slots)}
}
