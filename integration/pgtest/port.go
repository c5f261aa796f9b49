package pgtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below Linux's default range of ephemeral ports (32768 and up):
// there, an outgoing connection of a busy test could take a server's port while it
// restarts.
const (
	firstPort = 20000
	lastPort  = 31999
)

// FreePort returns a TCP port of 127.0.0.1 on which nobody listened a moment ago. Nothing
// reserves it: who uses it has to be ready to try another.
func FreePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		return port, nil
	}
	return 0, fmt.Errorf("no free port found on 127.0.0.1 between %d and %d", firstPort, lastPort)
}
