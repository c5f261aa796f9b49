package sim

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// cap draws ceilings of the roles, in a third of the worlds: so low that some of what is done
// in each script meets them. They are drawn apart, so that the other worlds are what they were
// before.
func (w *world) cap(seed int64) {
	dice := rand.New(rand.NewPCG(uint64(seed), 2))
	if dice.IntN(3) > 0 {
		return
	}
	r := session.Role{MaxClass: admission.Critical, PromoteShare: 1, Ceiling: true}
	for t, most := range [session.Timeouts]int64{
		session.StatementTimeout: 2_000_000, session.TransactionTimeout: 20_000_000, session.IdleTimeoutInTx: 3_000_000, session.LockTimeout: 1_000_000,
	} {
		if dice.IntN(2) == 0 {
			r.Timeouts[t] = 1 + dice.Int64N(most)
		}
	}
	w.capped = true
	w.core.Limit(func(string) session.Role { return r })
}

// AskLocks implements session.Env: any statement may wait for a lock.
func (w *world) AskLocks(*session.Server) {
	at := w.now
	w.after(w.delay(1_000_000), func() {
		waits := make(map[*session.Server]int64)
		for _, p := range w.core.Set().Servers(nil) {
			if sv, ok := p.Payload.(*session.Server); ok && w.rnd.IntN(2) == 0 {
				waits[sv] = int64(w.rnd.IntN(2)) * max(at-w.rnd.Int64N(2_000_000), 0)
			}
		}
		w.core.LockWaits(w.now, at, waits)
		w.afterHandler()
	})
}

// Stopped implements session.Env.
func (w *world) Stopped(_ *session.Client, t session.Timeout, _ time.Duration) { w.stopped[t]++ }

// withoutExcuses makes all errors by which statements were cancelled, or stopped by a ceiling,
// look alike: the oracle's server does not know whose the cancel was.
func withoutExcuses(b []byte) []byte {
	if !bytes.Contains(b, []byte("C"+wire.CodeQueryCanceled)) && !bytes.Contains(b, []byte("C"+wire.CodeLockNotAvailable)) {
		return b
	}
	var out []byte
	msgs, rest := wiretest.Messages(b)
	for _, m := range msgs {
		if m.Type == wire.MsgErrorResponse && excused(wire.ErrorFields(m.Body)) {
			out = wire.AppendError(out, stopped)
			continue
		}
		out = wire.AppendMessage(out, m.Type, m.Body)
	}
	return append(out, rest...)
}

// stopped stands for them.
var stopped = &wire.Error{Severity: wire.SeverityError, Code: wire.CodeQueryCanceled, Message: "stopped"}

func excused(e *wire.Error) bool {
	by, told := strings.CutPrefix(e.Detail, "reason=")
	return e.Severity == wire.SeverityError &&
		(e.Code == wire.CodeQueryCanceled && !told || strings.HasPrefix(by, "statement_timeout ") || strings.HasPrefix(by, "lock_timeout "))
}
