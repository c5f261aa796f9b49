package simulate

import (
	"fmt"
	"io"
	"math"
)

// Row is what the experiment E1 tells of one policy, simulated or measured. Requests are
// those that came in the second half of the overload, 10 to 15 s after the begin, but for
// Wasted and After. NaN is what there was nothing to tell of.
type Row struct {
	Name     string
	Goodput  float64 // served per second
	P50, P99 float64 // ms; of the served
	Refused  float64 // requests
	Told     float64 // ms; the median of the refused
	TimedOut float64 // requests
	Critical float64 // critical requests that were served
	Wasted   float64 // statements done for clients that had left, in the whole run
	After    float64 // served per second of those that came from 15 to 20 s

	spread *Row // standard deviations over the seeds; nil = not known
}

// The tolerances within which a simulation is held to be right: per second, ms, requests.
const (
	nearRate  = 5.0
	nearTime  = 15.0
	nearCount = 10.0
)

// column is one of a row's numbers.
type column struct {
	name string
	of   func(*Row) float64
	near float64
}

func columns() []column {
	return []column{
		{"goodput/s", func(r *Row) float64 { return r.Goodput }, nearRate},
		{"p50 ms", func(r *Row) float64 { return r.P50 }, nearTime},
		{"p99 ms", func(r *Row) float64 { return r.P99 }, nearTime},
		{"refused", func(r *Row) float64 { return r.Refused }, nearCount},
		{"told ms", func(r *Row) float64 { return r.Told }, nearTime},
		{"timeouts", func(r *Row) float64 { return r.TimedOut }, nearCount},
		{"critical", func(r *Row) float64 { return r.Critical }, nearCount},
		{"wasted", func(r *Row) float64 { return r.Wasted }, nearCount},
		{"after/s", func(r *Row) float64 { return r.After }, nearRate},
	}
}

// Row is what the report tells of a policy; false if it is not one of E1's.
func (r *Report) Row(name string) (row Row, ok bool) {
	const overload, after = 2, 3 // windows
	if len(r.Windows) <= after {
		return row, false
	}
	m, s := &r.Windows[overload].Mean, &r.Windows[overload].Spread
	row = rowOf(m, &r.All.Mean, &r.Windows[after].Mean)
	row.Name, row.P50, row.P99, row.Told = name, some(m.P50, m.Served), some(m.P99, m.Served), some(m.Told50, m.Refused)
	spread := rowOf(s, &r.All.Spread, &r.Windows[after].Spread)
	for i := range r.Cells {
		if g := &r.Cells[i]; g.Name == "critical" && g.From == r.Windows[overload].From {
			row.Critical, spread.Critical, ok = g.Mean.Served, g.Spread.Served, true
		}
	}
	row.spread = &spread
	return row, ok
}

// rowOf is a row of the figures of the overload, of all and of the time after it.
func rowOf(overload, all, after *Figures) Row {
	return Row{
		Goodput: overload.Goodput, P50: overload.P50, P99: overload.P99, Refused: overload.Refused, Told: overload.Told50,
		TimedOut: overload.TimedOut, Wasted: all.InVain, After: after.Goodput,
	}
}

// some is a value of so many things, NaN of none.
func some(value, of float64) float64 {
	if of == 0 {
		return math.NaN()
	}
	return value
}

// WriteRows prints rows as the bench prints them.
func WriteRows(w io.Writer, rows []Row) error {
	p := &printer{w: w}
	p.table(func(t *table) {
		t.row("came in 10 s-15 s", heads()...)
		for i := range rows {
			t.numbers(" "+rows[i].Name, &rows[i])
		}
	})
	return p.err
}

// WriteBeside prints simulated rows above the measured ones of the same name, with the
// differences, and how many of these are within 5 per second, 15 ms and 10 requests. Behind
// those that are not is "~" if simulated runs differ as much among themselves, as percentiles
// of a few requests do, and else "!". Rows without a partner are left out.
func WriteBeside(w io.Writer, simulated, measured []Row) error {
	p := &printer{w: w}
	var sum verdicts
	p.table(func(t *table) {
		t.row("came in 10 s-15 s", heads()...)
		for i := range simulated {
			s := &simulated[i]
			for j := range measured {
				if m := &measured[j]; m.Name == s.Name {
					t.row(s.Name)
					t.numbers(" simulated", s)
					t.numbers(" measured", m)
					t.difference(s, m, &sum)
				}
			}
		}
	})
	p.printf("%d of %d figures are within %.0f/s, %.0f ms and %.0f requests of what was measured", sum.near, sum.all, nearRate, nearTime, nearCount)
	if sum.chance > 0 {
		p.printf(",\n%d more (~) within twice the standard deviation between simulated runs", sum.chance)
	}
	p.printf(".\n")
	return p.err
}

// verdicts counts differences: all, those that are small, and others that are left to chance.
type verdicts struct{ all, near, chance int }

func heads() (list []string) {
	for _, c := range columns() {
		list = append(list, c.name)
	}
	return list
}

// numbers adds a row's numbers as a line.
func (t *table) numbers(word string, r *Row) {
	var cells []string
	for _, c := range columns() {
		text := "-"
		if v := c.of(r); !math.IsNaN(v) {
			text = fmt.Sprintf("%.0f", v)
		}
		cells = append(cells, text)
	}
	t.row(word, cells...)
}

// difference adds the line of what was simulated too much. Of what only one has there is no
// difference.
func (t *table) difference(s, m *Row, sum *verdicts) {
	var cells []string
	for _, c := range columns() {
		d, chance := c.of(s)-c.of(m), 0.0
		if s.spread != nil {
			chance = 2 * c.of(s.spread)
		}
		text := fmt.Sprintf("%+.0f", d)
		switch {
		case math.IsNaN(d):
			text = "-"
		case math.Abs(d) <= c.near:
			sum.near++
			sum.all++
		case math.Abs(d) <= chance:
			sum.chance++
			sum.all++
			text += "~"
		default:
			sum.all++
			text += "!"
		}
		cells = append(cells, text)
	}
	t.row(" difference", cells...)
}
