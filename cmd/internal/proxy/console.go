package proxy

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/door"
	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// isConsole tells the names of the console's database.
func isConsole(database string) bool { return database == "pgweir" || database == "pgbouncer" }

// consoles is who is at the console. For any goroutine.
type consoles struct {
	mu     sync.Mutex
	open   map[net.Conn]console
	closed bool
}

type console struct {
	key    wire.CancelKey
	cancel chan struct{} // buffered
}

func (c *consoles) add(conn net.Conn, e console) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.open == nil {
		c.open = make(map[net.Conn]console)
	}
	c.open[conn] = e
	return true
}

func (c *consoles) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// cancel reports whether a cancel request is for a console.
func (c *consoles) cancel(r *wire.CancelRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.open {
		if e.key.PID == r.PID && e.key.Matches(r) {
			select {
			case e.cancel <- struct{}{}:
			default: // one is on its way
			}
			return true
		}
	}
	return false
}

// end closes all of them, and lets in no other.
func (c *consoles) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.open {
		_ = conn.Close()
	}
}

// consolePlace is above all places in the table of sessions that are ever used: the process
// ids of consoles are drawn from there.
const consolePlace = 1 << (processShift - 1)

// console lets an administrator in. It asks nothing of Postgres.
func (px *Proxy) console(conn net.Conn, c *login.Client, s *plan.Settings) {
	who, err := px.administrator(conn, c, s)
	if err != nil {
		px.refuseLogin(conn, err)
		return
	}
	if !px.place(s.MaxClients) {
		px.refuseLogin(conn, tooManyClients)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	ctx, stop := context.WithCancel(context.Background())
	cancels := make(chan struct{}, 1)
	who.Cancel = cancels
	px.work.Go(func() { // not in a login's place
		defer px.clients.Add(-1)
		defer func() { _ = conn.Close() }()
		defer stop()
		if !px.consoles.add(conn, console{who.Key, cancels}) {
			return
		}
		defer px.consoles.remove(conn)
		px.o.Log.Info("console", "role", who.Role, "admin", who.Admin, "client", who.Addr, "tls", login.ChannelOf(c.TLS).String())
		px.o.Console(ctx, conn, who)
	})
}

// administrator checks who wants to come to the console.
func (px *Proxy) administrator(conn net.Conn, c *login.Client, s *plan.Settings) (Administrator, error) {
	who := Administrator{Role: c.User, Database: c.Database, Addr: door.AddressOf(conn.RemoteAddr()), Params: c.Startup.Params}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails: it ends the program instead
	place := uint32(random[0]) | uint32(random[1])<<8 | uint32(random[2])<<16
	who.Key = wire.NewCancelKey(px.sessions.process|consolePlace|place&(consolePlace-1), c.Startup.Speaks())
	if px.o.Console == nil {
		return who, &wire.Error{Severity: wire.SeverityFatal, Code: "3D000", Message: "pgweir: there is no console"}
	}
	if own(conn) && isConsole(c.User) {
		who.Admin = true
		_, err := conn.Write(wire.AppendAuthentication(nil, wire.AuthOK, nil))
		return who, err
	}
	if err := px.admit(conn, c, s, nil); err != nil { // first, or the answer would tell who may
		return who, err
	}
	who.Admin = slices.Contains(s.AdminUsers, c.User)
	if !who.Admin && !slices.Contains(s.StatsUsers, c.User) {
		e := session.Say("console")
		e.Message = `pgweir: role "` + c.User + `" may not use the console`
		return who, e
	}
	return who, nil
}

// own reports whether the peer of a Unix socket is the system user that pgweir runs as, or
// root.
func own(conn net.Conn) bool {
	uid, err := login.PeerID(conn)
	return err == nil && (uid == uint32(os.Geteuid()) || uid == 0)
}
