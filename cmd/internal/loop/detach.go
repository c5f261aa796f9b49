package loop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var errNoDescriptor = errors.New("loop: connection has no descriptor")

// Detach takes the descriptor out of the Go runtime's poller: it duplicates it
// (close-on-exec, non-blocking; socket options stay as they are) and closes nc.
// nc is a *net.TCPConn, a *net.UnixConn or a *Bridge over one. If Detach returns
// an error, nc is still open. It must not be called while a read or a write on nc
// is under way.
func Detach(nc net.Conn) (fd int, err error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return -1, errNoDescriptor
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("loop: detach: %w", err)
	}
	var dupErr error
	err = rc.Control(func(orig uintptr) {
		fd, dupErr = unix.FcntlInt(orig, unix.F_DUPFD_CLOEXEC, 3)
	})
	if err == nil && dupErr != nil {
		err = os.NewSyscallError("fcntl", dupErr)
	}
	if err != nil {
		return -1, fmt.Errorf("loop: detach: %w", err)
	}
	if err = unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("loop: detach: %w", os.NewSyscallError("fcntl", err))
	}
	_ = nc.Close() // the socket lives on in fd
	return fd, nil
}
