package admission

import (
	"slices"
	"testing"
)

// When a queue begins to stand, what was begun before comes to its end first, by when it began;
// what begins later goes on by the order of arrival.
func TestBegunFirst(t *testing.T) {
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: never / 2, MaxWaiting: 1 << 20}}}, plenty{}, nil)
	now, base := int64(0), int64(0)
	var running Verdict
	come := func(since int64) {
		w := &Waiter{Continuing: since != 0, Expected: ms}
		if w.Continuing {
			w.Since = base + since*ms
		}
		if v := g.Admit(now, w); v.Outcome == Granted {
			running = v
		}
		now += ms
	}
	// all is the order in which those who wait are served, by when their work began; 0: now.
	all := func() (order []int64) {
		for {
			now += ms
			out := g.Done(now, running.Ticket, ms, nil)
			if err := g.Check(); err != nil {
				t.Fatal(err)
			}
			if len(out) == 0 {
				return order
			}
			running = out[0]
			since := int64(0)
			if running.W.Continuing {
				since = (running.W.Since - base) / ms
			}
			order = append(order, since)
		}
	}
	r := &g.loads[0].lines[slots].ranks[Critical.index()]
	for _, c := range []struct {
		name  string
		since []int64
		stood int64 // for how long; -1: not at all
		want  []int64
	}{
		{"no queue that stands", []int64{-500, -1000, 0, -300}, -1, []int64{-500, -1000, 0, -300}},
		{"begun before it stood", []int64{-500, -1000, 0, -300}, 0, []int64{-1000, -500, -300, 0}},
		{"before its head start", []int64{-500, -9000, -9900, -1000}, 0, []int64{-9000, -9900, -1000, -500}},
		{"begun since then", []int64{50, -100, 40}, 100, []int64{-100, 50, 40}},
		{"long after", []int64{900, -100, 800}, headStart/ms + 1, []int64{900, -100, 800}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now += mostTrial // nothing is remembered
			base = now
			if r.on = false; c.stood >= 0 {
				g.turnStanding(now, r, true)
				r.trial, r.moved = never/2, never/2 // it goes on to stand
				now += c.stood * ms
			}
			come(0)
			for _, since := range c.since {
				come(since)
			}
			if got := all(); !slices.Equal(got, c.want) {
				t.Errorf("%v, not %v", got, c.want)
			}
			g.turnStanding(now, r, false)
		})
	}
}
