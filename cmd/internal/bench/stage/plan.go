package stage

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/admission"
)

// reserve is how many of pgweir's connections are not for transactions: one is for its own
// queries.
const reserve = 1

// maxClients is what every pooler is allowed to accept.
const maxClients = 8000

// Plan is how a target is set up. All of them get the same number of server connections for
// transactions.
type Plan struct {
	Slots int // transactions at once, at least 1

	// Workloads are pgweir's, in their order; each gets the target's policy and mode. None is
	// one, the default, without settings.
	Workloads []Workload
	// ByPolicy are more lines of each workload with a policy, by the policy's name.
	ByPolicy map[string]string
	// About is a comment at the top of pgweir's file; empty: one that says who wrote it.
	About string
	// Top are lines at the top of pgweir's file, Upstream of its upstream, Tables whole
	// tables at its end ([[rate]], [role.x]).
	Top, Upstream, Tables string
	// PgBouncer and Odyssey are settings of theirs; Odyssey's are of its one user. A value of
	// "none" leaves out what is there by default.
	PgBouncer, Odyssey map[string]string
	// Tuned are further settings of a target that is named ":tuned".
	Tuned map[Kind]map[string]string
}

// Workload is one of pgweir's: its name, whom it is for (the inside of match = {...}; empty:
// everybody), and more lines of its file.
type Workload struct{ Name, Match, Lines string }

// place is where a target listens and what is behind it.
type place struct {
	port, http int
	host       string // of PostgreSQL
	upstream   int    // port of PostgreSQL
	url        string // for pgweir's control connection
	dir        string // of its files, as it sees them
}

// Text is the main file of a target's configuration, with made-up ports: for those who want
// to see it. It is empty for what needs none.
func (p Plan) Text(t Target) string {
	at := place{
		port: 6432, http: 6433, host: "127.0.0.1", upstream: 5432, dir: "/nowhere",
		url: "postgres://" + Control + "@127.0.0.1:5432/postgres?sslmode=disable",
	}
	switch t.Kind {
	case Pgweir:
		return pgweirText(t, p, at)
	case PgBouncer:
		return pgbouncerText(t, p, at)
	case Odyssey:
		return odysseyText(t, p, at)
	default:
		return ""
	}
}

// pgweirText is pgweir's configuration.
func pgweirText(t Target, p Plan, at place) string {
	var b strings.Builder
	about := p.About
	if about == "" {
		about = "Written by pgweir bench."
	}
	fmt.Fprintf(&b, "# %s\nlisten           = [\"127.0.0.1:%d\"]\nhttp             = \"127.0.0.1:%d\"\n", about, at.port, at.http)
	head := fmt.Sprintf("max_client_conn = %d\ndrain_delay = \"0s\"\nshutdown_timeout = \"3s\"\n", maxClients)
	writeLines(&b, withoutKeys(head, p.Top))
	writeLines(&b, p.Top)
	b.WriteString("\n[auth]\nauth_type = \"trust\"\n")
	fmt.Fprintf(&b, "\n[upstream.main]\nurl     = %q\nbudget  = %d\nreserve = %d\nslots   = %d\n",
		at.url, p.Slots+reserve, reserve, p.Slots)
	writeLines(&b, p.Upstream)
	b.WriteString("\n[database.\"*\"]\nupstream = \"main\"\n")
	workloads := p.Workloads
	if len(workloads) == 0 {
		workloads = []Workload{{Name: "default"}}
	}
	for _, w := range workloads {
		b.WriteString("\n[[workload]]\n")
		fmt.Fprintf(&b, "name  = %q\nqueue = %q\n", w.Name, t.Policy)
		if w.Match != "" {
			fmt.Fprintf(&b, "match = { %s }\n", w.Match)
		}
		if t.Mode != admission.Enforce {
			fmt.Fprintf(&b, "mode  = %q\n", t.Mode)
		}
		writeLines(&b, withoutKeys(w.Lines, p.ByPolicy[t.Policy.String()]))
		writeLines(&b, p.ByPolicy[t.Policy.String()])
	}
	if p.Tables != "" {
		b.WriteString("\n")
		writeLines(&b, p.Tables)
	}
	return b.String()
}

// writeLines writes lines of a text without the indentation that they have in Go.
func writeLines(b *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
}

// withoutKeys leaves out the lines of a text whose keys another has as well.
func withoutKeys(text, other string) string {
	keys := map[string]bool{}
	for line := range strings.Lines(other) {
		keys[keyOf(line)] = true
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !keys[keyOf(line)] {
			b.WriteString(line)
		}
	}
	return b.String()
}

// keyOf is what is set by a line.
func keyOf(line string) string {
	key, _, _ := strings.Cut(line, "=")
	return strings.TrimSpace(key)
}

// settings joins a peer's defaults, the plan's and the target's, the last one winning.
func settings(t Target, p Plan, base map[string]string) map[string]string {
	all := maps.Clone(base)
	maps.Copy(all, map[Kind]map[string]string{PgBouncer: p.PgBouncer, Odyssey: p.Odyssey}[t.Kind])
	if t.isTuned() {
		maps.Copy(all, p.Tuned[t.Kind])
	}
	for _, s := range t.Settings {
		if name, value, ok := strings.Cut(s, "="); ok {
			all[name] = value
		}
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "none" })
	return all
}

// pgbouncerText is PgBouncer's configuration: its defaults but for what is compared, and the
// log lines of each connection switched off.
func pgbouncerText(t Target, p Plan, at place) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[databases]\n* = host=%s port=%d\n\n[pgbouncer]\n", at.host, at.upstream)
	all := settings(t, p, map[string]string{
		"listen_addr": "127.0.0.1", "listen_port": fmt.Sprint(at.port), "unix_socket_dir": "",
		"auth_type": "trust", "auth_file": at.dir + "/users",
		"pool_mode": "transaction", "default_pool_size": fmt.Sprint(p.Slots),
		"max_client_conn": fmt.Sprint(maxClients), "max_prepared_statements": "200",
		"log_connections": "0", "log_disconnections": "0",
	})
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s = %s\n", name, all[name])
	}
	return b.String()
}

// pgbouncerUsers is its list of roles, who are all believed.
func pgbouncerUsers(roles []string) string {
	var b strings.Builder
	for _, role := range roles {
		fmt.Fprintf(&b, "%q \"\"\n", role)
	}
	return b.String()
}

// odysseyText is Odyssey's configuration with one worker, which is its default.
func odysseyText(t Target, p Plan, at place) string {
	all := settings(t, p, map[string]string{
		"authentication": `"none"`, "storage": `"main"`, "pool": `"transaction"`,
		"pool_size": fmt.Sprint(p.Slots), "pool_reserve_prepared_statement": "yes",
		"pool_discard": "no", "pool_smart_discard": "no",
	})
	var user strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&user, "\t\t%s %s\n", name, all[name])
	}
	return fmt.Sprintf(`daemonize no
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
%[6]s	}
}
`, at.dir, maxClients, at.port, at.host, at.upstream, user.String())
}

// hidePassword is a URL to be shown.
func hidePassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return string(Remote)
	}
	return u.Redacted()
}
