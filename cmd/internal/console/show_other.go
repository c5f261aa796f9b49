package console

import (
	"context"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// otherViews are the tables about the process.
func otherViews() []view {
	return []view{
		{name: "LISTS", what: "how many there are of everything", theirs: 2, columns: columns("list", "#items"), rows: snapshotRows(lists)},
		{
			name: "CONFIG", what: "all settings, where they come from and whether SET and RELOAD apply them", theirs: 4,
			columns: columns("key", "value", "default", "changeable", "source", "unit", "description"), rows: settings,
		},
		{name: "STATE", what: "active, paused or suspended", theirs: 2, columns: columns("key", "value"), rows: snapshotRows(states)},
		{
			name: "MEM", what: "memory, in bytes", theirs: 5,
			columns: columns("name", "#size", "#used", "#free", "#memtotal"), rows: snapshotRows(memory),
		},
		{
			name: "DNS_HOSTS", what: "names of hosts, seconds until they are looked up again (dns_max_ttl), and their addresses", theirs: 3,
			columns: columns("hostname", "#ttl", "addrs"), rows: snapshotRows(dnsHosts),
		},
		{
			name: "VERSION", what: "the version of pgweir", theirs: 1, columns: columns("version"),
			rows: func(_ context.Context, q *query) error { return q.end(q.begin().text("pgweir " + q.c.o.Version)) },
		},
	}
}

func dnsHosts(q *query, s *state.Snapshot) error {
	for i := range s.Upstreams {
		for _, n := range s.Upstreams[i].Names {
			if err := q.end(q.begin().text(n.Name).count(int(n.TTL.Seconds())).text(strings.Join(n.Addresses, ","))); err != nil {
				return err
			}
		}
	}
	return nil
}

func lists(q *query, s *state.Snapshot) error {
	var servers, waiting, names int
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		servers += u.Dialling + u.Idle + u.Active + u.Closing + u.Cancelling
		waiting += u.Waiting
		names += len(u.Names)
	}
	list := []struct {
		name  string
		items int
		ours  bool
	}{
		{"databases", len(s.Databases), false},
		{"users", len(s.Roles), false},
		{"peers", 0, false},
		{"pools", len(s.Pools), false},
		{"peer_pools", 0, false},
		{"free_clients", 0, false},
		{"used_clients", s.Clients, false},
		{"login_clients", s.LoggingIn, false},
		{"free_servers", 0, false},
		{"used_servers", servers, false},
		{"dns_names", names, false},
		{"dns_zones", 0, false},
		{"dns_queries", 0, false},
		{"dns_pending", 0, false},
		{"max_clients", s.MaxClients, true},
		{"max_logins", s.MaxLogins, true},
		{"waiting_clients", waiting, true},
		{"upstreams", len(s.Upstreams), true},
		{"workloads", len(s.Workloads), true},
	}
	for _, l := range list {
		if l.ours && q.strict {
			continue
		}
		if err := q.end(q.begin().text(l.name).count(l.items)); err != nil {
			return err
		}
	}
	return nil
}

func settings(_ context.Context, q *query) error {
	theirs := "0" // what exporters ask for by PgBouncer's name: servers of a role, 0 = as many as there are
	for _, s := range q.c.guard.Settings() {
		if s.Key == `role."*".max_server_connections` && s.Value != `"none"` {
			theirs = s.Value
		}
		r := q.begin().text(s.Key).text(s.Value).text(s.Default).text(yesNo(s.Reload)).text(s.Source).text(s.Unit).text(s.Doc)
		if err := q.end(r); err != nil {
			return err
		}
	}
	if !q.strict {
		return nil
	}
	return q.end(q.begin().text("max_user_connections").text(theirs).text("0").text("yes"))
}

func states(q *query, s *state.Snapshot) error {
	paused, some := len(s.Upstreams) > 0, false
	for i := range s.Upstreams {
		paused = paused && s.Upstreams[i].Paused
	}
	for i := range s.Databases {
		some = some || s.Databases[i].Paused
	}
	list := [][2]string{{"active", yesNo(!paused)}, {"paused", yesNo(paused)}, {"suspended", "no"}}
	if !q.strict {
		list = append(list, [][2]string{
			{"databases_paused", yesNo(some)},
			{"draining", yesNo(s.Draining)},
			{"started", s.Started.UTC().Format("2006-01-02 15:04:05 UTC")},
			{"uptime", s.Now.Sub(s.Started).Truncate(time.Second).String()},
		}...)
	}
	for _, l := range list {
		if err := q.end(q.begin().text(l[0]).text(l[1])); err != nil {
			return err
		}
	}
	return nil
}

func memory(q *query, s *state.Snapshot) error {
	for _, m := range s.Memory {
		if err := q.end(q.begin().text(m.Name).count(m.Size, m.Used, m.Free, m.Bytes)); err != nil {
			return err
		}
	}
	return nil
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// helpView is SHOW HELP.
func helpView() view {
	return view{name: "HELP", what: "this table", columns: columns("command", "what"), rows: help}
}

func help(_ context.Context, q *query) error {
	list := [][2]string{
		{"PAUSE [db]", "give no servers to clients, wait until all are free and closed; those who wait do not time out"},
		{"RESUME [db]", "end a PAUSE, or what KILL has left"},
		{"RECONNECT [db]", "close each server connection as soon as it is free; new ones are opened as needed"},
		{"WAIT_CLOSE [db]", "wait until RECONNECT has closed them all"},
		{"KILL [db]", "close clients and servers at once, and pause"},
		{"KILL_CLIENT id", "close one client; SHOW CLIENTS has the ids"},
		{"DISABLE db", "refuse new clients of a database"},
		{"ENABLE db", "let them in again"},
		{"RELOAD", "read the configuration again; it is applied as a whole or not at all, and the changes are told"},
		{"SET key = value", "change a setting until the next RELOAD; SHOW CONFIG has the keys"},
		{"SHUTDOWN", "close everything and end"},
		{"SHUTDOWN WAIT_FOR_SERVERS", "let transactions finish, then end"},
		{"SHUTDOWN WAIT_FOR_CLIENTS", "serve the clients that are there until they leave, then end"},
	}
	for _, v := range allViews() {
		if err := q.end(q.begin().text("SHOW " + v.name).text(upper(v.what))); err != nil {
			return err
		}
	}
	for _, l := range list {
		if err := q.end(q.begin().text(l[0]).text(upper(l[1]))); err != nil {
			return err
		}
	}
	return nil
}

// upper makes a sentence of a line: no full stop, but a capital letter.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
