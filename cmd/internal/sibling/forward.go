package sibling

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/wire"
)

// Forward hands a cancel request to the process of that number and returns when the
// process has dealt with it or is gone, or ctx ends: at once for a number that nobody
// has. Give ctx a deadline, because the other process may be stopped. As with any
// cancel request there is no telling whether something was cancelled.
func (g *Group) Forward(ctx context.Context, process uint32, r *wire.CancelRequest) {
	if process == 0 || process > MaxProcess {
		return
	}
	conn, err := g.dial(ctx, process)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if !g.trusts(conn) {
		return
	}
	if _, err := conn.Write(wire.AppendCancelRequest(nil, r.PID, r.Secret)); err != nil {
		return
	}
	_, _ = conn.Read(make([]byte, 1)) // nothing comes but the end, whatever its form
}

// dial connects to a process. A queue that is full is a process with much to do,
// and not one that is gone.
func (g *Group) dial(ctx context.Context, process uint32) (*net.UnixConn, error) {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialUnix(ctx, "unix", nil, address(g.port, process))
		if !errors.Is(err, syscall.EAGAIN) || !wait(ctx, retry) {
			return conn, err
		}
	}
}

// trusts reports whether the other end belongs to this process's user. For the end
// that has accepted, that is who connected, for the other one who listened.
func (g *Group) trusts(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	controlled := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return controlled == nil && err == nil && peer.Uid == g.terms.user
}
