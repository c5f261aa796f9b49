package pool

import (
	"fmt"
	"math"
	"testing"

	"github.com/pgweir/pgweir/admission"
	"pgregory.net/rapid"
)

// A dial counts for ten steps, and the formula is that of its inventors.
func TestThrottleFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var th throttle
		type dial struct {
			step  int64
			taken bool
		}
		var all []dial
		now := rapid.Int64Range(0, 100e9).Draw(t, "start")
		for range rapid.IntRange(0, 200).Draw(t, "dials") {
			now += rapid.SampledFrom([]int64{0, 1e6, 300e6, 1e9, 7e9, 25e9}).Draw(t, "pause")
			d := dial{now / windowStep, rapid.IntRange(0, 2).Draw(t, "taken") == 0}
			all = append(all, d)
			th.note(now, d.taken)
			n, a := 0, 0
			for _, o := range all {
				if o.step > now/windowStep-window {
					n++
					if o.taken {
						a++
					}
				}
			}
			want := max(0, float64(n-2*a)/float64(n+1))
			if n < fewDials {
				want = 0
			}
			if got := th.refused(now); math.Abs(got-want) > 1e-12 {
				t.Fatalf("%d of %d taken: %v, want %v", a, n, got, want)
			}
		}
		if got := th.refused(now + 11e9); got != 0 {
			t.Fatalf("%v after all is forgotten", got)
		}
	})
}

// crowd is many keys with one waiter each at a server that answers each dial 10 ms later.
type crowd struct {
	set   *Set
	keys  int
	now   int64
	dials int // started
	open  map[admission.Key]bool
	under []*Server
	since []int64
	takes func(open int) bool
	full  bool
}

func newCrowd(keys int) *crowd {
	c := &crowd{set: New(Options{Budget: keys, ConnectParallel: 8}), keys: keys, open: make(map[admission.Key]bool), takes: func(int) bool { return false }}
	for k := range keys {
		c.set.Demand(admission.Key(k), 1, keys, 0)
	}
	return c
}

// run lets time go on, 5 ms at a time.
func (c *crowd) run(to int64) {
	for ; c.now <= to; c.now += 5e6 {
		for len(c.under) > 0 && c.since[0] <= c.now-10e6 {
			sv := c.under[0]
			c.under, c.since = c.under[1:], c.since[1:]
			ok := c.takes(len(c.open))
			if !ok {
				c.set.Refused(c.now, c.full)
			} else {
				c.open[sv.Key] = true
			}
			c.set.Dialed(c.now, sv, ok, false)
		}
		c.set.Fire(c.now)
		for _, a := range c.set.Actions(nil) {
			c.dials++
			c.under, c.since = append(c.under, a.Server), append(c.since, c.now)
		}
	}
}

// While the server is away the keys dial together hardly more often than one would alone;
// when it is back the first notices within half a second, and then all come.
func TestManyKeysAtAServerThatIsAway(t *testing.T) {
	c := newCrowd(50)
	c.run(2e9)
	start := c.dials
	c.run(22e9)
	if n := c.dials - start; n < 20 || n > 100 {
		t.Errorf("%d dials in 20 s: each key alone would have tried 40 times", n)
	}
	for k := range 50 {
		if !c.set.Down(admission.Key(k)) || c.set.Warming(admission.Key(k)) {
			t.Fatalf("key %d: the clock of its waiters stands still", k)
		}
	}
	if c.set.Stats().Slowed < 0.5 {
		t.Errorf("slowed %v", c.set.Stats().Slowed)
	}
	c.takes = func(int) bool { return true }
	c.run(22e9 + 600e6)
	if len(c.open) == 0 {
		t.Fatal("nobody has noticed that the server is back")
	}
	c.run(24e9)
	if len(c.open) != 50 || c.set.Stats().Slowed != 0 {
		t.Errorf("%d of 50 keys are served, slowed %v", len(c.open), c.set.Stats().Slowed)
	}
	check(t, c.set)
}

// A server without room for all is not told so over and over again, and what it has room for
// is found.
func TestManyKeysAtAFullServer(t *testing.T) {
	c := newCrowd(50)
	c.full = true
	room := 20
	c.takes = func(open int) bool { return open < room }
	c.run(10e9)
	if len(c.open) != room {
		t.Fatalf("%d servers, there is room for %d", len(c.open), room)
	}
	start := c.dials
	c.run(30e9)
	if n := c.dials - start; n > 120 {
		t.Errorf("%d dials in 20 s at a full server", n)
	}
	room = 50
	c.run(45e9)
	if len(c.open) != room {
		t.Errorf("%d of %d keys are served after room was made", len(c.open), room)
	}
}

// One that is refused now and then is no reason to slow down.
func TestGoodDayIsNotSlowedDown(t *testing.T) {
	s := New(Options{Budget: 100})
	for i := range 100 {
		s.Demand(admission.Key(i), 1, 100, int64(i)*10e6)
		for _, a := range s.Actions(nil) {
			if i%3 == 0 {
				s.Refused(int64(i)*10e6, i%2 == 0)
			}
			s.Dialed(int64(i)*10e6, a.Server, i%3 != 0, false)
		}
		if s.Stats().Slowed != 0 {
			t.Fatal(fmt.Sprint("slowed down after dial ", i))
		}
	}
}
