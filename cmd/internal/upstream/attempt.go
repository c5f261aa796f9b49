package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/wire"
)

// discardWait bounds the goodbye to a server that is not what was looked for. It is
// waited for, because until then its place at that host is taken.
const discardWait = 250 * time.Millisecond

// discard ends a session.
func discard(s *Session) {
	ctx, cancel := context.WithTimeout(context.Background(), discardWait)
	defer cancel()
	s.End(ctx)
}

// notTried is why a host was not asked.
type notTried struct{ cause error }

// Error says so.
func (n notTried) Error() string { return "not tried: " + n.cause.Error() }

// Unwrap returns what came before it.
func (n notTried) Unwrap() error { return n.cause }

// down reports whether an error says that a host does not serve at all, as opposed
// to what one role, database or password meets there.
func down(err error) bool {
	if told, ok := errors.AsType[*wire.Error](err); ok {
		return told.Code == wire.CodeAdminShutdown || told.Code == wire.CodeCrashShutdown || told.Code == wire.CodeCannotConnectNow
	}
	if _, ok := errors.AsType[*login.TLSError](err); ok || errors.Is(err, login.ErrUnvouched) {
		return true // another host may be the one that it says it is
	}
	if errors.Is(err, login.ErrProtocol) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// resolve finds the addresses of a name. It runs on a goroutine of its own.
func (d *dial) resolve(ctx context.Context, k *candidate) event {
	addrs, err := d.c.Lookup(ctx, k.place.Host)
	if err != nil {
		return event{k: k, stage: refused, err: err}
	}
	e := event{k: k, stage: resolved}
	for _, a := range addrs {
		e.addrs = append(e.addrs, Place{k.place.Host, a})
	}
	return e
}

// attempt connects, logs in and finds out the role. It runs on a goroutine of its
// own and tells that it has connected; the rest is the event returned.
func (d *dial) attempt(ctx context.Context, k *candidate) event {
	no := event{k: k, stage: refused}
	conn, err := d.o.connect(ctx, k.place)
	if err != nil {
		no.err = err
		return no
	}
	d.events <- event{k: k, stage: connected}
	server, err := d.o.enter(ctx, conn, k.place, d.target)
	if err != nil {
		no.err = err
		return no
	}
	s := &Session{Server: server, Where: k.place, Encryption: d.o.Encryption}
	r, known, err := d.o.Attrs.ask(ctx, server, physical(d.target.Params))
	if err != nil {
		_ = conn.Close()
		no.err = err
		return no
	}
	if known && !d.o.Attrs.fits(r) && d.o.Attrs != PreferStandby {
		discard(s)
		no.err = wrongRole{r}
		return no
	}
	return event{k: k, stage: served, session: s, known: known, role: r}
}

// roleQuery asks a server that does not report its role.
const roleQuery = "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')"

// physical reports whether a login is for physical replication, where Postgres takes no SQL.
func physical(params []wire.Param) bool {
	return slices.Contains(params, wire.Param{Name: "replication", Value: "true"})
}

// ask finds out the role of a server as far as it matters; known is false if it
// does not, or can't be asked for. Since version 14 Postgres reports it with the log-in.
func (a Attrs) ask(ctx context.Context, s *login.Server, mute bool) (r role, known bool, err error) {
	if a == Any {
		return role{}, false, nil
	}
	standby, readOnly := "", ""
	for _, p := range s.Status {
		switch p.Name {
		case "in_hot_standby":
			standby = p.Value
		case "default_transaction_read_only":
			readOnly = p.Value
		}
	}
	if (standby == "" || readOnly == "") && mute {
		return role{}, false, nil
	}
	if standby == "" || readOnly == "" {
		row, err := s.Query(ctx, roleQuery)
		if err == nil && len(row) != 2 {
			err = login.ErrProtocol
		}
		if err != nil {
			return role{}, false, err
		}
		return role{row[0] == "t", row[1] == "on"}, true, nil
	}
	return role{standby == "on", readOnly == "on"}, true, nil
}
