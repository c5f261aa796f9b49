package scenario

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// Subject is the target that a scenario's checks are about.
const Subject = "pgweir:guard"

// Verdicts are what the subject had to meet and what it came to. There are none if it did
// not take part.
func (r *Report) Verdicts() ([]bench.Check, error) {
	checks, err := r.Scenario.ParsedChecks()
	if err != nil {
		return nil, err
	}
	var list []bench.Check
	for _, o := range r.Outcomes {
		if o.Target != Subject {
			continue
		}
		for _, c := range checks {
			list = append(list, o.verdict(c))
		}
	}
	return list, nil
}

// verdict is whether an outcome meets a check. Refusals for a reason that nobody was refused
// for were not late.
func (o *Outcome) verdict(c Check) bench.Check {
	v, ok := o.Value(c.Metric)
	verdict := bench.Check{
		Target: o.Target, What: c.Metric.String(), Measured: write(v, unitOf(c.Name)),
		Promised: c.Op + " " + write(c.Bound, unitOf(c.Name)), OK: ok && c.Met(v),
	}
	if !ok && c.By != "" && o.Result != nil {
		verdict.Measured, verdict.OK = "nobody", true
	}
	return verdict
}

// Results are the results of all targets that were sent a load.
func (r *Report) Results() []*bench.Result {
	var list []*bench.Result
	for _, o := range r.Outcomes {
		if o.Result != nil {
			list = append(list, o.Result)
		}
	}
	return list
}

// Describe writes what a scenario shows, and its targets.
func (s *Scenario) Describe(w io.Writer) {
	for line := range strings.Lines(s.Shows + "\n") {
		fmt.Fprintf(w, "    %s\n", strings.TrimSpace(line))
	}
	fmt.Fprintf(w, "    Against: %s\n    Published: %s\n    Targets of %s: %s\n\n",
		strings.ReplaceAll(s.Against, ",", ", "), s.Source, Subject, strings.Join(s.Checks, "; "))
}

// Print writes what the scenario shows: a line for each target, with what others have
// published below it in brackets, and the targets that the guard met and missed. It returns
// false if one was missed.
func (r *Report) Print(w io.Writer) (met bool, err error) {
	columns, err := r.Scenario.ParsedColumns()
	if err != nil {
		return false, err
	}
	s := r.Scenario
	fmt.Fprintf(w, "\n%s: %s\n", s.Name, s.Title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	writeHead(t, columns)
	for _, o := range r.Outcomes {
		row := []string{o.Target}
		for i, c := range columns {
			v, _ := o.Value(c)
			row = append(row, write(v, number)+mark(v, s.published(o.Target, i)))
		}
		writeRow(t, row)
		if p := s.Published[o.Target]; p != nil {
			row = []string{"published"}
			for i := range columns {
				row = append(row, bracket(s.published(o.Target, i)))
			}
			writeRow(t, row)
		}
	}
	_ = t.Flush() // nothing is to be done when an output fails
	if s.Published != nil {
		fmt.Fprintf(w, "In brackets: %s. ! is more than a tenth off.\n", s.Source)
	} else if s.Source != "" {
		fmt.Fprintf(w, "Published: %s.\n", s.Source)
	}
	return r.printVerdicts(w)
}

// printVerdicts writes the targets.
func (r *Report) printVerdicts(w io.Writer) (met bool, err error) {
	list, err := r.Verdicts()
	if err != nil || len(list) == 0 {
		return err == nil, err
	}
	met = true
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\tmeasured\ttarget\t\n", Subject)
	for _, v := range list {
		word := "ok"
		if !v.OK {
			word, met = "MISSED", false
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", v.What, v.Measured, v.Promised, word)
	}
	_ = t.Flush()
	return met, nil
}

// writeHead writes the heads of columns: the name with its unit, of what, and when. A line
// without a word is left out.
func writeHead(w io.Writer, columns []Metric) {
	lines := [3][]string{{""}, {""}, {""}}
	words := [3]bool{}
	for _, c := range columns {
		name := c.Name
		if u := unitOf(c.Name); u != number && !strings.HasSuffix(name, "-"+string(u)) {
			name += " " + string(u)
		}
		of := c.Of
		if c.By != "" {
			of = strings.TrimSpace(of + " by " + c.By)
		}
		when := ""
		if c.To > 0 {
			when = fmt.Sprintf("%v-%v", c.From, c.To)
		}
		for i, word := range []string{name, of, when} {
			lines[i] = append(lines[i], word)
			words[i] = words[i] || word != ""
		}
	}
	for i, line := range lines {
		if words[i] {
			writeRow(w, line)
		}
	}
}

// writeRow writes one line of a table.
func writeRow(w io.Writer, cells []string) { fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") }

// published is a published value; "-" if there is none.
func (s *Scenario) published(target string, column int) string {
	if row := s.Published[target]; column < len(row) {
		return row[column]
	}
	return "-"
}

// bracket is a published value as it stands in the table.
func bracket(text string) string {
	if text == "-" {
		return ""
	}
	return "[" + text + "]"
}

// mark is "!" if a value is more than a tenth off what was published.
func mark(v float64, published string) string {
	p, err := strconv.ParseFloat(strings.TrimRight(published, "/s%m"), 64)
	if err != nil || math.IsNaN(v) || math.Abs(v-p) <= max(0.1*math.Abs(p), 1) {
		return ""
	}
	return "!"
}
