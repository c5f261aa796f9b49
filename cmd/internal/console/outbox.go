package console

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// flushAt is how many bytes are gathered before they are written.
const flushAt = 16 << 10

// lastWords is how long a peer may take for what is sent while pgweir ends.
const lastWords = time.Second

// outbox gathers messages and writes them in blocks. After an error it takes nothing more.
type outbox struct {
	backend *pgproto3.Backend
	pending int
	err     error
}

// send adds a message of about so many bytes.
func (o *outbox) send(m pgproto3.BackendMessage, size int) {
	if o.err != nil {
		return
	}
	o.backend.Send(m)
	if o.pending += size + 16; o.pending >= flushAt {
		o.flush()
	}
}

// flush writes what was gathered.
func (o *outbox) flush() {
	if o.err == nil && o.pending > 0 {
		o.pending = 0
		o.err = o.backend.Flush()
	}
}

// timed is a connection whose writes have a deadline each.
type timed struct {
	net.Conn
	ctx  context.Context // of the connection: once it has ended, writes are short
	wait time.Duration
}

// Write writes within the time.
func (t *timed) Write(b []byte) (int, error) {
	wait := t.wait
	if t.ctx.Err() != nil {
		wait = lastWords
	}
	if err := t.SetWriteDeadline(time.Now().Add(wait)); err != nil {
		return 0, err
	}
	return t.Conn.Write(b)
}
