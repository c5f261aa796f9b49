package session

import (
	"strconv"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// refusal is what a client is told whose request was not let in: what, why and
// what to do, with numbers that a program can read.
func (cl *Client) refusal(v *admission.Verdict) *wire.Error {
	t := &contract[v.Reason]
	e := &wire.Error{Severity: t.Severity, Code: t.Code, Message: t.Message}
	if cl.login {
		e.Severity, e.Code = wire.SeverityFatal, t.login()
	}
	b := make([]byte, 0, 192)
	b = append(append(b, "reason="...), t.Reason...)
	b = append(append(b, " pool="...), cl.group.Workload.Name...)
	b = append(append(b, " class="...), cl.wait.Class.String()...)
	if cl.meta != nil && cl.meta.request.named && !cl.login {
		b = appendName(append(b, " tenant="...), cl.core.names.tenantName(cl.meta.request.tenant))
	}
	b = appendInt(append(b, " wait_ms="...), v.Waited/int64(time.Millisecond))
	b = appendInt(append(b, " slots="...), int64(v.Slots))
	b = appendInt(append(b, " queued="...), int64(v.Queued))
	if v.Reason == admission.NoServer && cl.info.failure != nil {
		b = append(append(b, " last_error="...), cl.info.failure.Code...)
	}
	b = cl.appendRate(b, v)
	e.Detail = string(b)
	b = b[:0]
	if t.Retry == RetryYes {
		after := v.RetryAfter
		if v.Reason != admission.Rate { // which knows exactly when
			after = backOff(after, cl.wait.Attempt)
		}
		b = append(appendInt(append(b, "retry_after_ms="...), after/int64(time.Millisecond)), ' ')
	}
	e.Hint = string(t.appendRetry(b))
	return e
}

// mostRetryAfter bounds what those are told to wait who come again and again, in ns.
const mostRetryAfter = 30e9

// backOff doubles the time until a client may come back with each of its attempts.
func backOff(after int64, attempt uint8) int64 {
	for ; attempt > 1 && after < mostRetryAfter; attempt-- {
		after *= 2
	}
	return min(after, mostRetryAfter)
}

// mostName bounds a name in DETAIL that clients choose, in bytes.
const mostName = 64

// appendName appends a name that clients choose: in quotes if it could be mistaken for more
// than one word.
func appendName(b []byte, name string) []byte {
	name = name[:min(len(name), mostName)]
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=' {
			return strconv.AppendQuoteToASCII(b, name)
		}
	}
	return append(b, name...)
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// asPgBouncer is what PgBouncer tells who has waited for too long, before it ends the
// session.
var asPgBouncer = &wire.Error{Severity: wire.SeverityFatal, Code: wire.CodeProtocolViolation, Message: "query_wait_timeout"}

// Imitate makes refusals of the queue look, and end the session, as PgBouncer's do; or no
// more.
func (co *Core) Imitate(pgBouncer bool) { co.imitates = pgBouncer }

// serverLost is what a client is told whose server connection ended under it, and for what it
// was pinned to it.
func serverLost(k *KeyInfo, pinned relay.Pins) *wire.Error {
	e := Say("server_lost")
	e.Detail += " database=" + k.Database
	if pinned != 0 {
		e.Detail += " pinned=" + pinned.String()
	}
	return e
}
