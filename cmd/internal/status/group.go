package status

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// group is the metrics of one kind of things T that share their first labels.
type group[T any] struct {
	labels  []string
	values  func(*T) []string // of labels
	columns []column[T]
	descs   []*prometheus.Desc
}

// column is one series of a group.
type column[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	extra []string // values of the labels after the group's
	value func(*T) float64
}

// series is a column under construction: further series of the same metric are made by with.
type series[T any] struct {
	g    *group[T]
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// counter adds a counter with one series, that of no further labels.
func (g *group[T]) counter(name, help string, value func(*T) uint64) {
	g.metric(prometheus.CounterValue, name, help).with(func(t *T) float64 { return float64(value(t)) })
}

// gauge adds a gauge with one series.
func (g *group[T]) gauge(name, help string, value func(*T) float64) {
	g.metric(prometheus.GaugeValue, name, help).with(value)
}

// metric adds a metric; its series are added by with.
func (g *group[T]) metric(kind prometheus.ValueType, name, help string, extra ...string) series[T] {
	d := desc(name, help, slices.Concat(g.labels, extra)...)
	g.descs = append(g.descs, d)
	return series[T]{g, d, kind}
}

// with adds the series of these values of the extra labels.
func (s series[T]) with(value func(*T) float64, extra ...string) series[T] {
	s.g.columns = append(s.g.columns, column[T]{s.desc, s.kind, extra, value})
	return s
}

func (g *group[T]) describe(ch chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		ch <- d
	}
}

func (g *group[T]) collect(ch chan<- prometheus.Metric, t *T) {
	var shared []string
	if g.values != nil {
		shared = g.values(t)
	}
	var pairs []*dto.LabelPair // of all columns without further labels
	for i := range g.columns {
		c := &g.columns[i]
		m := &number{desc: c.desc, kind: c.kind, value: c.value(t)}
		switch {
		case len(c.extra) > 0:
			m.pairs = prometheus.MakeLabelPairs(c.desc, slices.Concat(shared, c.extra))
		case pairs == nil:
			pairs = prometheus.MakeLabelPairs(c.desc, shared)
			m.pairs = pairs
		default:
			m.pairs = pairs
		}
		ch <- m
	}
}

// number is a counter or gauge. Unlike the library's it can share its labels with others,
// which halves what a scrape of thousands of pools costs.
type number struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	pairs []*dto.LabelPair // nobody changes them
	value float64
}

// Desc describes the metric.
func (m *number) Desc() *prometheus.Desc { return m.desc }

// Write fills in the value.
func (m *number) Write(out *dto.Metric) error {
	out.Label = m.pairs
	if m.kind == prometheus.CounterValue {
		out.Counter = &dto.Counter{Value: &m.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &m.value}
	}
	return nil
}

// desc describes a metric. Its unit is told by its name.
func desc(name, help string, labels ...string) *prometheus.Desc {
	unit := ""
	base := strings.TrimSuffix(name, "_total")
	for _, u := range []string{"seconds", "bytes"} {
		if strings.HasSuffix(base, "_"+u) {
			unit = u
		}
	}
	return prometheus.V2.NewDesc(name, help, prometheus.UnconstrainedLabels(labels), nil, prometheus.WithUnit(unit))
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, v uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// unixSeconds is a time for Prometheus; 0 for the zero time.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1e3
}

// maxLabel bounds the bytes of a name that clients choose. Postgres cuts its own at 63.
const maxLabel = 128

// label makes a label's value of a name that may hold anything: clients choose database and
// role, and Prometheus refuses a whole scrape for one byte that is not UTF-8. Names that had
// to be changed get a hash of the original, so that two of them stay two.
func label(name string) string {
	if len(name) <= maxLabel && utf8.ValidString(name) {
		return name
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return fmt.Sprintf("%s~%08x", strings.ToValidUTF8(name[:min(len(name), maxLabel)], "?"), h.Sum32())
}

// busiest returns the n items with the most work, in their old order, and how many others
// there are. Work should only grow, so that the choice does not flicker.
func busiest[T any](items []T, n int, work func(*T) uint64) (chosen []T, leftOut int) {
	if len(items) <= n {
		return items, 0
	}
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(work(&items[b]), work(&items[a])) })
	order = order[:n]
	slices.Sort(order)
	chosen = make([]T, n)
	for i, at := range order {
		chosen[i] = items[at]
	}
	return chosen, len(items) - n
}
