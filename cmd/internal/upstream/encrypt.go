package upstream

import (
	"context"
	"net"

	"github.com/pgweir/pgweir/cmd/internal/login"
)

// enter logs in on a connection to a place, encrypted as the options say. If that does not
// work and the mode allows for another way, that is tried on another connection to the same
// place, as libpq does it.
func (o *Options) enter(ctx context.Context, conn net.Conn, p Place, t login.Target) (*login.Server, error) {
	t.Binding = o.Encryption.Binding
	ways := o.Encryption.Ways(p.Host.Network)
	s, err := o.enterBy(ctx, conn, ways[0], p, t)
	if err == nil || len(ways) == 1 || !o.Encryption.Falls(err, isEncrypting(err)) || ctx.Err() != nil {
		return s, unwrapped(err)
	}
	conn, again := o.connect(ctx, p)
	if again == nil {
		s, again = o.enterBy(ctx, conn, ways[1], p, t)
	}
	if again == nil {
		return s, nil
	}
	return nil, better(unwrapped(err), unwrapped(again), ways[1])
}

// enterBy is enter in one way. It owns conn.
func (o *Options) enterBy(ctx context.Context, conn net.Conn, w login.Way, p Place, t login.Target) (*login.Server, error) {
	secure, err := o.Encryption.Encrypt(ctx, conn, w, p.Host.name(), o.CPU, o.Below)
	if err != nil {
		_ = conn.Close()
		return nil, encrypting{err}
	}
	return login.Enter(ctx, secure, t)
}

// cancel sends a CancelRequest to a place.
func (o *Options) cancel(ctx context.Context, p Place, encrypted bool, pid uint32, secret []byte) error {
	conn, err := o.connect(ctx, p)
	if err != nil {
		return err
	}
	if encrypted {
		secure, err := o.Encryption.Encrypt(ctx, conn, login.OnlyTLS, p.Host.name(), o.CPU, o.Below)
		if err != nil {
			_ = conn.Close()
			return err
		}
		conn = secure
	}
	return login.CancelOn(ctx, conn, pid, secret)
}

// encrypting is an error from before the login.
type encrypting struct{ error }

// Unwrap returns it.
func (e encrypting) Unwrap() error { return e.error }

func isEncrypting(err error) bool {
	_, ok := err.(encrypting)
	return ok
}

func unwrapped(err error) error {
	if e, ok := err.(encrypting); ok {
		return e.error
	}
	return err
}

// better chooses, of why both ways have failed, what says more: the server's own answer, and
// of two that to the encrypted one.
func better(first, second error, w login.Way) error {
	encrypted, plain := first, second
	if w == login.OnlyTLS {
		encrypted, plain = second, first
	}
	for _, err := range []error{encrypted, plain} {
		if _, told := err.(*login.Refusal); told {
			return err
		}
	}
	return second
}

// name is the host as the configuration has it, which is what its certificate is for.
func (h Host) name() string {
	if name, _, err := net.SplitHostPort(h.Address); err == nil {
		return name
	}
	return h.Address
}
