package admission

import (
	"slices"
	"strings"
	"testing"
)

// A class does not keep its servers while a higher one has none: as soon as one of the lower
// would be served again. Among equals affinity goes on for a while.
func TestLowerClassGivesUpItsServers(t *testing.T) {
	for _, c := range []struct {
		name  string
		first Class // of those who have the servers
		want  []string
	}{
		{"a lower class", Sheddable, []string{"steal 1 at 20 at once"}},
		{"the same class", Critical, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf()
			s.stealing = true
			g := New(Plan{Slots: 1, Workloads: []Workload{{Share: 1, Policy: Guard}}}, s, nil)
			s.idle[0] = 1
			for range 3 {
				g.Admit(0, &Waiter{Class: c.first})
			}
			g.Admit(0, &Waiter{Key: 1, Role: 1, Class: Critical})
			s.drain()
			for at := 10 * ms; at <= 20*ms; at += 10 * ms {
				s.idle[0]++
				out := g.Supplied(at, 0, nil)
				if out = g.Done(at, Ticket{}, 10*ms, out); len(out) != 1 || out[0].W.Key != 0 {
					t.Fatalf("%+v", out)
				}
			}
			asked := slices.DeleteFunc(s.drain(), func(a string) bool { return !strings.HasPrefix(a, "steal") })
			if !slices.Equal(asked, c.want) {
				t.Errorf("%q", asked)
			}
			if err := g.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What makes a queue grow is told from what does not.
func TestGrowth(t *testing.T) {
	d := &load{part: 5}
	for range enough {
		d.drain.add(10 * ms)
	}
	overload, pages, drift := paces()[0], paces()[1], paces()[2]
	// steps is of each step by how many the queue is longer, and how many came with something new.
	grows := func(p pace, steps ...[2]int) bool {
		r := &rank{line: &line{load: d}, list: list{n: 20}}
		var w growth
		w.start(1000*ms, r)
		for i, s := range steps {
			r.n += s[0]
			r.begun += s[1]
			if w.look(1000*ms+int64(i+1)*p.intervals*leastInterval, leastInterval, r, p) {
				return true
			}
		}
		return false
	}
	again := func(n, more, begun int) [][2]int { return slices.Repeat([][2]int{{more, begun}}, n) }
	for _, c := range []struct {
		name  string
		grows bool
		want  bool
	}{
		{"twice what fits", grows(overload, again(2, 50, 100)...), true},
		{"a tenth too much", grows(overload, again(3, 6, 56)...), true},
		{"not for long", grows(overload, again(2, 6, 56)...), false},
		{"with a pause", grows(overload, [2]int{6, 56}, [2]int{6, 56}, [2]int{-1, 49}, [2]int{6, 56}, [2]int{6, 56}), false},
		{"pages, half of which stay", grows(pages, again(5, 4, 7)...), true},
		{"pages, few of which come at times", grows(pages, [2]int{4, 7}, [2]int{4, 7}, [2]int{1, 2}, [2]int{4, 7}, [2]int{0, 1}, [2]int{4, 7}, [2]int{4, 7}), true},
		{"pages that end at times", grows(pages, [2]int{4, 7}, [2]int{4, 7}, [2]int{4, 7}, [2]int{-1, 1}, [2]int{4, 7}, [2]int{4, 7}, [2]int{4, 7}), false},
		{"pages, most of which end", grows(pages, again(9, 4, 50)...), false},
		{"clients that were there", grows(pages, again(9, 4, 0)...), false},
		{"they all come at once", grows(pages, [2]int{200, 200}, [2]int{4, 5}), false},
		{"a little too much", grows(drift, again(6, 6, 256)...), true},
		{"up and down", grows(drift, again(5, 6, 256)...), false},
		{"a hair too much", grows(drift, again(9, 4, 254)...), false},
	} {
		if c.grows != c.want {
			t.Errorf("%s: grows %v", c.name, c.grows)
		}
	}
}

// Those who come back are no pages after a standstill, and no overload when this gate takes over
// from another one.
func TestGrowthOfThoseWhoComeBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		from  func(g *Gate, now int64)
		after int64 // how long ago that was
		more  int   // by how many it gets longer in an interval
		want  bool
	}{
		{"pages", (*Gate).TakeOver, comeback, 1, true},
		{"they come back to another gate", (*Gate).TakeOver, 0, 1, false},
		{"they crowd there", (*Gate).TakeOver, 0, 3, false},
		{"an overload", (*Gate).TakeOver, comeback, 3, true},
		{"pages after a standstill", (*Gate).standStill, comeback, 1, true},
		{"they come back to the database", (*Gate).standStill, 0, 1, false},
		{"an overload of the database", (*Gate).standStill, 0, 3, true},
	} {
		s := newShelf()
		g := New(Plan{Slots: 5, Workloads: []Workload{{Share: 1, Policy: Guard}}}, s, nil)
		r := &g.loads[0].lines[slots].ranks[Critical.index()]
		for range enough {
			g.loads[0].drain.add(50 * ms)
			g.drain.add(50 * ms)
		}
		g.loads[0].part = 5
		s.idle[0] = 5
		now := int64(100e9)
		for range 25 {
			g.Admit(now, &Waiter{Class: Critical})
		}
		now += 2 * comeback
		c.from(g, now)
		now += c.after
		got := false
		for i := 0; i < 3*pageSteps+3 && !got; i++ {
			g.movedAt = now
			got = g.grows(now, r, leastInterval)
			now += leastInterval
			r.n += c.more
			r.begun += c.more
		}
		if got != c.want {
			t.Errorf("%s: it grows: %v", c.name, got)
		}
	}
}

// standStill has nothing moved for long, which is seen.
func (g *Gate) standStill(now int64) {
	r := &g.loads[0].lines[slots].ranks[Critical.index()]
	if !g.still(now, r) {
		panic("nothing has stood still")
	}
	g.grows(now, r, leastInterval)
}

// A backlog that a stall has left behind is refused for a moment only: that those who were
// refused ask again is no reason to go on.
func TestBacklogIsSoonForgotten(t *testing.T) {
	s := newShelf()
	g := New(Plan{Slots: 5, Workloads: []Workload{{Share: 1, Policy: Guard}}}, s, nil)
	d := g.loads[0]
	r := &d.lines[slots].ranks[Critical.index()]
	for range enough {
		d.drain.add(10 * ms)
		g.drain.add(10 * ms)
	}
	s.idle[0] = 5
	now := int64(100e9)
	var running []Verdict
	come := func(n int) {
		for range n {
			if v := g.Admit(now, &Waiter{Class: Critical}); v.Outcome == Granted {
				running = append(running, v)
			}
			g.Displaced(nil)
		}
	}
	come(10)
	end := func() {
		v := running[0]
		s.idle[0]++
		out := g.Done(now, v.Ticket, 10*ms, g.Supplied(now, 0, nil))
		running = append(running[1:], slices.DeleteFunc(out, func(v Verdict) bool { return v.Outcome != Granted })...)
	}
	now += d.maxWait(r.index) / 2
	come(45)
	now += d.maxWait(r.index)/2 + ms
	g.Fire(now, nil) // the first are refused
	if end(); !r.on {
		t.Fatal("the backlog of a stall is served in the order of arrival")
	}
	from := now
	for r.on && now < from+leastTrial { // all who are refused ask again
		now += 2 * ms
		end()
		come(45 - g.Waiting())
	}
	if r.on || now > from+2*stallTrial {
		t.Errorf("it stands for %d ms after a stall: %v", (now-from)/ms, r.on)
	}
}

// A queue that stands is kept short by displacement, but for the highest class's.
func TestTheHighestClassIsNotDisplaced(t *testing.T) {
	for _, c := range []struct {
		class Class
		want  bool
	}{{Critical, true}, {Sheddable, true}, {CriticalPlus, false}} {
		s := newShelf()
		g := New(Plan{Slots: 5, Workloads: []Workload{{Share: 1, Policy: Guard}}}, s, nil)
		for range enough {
			g.loads[0].drain.add(10 * ms)
			g.drain.add(10 * ms)
		}
		s.idle[0] = 5
		now := int64(100e9)
		come := func(n int) {
			for range n {
				g.Admit(now, &Waiter{Class: c.class})
			}
		}
		come(6)
		r := &g.loads[0].lines[slots].ranks[c.class.index()]
		g.turnStanding(now, r, true)
		now += 2 * leastTrial // the time at its beginning in which more is kept is over
		come(200)
		if got := len(g.Displaced(nil)) > 0; got != c.want {
			t.Errorf("%v: displaced %v of %d", c.class, got, r.n)
		}
		if err := g.Check(); err != nil {
			t.Error(err)
		}
	}
}
