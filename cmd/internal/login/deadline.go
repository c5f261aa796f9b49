package login

import (
	"context"
	"fmt"
	"net"
	"time"
)

// longAgo as a deadline ends every read and write at once.
func longAgo() time.Time { return time.Unix(1, 0) }

// bound makes ctx end reads and writes on conn. The function returned takes that
// back and leaves conn without a deadline; it is called exactly once.
func bound(ctx context.Context, conn net.Conn) (release func()) {
	if d, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(d) // a connection that cannot be timed fails at once
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = conn.SetDeadline(longAgo())
	})
	return func() {
		if !stop() {
			<-done
		}
		_ = conn.SetDeadline(time.Time{})
	}
}

// blame puts the end of ctx into an error that it has caused.
func blame(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}
