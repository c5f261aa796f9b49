package scenario

import (
	"math"
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// Outcome is what came of a scenario with one target.
type Outcome struct {
	Target string
	Result *bench.Result // nil if the scenario sends no load of its own
	Extra  map[string]float64
	by     float64 // the times of the run are longer by this factor than the scenario's
	locked
}

// Value is the value of a metric; false if this run has none.
func (o *Outcome) Value(m Metric) (float64, bool) {
	if v, ok := o.Extra[m.Name]; ok {
		return v, !math.IsNaN(v)
	}
	if _, known := Units()[m.Name]; !known || o.Result == nil {
		return math.NaN(), false
	}
	m = m.scaled(o.by)
	v := o.whole(m)
	if math.IsNaN(v) {
		v = o.part(m)
	}
	return v, !math.IsNaN(v)
}

// whole is the value of a metric that belongs to the whole run; NaN if it is none, or was
// not measured.
func (o *Outcome) whole(m Metric) float64 {
	r := o.Result
	switch {
	case m.Name == "reconnects":
		return float64(r.Counts.Reconnects())
	case m.Name == "attempts":
		return float64(r.Counts.Retries)/max(1, float64(r.Counts.Arrived)) + 1
	case m.Name == "lag-p99":
		return Millis(r.Lag().At(99))
	case m.Name == "backends" && r.Watched:
		return float64(r.Most.Open)
	case m.Name == "wasted" && r.Counted:
		return float64(r.Wasted())
	case m.Name == "wasted-share" && r.Counted:
		return 100 * float64(r.Wasted()) / max(1, float64(r.Most.Executed))
	case m.Name == "jain":
		return jain(servedByStream(r, m.From, m.To))
	case m.Name == "jain-seconds":
		return jainOfSeconds(r)
	case m.Name == "spread":
		return spread(r)
	}
	return nan()
}

// part is the value of a metric of some requests; NaN if there were none that it could be
// taken from.
func (o *Outcome) part(m Metric) float64 {
	s := o.Result.Sum(bench.Filter{From: m.From, To: m.To, Stream: m.Of})
	count := func(what bench.Outcome) float64 { return float64(s.By[what]) }
	share := func(what bench.Outcome) float64 { return 100 * count(what) / max(1, float64(s.Asked)) }
	switch m.Name {
	case "arrived":
		return float64(s.Asked)
	case "goodput":
		return s.Goodput()
	case "served":
		return 100 * s.Share()
	case "served-count":
		return count(bench.Served)
	case "p50":
		return Percentile(s.Took, 50)
	case "p99":
		return Percentile(s.Took, 99)
	case "p999":
		return Percentile(s.Took, 99.9)
	case "max":
		return Percentile(s.Took, 100)
	case "refused":
		if m.By != "" {
			return float64(len(o.told(m)))
		}
		return count(bench.Refused)
	case "refused-share":
		return share(bench.Refused)
	case "refusal-p50":
		return Percentile(o.told(m), 50)
	case "refusal-p99":
		return Percentile(o.told(m), 99)
	case "timeouts":
		return count(bench.GaveUp)
	case "timeouts-share":
		return share(bench.GaveUp)
	case "stopped":
		return count(bench.Stopped)
	case "errors":
		return count(bench.Failed)
	case "unsent":
		return count(bench.Unsent)
	}
	return nan()
}

// told is how long refused attempts waited for their refusal.
func (o *Outcome) told(m Metric) bench.Times {
	r := o.Result
	var list bench.Times
	for i := range r.Records {
		one := &r.Records[i]
		inside := m.To == 0 || one.Due >= m.From && one.Due < m.To
		of := m.Of == "" || r.Load.Streams[one.Stream].Title() == m.Of
		if one.Outcome == bench.Refused && inside && of && (m.By == "" || r.Causes[one.Cause].Reason == m.By) {
			list = append(list, one.Took)
		}
	}
	slices.Sort(list)
	return list
}

// Percentile is a percentile in milliseconds, NaN of nothing.
func Percentile(t bench.Times, at float64) float64 {
	if len(t) == 0 {
		return math.NaN()
	}
	return Millis(t.At(at))
}

// Millis is a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// jain is Jain's index of fairness: 1 if all have the same, 1/n if one has it all.
func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// servedByStream counts served requests by their end; to 0 is the end of the run.
func servedByStream(r *bench.Result, from, to time.Duration) []float64 {
	counts := make([]float64, len(r.Load.Streams))
	for i := range r.Records {
		one := &r.Records[i]
		end := one.Sent + one.Took
		if one.Outcome == bench.Served && end >= from && (to == 0 || end < to) {
			counts[one.Stream]++
		}
	}
	return counts
}

// jainOfSeconds is the mean of the index over all full seconds, up to the end of the first
// stream that has no more to do.
func jainOfSeconds(r *bench.Result) float64 {
	ends := lastEnds(r)
	first := slices.Min(ends)
	sum, n := 0.0, 0
	for at := time.Second; at+time.Second <= first; at += time.Second {
		sum += jain(servedByStream(r, at, at+time.Second))
		n++
	}
	if n == 0 {
		return jain(servedByStream(r, 0, 0))
	}
	return sum / float64(n)
}

// spread is how much earlier the first stream ended than the last, in percent.
func spread(r *bench.Result) float64 {
	ends := lastEnds(r)
	last := slices.Max(ends)
	if last == 0 {
		return 0
	}
	return 100 * float64(last-slices.Min(ends)) / float64(last)
}

// lastEnds is when the last request of each stream ended.
func lastEnds(r *bench.Result) []time.Duration {
	ends := make([]time.Duration, len(r.Load.Streams))
	for i := range r.Records {
		one := &r.Records[i]
		ends[one.Stream] = max(ends[one.Stream], one.Sent+one.Took)
	}
	return ends
}
