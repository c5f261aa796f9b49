package admission

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestRamp(t *testing.T) {
	var r Ramp
	if r.Limit(0, 40) != 40 || r.Next(0, 40) != math.MaxInt64 {
		t.Error("it limits before it has started")
	}
	r.Start(10e9)
	for _, c := range []struct {
		second float64
		limit  int
	}{{0, 10}, {1, 15}, {2, 22}, {3, 33}, {3.5, 40}, {5, 40}} {
		if got := r.Limit(10e9+int64(c.second*1e9), 40); got != c.limit {
			t.Errorf("after %v s %d of 40, want %d", c.second, got, c.limit)
		}
	}
	if r.Limit(10e9, 40) != 40 {
		t.Error("at the top it stays there")
	}
}

// While those who wait do so for too long it stands, and goes on from there.
func TestRampStands(t *testing.T) {
	r := Ramp{Floor: 3}
	r.Start(0)
	if got := r.Limit(0, 4); got != 3 {
		t.Errorf("%d under a floor of 3", got)
	}
	if got := r.Limit(0, 2); got != 2 {
		t.Errorf("%d of 2", got)
	}
	r.Calm(1e9, false)
	if got, next := r.Limit(60e9, 40), r.Next(60e9, 40); got != 15 || next != math.MaxInt64 {
		t.Errorf("%d of 40 while it stands, next %d", got, next)
	}
	r.Calm(60e9, true)
	if got := r.Limit(61e9, 40); got != 22 {
		t.Errorf("%d of 40 a second later, want 22", got)
	}
}

// The limit never falls by time, is within its bounds, and is higher when Next says so.
func TestRampProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Ramp{Floor: rapid.IntRange(0, 10).Draw(t, "floor")}
		slots := rapid.IntRange(1, 300).Draw(t, "slots")
		now := rapid.Int64Range(0, 1e12).Draw(t, "now")
		r.Start(now)
		last := 0
		for range 30 {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				r.Calm(now, rapid.Bool().Draw(t, "calm"))
			case 1:
				now += rapid.Int64Range(0, 2e9).Draw(t, "ns")
			default:
				before := r.Limit(now, slots)
				next := r.Next(now, slots)
				if next == math.MaxInt64 {
					if before < slots && !r.stand {
						t.Fatal("it stands for ever")
					}
					continue
				}
				if next <= now {
					t.Fatalf("next %d at %d", next, now)
				}
				now = next
				if got := r.Limit(now, slots); got <= before && got > max(r.Floor, 1) {
					t.Fatalf("%d, and %d before", got, before)
				}
			}
			got := r.Limit(now, slots)
			if got < last || got > slots || got < min(slots, max(r.Floor, 1)) {
				t.Fatalf("%d of %d, floor %d, %d before", got, slots, r.Floor, last)
			}
			last = got
		}
	})
}
