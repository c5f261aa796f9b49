package door

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// IgnoreNewcomers makes the kernel drop the first packet of whoever wants to connect to a TCP
// listener from now on. Handshakes that have begun are completed, and what waits can be
// accepted until nothing is left: then the listener can be closed without resetting anybody.
// A client whose packet was dropped sends it again after a second, and comes to another
// process on the port, or is refused when there is none. Other listeners stay as they are. The
// error is the kernel's: then nothing has changed.
func IgnoreNewcomers(ln net.Listener) error {
	sc, ok := ln.(syscall.Conn)
	if !ok || ln.Addr().Network() != "tcp" {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	const (
		flags = 13 // of the TCP header, where a socket's filter begins
		syn   = 0x02
		ack   = 0x10
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1}, // the whole packet
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	controlled := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog)
	})
	if controlled != nil {
		return controlled
	}
	return err
}
