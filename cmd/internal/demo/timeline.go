package demo

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/report"
)

// screen shows a demonstration.
type screen struct{ report.Screen }

// newScreen is the screen of some options.
func newScreen(out io.Writer, o Options) *screen {
	return &screen{report.Screen{Out: out, Rewrites: o.Terminal, Colors: o.Colors, Unicode: o.Unicode}}
}

// perSecond is how often a run says how it stands.
const perSecond = 4

// timeline shows a run: a line for each second, and the one that is passing where that can be
// rewritten.
type timeline struct {
	list []stretch
	out  *screen
	past [perSecond]bench.Mark // a ring; at first all are the start
	i    int
	next time.Duration // when the next line is for good; 0: the heading is still to come
}

func newTimeline(list []stretch, out *screen) *timeline { return &timeline{list: list, out: out} }

// since exchanges how things stood about a second ago for how they stand.
func (t *timeline) since(now bench.Mark) (then bench.Mark) {
	then, t.past[t.i] = t.past[t.i], now
	t.i = (t.i + 1) % perSecond
	return then
}

// look shows how things stand.
func (t *timeline) look(now bench.Mark) {
	if t.next == 0 {
		t.out.Say("%s", t.out.heading())
		t.next = time.Second
	}
	name := nameAt(t.list, now.At-time.Second/2)
	switch line := t.out.second(name, t.since(now), now); {
	case name == "": // the last requests wait for their answers
	case now.At < t.next:
		t.out.Live(line)
	default:
		t.out.Keep(line)
		t.next = now.At.Truncate(time.Second) + time.Second
	}
}

// passing shows only the second that is passing.
func (t *timeline) passing(now bench.Mark) {
	t.out.Live(t.out.second(t.list[0].name, t.since(now), now))
}

// end removes the line that is passing.
func (t *timeline) end() { t.out.Erase() }

// nameAt is the phase at a time, "" behind the last.
func nameAt(list []stretch, at time.Duration) string {
	for _, s := range list {
		if at < s.length {
			return s.name
		}
		at -= s.length
	}
	return ""
}

// barUnit is how many answers in a second are one sign of the bar, barMost how many signs
// fit on the line.
const (
	barUnit = 10
	barMost = 20
)

// heading is above the lines of second; like them it has 79 columns at most.
func (s *screen) heading() string {
	line := fmt.Sprintf("  %-10s %6s %8s %8s %8s %10s", "per second", "served", "refused", "gave up", "waiting", "Postgres")
	return s.Dim(line + "  " + s.legend())
}

// legend explains the bar.
func (s *screen) legend() string {
	return fmt.Sprintf("each %s is %d", s.Sign(bench.Served), barUnit)
}

// second is what happened between two marks, per second.
func (s *screen) second(name string, from, to bench.Mark) string {
	length := max((to.At - from.At).Seconds(), 1e-3)
	per := func(a, b int64) int { return int(math.Round(float64(b-a) / length)) }
	var by [bench.Outcomes]int
	for i := range by {
		by[i] = per(int64(from.By[i]), int64(to.By[i]))
	}
	left := by[bench.GaveUp] + by[bench.Failed] + by[bench.Stopped] + by[bench.Unsent]
	return fmt.Sprintf("  %-10s %6d %8d %8d %8d %10d  %s", name, by[bench.Served], by[bench.Refused], left,
		to.Waiting(), per(from.Executed, to.Executed), s.bar(by[bench.Served], by[bench.Refused], left))
}

// bar shows answers as signs: those in time first.
func (s *screen) bar(served, refused, left int) string {
	var b strings.Builder
	sum, drawn := 0, 0
	for _, one := range []struct {
		what bench.Outcome
		n    int
	}{{bench.Served, served}, {bench.Refused, refused}, {bench.GaveUp, left}} {
		sum += one.n
		length := min((sum+barUnit/2)/barUnit, barMost) - drawn
		drawn += length
		b.WriteString(s.Paint(report.ColorOf(one.what), strings.Repeat(s.Sign(one.what), length)))
	}
	return b.String()
}
