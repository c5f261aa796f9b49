package status

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// classRow is a class of a workload.
type classRow struct {
	w *state.Workload
	c *state.Class
}

// classMetrics are those of the classes. A class that was never seen has no series: of the
// four most workloads use one.
type classMetrics struct {
	group                  group[classRow]
	refusals, would, waits *prometheus.Desc
}

func newClassMetrics() classMetrics {
	type C = classRow
	labels := []string{"upstream", "workload", "class"}
	m := classMetrics{
		group: group[C]{labels: labels, values: func(r *C) []string {
			return []string{label(r.w.Upstream), label(r.w.Name), r.c.Class.String()}
		}},
		refusals: desc("pgweir_class_refusals_total", "Requests refused by the queue, by class and reason.", append(labels, "reason")...),
		would:    desc("pgweir_would_refuse_total", "Requests let in that mode = \"enforce\" would have refused, by the first reason for it.", append(labels, "reason")...),
		waits: desc("pgweir_class_wait_seconds", "Waits for a slot by class, of the busiest workloads that have seen more than one; of the others pgweir_wait_seconds says all.",
			append(labels, "outcome")...),
	}
	g := &m.group
	g.gauge("pgweir_class_waiting_clients", "Clients in the queue, by class.", func(r *C) float64 { return float64(r.c.Waiting) })
	g.gauge("pgweir_class_oldest_wait_seconds", "How long the oldest waiter of a class has waited; 0 if nobody waits.", func(r *C) float64 { return seconds(r.c.Oldest) })
	g.gauge("pgweir_class_wait_limit_seconds", "max_wait of a class: the longest wait for a slot.", func(r *C) float64 { return seconds(r.c.MaxWait) })
	g.gauge("pgweir_class_standing", "1 while the queue of a class has not been short for a while: more comes than the slots can end.", func(r *C) float64 { return truth(r.c.Standing) })
	g.counter("pgweir_class_granted_total", "Requests that got a slot, by class.", func(r *C) uint64 { return r.c.Granted })
	g.counter("pgweir_goodput_total", "Requests answered while that was of use: before their deadline, or without one at all, to a client that was still there.", func(r *C) uint64 { return r.c.Goodput })
	return m
}

func (m *classMetrics) describe(ch chan<- *prometheus.Desc) {
	m.group.describe(ch)
	for _, d := range []*prometheus.Desc{m.refusals, m.would, m.waits} {
		ch <- d
	}
}

// maxClassWaits bounds the workloads whose classes have histograms, which are most of a scrape.
const maxClassWaits = 100

func (m *classMetrics) collect(ch chan<- prometheus.Metric, list []state.Workload) {
	var several []*state.Workload
	for i := range list {
		m.counts(ch, &list[i])
		if len(list[i].Classes) > 1 { // else they are the workload's
			several = append(several, &list[i])
		}
	}
	several, _ = busiest(several, maxClassWaits, func(w **state.Workload) uint64 { return (*w).Granted + refused(*w) })
	for _, w := range several {
		m.histograms(ch, w)
	}
}

// counts sends all but the histograms.
func (m *classMetrics) counts(ch chan<- prometheus.Metric, w *state.Workload) {
	for i := range w.Classes {
		c := &w.Classes[i]
		m.group.collect(ch, &classRow{w, c})
		upstream, name, class := label(w.Upstream), label(w.Name), c.Class.String()
		reasons := func(d *prometheus.Desc, list *[admission.Reasons]uint64) {
			for r, n := range list {
				if n > 0 {
					counter(ch, d, n, upstream, name, class, admission.Reason(r).String())
				}
			}
		}
		reasons(m.refusals, &c.Refused)
		reasons(m.would, &c.Would)
	}
}

func (m *classMetrics) histograms(ch chan<- prometheus.Metric, w *state.Workload) {
	for i := range w.Classes {
		c := &w.Classes[i]
		upstream, name, class := label(w.Upstream), label(w.Name), c.Class.String()
		ch <- newWaits(m.waits, &c.GrantWaits, upstream, name, class, "served")
		if c.RefusalWaits.Count() > 0 {
			ch <- newWaits(m.waits, &c.RefusalWaits, upstream, name, class, "refused")
		}
	}
}
