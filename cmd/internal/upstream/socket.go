package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialer dials with the options of the sockets. They are set before the connect,
// so that TCP_USER_TIMEOUT bounds that too. TCP_NODELAY is Go's default.
func (o *Options) dialer() *net.Dialer {
	return &net.Dialer{
		KeepAlive: -1, // Go's own values would replace ours after the connect
		Control: func(network, _ string, raw syscall.RawConn) error {
			if network == "unix" {
				return nil
			}
			var failed error
			if err := raw.Control(func(fd uintptr) { failed = o.tune(int(fd)) }); err != nil {
				return err
			}
			return failed
		},
	}
}

// tune sets the options of a TCP socket.
func (o *Options) tune(fd int) error {
	for _, option := range []struct {
		level, name, value int
		what               string
	}{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1, "SO_KEEPALIVE"},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds(o.within(o.KeepaliveIdle, 2)), "TCP_KEEPIDLE"},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, seconds(o.within(o.KeepaliveInterval, 4)), "TCP_KEEPINTVL"},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, o.KeepaliveCount, "TCP_KEEPCNT"},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(o.UserTimeout.Milliseconds()), "TCP_USER_TIMEOUT"},
	} {
		if option.value <= 0 {
			continue
		}
		if err := unix.SetsockoptInt(fd, option.level, option.name, option.value); err != nil {
			return fmt.Errorf("%s = %d: %w", option.what, option.value, err)
		}
	}
	return nil
}

// within bounds a time between keepalives by a part of UserTimeout: that looks at a connection
// only when something is under way, and while an answer is waited for nothing is but these.
func (o *Options) within(d time.Duration, part int) time.Duration {
	if o.UserTimeout <= 0 {
		return d
	}
	return min(d, o.UserTimeout/time.Duration(part))
}

// seconds rounds up, because 0 would be refused.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// connect opens a socket to the very address of a place.
func (o *Options) connect(ctx context.Context, p Place) (net.Conn, error) {
	return o.dialer().DialContext(undated{ctx}, p.Host.Network, p.Address)
}

// undated hides the deadline of a context, which ends all the same. The dialer would
// set it on the socket and fail a moment before the context can tell why.
type undated struct{ context.Context }

// Deadline says that there is none.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// resolve asks the system for the addresses of a name.
func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// address returns what to dial for a host, or with name what has to be resolved
// first.
func (h Host) address() (address, name, port string, err error) {
	if h.Network == "unix" {
		return h.Address, "", "", nil
	}
	name, port, err = net.SplitHostPort(h.Address)
	if err != nil {
		return "", "", "", err
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return net.JoinHostPort(ip.String(), port), "", "", nil
	}
	return "", name, port, nil
}
