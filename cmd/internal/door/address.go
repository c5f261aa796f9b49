package door

import (
	"net"
	"net/netip"
)

// AddressOf is an address as logs and the console have it.
func AddressOf(a net.Addr) string {
	if a == nil || a.Network() == "unix" {
		return "unix"
	}
	return a.String()
}

// IPOf is the address that workloads are matched by: none for a Unix socket.
func IPOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
