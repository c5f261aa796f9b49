package demo

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// times are how long answers took.
type times []time.Duration

// at is a percentile, by nearest rank; 0 if there are none.
func (t times) at(percent int) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[max(0, (len(t)*percent+99)/100-1)]
}

// tally counts what came of the arrivals of a phase.
type tally struct {
	mu       sync.Mutex
	served   times
	refused  times
	codes    map[string]int // refusals by SQLSTATE
	refusal  *pgconn.PgError
	failed   int // neither served nor refused
	failure  error
	notSent  int // no client was free
	sessions int // lost
}

// add notes the answer to an arrival.
func (t *tally) add(took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	refusal := refusalIn(err)
	switch {
	case err == nil:
		t.served = append(t.served, took)
	case refusal != nil:
		t.refused = append(t.refused, took)
		if t.refusal == nil {
			t.refusal, t.codes = refusal, make(map[string]int)
		}
		t.codes[refusal.Code]++
	default:
		t.failed++
		if t.failure == nil {
			t.failure = err
		}
	}
}

// refusalIn finds an answer of pgweir itself: one that keeps the session and says that it
// is pgweir's. Everything else is an error.
func refusalIn(err error) *pgconn.PgError {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Severity != "ERROR" || !strings.HasPrefix(e.Message, "pgweir:") {
		return nil
	}
	return e
}

// unsent notes an arrival for which no client was free.
func (t *tally) unsent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notSent++
}

// lost notes the end of a session.
func (t *tally) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions++
}

// mark is how far a reader of the tally has come.
type mark struct {
	served, refused int
	at              time.Duration
}

// window is what happened between two marks.
type window struct {
	served, refused times
	from, to        time.Duration // since the phase began
}

// since is what happened after a mark, and the mark for the next time. now is the time
// since the phase began.
func (t *tally) since(from mark, now time.Duration) (window, mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := window{slices.Clone(t.served[from.served:]), slices.Clone(t.refused[from.refused:]), from.at, now}
	return w, mark{len(t.served), len(t.refused), now}
}

// result is what came of a phase.
type result struct {
	phase           phase
	asked           int // arrivals that were sent
	served, refused times
	codes           map[string]int  // refusals by SQLSTATE
	refusal         *pgconn.PgError // the first one; nil if there was none
	failed          int             // errors that are no refusals
	failure         error           // the first of them
	notSent         int             // arrivals that found no client free
	lost            int             // sessions that ended
	servers         int             // most server connections seen at once
	length          time.Duration   // during which arrivals came
	elapsed         time.Duration   // until the last was answered
	balanced        bool            // the sum over all accounts is as it was
}

// result ends the tally.
func (t *tally) result(p phase, length, elapsed time.Duration) *result {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &result{
		phase: p, asked: len(t.served) + len(t.refused) + t.failed, served: t.served, refused: t.refused,
		codes: t.codes, refusal: t.refusal, failed: t.failed, failure: t.failure,
		notSent: t.notSent, lost: t.sessions, length: length, elapsed: elapsed,
	}
}

// servedRate is per second until the last answer: the queue that is left when the arrivals
// end is work done after them.
func (r *result) servedRate() float64 { return float64(len(r.served)) / r.elapsed.Seconds() }

// rate is n per second of arrivals.
func (r *result) rate(n int) float64 { return float64(n) / r.length.Seconds() }
