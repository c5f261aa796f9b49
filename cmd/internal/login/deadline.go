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
// back and leaves conn without a deadline; it is called exactly once. The deadline
// of ctx is not set on conn: that would end reads before ctx says why.
func bound(ctx context.Context, conn net.Conn) (release func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = conn.SetDeadline(longAgo()) // fails only on a closed connection
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
