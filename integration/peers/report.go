package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pgweir/pgweir/integration/child"
)

// report is all that was measured: the JSON file.
type report struct {
	Started     time.Time         `json:"started"`
	Cores       int               `json:"cores"`
	Load        float64           `json:"load_average"` // at the start
	Contenders  map[string]string `json:"contenders"`   // label: version
	Experiments []*experiment     `json:"experiments"`
}

// experiment is a table: a row for each metric of each cell, a column for each contender.
type experiment struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"`
	Metrics []*metric `json:"metrics"`
}

// metric holds the samples of one quantity under one condition, one for each round.
type metric struct {
	Cell    string               `json:"cell"`
	Name    string               `json:"name"`
	Samples map[string][]float64 `json:"samples"` // by contender's label
}

// newReport describes the lab.
func newReport(l *lab) *report {
	r := &report{
		Started: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU(),
		Load: child.LoadAverage(), Contenders: map[string]string{},
	}
	for _, c := range l.contenders {
		r.Contenders[c.label] = c.version
	}
	return r
}

// open adds an experiment.
func (r *report) open(name, title string) *experiment {
	e := &experiment{Name: name, Title: title}
	r.Experiments = append(r.Experiments, e)
	return e
}

// write replaces file by the report.
func (r *report) write(file string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// add notes a sample. The rows of the table stand in the order of their first sample.
func (e *experiment) add(cell, name, label string, value float64) {
	if m := e.find(cell, name); m != nil {
		m.Samples[label] = append(m.Samples[label], value)
		return
	}
	e.Metrics = append(e.Metrics, &metric{cell, name, map[string][]float64{label: {value}}})
}

// find is a metric that has samples, or nil.
func (e *experiment) find(cell, name string) *metric {
	for _, m := range e.Metrics {
		if m.Cell == cell && m.Name == name {
			return m
		}
	}
	return nil
}

// print writes the table: medians with their range, and the ratios of the first contender
// to each other one, round by round, as median with quartiles.
func (e *experiment) print(w io.Writer, labels []string) {
	if len(e.Metrics) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s: %s\n", e.Name, e.Title)
	fmt.Fprintln(w, "median (least-greatest over the rounds); ratio by round: median (quartiles)")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"", ""}
	head = append(head, labels...)
	for _, other := range labels[1:] {
		head = append(head, labels[0]+"/"+other)
	}
	fmt.Fprintln(t, strings.TrimRight(strings.Join(append(head, "goal"), "\t"), "\t"))
	previous := ""
	for _, m := range e.Metrics {
		cell := m.Cell
		if cell == previous {
			cell = ""
		}
		previous = m.Cell
		fmt.Fprintln(t, strings.TrimRight(cell+"\t"+m.row(labels)+"\t"+e.verdict(m, labels), "\t"))
	}
	_ = t.Flush() // as with Fprint: nothing is to be done when a terminal fails
}

// row is all of a table's line but the cell's name and the goal.
func (m *metric) row(labels []string) string {
	columns := []string{m.Name}
	for _, label := range labels {
		columns = append(columns, spread(m.Samples[label], 0, 1, number))
	}
	for _, other := range labels[1:] {
		columns = append(columns, spread(ratios(m.Samples[labels[0]], m.Samples[other]), 0.25, 0.75, ratio))
	}
	return strings.Join(columns, "\t")
}

// spread is "median (low-high)" with the two given quantiles, or "-" without samples.
func spread(values []float64, low, high float64, format func(v, like float64) string) string {
	if len(values) == 0 {
		return "-"
	}
	m := median(values)
	if len(values) == 1 {
		return format(m, m)
	}
	return fmt.Sprintf("%s (%s-%s)", format(m, m), format(quantile(values, low), m), format(quantile(values, high), m))
}

// number prints v with as many digits as one of the size of like deserves.
func number(v, like float64) string {
	switch size := math.Abs(like); {
	case size >= 100:
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// ratio prints v with a digit more than goals have, so that a near miss shows.
func ratio(v, _ float64) string { return fmt.Sprintf("%.3f", v) }
