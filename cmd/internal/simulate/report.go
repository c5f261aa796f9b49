package simulate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Write prints a report for people.
func (r *Report) Write(w io.Writer) error {
	p := &printer{w: w}
	p.head(r)
	p.table(func(t *table) {
		t.row("", "wanted", "served", "per s", "p50 ms", "p99 ms", "refused", "told ms", "p99", "timed out", "in vain", "wasted")
		t.group("all", &r.All, r.Seeds)
		for i := range r.Windows {
			t.group("  "+r.Windows[i].Name, &r.Windows[i], r.Seeds)
		}
		for i := range r.Groups {
			t.group(r.Groups[i].Kind+" "+r.Groups[i].Name, &r.Groups[i], r.Seeds)
		}
	})
	p.refusals(r)
	p.tenants(r)
	p.closed(r)
	return p.err
}

// printer keeps the first error of writing.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// head says what was played.
func (p *printer) head(r *Report) {
	if r.Scenario != "" {
		p.printf("%s\n\n", r.Scenario)
	}
	seeds := "1 seed"
	if r.Seeds > 1 {
		seeds = fmt.Sprintf("mean of %d seeds", r.Seeds)
	}
	p.printf("%.0f slots, %.0f %% used; the longest queue had %.0f; %s\n\n", float64(r.Slots), 100*r.Used, r.MostWaiting, seeds)
}

// table is columns of numbers behind a column of words.
type table struct{ w *tabwriter.Writer }

// table prints one.
func (p *printer) table(fill func(*table)) {
	if p.err != nil {
		return
	}
	var text strings.Builder
	t := &table{tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)}
	fill(t)
	_ = t.w.Flush() // to a string
	lines := strings.Split(text.String(), "\n")
	p.printf("%s\n", strings.Join(left(lines), "\n"))
}

// left moves the words of the first column, which ends with a bar, to the left.
func left(lines []string) []string {
	width := 0
	for _, line := range lines {
		word, _, _ := strings.Cut(line, "|")
		width = max(width, len(strings.TrimSpace(word)))
	}
	for i, line := range lines {
		word, rest, found := strings.Cut(line, "|")
		if found {
			trimmed := strings.TrimLeft(word, " ")
			indent := strings.HasPrefix(trimmed, ".")
			trimmed = strings.TrimSpace(strings.TrimPrefix(trimmed, "."))
			if indent {
				trimmed = "  " + trimmed
			}
			lines[i] = strings.TrimRight(fmt.Sprintf("%-*s%s", width+2, trimmed, rest), " ")
		}
	}
	return lines
}

// row adds a line; a first word that begins with a blank is set in.
func (t *table) row(word string, cells ...string) {
	if strings.HasPrefix(word, " ") {
		word = "." + strings.TrimSpace(word)
	}
	_, _ = fmt.Fprintf(t.w, "%s|\t%s\t\n", word, strings.Join(cells, "\t"))
}

// group adds the figures of a part of the pages.
func (t *table) group(word string, g *Group, seeds int) {
	m := &g.Mean
	rate := fmt.Sprintf("%.1f", m.Goodput)
	if seeds > 1 {
		rate += fmt.Sprintf(" ±%.1f", g.Spread.Goodput)
	}
	t.row(word, count0(m.Arrived), count0(m.Served), rate, millis(m.P50, m.Served), millis(m.P99, m.Served),
		count0(m.Refused), millis(m.Told50, m.Refused), millis(m.Told99, m.Refused), count0(m.TimedOut+m.Lost),
		count0(m.InVain), fmt.Sprintf("%.0f %%", 100*m.WastedPart))
}

// count0 is a number of things; means are rounded, but not to nothing.
func count0(n float64) string {
	if n > 0 && n < 0.5 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// millis is a time, if there was one.
func millis(ms, of float64) string {
	switch {
	case of == 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// refusals says why.
func (p *printer) refusals(r *Report) {
	m := &r.All.Mean
	if len(m.Reasons) == 0 {
		p.printf("Nobody would have been refused.\n")
		return
	}
	total := 0.0
	for _, n := range m.Reasons {
		total += n
	}
	names := slices.Collect(maps.Keys(m.Reasons))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(m.Reasons[b], m.Reasons[a]), cmp.Compare(a, b)) })
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = fmt.Sprintf("%s %s", name, count0(m.Reasons[name]))
	}
	p.printf("%s refusals, %.1f %% of %s attempts: %s\n", count0(total), 100*total/max(m.Arrived*m.Attempts, 1),
		count0(m.Arrived*m.Attempts), strings.Join(list, ", "))
	if r.FalseOracle > 0 || r.FalseRefusals > 0 {
		p.printf("in vain, because slots were idle soon enough: %s as the gate counts them, %s in a replay\n",
			count0(r.FalseRefusals), count0(r.FalseOracle))
	}
}

// tenants lists those that are served worst, and the one that takes most.
func (p *printer) tenants(r *Report) {
	const worst = 5
	if len(r.Tenants) == 0 {
		return
	}
	p.printf("\n")
	p.table(func(t *table) {
		t.row("tenant, the worst served first", "wanted", "served", "refused", "timed out", "slot s")
		for i := range min(len(r.Tenants), worst) {
			one := &r.Tenants[i]
			t.row(fmt.Sprintf("%s %d", one.Stream, one.Number), count0(one.Arrived), count0(one.Served), count0(one.Refused),
				count0(one.TimedOut), fmt.Sprintf("%.1f", one.Busy))
		}
		if more := len(r.Tenants) - worst; more > 0 {
			t.row(fmt.Sprintf("and %d more", more))
		}
	})
}

// closed tells of clients that ask again and again.
func (p *printer) closed(r *Report) {
	if r.Jain > 0 {
		p.printf("fairness between the streams of clients that ask again and again: %.3f (1 = even, Jain's index per second)\n", r.Jain)
	}
	for _, d := range r.Finished {
		p.printf("%s done after %.1f s\n", d.Stream, d.At)
	}
	if r.Moves > 0 || r.FailedLogins > 0 {
		p.printf("%s logins to servers, %s failed; %s servers moved by force\n", count0(r.Logins), count0(r.FailedLogins), count0(r.Moves))
	}
}

// Compare prints several reports beside each other, a line each: for all pages, for one
// window if focus is one but the first, and for the streams, workloads and classes. names are the
// lines'.
func Compare(w io.Writer, names []string, reports []*Report, focus int) error {
	p := &printer{w: w}
	first := reports[0]
	p.head(first)
	p.compare(names, reports, "all", func(r *Report) *Group { return &r.All })
	if focus > 0 && focus < len(first.Windows) {
		p.compare(names, reports, first.Windows[focus].Name, func(r *Report) *Group { return &r.Windows[focus] })
	}
	for i := range first.Groups {
		if g := &first.Groups[i]; len(first.Groups) > 1 {
			p.compare(names, reports, g.Kind+" "+g.Name, func(r *Report) *Group { return r.like(g) })
		}
	}
	p.windows(names, reports)
	p.extras(names, reports)
	return p.err
}

// like is the group of the report that is called as g is; an empty one if there is none, for
// another configuration may have no such class or workload.
func (r *Report) like(g *Group) *Group {
	if i := slices.IndexFunc(r.Groups, func(o Group) bool { return o.Kind == g.Kind && o.Name == g.Name }); i >= 0 {
		return &r.Groups[i]
	}
	return &Group{}
}

// compare prints a table of one group.
func (p *printer) compare(names []string, reports []*Report, title string, pick func(*Report) *Group) {
	p.table(func(t *table) {
		t.row(title, "wanted", "served", "per s", "p50 ms", "p99 ms", "refused", "told ms", "p99", "timed out", "in vain", "wasted")
		for i, r := range reports {
			t.group(" "+names[i], pick(r), r.Seeds)
		}
	})
}

// windows prints the goodput over time.
func (p *printer) windows(names []string, reports []*Report) {
	if len(reports[0].Windows) < 2 {
		return
	}
	p.table(func(t *table) {
		var heads []string
		for i := range reports[0].Windows {
			heads = append(heads, reports[0].Windows[i].Name)
		}
		t.row("served per s", heads...)
		for i, r := range reports {
			var cells []string
			for j := range r.Windows {
				cells = append(cells, fmt.Sprintf("%.1f", r.Windows[j].Mean.Goodput))
			}
			t.row(" "+names[i], cells...)
		}
	})
}

// extras are the numbers that are not about single pages.
func (p *printer) extras(names []string, reports []*Report) {
	p.table(func(t *table) {
		t.row("", "slots used", "longest queue", "attempts", "refused in vain", "in a replay", "moves", "fairness", "first and last done")
		for i, r := range reports {
			fair := "-"
			if r.Jain > 0 {
				fair = fmt.Sprintf("%.3f", r.Jain)
			}
			t.row(" "+names[i], fmt.Sprintf("%.0f %%", 100*r.Used), count0(r.MostWaiting),
				fmt.Sprintf("%.2f", r.All.Mean.Attempts), count0(r.FalseRefusals),
				count0(r.FalseOracle), count0(r.Moves), fair, r.done())
		}
	})
}

// done is when the clients of the first and of the last stream had sent all of their queries.
func (r *Report) done() string {
	if len(r.Finished) == 0 {
		return "-"
	}
	first, last := r.Finished[0].At, r.Finished[0].At
	for _, d := range r.Finished {
		first, last = min(first, d.At), max(last, d.At)
	}
	return fmt.Sprintf("%.1f s, %.1f s", first, last)
}
