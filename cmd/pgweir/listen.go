package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/config"
)

// listen opens all listeners, or none. With reusePort it shares TCP ports with other
// processes that do so too, and takes over the paths of their Unix sockets, but only
// after everything else has succeeded: clients find a process there all the time.
func listen(places []config.Listen, reusePort bool) ([]net.Listener, error) {
	list := make([]net.Listener, 0, len(places))
	fail := func(p config.Listen, err error) ([]net.Listener, error) {
		for _, ln := range list {
			_ = ln.Close()
		}
		return nil, fmt.Errorf("listen on %s: %w", p, err)
	}
	for _, p := range places {
		open := listenTCP
		if p.Network == "unix" {
			open = listenUnix
		}
		ln, err := open(p.Address, reusePort)
		if err != nil {
			return fail(p, err)
		}
		list = append(list, ln)
	}
	for i, ln := range list {
		if s, ok := ln.(*socketFile); ok {
			if err := s.appear(); err != nil {
				return fail(places[i], err)
			}
		}
	}
	return list, nil
}

// listenTCP listens on a port, which other processes of this user can share if all of
// them want to.
func listenTCP(address string, reusePort bool) (net.Listener, error) {
	var c net.ListenConfig
	// Go's default is multipath TCP, whose listeners can't hold off newcomers when they are
	// about to be closed, and whose connections cost more.
	c.SetMultipathTCP(false)
	if reusePort {
		c.Control = sharePort
	}
	ln, err := c.Listen(context.Background(), "tcp", address)
	if reusePort && errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w by a process that does not share it (so_reuseport), or by another user's", err)
	}
	return ln, err
}

// sharePort is a net.ListenConfig.Control for SO_REUSEPORT.
func sharePort(_, _ string, raw syscall.RawConn) (err error) {
	controlled := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(controlled, err)
}

// sharedName names the processes that can get each other's clients: by their TCP
// ports, whatever the addresses, or by the paths of sockets if there is no port.
func sharedName(places []config.Listen) string {
	var ports, paths []string
	for _, p := range places {
		if _, port, err := net.SplitHostPort(p.Address); p.Network == "tcp" && err == nil {
			ports = append(ports, port)
		} else {
			paths = append(paths, p.Address)
		}
	}
	if len(ports) == 0 {
		ports = paths
	}
	slices.Sort(ports)
	return strings.Join(slices.Compact(ports), ",")
}
