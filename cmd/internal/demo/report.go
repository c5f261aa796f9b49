package demo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// line is the progress of a phase that takes length, with so many servers just now.
func (w window) line(length time.Duration, servers int) string {
	seconds := max((w.to - w.from).Seconds(), 1e-3)
	text := fmt.Sprintf("  %s/%s s  served %3.0f/s", tenths(min(w.to, length)), tenths(length), float64(len(w.served))/seconds)
	if len(w.served) > 0 {
		text += fmt.Sprintf(" (p50 %s, p99 %s)", millis(w.served.at(50)), millis(w.served.at(99)))
	}
	return text + fmt.Sprintf("  refused %3.0f/s  servers %d/%d", float64(len(w.refused))/seconds, servers, budget)
}

// line is the phase in one line, after its end.
func (r *result) line() string {
	return fmt.Sprintf("  served %d of %d, refused %d, most servers %d of %d, sessions lost %d",
		len(r.served), r.asked, len(r.refused), r.servers, budget, r.lost)
}

// millis is a duration in milliseconds, with a digit behind the point for small ones.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 9.95 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// tenths is a duration in seconds, with one digit behind the point if it has one.
func tenths(d time.Duration) string {
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64)
}

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// row is one line of the table.
type row struct {
	name string
	cell func(*result) string
}

// rows are the table, top to bottom.
func rows() []row {
	return []row{
		{"asked for", func(r *result) string { return amount(r.asked, r.rate(r.asked)) }},
		{"served", func(r *result) string { return amount(len(r.served), r.servedRate()) }},
		{"  answer after, p50", func(r *result) string { return percentile(r.served, 50) }},
		{"  answer after, p99", func(r *result) string { return percentile(r.served, 99) }},
		{"refused", func(r *result) string { return amount(len(r.refused), r.rate(len(r.refused))) }},
		{"  told after, p50", func(r *result) string { return percentile(r.refused, 50) }},
		{"  told after, p99", func(r *result) string { return percentile(r.refused, 99) }},
		{"  SQLSTATE", func(r *result) string { return states(r.codes) }},
		{"other errors", func(r *result) string { return fmt.Sprint(r.failed) }},
		{"server connections", func(r *result) string { return fmt.Sprintf("%d of %d", r.servers, budget) }},
		{"sessions lost", func(r *result) string { return fmt.Sprintf("%d of %d", r.lost, clients) }},
	}
}

// amount is a number and what it makes per second.
func amount(n int, rate float64) string { return fmt.Sprintf("%d (%.0f/s)", n, rate) }

// percentile is one, or a dash if there was nothing to measure.
func percentile(t times, percent int) string {
	if len(t) == 0 {
		return "-"
	}
	return millis(t.at(percent))
}

// states lists SQLSTATEs.
func states(codes map[string]int) string {
	if len(codes) == 0 {
		return "-"
	}
	return strings.Join(slices.Sorted(maps.Keys(codes)), " ")
}

// report writes the table, what it shows, and what a reader should know beside it.
func (s *screen) report(results []*result) {
	s.say("\n%s\n\nWhat it shows:", table(results))
	for _, r := range results {
		s.say("%s", wrap(r.phase.name+": "+r.phase.shows(r)))
	}
	for _, p := range promises() {
		s.say("%s", wrap(p.says(results)))
	}
	for _, r := range results {
		s.notes(r)
	}
	if i := slices.IndexFunc(results, func(r *result) bool { return r.refusal != nil }); i >= 0 {
		e := results[i].refusal
		s.say("\nWhat a refused client reads:\n  %s:  %s (SQLSTATE %s)\n  DETAIL:  %s\n  HINT:  %s",
			e.Severity, e.Message, e.Code, e.Detail, e.Hint)
	}
}

// table is a column for each phase.
func table(results []*result) string {
	var b strings.Builder
	line := func(name string, cell func(*result) string) {
		fmt.Fprintf(&b, "\n%-22s", name)
		for _, r := range results {
			fmt.Fprintf(&b, "%17s", cell(r))
		}
	}
	line("", func(r *result) string { return r.phase.name })
	for _, one := range rows() {
		line(one.name, one.cell)
	}
	return b.String()[1:]
}

// notes tells what is not as it should be.
func (s *screen) notes(r *result) {
	if r.notSent > 0 {
		s.say("%s", wrap(fmt.Sprintf("Note: in phase %s, %s found no client free and did not leave; this machine is too busy.",
			r.phase.name, plural(r.notSent, "arrival"))))
	}
	if r.failure != nil {
		s.say("%s\n      %v", wrap("The first other error in phase "+r.phase.name+":"), r.failure)
	}
}

// wrap makes a paragraph of a list.
func wrap(text string) string {
	const width = 78
	var b strings.Builder
	line := "  -"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = "   "
		}
		line += " " + word
	}
	return b.String() + line
}

// invite says how to go on when everything is about to end.
func (s *screen) invite() {
	s.say("\nTry it yourself: `pgweir demo --serve` leaves both servers up after the load, and then\n" +
		"  psql \"$DATABASE_URL\"\nwith the DATABASE_URL that it prints. `pgweir help serve` is about your own Postgres.")
}

// serving says how to use what stays up.
func (s *screen) serving(st *stage) {
	s.say("\nBoth servers stay up until Ctrl-C. Try them from another terminal:\n"+
		"  DATABASE_URL='%s'\n  psql \"$DATABASE_URL\"\n"+
		"or past pgweir, to see its server connections in pg_stat_activity:\n"+
		"  psql '%s'\n"+
		"pgweir's configuration and log:\n  %s\n  %s",
		st.front.url(), st.directURL(), st.front.configFile, st.front.log.path)
}
