package decode

import "github.com/pgweir/pgweir/config/values"

// elsewhere tells what PgBouncer's name for a setting is here, or "".
func elsewhere(key string) string {
	for _, e := range pgbouncerNames() {
		for _, name := range e.names {
			if name == key {
				return e.here
			}
		}
	}
	return ""
}

// pgbouncerName is what to write here for settings of PgBouncer.
type pgbouncerName struct {
	here  string
	names []string
}

// pgbouncerNames are PgBouncer's settings that have another name or none here. Those with
// the same name in another section need no line.
func pgbouncerNames() []pgbouncerName {
	return []pgbouncerName{
		{
			`Here it is listen = ["127.0.0.1:6432"], at the top of the file; a directory in the list is a Unix socket.`,
			[]string{"listen_addr", "listen_port", "unix_socket_dir"},
		},
		{
			"Here it is budget in [upstream.NAME]: one number for all databases and roles.",
			[]string{"default_pool_size", "pool_size"},
		},
		{
			"Here it is max_server_connections in [database.NAME] or [role.NAME]; budget in [upstream.NAME] is for all of them.",
			[]string{"max_db_connections", "max_user_connections"},
		},
		{"Here it is reserve in [upstream.NAME], for the roles of reserve_users.", []string{"reserve_pool_size", "reserve_pool", "reserve_pool_timeout"}},
		{"Here it is max_clients in [database.NAME] or [role.NAME]; max_client_conn is for all of them.", []string{"max_db_client_connections", "max_user_client_connections"}},
		{`Here it is max_wait in [[workload]]; compat = "pgbouncer" at the top of the file keeps the error that it ended in.`, []string{"query_wait_timeout"}},
		{"Here it is no_server_wait in [[workload]], and connect_rate in [upstream.NAME]: pgweir backs off by itself.", []string{"server_login_retry"}},
		{"Here it is hba_file in [auth], and " + values.NotYet + ".", []string{"auth_hba_file"}},
		{"Here it is ident_file in [auth], and " + values.NotYet + ".", []string{"auth_ident_file"}},
		{"LDAP is not supported.", []string{"auth_ldap_options"}},
		{"The role for pgweir's own queries is in the url of [upstream.NAME].", []string{"auth_user", "auth_dbname"}},
		{"Here it is sslmode in [tls].", []string{"client_tls_sslmode"}},
		{"Here it is sslmode in the url of [upstream.NAME].", []string{"server_tls_sslmode"}},
		{"Here it is cert_file in [tls].", []string{"client_tls_cert_file"}},
		{"Here it is key_file in [tls].", []string{"client_tls_key_file"}},
		{"Here it is ca_file in [tls].", []string{"client_tls_ca_file"}},
		{"Here it is ssl_min_protocol_version in [tls].", []string{"client_tls_protocols"}},
		{"Here it is sslrootcert in the url of [upstream.NAME].", []string{"server_tls_ca_file"}},
		{"Here it is sslcert in the url of [upstream.NAME].", []string{"server_tls_cert_file"}},
		{"Here it is sslkey in the url of [upstream.NAME].", []string{"server_tls_key_file"}},
		{"Here it is ssl_min_protocol_version in the url of [upstream.NAME].", []string{"server_tls_protocols"}},
		{
			"Leave it out: crypto/tls of Go allows only what is safe.",
			[]string{
				"client_tls_ciphers", "client_tls13_ciphers", "client_tls_ecdhcurve", "client_tls_dheparams",
				"server_tls_ciphers", "server_tls13_ciphers",
			},
		},
		{
			`Here it is statement_timeout in [role.NAME], or [role."*"], with ceiling = true: its statements are cancelled, and the session stays.`,
			[]string{"query_timeout"},
		},
		{
			`Here it is idle_in_transaction_session_timeout in [role.NAME], or [role."*"], with ceiling = true.`,
			[]string{"idle_transaction_timeout"},
		},
		{
			"Here they are keepalives_idle, keepalives_interval and keepalives_count in the url of [upstream.NAME].",
			[]string{"tcp_keepalive", "tcp_keepidle", "tcp_keepintvl", "tcp_keepcnt"},
		},
		{"Here it is target_session_attrs in the url of [upstream.NAME], with the hosts in the order of preference.", []string{"load_balance_hosts"}},
		{"It is a part of the url of [upstream.NAME].", []string{"host", "port", "user", "password", "dbname"}},
		{`Here it is level = "debug" in [log].`, []string{"verbose"}},
		{"Leave it out: messages go to standard error.", []string{"logfile", "syslog", "syslog_ident", "syslog_facility"}},
		{"Leave it out: level in [log] decides.", []string{"log_connections", "log_disconnections", "log_pooler_errors", "log_stats", "stats_period"}},
		{
			"Leave it out: pgweir decides from the protocol when a server connection is clean.",
			[]string{"server_check_query", "server_check_delay", "server_reset_query", "server_reset_query_always", "connect_query"},
		},
		{
			"Leave it out: startup parameters follow their client.",
			[]string{"ignore_startup_parameters", "track_extra_parameters", "client_encoding", "datestyle", "timezone"},
		},
		{
			"Leave it out: it has no meaning here.",
			[]string{
				"pidfile", "job_name", "service_name", "conffile", "resolv_conf", "peer_id", "server_round_robin", "pool_idle_timeout",
				"autodb_idle_timeout", "suspend_timeout", "cancel_wait_timeout", "query_wait_notify", "server_fast_close", "disable_pqexec",
				"dns_nxdomain_ttl", "dns_zone_check_period", "pkt_buf", "max_packet_size", "sbuf_loopcnt", "tcp_defer_accept",
				"tcp_socket_buffer", "listen_backlog", "unix_socket_mode", "unix_socket_group", "application_name_add_host", "scram_iterations",
				"login_notify_message",
			},
		},
	}
}
