package simulate

import (
	"math"
	"time"

	"github.com/pgweir/pgweir/admission"
)

// Figures are what became of some pages. Times are in ms, and rates per second of the window
// in which the pages were wanted. Of several seeds they are means.
type Figures struct {
	Arrived    float64 `json:"arrived"`
	Served     float64 `json:"served"` // in time
	Goodput    float64 `json:"goodput_per_s"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	Refused    float64 `json:"refused"` // for good
	Told50     float64 `json:"told_p50_ms"`
	Told99     float64 `json:"told_p99_ms"`
	ToldMean   float64 `json:"told_mean_ms"`
	TimedOut   float64 `json:"timed_out"` // for good
	Lost       float64 `json:"lost"`      // with their connections, for good
	Attempts   float64 `json:"attempts"`  // per page of one statement
	InVain     float64 `json:"statements_in_vain"`
	Busy       float64 `json:"slot_seconds"`
	WastedPart float64 `json:"wasted_part"` // of the slots' time: for those who had left, and for pages that failed later

	Reasons map[string]float64 `json:"refusals,omitempty"` // of attempts, by reason
}

// fields are the numbers in one order.
func (f *Figures) fields() []*float64 {
	return []*float64{
		&f.Arrived, &f.Served, &f.Goodput, &f.P50, &f.P99, &f.Refused, &f.Told50, &f.Told99, &f.ToldMean,
		&f.TimedOut, &f.Lost, &f.Attempts, &f.InVain, &f.Busy, &f.WastedPart,
	}
}

// figures of a count over so much time.
func (c *count) figures(over time.Duration) Figures {
	f := Figures{
		Arrived: float64(c.arrived), Served: float64(c.served), Goodput: float64(c.served) / over.Seconds(),
		P50: c.latency.quantile(0.5), P99: c.latency.quantile(0.99),
		Told50: c.told.quantile(0.5), Told99: c.told.quantile(0.99), ToldMean: c.told.mean(),
		TimedOut: float64(c.timedOut), Lost: float64(c.lost), InVain: float64(c.inVain), Busy: float64(c.busy) / 1e9,
		Reasons: map[string]float64{},
	}
	if c.arrived > 0 {
		f.Attempts = float64(c.attempts) / float64(c.arrived)
	}
	if c.busy > 0 {
		f.WastedPart = float64(c.wasted+c.broken) / float64(c.busy)
	}
	for r, n := range c.refused {
		f.Refused += float64(n)
		if of := c.refusals[r]; of > 0 {
			f.Reasons[admission.Reason(r).String()] = float64(of)
		}
	}
	return f
}

// mean of the figures of several seeds, and their standard deviation.
func mean(list []Figures) (m, spread Figures) {
	n := float64(len(list))
	m.Reasons = map[string]float64{}
	to, dev := m.fields(), spread.fields()
	for _, f := range list {
		for i, v := range f.fields() {
			*to[i] += *v / n
		}
		for r, v := range f.Reasons {
			m.Reasons[r] += v / n
		}
	}
	for _, f := range list {
		for i, v := range f.fields() {
			*dev[i] += (*v - *to[i]) * (*v - *to[i])
		}
	}
	for i := range dev {
		*dev[i] = math.Sqrt(*dev[i] / max(n-1, 1))
	}
	return m, spread
}

// Report is what all seeds of a scenario came to.
type Report struct {
	Scenario string   `json:"scenario"`
	Seeds    int      `json:"seeds"`
	Requests float64  `json:"requests"` // of all seeds
	All      Group    `json:"all"`
	Windows  []Group  `json:"windows"`
	Groups   []Group  `json:"groups"`          // streams, and what they add up to by workload and class
	Cells    []Group  `json:"cells,omitempty"` // streams by window, if there are several of each
	Tenants  []Tenant `json:"tenants"`         // of streams with several, the worst served first

	Slots         int     `json:"slots"`
	MostWaiting   float64 `json:"most_waiting"`
	MostRunning   float64 `json:"most_running"`
	Used          float64 `json:"used"` // part of the slots' time until the last request ended
	Logins        float64 `json:"logins"`
	FailedLogins  float64 `json:"failed_logins"`
	Moves         float64 `json:"moves"`
	FalseRefusals float64 `json:"false_refusals"` // as the gate counts them
	FalseOracle   float64 `json:"false_refusals_replayed"`
	Jain          float64 `json:"jain"` // of the streams of clients that ask again and again; 0 = there are none
	Finished      []Done  `json:"finished,omitempty"`
}

// Group is a part of the pages: of a time, a stream, a workload or a class.
type Group struct {
	Kind   string  `json:"kind"` // all, window, stream, workload, class
	Name   string  `json:"name"`
	From   float64 `json:"from_s"`
	To     float64 `json:"to_s"`
	Mean   Figures `json:"mean"`
	Spread Figures `json:"spread"` // standard deviation over the seeds
}

// Tenant is what became of a tenant's pages, on average over the seeds.
type Tenant struct {
	Stream   string  `json:"stream"`
	Number   int     `json:"number"`
	Arrived  float64 `json:"arrived"`
	Served   float64 `json:"served"`
	Refused  float64 `json:"refused"`
	TimedOut float64 `json:"timed_out"`
	Busy     float64 `json:"slot_seconds"`
}

// Done is when the clients of a stream had sent all of their queries.
type Done struct {
	Stream string  `json:"stream"`
	At     float64 `json:"at_s"`
}
