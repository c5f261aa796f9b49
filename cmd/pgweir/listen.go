package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/pgweir/pgweir/config"
)

// listen opens all listeners, or none.
func listen(places []config.Listen, _ bool) (list []net.Listener, err error) {
	for _, p := range places {
		if p.Network == "unix" {
			if err = removeStale(p.Address); err != nil {
				break
			}
		}
		var ln net.Listener
		if ln, err = net.Listen(p.Network, p.Address); err != nil {
			err = fmt.Errorf("listen on %s: %w", p, err)
			break
		}
		if p.Network == "unix" {
			if err = os.Chmod(p.Address, 0o777); err != nil { // as Postgres does: authentication decides
				_ = ln.Close()
				break
			}
		}
		list = append(list, ln)
	}
	if err != nil {
		for _, ln := range list {
			_ = ln.Close()
		}
		return nil, err
	}
	return list, nil
}

// removeStale removes a socket that a dead process has left behind.
func removeStale(path string) error {
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("listen on %s: another process listens there", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return nil // there is none; or net.Listen will say what is wrong
}
