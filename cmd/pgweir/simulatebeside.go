package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/bench/report"
	"github.com/pgweir/pgweir/cmd/internal/simulate"
)

// rowsOf are the rows of reports that have the windows of the experiment E1.
func rowsOf(names []string, reports []*simulate.Report) (rows []simulate.Row) {
	for i, r := range reports {
		if row, ok := r.Row(names[i]); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// printBeside prints what was simulated beside what was measured.
func (e *env) printBeside(s *simulation, names []string, reports []*simulate.Report) int {
	measured, err := measuredRows(s.beside)
	if err != nil {
		return e.misuse(err.Error())
	}
	if err := simulate.WriteBeside(e.stdout, rowsOf(names, reports), measured); err != nil {
		return exitError // nobody reads it
	}
	return exitOK
}

// measuredRows reads a file of `pgweir bench run E1 --json`: a row for each of pgweir's
// policies.
func measuredRows(file string) (rows []simulate.Row, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var d report.Document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("%s is not a file of pgweir bench run --json: %w", file, err)
	}
	for i := range d.Results {
		if row, ok := measuredRow(&d.Results[i]); ok {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has nothing of pgweir bench run E1 --against pgweir:POLICY", file)
	}
	return rows, nil
}

// measuredRow is the row of one target, if it is pgweir and was sent E1.
func measuredRow(r *report.Summary) (row simulate.Row, ok bool) {
	policy, ours := strings.CutPrefix(r.Target, "pgweir:")
	if !ours {
		return row, false
	}
	row = simulate.Row{Name: policy, Wasted: math.NaN()}
	if s := r.Servers; s != nil && s.Wasted != nil {
		row.Wasted = float64(*s.Wasted)
	}
	overload, after := false, false
	for _, w := range r.Windows {
		if len(w.Groups) == 0 {
			continue
		}
		f := &w.Groups[0].Figures
		switch {
		case w.FromS == 10 && w.ToS == 15:
			overload = true
			row.Goodput, row.P50, row.P99 = f.Goodput, orNone(f.TookMS.P50, f.TookMS.N), orNone(f.TookMS.P99, f.TookMS.N)
			row.Refused, row.Told, row.TimedOut = float64(f.Refused), orNone(f.ToldMS.P50, f.ToldMS.N), float64(f.GaveUp)
			row.Critical, ok = servedOf(w.Groups, "critical")
		case w.FromS == 15 && w.ToS == 20:
			after = true
			row.After = f.Goodput
		}
	}
	return row, ok && overload && after
}

// servedOf is how many requests of a class were served.
func servedOf(groups []report.Group, class string) (float64, bool) {
	for i := range groups {
		if groups[i].By == "class" && groups[i].Name == class {
			return float64(groups[i].Served), true
		}
	}
	return 0, false
}

// orNone is a value of n things, NaN of none.
func orNone(v float64, n int) float64 {
	if n == 0 {
		return math.NaN()
	}
	return v
}
