package bench

import (
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// Counts are totals since a run began.
type Counts struct {
	Arrived int           // requests that were due
	By      [Outcomes]int // requests, by what came of them in the end
	Retries int           // attempts after the first
	Done    int           // statements that were answered in full

	Grown  int // connections opened because none was free
	Lost   int // connections that the other side ended
	Left   int // connections that clients ended or left when their patience did
	Unable int // connections that could not be opened
}

// Waiting is how many requests have not come to their end.
func (c Counts) Waiting() int {
	n := c.Arrived
	for _, k := range c.By {
		n -= k
	}
	return n
}

// Reconnects is how many connections had to be opened in the place of others.
func (c Counts) Reconnects() int { return c.Lost + c.Left }

// tally collects what comes of a run.
type tally struct {
	mu      sync.Mutex
	counts  Counts
	records []Record
	forgets bool // records are not kept: the run has no end
	causes  []Cause
	index   map[Cause]int32
	refusal *pgconn.PgError // the first
	failure error           // the first
}

func newTally(forgets bool) *tally {
	// Cause 0 is none.
	return &tally{forgets: forgets, causes: []Cause{{}}, index: map[Cause]int32{{}: 0}}
}

// arrive notes that a request is due.
func (t *tally) arrive() { t.count(func(c *Counts) { c.Arrived++ }) }

// count changes the counts.
func (t *tally) count(change func(*Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.counts)
}

// add notes the end of an attempt, and why.
func (t *tally) add(r Record, cause Cause, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Last {
		t.counts.By[r.Outcome]++
	}
	if r.Attempt > 1 {
		t.counts.Retries++
	}
	t.counts.Done += int(r.Done)
	if !t.forgets {
		r.Cause = t.causeLocked(cause)
		t.records = append(t.records, r)
	}
	switch {
	case r.Outcome == Refused && t.refusal == nil:
		t.refusal = answered(err)
	case r.Outcome == Failed:
		t.failLocked(err)
	}
}

// fail keeps the first error that is no refusal.
func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failLocked(err)
}

func (t *tally) failLocked(err error) {
	if t.failure == nil {
		t.failure = err
	}
}

// maxCauses bounds the causes of a run; more of them are not told apart.
const maxCauses = 200

// causeLocked is the number of a cause.
func (t *tally) causeLocked(c Cause) int32 {
	if i, ok := t.index[c]; ok {
		return i
	}
	if len(t.causes) >= maxCauses {
		c = Cause{Reason: "something else"}
		if i, ok := t.index[c]; ok {
			return i
		}
	}
	i := int32(len(t.causes))
	t.causes, t.index[c] = append(t.causes, c), i
	return i
}

// now is how things stand.
func (t *tally) now() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}
