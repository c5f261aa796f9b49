package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// colors is how many series have a color of their own; the style sheet has as many.
const colors = 12

// seriesClass is the style of the n-th target.
func seriesClass(n int) string { return fmt.Sprintf("s%d", n%colors) }

// outcomeClass is the style of an outcome.
func outcomeClass(o bench.Outcome) string { return fmt.Sprintf("o%d", o) }

// curve is a line through the middles of a summary's seconds.
func curve(s *Summary, class, name string, value func(*Second) float64) line {
	l := line{class: class, name: name}
	for i := range s.Seconds {
		one := &s.Seconds[i]
		l.points = append(l.points, [2]float64{one.AtS + one.ForS/2, value(one)})
	}
	return l
}

// perSecond is the value for requests of an outcome by time of arrival.
func perSecond(o bench.Outcome) func(*Second) float64 {
	return func(s *Second) float64 {
		if s.Asked == 0 {
			return math.NaN()
		}
		return float64(s.By[o]) / s.ForS
	}
}

// percentile is the value for one of a spread.
func percentile(of func(*Second) Spread, p func(Spread) float64) func(*Second) float64 {
	return func(s *Second) float64 {
		if spread := of(s); spread.N > 0 {
			return max(p(spread), 0.1)
		}
		return math.NaN()
	}
}

// Parts of seconds and of spreads.
func took(s *Second) Spread      { return s.TookMS }
func told(s *Second) Spread      { return s.ToldMS }
func half(s Spread) float64      { return s.P50 }
func hundredth(s Spread) float64 { return s.P99 }

// waiting is the value for attempts without an answer.
func waiting(s *Second) float64 { return float64(s.Waiting) }

// forNobody is the value for statements that Postgres has finished beyond those that were
// answered in time.
func forNobody(s *Second) float64 {
	if s.Servers == nil {
		return math.NaN()
	}
	return max(0, float64(s.Servers.Executed)-float64(s.Done))
}

// wall is the common frame of all plots of a page.
type wall struct {
	end   float64 // seconds
	top   float64 // requests per second
	marks []mark
}

// newWall finds what all plots have in common.
func newWall(all []Summary, l *bench.Load) wall {
	w := wall{top: 1}
	at := 0.0
	for _, p := range l.Phases {
		w.marks = append(w.marks, mark{at, p.Title()})
		at += p.For.Seconds()
	}
	w.end = at
	for i := range all {
		for _, s := range all[i].Seconds {
			if at == 0 {
				w.end = max(w.end, s.AtS+s.ForS)
			}
			w.top = max(w.top, float64(s.Asked)/s.ForS)
		}
	}
	w.top *= 1.05
	return w
}

// trim leaves out what came after the plots' end.
func (w wall) trim(s Summary) Summary {
	for i := range s.Seconds {
		if s.Seconds[i].AtS >= w.end-1e-9 {
			s.Seconds = s.Seconds[:i]
			break
		}
	}
	return s
}

// together are the plots that have a line for each target.
func (w wall) together(all []Summary) []*plot {
	demand := line{class: "demand", name: "asked", steps: true}
	for _, s := range all[0].Seconds {
		rate := float64(s.Asked) / s.ForS
		demand.points = append(demand.points, [2]float64{s.AtS, rate}, [2]float64{s.AtS + s.ForS, rate})
	}
	served := w.plot("Served per second, by time of arrival", "The grey line is what was asked for.")
	served.lines = append(served.lines, demand)
	slow := w.plot("Answer after, p99", "Of those served.")
	slow.log = true
	usual := w.plot("Answer after, p50", "Of those served.")
	usual.log = true
	refused := w.plot("Told of a refusal after, p50", "")
	refused.log = true
	line := w.plot("Waiting for an answer", "Requests on their way.")
	nobody := w.plot("Executed for nobody", "Statements whose clients had left, so far.")
	for i := len(all) - 1; i >= 0; i-- { // the first is drawn above the others
		one, class := &all[i], seriesClass(i)
		served.lines = append(served.lines, curve(one, class, one.Target, perSecond(bench.Served)))
		slow.lines = append(slow.lines, curve(one, class, one.Target, percentile(took, hundredth)))
		usual.lines = append(usual.lines, curve(one, class, one.Target, percentile(took, half)))
		refused.lines = append(refused.lines, curve(one, class, one.Target, percentile(told, half)))
		line.lines = append(line.lines, curve(one, class, one.Target, waiting))
		if v := one.Servers; v != nil && v.Executed != nil {
			nobody.lines = append(nobody.lines, curve(one, class, one.Target, forNobody))
		}
	}
	list := []*plot{served, slow, usual, line}
	if refused.says() {
		list = append(list, refused)
	}
	if len(nobody.lines) > 0 {
		list = append(list, nobody)
	}
	return list
}

// alone are the plots of one target.
func (w wall) alone(s *Summary) []*plot {
	outcomes := w.plot("What came of those who arrived, per second", "")
	outcomes.top = w.top
	for o := range bench.Outcomes {
		a := area{class: outcomeClass(o)}
		for i := range s.Seconds {
			a.values = append(a.values, float64(s.Seconds[i].By[o])/s.Seconds[i].ForS)
		}
		outcomes.areas = append(outcomes.areas, a)
	}
	latencies := w.plot("Answer after", "p50 and p99 of those served; dotted, when refusals were told: p50.")
	latencies.log = true
	latencies.lines = []line{
		curve(s, "p99", "p99", percentile(took, hundredth)),
		curve(s, "p50", "p50", percentile(took, half)),
		curve(s, "told", "refusals told after, p50", percentile(told, half)),
	}
	line := w.plot("Waiting for an answer", "Requests on their way.")
	line.lines = append(line.lines, curve(s, "p50", "waiting", waiting))
	if s.Servers != nil {
		line.note = "Requests on their way; dotted, busy Postgres backends."
		line.lines = append(line.lines, curve(s, "told", "busy backends", func(one *Second) float64 {
			if one.Servers == nil {
				return math.NaN()
			}
			return float64(one.Servers.Busy)
		}))
	}
	for i := range s.Seconds {
		h := hint(&s.Seconds[i])
		for _, p := range []*plot{outcomes, latencies, line} {
			p.hints = append(p.hints, h)
		}
	}
	return []*plot{outcomes, latencies, line}
}

// hint says a second in words.
func hint(s *Second) hints {
	words := []string{fmt.Sprintf("%g-%g s: %d asked", round(s.AtS), round(s.AtS+s.ForS), s.Asked)}
	for o, n := range s.By {
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %v", n, bench.Outcome(o)))
		}
	}
	if s.TookMS.N > 0 {
		words = append(words, "answer after "+pair(s.TookMS)+" ms")
	}
	if s.ToldMS.N > 0 {
		words = append(words, "told after "+pair(s.ToldMS)+" ms")
	}
	words = append(words, fmt.Sprintf("%d waiting", s.Waiting))
	return hints{s.AtS, s.AtS + s.ForS, strings.Join(words, ", ")}
}

func (w wall) plot(title, note string) *plot {
	return &plot{title: title, note: note, end: w.end, marks: w.marks}
}

// says reports that a line of the plot has a value.
func (p *plot) says() bool {
	for _, l := range p.lines {
		for _, at := range l.points {
			if !math.IsNaN(at[1]) {
				return true
			}
		}
	}
	return false
}
