package upstream

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/wire"
)

// HostError is why one host could not be used.
type HostError struct {
	Where Place
	Err   error
}

// Error names the host and the reason.
func (e *HostError) Error() string { return e.Where.String() + ": " + reason(e.Err) }

// Unwrap returns the reason.
func (e *HostError) Unwrap() error { return e.Err }

// reason is an error's text without what the host's name before it says already.
func reason(err error) string {
	if op, ok := err.(*net.OpError); ok {
		err = op.Err
	}
	if call, ok := err.(*os.SyscallError); ok {
		err = call.Err
	}
	return err.Error()
}

// PasswordError is why there is no password for a role. It is for the log: a file's path or
// the words of a command are none of the clients' business.
type PasswordError struct {
	Role string
	Err  error
}

// Error names the role and the reason.
func (e *PasswordError) Error() string { return fmt.Sprintf("password of role %q: %s", e.Role, e.Err) }

// Unwrap returns the reason.
func (e *PasswordError) Unwrap() error { return e.Err }

// HostsError is why none of a cluster's hosts could be used.
type HostsError struct {
	Hosts []*HostError // at least one, in the order of the configuration
}

// Error names every host and its reason.
func (e *HostsError) Error() string {
	texts := make([]string, len(e.Hosts))
	for i, h := range e.Hosts {
		texts[i] = h.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the reasons of the hosts that failed; those of the wrong role are
// not among them. A server's own error is there only if that is what all of them
// said: otherwise it would be mistaken for the answer of the cluster.
func (e *HostsError) Unwrap() []error {
	var all, others []error
	codes := make(map[string]bool)
	for _, h := range e.Hosts {
		if _, wrong := errors.AsType[wrongRole](h); wrong {
			continue
		}
		all = append(all, h)
		if told, ok := errors.AsType[*wire.Error](h); ok {
			codes[told.Code] = true
		} else {
			others = append(others, h)
		}
	}
	if len(others) == 0 && len(codes) == 1 {
		return all
	}
	return others
}

// Permanent reports whether another log-in would meet the error of a [Cluster.Dial]
// again at once: a wrong password, an unknown role or database, no right to
// connect, a method that is not known, TLS that is not as it has to be.
func Permanent(err error) bool {
	hosts, ok := errors.AsType[*HostsError](err)
	if !ok {
		return lasting(err)
	}
	found := false
	for _, h := range hosts.Hosts {
		if _, wrong := errors.AsType[wrongRole](h); wrong {
			continue
		}
		if !lasting(h) {
			return false
		}
		found = true
	}
	return found
}

// lasting is Permanent for one host.
func lasting(err error) bool {
	if errors.Is(err, login.ErrNoCredentials) || errors.Is(err, login.ErrMethod) {
		return true
	}
	if _, ok := errors.AsType[*login.TLSError](err); ok {
		return true
	}
	told, ok := errors.AsType[*wire.Error](err)
	return ok && (strings.HasPrefix(told.Code, "28") || strings.HasPrefix(told.Code, "3D") || strings.HasPrefix(told.Code, "42"))
}

// Full tells what a server without room has said. With key the CONNECTION LIMIT of
// the role or of the database is reached: others can still come in. With all the
// server itself has no room. Of any other error both are false.
func Full(err error) (key, all bool) {
	told, ok := errors.AsType[*wire.Error](err)
	if !ok || told.Code != wire.CodeTooManyConnections {
		return false, false
	}
	key = strings.HasPrefix(told.Message, "too many connections for ")
	if r, ok := errors.AsType[*login.Refusal](err); ok && !key {
		// The message is in the language of the server, the name of the function is not.
		key = r.Routine == "InitializeSessionUserId" || r.Routine == "CheckMyDatabase"
	}
	return key, !key
}
