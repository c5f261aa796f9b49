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
	m := &r.Windows[overload].Mean
	row = Row{
		Name: name, Goodput: m.Goodput, P50: some(m.P50, m.Served), P99: some(m.P99, m.Served), Refused: m.Refused,
		Told: some(m.Told50, m.Refused), TimedOut: m.TimedOut, Wasted: r.All.Mean.InVain, After: r.Windows[after].Mean.Goodput,
	}
	for i := range r.Cells {
		if g := &r.Cells[i]; g.Name == "critical" && g.From == r.Windows[overload].From {
			row.Critical, ok = g.Mean.Served, true
		}
	}
	return row, ok
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
			t.numbers(" "+rows[i].Name, &rows[i], "%.0f", nil)
		}
	})
	return p.err
}

// WriteBeside prints simulated rows above the measured ones of the same name, with the
// differences, and how many of these are within 5 per second, 15 ms and 10 requests; "!" is
// behind those that are not. Rows without a partner are left out.
func WriteBeside(w io.Writer, simulated, measured []Row) error {
	p := &printer{w: w}
	within, all := 0, 0
	p.table(func(t *table) {
		t.row("came in 10 s-15 s", heads()...)
		for i := range simulated {
			s := &simulated[i]
			for j := range measured {
				if m := &measured[j]; m.Name == s.Name {
					t.row(s.Name)
					t.numbers(" simulated", s, "%.0f", nil)
					t.numbers(" measured", m, "%.0f", nil)
					near, n := t.difference(s, m)
					within, all = within+near, all+n
				}
			}
		}
	})
	p.printf("%d of %d figures are within %.0f/s, %.0f ms and %.0f requests of what was measured.\n", within, all, nearRate, nearTime, nearCount)
	return p.err
}

func heads() (list []string) {
	for _, c := range columns() {
		list = append(list, c.name)
	}
	return list
}

// numbers adds a row's numbers as a line, each with what mark says behind it.
func (t *table) numbers(word string, r *Row, format string, mark func(column, float64) string) {
	var cells []string
	for _, c := range columns() {
		v := c.of(r)
		text := "-"
		if !math.IsNaN(v) {
			text = fmt.Sprintf(format, v)
		}
		if mark != nil {
			text += mark(c, v)
		}
		cells = append(cells, text)
	}
	t.row(word, cells...)
}

// difference adds the line of what was simulated too much, and counts what is near and what
// both have. Of what only one has there is no difference.
func (t *table) difference(s, m *Row) (near, n int) {
	d := Row{
		Goodput: s.Goodput - m.Goodput, P50: s.P50 - m.P50, P99: s.P99 - m.P99, Refused: s.Refused - m.Refused, Told: s.Told - m.Told,
		TimedOut: s.TimedOut - m.TimedOut, Critical: s.Critical - m.Critical, Wasted: s.Wasted - m.Wasted, After: s.After - m.After,
	}
	t.numbers(" difference", &d, "%+.0f", func(c column, v float64) string {
		switch {
		case math.IsNaN(v):
			return ""
		case math.Abs(v) <= c.near:
			near++
			n++
			return ""
		}
		n++
		return "!"
	})
	return near, n
}
