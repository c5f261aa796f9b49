package door

import (
	"io"
	"net"
	"time"

	"github.com/pgweir/pgweir/wire"
)

// TurnAway tells a client that has said nothing yet why it can't be served, as Postgres does
// that can't fork, and closes the connection. It waits for so long at most for the client to
// take notice.
func TurnAway(conn net.Conn, e *wire.Error, wait time.Duration) {
	_ = conn.SetDeadline(time.Now().Add(wait))  // a socket that can't be timed fails at once
	_, _ = conn.Write(wire.AppendError(nil, e)) // fits into an empty socket
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, conn) // what is left unread when it is closed would take the error with it
	_ = conn.Close()
}
