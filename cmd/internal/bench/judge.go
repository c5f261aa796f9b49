package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// judge tells what an error means. nil is the service that was asked for.
func judge(err error) (Outcome, Cause) {
	if err == nil {
		return Served, Cause{}
	}
	if errors.Is(err, errNoSession) {
		return Unsent, Cause{Reason: "no free connection"}
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return judgeAnswer(e)
	}
	switch {
	case late(err):
		return GaveUp, Cause{Reason: "patience"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return Failed, Cause{Reason: "connection refused"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return Failed, Cause{Reason: "connection closed"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Failed, Cause{Reason: "no connection in time"}
	default:
		return Failed, Cause{Reason: "other error"}
	}
}

// judgeAnswer tells what an error of the server means. Poolers have few codes for many
// things: what they say when they do not do the work is a refusal, whatever the code.
func judgeAnswer(e *pgconn.PgError) (Outcome, Cause) {
	c := Cause{Code: e.Code, Reason: field(e.Detail, "reason"), Fatal: fatal(e)}
	if c.Reason == "" && isWord(e.Message) {
		c.Reason = e.Message // of PgBouncer, such as query_wait_timeout
	}
	switch {
	case strings.HasPrefix(e.Message, "pgweir:") || field(e.Detail, "reason") != "":
		return Refused, c
	case e.Code == "57014":
		return Stopped, c
	case e.Code == "57P03", slices.Contains([]string{"08", "53"}, e.Code[:min(2, len(e.Code))]):
		return Refused, c
	case strings.Contains(e.Message, "odyssey:"):
		return Refused, c
	default:
		return Failed, c
	}
}

// isWord reports that a text can stand in a table.
func isWord(text string) bool {
	return text != "" && len(text) <= 40 && !strings.ContainsAny(text, " \n")
}

// field is the value of key=value in a text of such words; empty if there is none.
func field(text, key string) string {
	for word := range strings.FieldsSeq(text) {
		if value, ok := strings.CutPrefix(word, key+"="); ok {
			return value
		}
	}
	return ""
}

// hint is what the HINT of a refusal says: how long to wait, and whether it is of use.
func hint(err error) (after time.Duration, again, ok bool) {
	e, isPg := errors.AsType[*pgconn.PgError](err)
	if !isPg {
		return 0, true, false
	}
	ms, parseErr := strconv.ParseInt(field(e.Hint, "retry_after_ms"), 10, 64)
	if parseErr != nil || ms < 0 || ms > time.Hour.Milliseconds() {
		return 0, field(e.Hint, "retry") != "no", false
	}
	return time.Duration(ms) * time.Millisecond, field(e.Hint, "retry") != "no", true
}

// pause is how long a client waits after a failed attempt, the n-th, and whether it asks
// again at all. random is from 0 to below 1.
func (r Retry) pause(n int, err error, random float64) (time.Duration, bool) {
	if n > r.Most {
		return 0, false
	}
	if r.Honour {
		after, again, ok := hint(err)
		if !again {
			return 0, false
		}
		if ok {
			return after, true
		}
	}
	d := float64(r.Delay)
	if r.Doubling {
		d *= float64(uint64(1) << min(n-1, 20))
	}
	return time.Duration(random * d), true
}

// answered is the server's error in an error, or nil.
func answered(err error) *pgconn.PgError {
	e, _ := errors.AsType[*pgconn.PgError](err)
	return e
}
