package status

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// rateMetrics are those of the rates, and of those who do not heed them. Without a rate they
// have no series.
type rateMetrics struct {
	group      group[state.Rate]
	escalation group[session.EscalationState]
}

func newRateMetrics() rateMetrics {
	type (
		R = state.Rate
		E = session.EscalationState
	)
	m := rateMetrics{group: group[R]{labels: []string{"rate"}, values: func(r *R) []string { return []string{label(r.Name)} }}}
	m.group.metric(counterKind, "pgweir_rate_requests_total", "Requests that a rate is for, by what became of them. would_refuse: let in, but refused with mode = \"enforce\".", "outcome").
		with(func(r *R) float64 { return float64(r.Passed) }, "passed").
		with(func(r *R) float64 { return float64(r.Refused) }, "refused").
		with(func(r *R) float64 { return float64(r.Would) }, "would_refuse")
	m.group.gauge("pgweir_rate_keys", "Callers that a rate knows.", func(r *R) float64 { return float64(r.Keys) })
	m.group.counter("pgweir_rate_evictions_total", "Callers that a rate has forgotten because there were too many.", func(r *R) uint64 { return r.Evicted })
	e := &m.escalation
	e.metric(gaugeKind, "pgweir_held_back_refusals", "Refusals by a rate that are held back now, and how many may be.", "state").
		with(func(e *E) float64 { return float64(e.Parked) }, "held").
		with(func(e *E) float64 { return float64(e.MostParked) }, "limit")
	e.counter("pgweir_held_back_refusals_total", "Refusals by a rate that were held back.", func(e *E) uint64 { return e.Delayed })
	e.counter("pgweir_rate_violations_total", "Requests before the time that a refusal by a rate had told.", func(e *E) uint64 { return e.Violations })
	e.gauge("pgweir_blocked_callers", "Roles at an address that are blocked now.", func(e *E) float64 { return float64(e.Blocked) })
	e.counter("pgweir_blocks_total", "Blocks of a role at an address.", func(e *E) uint64 { return e.Blocks })
	e.counter("pgweir_blocked_sessions_total", "Sessions ended because their role is blocked at their address.", func(e *E) uint64 { return e.Ended })
	return m
}

func (m *rateMetrics) describe(ch chan<- *prometheus.Desc) {
	m.group.describe(ch)
	m.escalation.describe(ch)
}

func (m *rateMetrics) collect(ch chan<- prometheus.Metric, s *state.Snapshot) {
	for i := range s.Rates {
		m.group.collect(ch, &s.Rates[i])
	}
	if len(s.Rates) > 0 || s.Escalation.Violations > 0 {
		m.escalation.collect(ch, &s.Escalation)
	}
}
