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
