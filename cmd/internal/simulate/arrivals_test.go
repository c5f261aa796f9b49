package simulate

import (
	"slices"
	"testing"
	"time"
)

// Even arrivals begin with each phase, and come in turns by their shares; what has no share
// is nobody's, and a rate is apart.
func TestEvenArrivals(t *testing.T) {
	s := &Scenario{
		Even: true, Load: []Phase{{Rate: 4, Length: time.Second}, {Rate: 0, Length: time.Second}, {Rate: 8, Length: time.Second}},
		Streams: []Stream{{Share: 0.25}, {Share: 0.5}, {Rate: 1}},
	}
	want := [][]int{{250, 2125, 2625}, {0, 750, 2000, 2375, 2500, 2875}, {0, 1000, 2000}}
	for i := range s.Streams {
		var got []int
		a := newArrivals(s, i, nil)
		for at := a.next(); at != never; at = a.next() {
			got = append(got, int(at/1e6))
		}
		if !slices.Equal(got, want[i]) {
			t.Errorf("stream %d comes at %v, want %v", i, got, want[i])
		}
	}
}

// What an experiment of the bench tells is what the simulator tells of it.
func TestSimulatorAgreesWithMeasurements(t *testing.T) {
	for policy, want := range map[string]Row{
		"fifo":          {TimedOut: 1000, Wasted: 2640},
		"fifo-gone":     {TimedOut: 1000, Wasted: 905, After: 76},
		"bounded":       {Goodput: 99, P50: 251, P99: 256, Refused: 505, Critical: 123, After: 80},
		"lifo":          {Goodput: 101, P50: 54, P99: 660, TimedOut: 490, Critical: 127, Wasted: 1000, After: 80},
		"lifo-deadline": {Goodput: 101, P50: 54, P99: 660, Refused: 3, Told: 960, TimedOut: 490, Critical: 127, After: 80},
		"codel":         {Goodput: 99, P50: 54, P99: 110, Refused: 505, Told: 62, Critical: 123, After: 80},
		"priority":      {Goodput: 99, P50: 100, P99: 115, Refused: 505, Critical: 250, After: 80},
		"guard":         {Goodput: 99, P50: 55, P99: 100, Refused: 505, Told: 10, Critical: 250, After: 80},
	} {
		got, ok := play(t, "E1", "", policy, 2).Row(policy)
		if !ok {
			t.Fatalf("%s has no row", policy)
		}
		for _, c := range columns() {
			near := c.near
			if c.name == "p99 ms" || c.name == "wasted" || policy == "lifo-deadline" && c.name == "told ms" {
				near = 60 // of the first, a machine that is not quiet makes the most
			}
			is, was := c.of(&got), c.of(&want)
			if is-was > near || was-is > near {
				t.Errorf("%s: %s is %.0f, measured %.0f", policy, c.name, is, was)
			}
		}
	}
}
