package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/report"
)

// millis is a duration in milliseconds.
func millis(d time.Duration) string { return number(d) + " ms" }

// number is a duration's milliseconds, with a digit behind the point if there are few.
func number(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 9.95 {
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// seconds is a duration in seconds.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3g s", d.Seconds()) }

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
	cell func(*result) string // nil: the row is a heading
}

// rows are the table, top to bottom.
func rows() []row {
	inTime := func(p part) int { return len(p.served) }
	answers := func(p part) bench.Times { return p.served }
	refusals := func(p part) bench.Times { return p.refused }
	return []row{
		{"Good day", nil},
		{"served in time", inSecond(goodDay, inTime)},
		{"  answer after, p50 / p99", took(goodDay, answers)},
		{"Overload", nil},
		{"served in time", inSecond(overload, inTime)},
		{"  answer after, p50 / p99", took(overload, answers)},
		{"refused", inSecond(overload, func(p part) int { return len(p.refused) })},
		{"  told after, p50 / p99", took(overload, refusals)},
		{"gave up after " + seconds(patience), inSecond(overload, func(p part) int { return p.gaveUp })},
		{"After", nil},
		{"served in time", inSecond(after, inTime)},
		{"  answer after, p50 / p99", took(after, answers)},
		{"back to normal after", (*result).backAfter},
		{"The whole run", nil},
		{"work for clients that had left", func(r *result) string { return share(r.wasted(), r.executed) }},
		{"sessions that had to be reopened", func(r *result) string { return fmt.Sprint(r.reopened) }},
		{"Postgres connections at most", func(r *result) string { return fmt.Sprintf("%d of %d", r.servers, budget) }},
	}
}

// inSecond is the cell for a number of those who arrived in a phase.
func inSecond(phase int, n func(part) int) func(*result) string {
	return func(r *result) string {
		p := r.phases[phase]
		return fmt.Sprintf("%.0f/s", p.rate(n(p)))
	}
}

// took is the cell for percentiles, or a dash if there was nothing to measure.
func took(phase int, of func(part) bench.Times) func(*result) string {
	return func(r *result) string {
		t := of(r.phases[phase])
		if len(t) == 0 {
			return "-"
		}
		return number(t.At(50)) + " / " + millis(t.At(99))
	}
}

// share is n and how much of all it is.
func share(n, all int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.0f %%)", n, percent(n, all))
}

// backAfter is how long the overload was felt after its end.
func (r *result) backAfter() string {
	if !r.isNormal {
		return "not in " + seconds(r.phases[after].length)
	}
	if r.normal == 0 {
		return "at once"
	}
	return seconds(r.normal)
}

// table is a column for each policy.
func (s *screen) table(results []*result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-36s", "")
	for _, r := range results {
		b.WriteString(s.Bold(fmt.Sprintf("%20s", r.policy.name)))
	}
	for _, one := range rows() {
		if one.cell == nil {
			b.WriteString("\n" + s.Bold(one.name))
			continue
		}
		fmt.Fprintf(&b, "\n  %-34s", one.name)
		for _, r := range results {
			fmt.Fprintf(&b, "%20s", one.cell(r))
		}
	}
	return b.String()
}

// report writes the table, what it shows, and what a reader should know beside it.
func (s *screen) report(results []*result) {
	s.Say("\n%s\n\n%s", s.table(results), s.Bold("In words"))
	for _, text := range lessons(results[unbounded], results[guarded]) {
		s.Say("%s", wrap(text))
	}
	for _, r := range results {
		for _, p := range promises() {
			if !p.kept(r) {
				s.Say("%s", s.Paint(report.Red, wrap("BROKEN, "+r.policy.name+": "+p.broken(r)+".")))
			}
		}
		if r.failure != nil {
			s.Say("%s\n    %v", wrap("The first other error, "+r.policy.name+":"), r.failure)
		}
	}
	if e := results[guarded].refusal; e != nil {
		s.Say("\n%s\n  %s:  %s (SQLSTATE %s)\n  DETAIL:  %s\n  HINT:  %s",
			s.Bold("What a refused client reads"), e.Severity, e.Message, e.Code, e.Detail, e.Hint)
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
