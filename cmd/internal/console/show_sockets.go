package console

import (
	"context"
	"strconv"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// socketNames are PgBouncer's columns of clients and servers.
func socketNames() []string {
	return []string{
		"type", "user", "database", "replication", "state", "addr", "#port", "local_addr", "#local_port",
		"connect_time", "request_time", "#wait", "#wait_us", "#close_needed", "ptr", "link", "#remote_pid", "tls",
		"application_name", "#prepared_statements", "#id",
	}
}

// socketViews are the tables of connections.
func socketViews() []view {
	theirs := len(socketNames())
	buffers := append(socketNames(), "#recv_pos", "#pkt_pos", "#pkt_remain", "#send_pos", "#send_remain", "#pkt_avail", "#send_avail")
	return []view{
		{
			name: "CLIENTS", what: "client sessions", theirs: theirs,
			columns: columns(append(socketNames(), "workload", "upstream", "#transaction", "#cancel_pid", "sni", "pinned")...),
			rows:    func(ctx context.Context, q *query) error { return clients(ctx, q, "", false) },
		},
		{
			name: "SERVERS", what: "server connections", theirs: theirs,
			columns: columns(append(socketNames(), "upstream", "#held", "#state_ms", "pinned")...),
			rows:    func(ctx context.Context, q *query) error { return servers(ctx, q, "", false) },
		},
		{
			name: "SOCKETS", what: "both", theirs: len(buffers), columns: columns(buffers...),
			rows: func(ctx context.Context, q *query) error { return sockets(ctx, q, false) },
		},
		{
			name: "ACTIVE_SOCKETS", what: "both, of those that are not idle", theirs: len(buffers), columns: columns(buffers...),
			rows: func(ctx context.Context, q *query) error { return sockets(ctx, q, true) },
		},
	}
}

func sockets(ctx context.Context, q *query, busy bool) error {
	if err := clients(ctx, q, "cl_", busy); err != nil {
		return err
	}
	return servers(ctx, q, "sv_", busy)
}

// clients makes a row for each client. With a prefix the columns about buffers follow,
// which are always empty here, and else ours.
func clients(ctx context.Context, q *query, prefix string, busy bool) error {
	return q.c.guard.Clients(ctx, func(list []state.Client) error {
		for i := range list {
			c := &list[i]
			if busy && c.State == "idle" || q.strict && prefix == "" && c.State == "login" {
				continue // PgBouncer has those that log in among the sockets only
			}
			r := q.begin().text("C").text(or(c.Role, "(nouser)")).text(or(c.Database, "(nodb)")).text(or(c.Replication, "none")).text(prefix + c.State)
			r.text(c.Address).count(c.Port).text(c.LocalAddress).count(c.LocalPort)
			r.moment(c.Connected).moment(c.Requested).split(c.Wait).number(0)
			r.text(pointer('c', c.ID)).text(pointer('s', c.Server)).number(0).text(c.TLS)
			r.text(c.Application).count(c.Prepared).total(c.ID)
			if prefix != "" {
				r.number(0, 0, 0, 0, 0, 0, 0)
			} else {
				r.text(c.Workload).text(c.Upstream).flag(c.Transaction).number(int64(c.CancelPID)).text(c.ServerName).text(c.Pinned)
			}
			if err := q.end(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// servers makes a row for each server connection, as clients does.
func servers(ctx context.Context, q *query, prefix string, busy bool) error {
	list, err := q.c.guard.Servers(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		v := &list[i]
		if busy && v.State == "idle" {
			continue
		}
		r := q.begin().text("S").text(v.Role).text(v.Database).text(or(v.Replication, "none")).text(prefix + serverState(v.State, prefix != ""))
		r.text(v.Address).count(v.Port).text(v.LocalAddress).count(v.LocalPort)
		r.moment(v.Connected).moment(v.Requested).number(0, 0).flag(v.CloseNeeded)
		r.text(pointer('s', v.ID)).text(pointer('c', v.Client)).number(int64(v.PID)).text(v.TLS)
		r.text(v.Application).count(v.Prepared).total(v.ID)
		if prefix != "" {
			r.number(0, 0, 0, 0, 0, 0, 0)
		} else {
			r.text(v.Upstream).flag(v.State == "held").millis(v.Since).text(v.Pinned)
		}
		if err := q.end(r); err != nil {
			return err
		}
	}
	return nil
}

// serverState is PgBouncer's word for a state: a server that an idle session keeps is
// active, and one that logs in is new, or login where sockets are listed.
func serverState(is string, socket bool) string {
	switch {
	case is == "held":
		return "active"
	case is == "login" && !socket:
		return "new"
	}
	return is
}

// pointer makes an id as the columns ptr and link have it; "" for none.
func pointer(letter byte, id uint64) string {
	if id == 0 {
		return ""
	}
	return string(letter) + strconv.FormatUint(id, 10)
}

// or returns s, or a word that stands for its absence.
func or(s, absent string) string {
	if s == "" {
		return absent
	}
	return s
}
