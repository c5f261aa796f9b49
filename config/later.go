package config

import "slices"

// laterKey is a key of the design that this version does not have.
type laterKey struct {
	section string // "" for the top
	name    string
	already string // the value that says what this version does anyway, as TOML; "" if there is none
}

// laterKeys are refused, because ignoring them would promise what is not kept; but a value
// that asks for nothing more than this version does is accepted.
func laterKeys() []laterKey {
	return []laterKey{
		{"", "http", `"none"`},
		{"", "admin_http", `"none"`},
		{"", "reserved_clients", ""},
		{"", "client_idle_timeout", `"none"`},
		{"", "so_reuseport", "false"},
		{"tls", "cert_file", ""},
		{"tls", "key_file", ""},
		{"tls", "ca_file", `"none"`},
		{"auth", "auth_query", `"none"`},
		{"auth", "auth_query_age", ""},
		{"auth", "hba_file", `"none"`},
		{"auth", "ident_file", `"none"`},
		{"upstream", "reserve_users", "[]"},
		{"upstream", "limit", `"fixed"`},
		{"upstream", "fleet", `"static"`},
		{"upstream", "instances", "1"},
		{"database", "user", `"none"`},
		{"database", "password_file", `"none"`},
		{"database", "password_command", `"none"`},
		{"workload", "match", ""},
		{"workload", "pool_mode", `"transaction"`},
		{"workload", "share", `"100%"`},
		{"workload", "lendable", ""},
		{"workload", "borrow", ""},
		{"workload", "min_pool_size", "0"},
		{"workload", "queue", `"fifo"`},
		{"workload", "patient", "false"},
		{"workload", "deadline", `"none"`},
		{"workload", "session_wait", ""},
		{"workload", "class", ""},
		{"workload", "max_pinned", ""},
	}
}

// laterSections are the sections of the design that this version does not have.
func laterSections() []string { return []string{"console", "role", "rate", "cost"} }

// findLater looks up a key.
func findLater(section, key string) (laterKey, bool) {
	list := laterKeys()
	i := slices.IndexFunc(list, func(k laterKey) bool { return k.section == section && k.name == key })
	if i < 0 {
		return laterKey{}, false
	}
	return list[i], true
}

// elsewhere tells what PgBouncer's name for a setting is here, or "".
func elsewhere(key string) string {
	switch key {
	case "listen_addr", "listen_port", "unix_socket_dir":
		return `Here it is listen = ["127.0.0.1:6432"], at the top of the file; a directory in the list is a Unix socket.`
	case "default_pool_size", "max_db_connections", "max_user_connections", "reserve_pool_size":
		return "Here it is budget in [upstream.NAME]: one number for all databases and roles."
	case "query_wait_timeout":
		return "Here it is max_wait in [[workload]]."
	case "server_check_query", "server_reset_query", "server_check_delay":
		return "Leave it out: pgweir decides from the protocol when a server connection is clean."
	case "logfile":
		return "Leave it out: messages go to standard error."
	case "verbose":
		return `Here it is level = "debug" in [log].`
	case "auth_user", "auth_dbname":
		return "The role for pgweir's own queries is in the url of [upstream.NAME]."
	case "host", "port", "user", "password", "dbname":
		return "It is a part of the url of [upstream.NAME]."
	}
	return ""
}
