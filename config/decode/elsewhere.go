package decode

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
		{"Here it is hba_file in [auth].", []string{"auth_hba_file"}},
		{"Here it is ident_file in [auth].", []string{"auth_ident_file"}},
		{"Neither LDAP nor PAM is spoken.", []string{"auth_ldap_options"}},
		{"Role and database of pgweir's own queries are those of the url of [upstream.NAME].", []string{"auth_user", "auth_dbname"}},
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
		{
			"Leave it out: hosts of the url of [upstream.NAME] are tried in their order, target_session_attrs says which will do, and the one that serves is kept.",
			[]string{"load_balance_hosts"},
		},
		{"It is a part of the url of [upstream.NAME].", []string{"host", "port", "user", "password", "dbname"}},
		{`Here it is level = "debug" in [log].`, []string{"verbose"}},
		{"Leave it out: messages go to standard error.", []string{"logfile", "syslog", "syslog_ident", "syslog_facility"}},
		{"Leave it out: level in [log] decides.", []string{"log_connections", "log_disconnections", "log_pooler_errors"}},
		{"Leave it out: averages are those of the last minute, and /metrics has all of it.", []string{"log_stats", "stats_period"}},
		{
			"Leave it out: pgweir decides from the protocol when a server connection is clean.",
			[]string{"server_check_query", "server_check_delay", "server_reset_query", "server_reset_query_always"},
		},
		{
			"Leave it out: startup parameters follow their client.",
			[]string{"ignore_startup_parameters", "track_extra_parameters", "client_encoding", "datestyle", "timezone"},
		},
		{
			"There is no such thing here. What new connections are to have set is said in Postgres, by ALTER DATABASE or ALTER ROLE ... SET.",
			[]string{"connect_query"},
		},
		{
			"There is no such thing here: SHOW CLIENTS and the log have the address beside the application_name.",
			[]string{"application_name_add_host"},
		},
		{
			"There is no such thing here: clients hear nothing that they have not asked for. SHOW QUEUES has who waits, and max_wait is short.",
			[]string{"query_wait_notify", "login_notify_message"},
		},
		{"There is no such thing here: simple queries are passed on as they come.", []string{"disable_pqexec"}},
		{
			"There is no such thing here: everybody may connect to the socket, as with Postgres. Give its directory the mode and group.",
			[]string{"unix_socket_mode", "unix_socket_group"},
		},
		{
			"Leave it out: of the idle connections the last used is the next, so that others can be closed.",
			[]string{"server_round_robin"},
		},
		{
			"There is no such thing here: a session that keeps its server keeps it to its end. KILL_CLIENT at the console ends it.",
			[]string{"server_fast_close"},
		},
		{"Leave it out: verifiers are made with as many iterations as most in the auth_file have, and else 4096.", []string{"scram_iterations"}},
		{"Leave it out: the system's resolver is asked, as often as dns_max_ttl in [upstream.NAME] says.", []string{"resolv_conf", "dns_nxdomain_ttl", "dns_zone_check_period"}},
		{"Leave it out: cancel requests wait for no place.", []string{"cancel_wait_timeout"}},
		{"Leave it out: what is counted of databases and roles stays.", []string{"autodb_idle_timeout", "pool_idle_timeout"}},
		{"Leave it out: processes on one port find each other. so_reuseport at the top of the file lets them share it.", []string{"peer_id"}},
		{"Leave it out: pgweir stays in the foreground. What starts it knows its process and makes it the user that it is to be.", []string{"pidfile", "job_name", "service_name"}},
		{"Leave it out: the file is named on the command line.", []string{"conffile"}},
		{"Leave it out: there is no SUSPEND. A new process takes over with so_reuseport.", []string{"suspend_timeout"}},
		{
			"Leave it out: it has no meaning here.",
			[]string{"pkt_buf", "max_packet_size", "sbuf_loopcnt", "tcp_defer_accept", "tcp_socket_buffer", "listen_backlog"},
		},
	}
}
