package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// listening reports whether a process listens on a TCP port over IPv4. It reads /proc
// instead of connecting: a connection would be a client, with its traces in logs and
// counters, and it would not tell whose port it is.
func listening(pid, port int) (bool, error) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return false, err
	}
	inodes := listeners(string(table), port)
	if len(inodes) == 0 {
		return false, nil
	}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false, err
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && inodes[target] { // else it was closed meanwhile
			return true, nil
		}
	}
	return false, nil
}

// listeners finds the sockets that listen on a port in the text of /proc/net/tcp, as the
// descriptors of their owner name them.
func listeners(table string, port int) map[string]bool {
	const (
		localAddress = 1
		state        = 3
		inode        = 9
		listen       = "0A"
	)
	sockets := map[string]bool{}
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > inode && f[state] == listen && strings.HasSuffix(f[localAddress], suffix) {
			sockets["socket:["+f[inode]+"]"] = true
		}
	}
	return sockets
}
