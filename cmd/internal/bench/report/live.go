package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// marksPerSecond is how many of the latest marks make a second.
const marksPerSecond = 4

// barMost is how many signs fit on the line.
const barMost = 24

// Live shows a run second by second: a line for each, and the one that passes now where it
// can be rewritten. Its Look is for the options of a run with the default Every.
type Live struct {
	screen *Screen
	load   *bench.Load
	unit   float64 // requests per second that are one sign of the bar

	past [marksPerSecond]bench.Mark // a ring; at first all are the start
	next int
	kept time.Duration // up to when lines were written
}

// NewLive writes the heading and follows a load.
func NewLive(s *Screen, l *bench.Load) *Live {
	v := &Live{screen: s, load: l, unit: unit(l.TopRate())}
	s.Say("%s", s.Dim(fmt.Sprintf("  %5s %-10s %7s %7s %7s %7s %8s  each %s is %g", "s", "per second",
		"served", "refused", "gave up", "waiting", "Postgres", s.Sign(bench.Served), v.unit)))
	return v
}

// unit is a round number of which a bar of the rate has no more than fit.
func unit(rate float64) float64 {
	u := 1.0
	for {
		for _, factor := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
			if rate*1.2 <= u*barMost {
				return u
			}
			u *= factor
		}
	}
}

// Look takes how things stand.
func (v *Live) Look(m bench.Mark) {
	from := v.past[v.next]
	v.past[v.next] = m
	v.next = (v.next + 1) % marksPerSecond
	line := v.second(from, m)
	switch {
	case v.load.Length() > 0 && m.At >= v.load.Length()+time.Second/marksPerSecond: // the last ones wait for their answers
		v.screen.Live(line)
	case m.At < v.kept+time.Second:
		v.screen.Live(line)
	default:
		v.screen.Keep(line)
		v.kept = m.At.Truncate(time.Second)
	}
}

// End removes what is live.
func (v *Live) End() { v.screen.Erase() }

// second is what happened between two marks, per second.
func (v *Live) second(from, to bench.Mark) string {
	length := max((to.At - from.At).Seconds(), 1e-3)
	per := func(a, b int) int { return int(math.Round(float64(b-a) / length)) }
	var by [bench.Outcomes]int
	for o := range by {
		by[o] = per(from.By[o], to.By[o])
	}
	gaveUp := by[bench.GaveUp] + by[bench.Failed] + by[bench.Unsent]
	return fmt.Sprintf("  %5.0f %-10s %7d %7d %7d %7d %8d  %s", to.At.Seconds(), v.phase(to.At-time.Second/2),
		by[bench.Served], by[bench.Refused]+by[bench.Stopped], gaveUp, to.Waiting(),
		per(int(from.Executed), int(to.Executed)), v.bar(by))
}

// phase is what a time is called.
func (v *Live) phase(at time.Duration) string {
	name := ""
	for _, p := range v.load.Phases {
		name = p.Title()
		if at < p.For {
			return name
		}
		at -= p.For
	}
	return name
}

// bar shows answers as signs: those in time first.
func (v *Live) bar(by [bench.Outcomes]int) string {
	var b strings.Builder
	sum, drawn := 0.0, 0
	for o, n := range by {
		sum += float64(n)
		length := max(0, min(int(sum/v.unit+0.5), barMost)-drawn)
		drawn += length
		o := bench.Outcome(o)
		b.WriteString(v.screen.Paint(ColorOf(o), strings.Repeat(v.screen.Sign(o), length)))
	}
	return b.String()
}
