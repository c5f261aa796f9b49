package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// number is a count or a rate, with a digit behind the point if it is small and not whole.
func number(v float64) string {
	if v < 9.95 && v != float64(int(v)) {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// latency is a percentile of a spread: milliseconds, or seconds where those are many; a dash
// if there is nothing.
func latency(s Spread, ms float64) string {
	switch {
	case s.N == 0:
		return "-"
	case ms >= 9995:
		return fmt.Sprintf("%.1fs", ms/1000)
	case ms < 9.95:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.0f", ms)
	}
}

// pair is the half and the 99th percentile.
func pair(s Spread) string {
	if s.N == 0 {
		return "-"
	}
	return latency(s, s.P50) + " / " + latency(s, s.P99)
}

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// describe says what a load is, in a few lines.
func describe(l *bench.Load) []string {
	var phases []string
	for _, p := range l.Phases {
		text := fmt.Sprintf("%g/s for %v", p.Rate, p.For)
		if p.Name != "" {
			text = p.Name + ": " + text
		}
		phases = append(phases, text)
	}
	var lines []string
	if phases != nil {
		spacing := "at random times"
		if l.Even {
			spacing = "evenly spaced"
		}
		lines = append(lines, strings.Join(phases, ", ")+"; "+spacing)
	}
	for i := range l.Streams {
		lines = append(lines, describeStream(l, &l.Streams[i]))
	}
	return lines
}

// describeStream says what a stream is, in a line.
func describeStream(l *bench.Load, s *bench.Stream) string {
	words := []string{s.Title() + ":"}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case s.Clients > 0 && s.Each > 0:
		add("%s with %d requests each,", plural(s.Clients, "client"), s.Each)
	case s.Clients > 0:
		add("%s,", plural(s.Clients, "client"))
	case s.Rate > 0:
		add("%g/s,", s.Rate)
	case len(l.Streams) > 1:
		add("%.4g %%,", 100*share(l, s))
	}
	if n := len(s.Tenants); n > 1 {
		add("%d tenants,", n)
	}
	add("%s,", s.Queries[0].Statements[0])
	if n := len(s.Queries); n > 1 {
		add("and %s,", plural(n-1, "other query"))
	}
	if r := s.Queries[0].Repeat; r > 1 {
		add("%d times,", r)
	}
	if w := s.Queries[0].Work; works(&s.Queries[0]) {
		if w.Sigma > 0 {
			add("log-normal, sigma %g,", w.Sigma)
		}
		add("work of %v,", w.Mean)
	}
	if s.Patience > 0 {
		add("patience %v, then %s,", s.Patience, s.Leave)
	}
	if s.Retry.Most > 0 {
		add("up to %d retries,", s.Retry.Most)
	}
	return strings.TrimSuffix(strings.Join(words, " "), ",")
}

// works reports that a query takes as long as its work says.
func works(q *bench.Query) bool {
	return slices.ContainsFunc(q.Statements, func(text string) bool {
		return strings.Contains(text, "{seconds}") || strings.Contains(text, "{loops}")
	})
}

// share is the part of the phases that a stream has.
func share(l *bench.Load, s *bench.Stream) float64 {
	sum := 0.0
	for i := range l.Streams {
		sum += l.Streams[i].Share
	}
	if sum == 0 {
		return 0
	}
	return s.Share / sum
}

// grid is a table whose columns are as wide as what is in them: the first to the left, the
// others to the right.
type grid struct {
	rows [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// lines are the table's; heading marks those that stand alone.
func (g *grid) lines() []string {
	var widths []int
	for _, row := range g.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if len(row) > 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var list []string
	for _, row := range g.rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			switch {
			case len(row) == 1:
				b.WriteString(cell)
			case i == 0:
				b.WriteString("  " + cell + pad)
			default:
				b.WriteString("  " + pad + cell)
			}
		}
		list = append(list, strings.TrimRight(b.String(), " "))
	}
	return list
}

// sparks is a row of bars, one for each value, the highest of which is top.
func (s *Screen) sparks(values []float64, top float64) string {
	signs := []rune(" ▁▂▃▄▅▆▇█")
	if !s.Unicode {
		signs = []rune(" .:-=+*#@")
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if top > 0 && v > 0 {
			i = min(1+int(v/top*float64(len(signs)-1)-1e-9), len(signs)-1)
		}
		b.WriteRune(signs[i])
	}
	return b.String()
}
