package main

import (
	"fmt"
	"strconv"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// maxClients is what every contender is allowed to accept.
const maxClients = 12000

// pgweirFiles is pgweir's configuration: as many servers for transactions as the peers
// have, and three more for what those do not do.
func pgweirFiles(port int, upstream pgtest.Endpoint, _ string) map[string]string {
	return map[string]string{"pgweir.toml": fmt.Sprintf(`listen          = ["127.0.0.1:%d"]
http            = "none"
max_client_conn = %d
drain_delay     = "0s"
shutdown_timeout = "2s"
max_prepared_statements = 200

[auth]
auth_type = "trust"

[upstream.main]
url     = %q
budget  = %d
reserve = 3
slots   = %d

[database."*"]
upstream = "main"
`, port, maxClients, upstream.DSN(pgtest.Superuser, "postgres"), slots+3, slots)}
}

// pgbouncerFiles is PgBouncer's: its defaults but for what is compared, and the log lines
// of each connection switched off.
func pgbouncerFiles(port int, upstream pgtest.Endpoint, dir string) map[string]string {
	return map[string]string{
		"users": strconv.Quote(pgtest.Superuser) + ` ""` + "\n",
		"pgbouncer.ini": fmt.Sprintf(`[databases]
* = host=%s port=%d

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s/users
pool_mode = transaction
default_pool_size = %d
max_client_conn = %d
max_prepared_statements = 200
log_connections = 0
log_disconnections = 0
`, upstream.Host, upstream.Port, port, dir, slots, maxClients),
	}
}

// odysseyFiles is Odyssey's with one worker, which is its default.
func odysseyFiles(port int, upstream pgtest.Endpoint, dir string) map[string]string {
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
`, dir, maxClients, port, upstream.Host, upstream.Port, slots)}
}
