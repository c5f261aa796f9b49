package upstream

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/wire"
)

// Host is one of a cluster's hosts, as the configuration names it.
type Host struct {
	Network string // "tcp" or "unix"
	Address string // host:port with a numeric port, or the path of a socket
}

// String returns the address.
func (h Host) String() string { return h.Address }

// Place is a host and the very address that was dialled.
type Place struct {
	Host    Host
	Address string // numeric: 10.0.0.5:5432, [::1]:5432; or the path of a socket
}

// String returns the host, with the address where that says more.
func (p Place) String() string {
	if p.Address == "" || p.Address == p.Host.Address {
		return p.Host.Address
	}
	return p.Host.Address + " (" + p.Address + ")"
}

// AddrPort returns the address and port; it is not valid for a socket's path.
func (p Place) AddrPort() netip.AddrPort {
	a, err := netip.ParseAddrPort(p.Address)
	if err != nil {
		return netip.AddrPort{}
	}
	return a
}

// Options say how to reach a cluster. They are never changed once they are given.
type Options struct {
	Name  string // of the upstream, for log lines
	Hosts []Host // at least one
	Attrs Attrs

	// ConnectTimeout bounds a Dial over all hosts, from the password on; 0: 5 s.
	ConnectTimeout time.Duration

	// Of the TCP sockets. What is 0 is left to the system.
	KeepaliveIdle, KeepaliveInterval time.Duration // rounded up to seconds
	KeepaliveCount                   int
	UserTimeout                      time.Duration // in milliseconds

	Encryption login.Encryption
	// Below makes what lies below a connection that is to be encrypted; nil: the socket itself.
	Below func(net.Conn) net.Conn

	CPU login.CPU    // bounds the derivation of keys and signatures
	Log *slog.Logger // nil: silent

	// Moved is told that the place that serves has changed; nil: nobody is told.
	// Each change is told once, in order and never two at a time, on the goroutine
	// of a Dial or Reconfigure, which waits. A zero to means that the old place is
	// no longer wanted and the next Dial decides. Moved must not call the Cluster.
	Moved func(from, to Place)

	// Resolve finds the addresses of a name; nil: the system's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
}

// defaultConnectTimeout is what ConnectTimeout 0 means.
const defaultConnectTimeout = 5 * time.Second

// completed returns a copy with the defaults filled in.
func (o Options) completed() *Options {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, defaultConnectTimeout)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Resolve == nil {
		o.Resolve = resolve
	}
	return &o
}

// Request says who to be on a server.
type Request struct {
	Database, Role string
	Credentials    login.Credentials
	Passwords      Passwords    // asked at each Dial; nil: Credentials serve
	Params         []wire.Param // further start-up parameters, in that order
}

// target completes the request with its password.
func (r Request) target(ctx context.Context, o *Options) (login.Target, error) {
	t := login.Target{Database: r.Database, User: r.Role, Credentials: r.Credentials, Params: r.Params, CPU: o.CPU}
	if r.Passwords == nil {
		return t, nil
	}
	password, err := r.Passwords.Password(ctx)
	if err != nil {
		return t, &PasswordError{r.Role, err}
	}
	t.Credentials = login.Credentials{Password: password}
	return t, nil
}
