package demo

import (
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// result is what came of a run.
type result struct {
	policy   policy
	phases   []part
	normal   time.Duration // from the end of the overload until the load was served as before
	isNormal bool          // it came to that
	executed int           // statements that Postgres finished
	servers  int           // most server connections seen at once
	lost     int           // sessions that ended though their client did not want it, or could not be opened
	reopened int           // sessions that were opened again
	refusal  *pgconn.PgError
	failure  error // the first that is no refusal
}

// part is what came of a phase: of those who arrived in it.
type part struct {
	stretch
	served, refused bench.Times
	gaveUp, failed  int
}

// rate is n per second of the phase.
func (p part) rate(n int) float64 { return float64(n) / p.length.Seconds() }

// asked is how many arrived.
func (p part) asked() int { return len(p.served) + len(p.refused) + p.gaveUp + p.failed }

// newResult takes from a run what the demonstration shows.
func newResult(p policy, list []stretch, b *bench.Result) *result {
	r := &result{
		policy: p, executed: int(b.Most.Executed), servers: b.Most.Open,
		lost: b.Counts.Lost + b.Counts.Unable, reopened: b.Counts.Left, refusal: b.Refusal, failure: b.Failure,
	}
	from := time.Duration(0)
	for _, s := range list {
		sum := b.Sum(bench.Filter{From: from, To: from + s.length})
		r.phases = append(r.phases, part{
			stretch: s, served: sum.Took, refused: sum.Told, gaveUp: sum.By[bench.GaveUp],
			failed: sum.By[bench.Failed] + sum.By[bench.Stopped] + sum.By[bench.Unsent],
		})
		from += s.length
	}
	r.normal, r.isNormal = recovery(b.Records, list)
	return r
}

// served is how many were, in all phases.
func (r *result) served() int {
	n := 0
	for _, p := range r.phases {
		n += len(p.served)
	}
	return n
}

// failed is how many ended in an error that is no refusal.
func (r *result) failed() int {
	n := 0
	for _, p := range r.phases {
		n += p.failed
	}
	return n
}

// wasted is how many statements Postgres finished whose client had left.
func (r *result) wasted() int { return max(0, r.executed-r.served()) }

// judged is how finely the time after the overload is looked at.
const judged = 250 * time.Millisecond

// recovery is how long after the overload requests were served as before: the first of two
// windows in a row of whose arrivals at least nine in ten were served, and half of all
// within twice the nap. It is false if there are none.
func recovery(records []bench.Record, list []stretch) (time.Duration, bool) {
	var begin time.Duration
	for _, s := range list[:after] {
		begin += s.length
	}
	type window struct{ all, served, quick int }
	windows := make([]window, int(list[after].length/judged)+1)
	for _, v := range records {
		if v.Due < begin || v.Due >= begin+list[after].length {
			continue
		}
		w := &windows[(v.Due-begin)/judged]
		w.all++
		if v.Outcome != bench.Served {
			continue
		}
		w.served++
		if v.Took <= 2*nap {
			w.quick++
		}
	}
	row := 0
	for i, w := range windows {
		if w.all == 0 || 10*w.served < 9*w.all || 2*w.quick < w.all {
			row = 0
			continue
		}
		if row++; row == 2 {
			return time.Duration(i-1) * judged, true
		}
	}
	return 0, false
}
