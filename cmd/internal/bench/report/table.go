package report

import (
	"fmt"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// mostRows bounds the tenants that the table shows; JSON has the others.
const mostRows = 6

// mostReasons bounds the causes that the table shows.
const mostReasons = 8

// Table writes what came of the runs: for each window a line for each of them, and for each
// group of their requests; then what is of the whole run.
func (s *Screen) Table(results []*bench.Result) {
	if len(results) == 0 {
		return
	}
	all := make([]Summary, len(results))
	for i, r := range results {
		all[i] = Summarize(r)
	}
	s.Say("")
	for _, line := range describe(&results[0].Load) {
		s.Say("%s", s.Dim(line))
	}
	g := &grid{}
	heads := []string{"per second", "asked", "served", "refused", "stopped", "gave up", "other", "ms p50", "p99", "p99.9", "told p50 / p99"}
	for w, window := range all[0].Windows {
		g.add("")
		g.add(fmt.Sprintf("%s, %g-%g s", window.Name, window.FromS, window.ToS))
		if w == 0 {
			g.add(heads...)
		}
		for i := range all {
			if w < len(all[i].Windows) {
				addGroups(g, all[i].Target, all[i].Windows[w].Groups)
			}
		}
	}
	if len(all[0].Windows) == 0 {
		g.add("")
		g.add(heads...)
		for i := range all {
			addGroups(g, all[i].Target, all[i].Whole)
		}
	}
	for _, line := range g.lines() {
		if line != "" && line[0] != ' ' {
			line = s.Bold(line)
		}
		s.Say("%s", line)
	}
	s.whole(all)
	s.reasons(all)
}

// addGroups adds a row for a target, and one for each of its groups.
func addGroups(g *grid, target string, groups []Group) {
	tenants := 0
	for i := range groups {
		name := target
		if one := &groups[i]; one.By != "all" {
			name = "  " + one.Name
			if one.By == "tenant" {
				if tenants++; tenants > mostRows {
					continue
				}
			}
		}
		f := &groups[i].Figures
		per := func(n int) string { return number(float64(n) * f.perSecond) }
		g.add(name, per(f.Asked), per(f.Served), per(f.Refused), per(f.Stopped), per(f.GaveUp), per(f.Failed+f.Unsent),
			latency(f.TookMS, f.TookMS.P50), latency(f.TookMS, f.TookMS.P99), latency(f.TookMS, f.TookMS.P999), pair(f.ToldMS))
	}
}

// whole writes what is of the whole run.
func (s *Screen) whole(all []Summary) {
	g := &grid{}
	g.add("")
	g.add("The whole run")
	g.add("", "asked", "served", "retries", "reconnects", "backends", "executed", "for nobody", "generator late p99 ms")
	for i := range all {
		one := &all[i]
		backends, executed, wasted := "-", "-", "-"
		if v := one.Servers; v != nil {
			backends = fmt.Sprint(v.Most)
			if v.Executed != nil {
				executed, wasted = fmt.Sprint(*v.Executed), fmt.Sprint(*v.Wasted)
			}
			if v.Unsettled {
				executed += "+"
			}
		}
		f := &one.Whole[0].Figures
		g.add(one.Target, fmt.Sprint(f.Asked), fmt.Sprint(f.Served), fmt.Sprint(one.Retries), fmt.Sprint(one.Reconnects),
			backends, executed, wasted, latency(one.LagMS, one.LagMS.P99))
	}
	for _, line := range g.lines() {
		if line != "" && line[0] != ' ' {
			line = s.Bold(line)
		}
		s.Say("%s", line)
	}
	for i := range all {
		if all[i].lagging() {
			s.Say("%s", s.Paint(Red, "  "+all[i].Target+": the generator was late, this machine had too much to do: the figures say little."))
		}
	}
	s.overTime(all)
}

// overTime draws how many were served over the time of arrival.
func (s *Screen) overTime(all []Summary) {
	top := 0.0
	rows := make([][]float64, len(all))
	for i := range all {
		for _, one := range all[i].Seconds {
			if one.Asked == 0 && len(all[i].Windows) > 0 && one.AtS >= all[i].Windows[len(all[i].Windows)-1].ToS {
				continue
			}
			v := float64(one.By[bench.Served]) / one.ForS
			rows[i] = append(rows[i], v)
			top = max(top, v)
		}
	}
	g := &grid{}
	for i := range all {
		if len(rows[i]) > 1 {
			g.add(all[i].Target, s.sparks(rows[i], top))
		}
	}
	if len(g.rows) == 0 {
		return
	}
	s.Say("\n%s", s.Bold(fmt.Sprintf("Served by time of arrival, up to %s/s", number(top))))
	for _, line := range g.lines() {
		s.Say("%s", line)
	}
}

// reasons writes why attempts were not served.
func (s *Screen) reasons(all []Summary) {
	for i := range all {
		one := &all[i]
		why := one.Whole[0].Why
		if len(why) == 0 {
			continue
		}
		s.Say("\n%s", s.Bold(one.Target+", attempts that were not served"))
		g := &grid{}
		for n, w := range why {
			if n == mostReasons {
				g.add("others", fmt.Sprint(len(why)-n)+" kinds")
				break
			}
			g.add(cause(w), fmt.Sprint(w.N))
		}
		for _, line := range g.lines() {
			s.Say("%s", line)
		}
		if one.Refusal != "" {
			s.Say("%s", s.Dim("  first refusal: "+one.Refusal))
		}
		if one.Failure != "" {
			s.Say("%s", s.Dim("  first other error: "+one.Failure))
		}
	}
}

// cause is a reason in words.
func cause(w Reason) string {
	text := w.Outcome
	if w.Code != "" {
		text += " " + w.Code
	}
	if w.Reason != "" {
		text += " " + w.Reason
	}
	if w.Fatal {
		text += " (FATAL)"
	}
	return text
}

// Checks writes promised figures beside the measured ones, and returns how many were missed.
func (s *Screen) Checks(list []bench.Check) (missed int) {
	if len(list) == 0 {
		return 0
	}
	g := &grid{}
	g.add("")
	g.add("Promised")
	g.add("", "measured", "promised", "")
	for _, c := range list {
		verdict := "ok"
		if !c.OK {
			verdict = "MISSED"
			missed++
		}
		g.add(c.Target+": "+c.What, c.Measured, c.Promised, verdict)
	}
	for i, line := range g.lines() {
		switch {
		case i == 1:
			line = s.Bold(line)
		case i > 2 && !list[i-3].OK:
			line = s.Paint(Red, line)
		}
		s.Say("%s", line)
	}
	return missed
}
