package main

import (
	"fmt"
	"strings"
)

// goal is what pgweir wants of a metric.
type goal struct {
	experiment string
	cell       string // the end of the cell's name; empty: every cell
	metric     string
	ratio      bool // of pgweir to PgBouncer rather than pgweir's own value
	least      bool // bound is a least value rather than a greatest
	bound      float64
}

// goals are the project's; what they mean is said in README.md.
func goals() []goal {
	return []goal{
		{experiment: "cpu", cell: " 64", metric: cpuPerTx, ratio: true, bound: 0.92},
		{experiment: "cpu", cell: " 16", metric: cpuPerTx, ratio: true, bound: 1.08},
		{experiment: "sat", cell: " 64", metric: tps, ratio: true, least: true, bound: 1.1},
		{experiment: "copy", metric: cpuPerMB, ratio: true, bound: 0.6},
		{experiment: "idle", cell: " 0", metric: memoryPerClient, bound: 2},
		{experiment: "idle", metric: idleWakeups, bound: 0},
		{experiment: "tls", metric: cpuPerTx, ratio: true, bound: 0.8},
		{experiment: "tlsidle", cell: "small queries", metric: memoryPerClient, bound: 15},
		{experiment: "tlsidle", metric: idleWakeups, bound: 0},
		{experiment: "slow", metric: memoryGrowth, bound: 1},
	}
}

// verdict is the goal of a metric and whether the median meets it, or empty where there is
// no goal, or no pgweir or PgBouncer in their places.
func (e *experiment) verdict(m *metric, labels []string) string {
	for _, g := range goals() {
		if g.experiment == e.Name && g.metric == m.Name && strings.HasSuffix(m.Cell, g.cell) {
			return g.verdict(e, m, labels)
		}
	}
	return ""
}

func (g goal) verdict(e *experiment, m *metric, labels []string) string {
	if labels[0] != "pgweir" || g.ratio && (len(labels) < 2 || labels[1] != "pgbouncer") {
		return ""
	}
	values, sign := m.Samples[labels[0]], "<="
	if g.ratio {
		values = ratios(values, m.Samples[labels[1]])
	}
	if len(values) == 0 {
		return ""
	}
	met := median(values) <= g.bound
	if g.least {
		met, sign = median(values) >= g.bound, ">="
	}
	word := "met"
	switch {
	case !e.saturated(m.Cell, labels[:min(2, len(labels))]):
		word = "open: not saturated"
	case !met:
		word = "MISSED"
	}
	return fmt.Sprintf("%s %v %s", sign, g.bound, word)
}

// saturation is how busy, in per cent of its core, a saturated pooler is at least. Below
// it, throughput tells about the machine.
const saturation = 90

// saturated reports whether nothing but the poolers held up the transactions of a cell, as
// far as it was measured.
func (e *experiment) saturated(cell string, labels []string) bool {
	busy := e.find(cell, poolerBusy)
	if busy == nil {
		return true
	}
	for _, label := range labels {
		if median(busy.Samples[label]) < saturation {
			return false
		}
	}
	return true
}
