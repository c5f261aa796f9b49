package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How long one host is waited for before the next is tried beside it.
const (
	connectPatience = 250 * time.Millisecond
	loginPatience   = time.Second
)

// never is a wait that does not end by itself.
const never = 24 * time.Hour

// Dial logs in to the host that serves, or finds another that does.
//
// Hosts are tried in the order given, but first the one that served last, and last
// those that did not answer a moment ago (100 ms after a first failure, then twice
// as long each time up to 5 s); when one of those is due again, a single Dial tries
// it while others may serve. Names are resolved at each Dial, and all their
// addresses are tried.
//
// A host that has not accepted the connection after 250 ms is not given up, but no
// longer waited for: the next is tried beside it, and the first that serves wins.
// Accepting is the kernel's work, so that a busy Postgres is not taken for a dead
// one; an equal share of the time-out instead would let a dead host cost seconds,
// and shorter shares would take a lost packet for a dead host. The log-in may take
// its share of ConnectTimeout, or one second if a role is asked for: no wrong host
// can win then, while with [Any] a slow one must not lose its place to an idle one.
//
// That a host is a standby, or none, is believed for a second. A Dial that still
// waits for others asks it again then.
//
// A server's own error ends the search if that host is known to serve, or any host
// would do; it is returned as [login.Enter] returns it. Otherwise *[HostsError]
// says of every host why not. If the options were replaced meanwhile it is tried again with
// the new ones. All is bounded by ctx, and each try by ConnectTimeout from the
// moment at which the password is known.
func (c *Cluster) Dial(ctx context.Context, r Request) (*Session, error) {
	for {
		o := c.options.Load()
		s, err := c.dial(ctx, o, r)
		if err == nil || ctx.Err() != nil || !c.outdated(o) {
			return s, err
		}
	}
}

// dial is one try.
func (c *Cluster) dial(ctx context.Context, o *Options, r Request) (*Session, error) {
	if len(o.Hosts) == 0 {
		return nil, errors.New("upstream has no hosts")
	}
	target, err := r.target(ctx, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.ConnectTimeout, timeoutError{o.ConnectTimeout})
	defer cancel()
	d := &dial{c: c, o: o, target: target, events: make(chan event), timer: time.NewTimer(never), reasons: make(map[Place]error)}
	defer d.timer.Stop()
	d.plan(time.Now())
	return d.run(ctx)
}

// timeoutError is the end of ConnectTimeout.
type timeoutError struct{ after time.Duration }

// Error says how long it was waited.
func (e timeoutError) Error() string { return fmt.Sprintf("no answer within %v", e.after) }

// Timeout marks it as a time-out, as net.Error does.
func (timeoutError) Timeout() bool { return true }
