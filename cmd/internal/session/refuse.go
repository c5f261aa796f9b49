package session

import (
	"strconv"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
)

// refusal is what a client is told whose request was not let in: what, why and
// what to do, with numbers that a program can read.
func refusal(v admission.Verdict, pool string, k *KeyInfo) *wire.Error {
	e := &wire.Error{Severity: "ERROR", Code: "53300", Message: messageOf(v.Reason)}
	b := make([]byte, 0, 128)
	b = append(append(b, "reason="...), v.Reason.String()...)
	b = append(append(b, " pool="...), pool...)
	b = appendInt(append(b, " wait_ms="...), v.Waited/int64(time.Millisecond))
	b = appendInt(append(b, " slots="...), int64(v.Slots))
	b = appendInt(append(b, " queued="...), int64(v.Queued))
	e.Detail = string(b)
	b = appendInt(append(b[:0], "retry_after_ms="...), v.RetryAfter/int64(time.Millisecond))
	e.Hint = string(append(b, " retry=yes"...))
	if v.Reason == admission.NoServer && k.failure != nil {
		e.Detail += " last_error=" + k.failure.Code
	}
	return e
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

func messageOf(r admission.Reason) string {
	switch r {
	case admission.QueueFull:
		return "pgweir: too many requests wait for a server connection"
	case admission.NoServer:
		return "pgweir: no server connection could be made to the database"
	}
	return "pgweir: no server connection became free in time"
}

// serverLost is what a client is told whose server connection ended under it.
func serverLost(k *KeyInfo) *wire.Error {
	return &wire.Error{
		Severity: "FATAL", Code: "57P01", Message: "pgweir: the server connection was lost",
		Detail: "reason=server_lost database=" + k.Database,
		Hint:   "retry=check; what was running may or may not have been done; reconnect",
	}
}
