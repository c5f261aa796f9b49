package demo

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// perSecond is how often a line that can be rewritten shows the second that is passing.
const perSecond = 4

// mark is how things stood at a time since a run began.
type mark struct {
	at time.Duration
	counts
}

// meter reads how a run stands.
type meter struct {
	start time.Time
	tally *tally
	watch *watch
}

// begin is the start of a run.
func begin(t *tally, w *watch) *meter {
	w.begin()
	return &meter{start: time.Now(), tally: t, watch: w}
}

// read is how things stand.
func (m *meter) read() mark {
	now := mark{time.Since(m.start), m.tally.now()}
	now.executed = m.watch.executed()
	return now
}

// each calls f a few times a second until done, with how things stood about a second ago
// and how they stand.
func (m *meter) each(done <-chan struct{}, f func(from, to mark)) {
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	var past [perSecond]mark // a ring; at first all are the start
	for i := 0; ; i = (i + 1) % perSecond {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		now := m.read()
		f(past[i], now)
		past[i] = now
	}
}

// show writes a line for every second until done; the one that is passing is rewritten.
func show(done <-chan struct{}, list []stretch, m *meter, out *screen) {
	out.say("%s", out.heading())
	next := time.Second
	m.each(done, func(from, to mark) {
		name := nameAt(list, to.at-time.Second/2)
		switch line := out.second(name, from, to); {
		case name == "": // the last arrivals wait for their answers
		case to.at < next:
			out.live(line)
		default:
			out.keep(line)
			next = to.at.Truncate(time.Second) + time.Second
		}
	})
	out.erase()
}

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
	return s.dim(line + "  " + s.legend())
}

// legend explains the bar.
func (s *screen) legend() string {
	return fmt.Sprintf("each %s is %d", s.sign(served), barUnit)
}

// second is what happened between two marks, per second.
func (s *screen) second(name string, from, to mark) string {
	length := max((to.at - from.at).Seconds(), 1e-3)
	per := func(a, b int) int { return int(math.Round(float64(b-a) / length)) }
	var by [outcomes]int
	for i := range by {
		by[i] = per(from.by[i], to.by[i])
	}
	return fmt.Sprintf("  %-10s %6d %8d %8d %8d %10d  %s", name, by[served], by[refused], by[gaveUp]+by[failed],
		to.waiting(), per(from.executed, to.executed), s.bar(by))
}

// bar shows answers as signs: those in time first.
func (s *screen) bar(by [outcomes]int) string {
	var b strings.Builder
	sum, drawn := 0, 0
	for what, n := range by {
		sum += n
		length := min((sum+barUnit/2)/barUnit, barMost) - drawn
		drawn += length
		b.WriteString(s.paint(colorOf(outcome(what)), strings.Repeat(s.sign(outcome(what)), length)))
	}
	return b.String()
}
