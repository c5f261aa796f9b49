package proxy

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/wire"
)

// A role's timeouts are defaults of its sessions on the server: they are in the startup packet
// of the server's login, so that RESET and DISCARD ALL go back to them as to any others.

// transactionTimeout is the one that Postgres has since version 17, and says FATAL before.
const (
	transactionTimeout      = "transaction_timeout"
	transactionTimeoutSince = 17
)

// slack is how much later than Postgres, in ns, a ceiling is enforced.
const slack = int64(20 * time.Millisecond)

// without returns the list without a name.
func without(list []wire.Param, name string) []wire.Param {
	var rest []wire.Param
	for _, p := range list {
		if p.Name != name {
			rest = append(rest, p)
		}
	}
	return rest
}

// enter logs in with the defaults of the role. Whether the server knows transaction_timeout is
// known when it has told its version: the first login that finds out is made again.
func (up *cluster) enter(ctx context.Context, r upstream.Request) (*upstream.Session, error) {
	all := r.Params
	for {
		r.Params = all
		modern := up.modern.Load()
		if !modern {
			r.Params = without(all, transactionTimeout)
		}
		s, err := up.link.Dial(ctx, r)
		switch asked := len(r.Params) < len(all); {
		case err == nil && asked && major(s.Version) >= transactionTimeoutSince:
			s.End(ctx)
			up.modern.Store(true)
		case err != nil && modern && len(without(all, transactionTimeout)) < len(all) && unknownTimeout(err):
			up.modern.Store(false) // another server has taken over
		default:
			return s, err
		}
	}
}

// unknownTimeout reports whether a server does not know transaction_timeout.
func unknownTimeout(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Code == wire.CodeUndefinedObject && strings.Contains(e.Message, transactionTimeout)
}

// major is the first number of a version; 0 if there is none.
func major(version string) int {
	end := 0
	for end < len(version) && '0' <= version[end] && version[end] <= '9' {
		end++
	}
	n, _ := strconv.Atoi(version[:end]) // 0 of nothing
	return n
}
