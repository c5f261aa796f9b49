package decode

import (
	"slices"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/config/schema"
)

// pgbouncerKeys are all settings of PgBouncer 1.26, by its documentation.
func pgbouncerKeys() []string {
	const list = "admin_users application_name_add_host auth_dbname auth_file auth_hba_file auth_ident_file auth_ldap_options " +
		"auth_query auth_type auth_user autodb_idle_timeout cancel_wait_timeout client_encoding client_idle_timeout " +
		"client_login_timeout client_tls13_ciphers client_tls_ca_file client_tls_cert_file client_tls_ciphers " +
		"client_tls_dheparams client_tls_ecdhcurve client_tls_key_file client_tls_protocols client_tls_sslmode conffile " +
		"connect_query datestyle dbname default_pool_size disable_pqexec dns_max_ttl dns_nxdomain_ttl " +
		"dns_zone_check_period host idle_transaction_timeout ignore_startup_parameters job_name listen_addr " +
		"listen_backlog listen_port load_balance_hosts log_connections log_disconnections log_pooler_errors log_stats " +
		"logfile login_notify_message max_client_conn max_db_client_connections max_db_connections max_packet_size " +
		"max_prepared_statements max_user_client_connections max_user_connections min_pool_size password peer_id " +
		"pidfile pkt_buf pool_idle_timeout pool_mode pool_size port query_timeout query_wait_notify query_wait_timeout " +
		"reserve_pool_size reserve_pool_timeout resolv_conf sbuf_loopcnt scram_iterations server_check_delay " +
		"server_check_query server_connect_timeout server_fast_close server_idle_timeout server_lifetime " +
		"server_login_retry server_reset_query server_reset_query_always server_round_robin server_tls13_ciphers " +
		"server_tls_ca_file server_tls_cert_file server_tls_ciphers server_tls_key_file server_tls_protocols " +
		"server_tls_sslmode service_name so_reuseport stats_period stats_users suspend_timeout syslog syslog_facility " +
		"syslog_ident tcp_defer_accept tcp_keepalive tcp_keepcnt tcp_keepidle tcp_keepintvl tcp_socket_buffer " +
		"tcp_user_timeout timezone track_extra_parameters transaction_timeout unix_socket_dir unix_socket_group " +
		"unix_socket_mode user verbose "
	return strings.Fields(list)
}

// Whoever writes a setting of PgBouncer is told where it belongs, what it is called, or what
// there is instead.
func TestPgBouncersKeysAreKnown(t *testing.T) {
	const rest = "\n[upstream.main]\nurl = \"postgres://pgweir@db/postgres\"\n[database.\"*\"]\n"
	answers := []string{
		"Here it is ", "Here they are ", "It belongs to ", "It is a part of ", "are those of the url", "Leave it out: ",
		"There is no such thing here", "is spoken",
	}
	keys := pgbouncerKeys()
	for _, key := range keys {
		if slices.ContainsFunc(schema.Keys(), func(k schema.Key) bool { return k.Table == "" && k.Name == key }) {
			continue // the same, and at the top of the file in both
		}
		problems := problemsOfText(key + " = 1" + rest)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, "not a key at the top of the file") {
			t.Errorf("%s: %+v", key, problems)
			continue
		}
		if !slices.ContainsFunc(answers, func(words string) bool { return strings.Contains(problems[0].Fix, words) }) {
			t.Errorf("%s: %q", key, problems[0].Fix)
		}
	}
	for _, e := range pgbouncerNames() {
		for _, key := range e.names {
			if key != "reserve_pool" && !slices.Contains(keys, key) { // which is the old name of reserve_pool_size
				t.Errorf("PgBouncer has no %s", key)
			}
		}
	}
}
