package bench

import (
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Result is what came of a run.
type Result struct {
	Target  string // its name
	Load    Load
	Took    time.Duration // until the last answer
	Counts  Counts
	Records []Record // in the order in which the attempts ended
	Causes  []Cause  // of the records; 0 is none

	Refusal *pgconn.PgError // the first
	Failure error           // the first that is no refusal

	Watched   bool    // Postgres was: what follows is there
	Counted   bool    // Executed is there
	Most      Servers // the highest numbers seen at once; Executed is the total
	Series    []Look  // about one for each second
	Unsettled bool    // Postgres was still busy when the wait for it ended
}

// result ends the tally.
func (g *generator) result(t Target) *Result {
	g.tally.mu.Lock()
	defer g.tally.mu.Unlock()
	return &Result{
		Target: t.Name, Load: *g.load, Took: g.since(), Counts: g.tally.counts,
		Records: g.tally.records, Causes: g.tally.causes, Refusal: g.tally.refusal, Failure: g.tally.failure,
	}
}

// watched takes over what was seen of Postgres.
func (r *Result) watched(w *watch, counted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Watched, r.Counted, r.Most, r.Series = true, counted, w.most, w.series
	r.Most.Executed = w.last.Executed - w.base
}

// Wasted is how many statements Postgres has finished whose clients did not get an answer
// in time; 0 if they were not counted.
func (r *Result) Wasted() int64 {
	if !r.Counted {
		return 0
	}
	return max(0, r.Most.Executed-int64(r.Counts.Done))
}
