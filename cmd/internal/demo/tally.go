package demo

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// outcome is what came of an arrival.
type outcome int

const (
	served  outcome = iota // in time: there is no other way to be served
	refused                // by pgweir, over a session that goes on
	gaveUp                 // the client's patience ended
	failed                 // anything else
	outcomes
)

// visit is an arrival and its end.
type visit struct {
	arrival
	took time.Duration
	what outcome
}

// counts are totals since a run began.
type counts struct {
	arrived  int
	by       [outcomes]int
	executed int // statements that Postgres has finished
}

// waiting is how many have no answer yet.
func (c counts) waiting() int {
	n := c.arrived
	for _, k := range c.by {
		n -= k
	}
	return n
}

// tally counts what comes of the arrivals of a run.
type tally struct {
	mu       sync.Mutex
	counts   counts
	visits   []visit
	forgets  bool // visits are not kept: the run has no end
	lost     int  // sessions that ended though their client did not want it
	reopened int  // sessions opened again
	refusal  *pgconn.PgError
	failure  error // the first
}

// arrive notes that somebody came.
func (t *tally) arrive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.arrived++
}

// add notes the end of an arrival, and whether the session goes on.
func (t *tally) add(a arrival, took time.Duration, err error, goesOn bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := judge(err, goesOn)
	t.counts.by[what]++
	if !t.forgets {
		t.visits = append(t.visits, visit{a, took, what})
	}
	switch {
	case what == refused && t.refusal == nil:
		t.refusal, _ = errors.AsType[*pgconn.PgError](err)
	case what == failed:
		t.fail(err)
	}
	if !goesOn && what != gaveUp {
		t.lost++
	}
}

// judge tells what an answer means.
func judge(err error, goesOn bool) outcome {
	switch {
	case err == nil:
		return served
	case goesOn && isRefusal(err):
		return refused
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return gaveUp
	default:
		return failed
	}
}

// isRefusal finds an answer of pgweir itself: one that keeps the session and says that it
// is pgweir's. Everything else is an error.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Severity == "ERROR" && strings.HasPrefix(e.Message, "pgweir:")
}

// fail keeps the first error that is no refusal. The caller holds t.mu.
func (t *tally) fail(err error) {
	if t.failure == nil {
		t.failure = err
	}
}

// opened notes that a session was opened again, or why not.
func (t *tally) opened(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.reopened++
		return
	}
	t.lost++
	t.fail(err)
}

// now is how things stand.
func (t *tally) now() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

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
