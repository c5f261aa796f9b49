package schema

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pgweir/pgweir/config/values"
)

// shared is a file whose workloads have these shares.
func shared(shares []values.Share) *File {
	var c File
	for i, s := range shares {
		c.Workloads = append(c.Workloads, Workload{Name: fmt.Sprint(i), Share: s})
	}
	return &c
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		shares []values.Share
		n      int
		want   string
	}{
		{[]values.Share{values.AutoShare}, 7, "[7]"},
		{[]values.Share{6000, values.AutoShare, values.AutoShare}, 10, "[6 2 2]"},
		{[]values.Share{values.AutoShare, values.AutoShare, values.AutoShare}, 10, "[4 3 3]"}, // 33.34%, 33.33%, 33.33%
		{[]values.Share{1000, 9000}, 5, "[1 4]"},                                              // 0.5 and 4.5: the first of equals
		{[]values.Share{1000, 9000}, 1, "[0 1]"},
		{[]values.Share{2000, 3000}, 10, "[2 3]"}, // and half of it is nobody's
		{[]values.Share{10000, values.AutoShare}, 10, "[10 0]"},
		{[]values.Share{0, values.AutoShare}, 10, "[0 10]"},
	} {
		config := shared(c.shares)
		DivideShares(config.Workloads, func(*Workload) bool { return false })
		if got := fmt.Sprint(config.Parts(c.n)); got != c.want {
			t.Errorf("%v of %d: %s, want %s", c.shares, c.n, got, c.want)
		}
	}
}

func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left := values.Whole
		var shares []values.Share
		auto := false
		for range rapid.IntRange(1, 12).Draw(t, "workloads") {
			s := values.Share(rapid.IntRange(-1, int(left)).Draw(t, "share"))
			if s.IsAuto() {
				auto = true
			} else {
				left -= s
			}
			shares = append(shares, s)
		}
		c := shared(shares)
		DivideShares(c.Workloads, func(*Workload) bool { return false })
		sum := values.Share(0)
		least, most := values.Whole, values.Share(0)
		for i, w := range c.Workloads {
			sum += w.Part
			if !shares[i].IsAuto() && w.Part != shares[i] {
				t.Fatalf("%v has become %v", shares[i], w.Part)
			}
			if shares[i].IsAuto() {
				least, most = min(least, w.Part), max(most, w.Part)
			}
		}
		if auto && (sum != values.Whole || most-least > 1) {
			t.Fatalf("the parts add up to %v; those of auto are %v to %v", sum, least, most)
		}
		n := rapid.IntRange(0, 3000).Draw(t, "slots")
		total := 0
		for i, part := range c.Parts(n) {
			exact := c.Workloads[i].Part.Fraction() * float64(n)
			if float64(part) < math.Floor(exact-1e-9) || float64(part) > math.Ceil(exact+1e-9) {
				t.Fatalf("%d of %d, exactly %v", part, n, exact)
			}
			total += part
		}
		if exact := sum.Fraction() * float64(n); total > n || float64(total) < math.Floor(exact) {
			t.Fatalf("%d of %d, exactly %v", total, n, exact)
		}
	})
}

func TestWaitingBound(t *testing.T) {
	auto := Workload{MaxWait: values.Duration(2 * time.Second), MaxWaiting: values.Auto}
	for _, c := range []struct {
		w     Workload
		slots int
		rate  float64
		want  int
	}{
		{auto, 10, 0, 40},    // no rate known yet
		{auto, 10, 100, 200}, // 2 s x 100/s
		{auto, 10, 5000, 1000},
		{auto, 10, 5, 40},
		{auto, 300, 5000, 1200}, // 4 x slots even over 1000
		{auto, 10, -1, 40},
		{Workload{MaxWait: values.Duration(time.Second), MaxWaiting: 7}, 10, 5000, 7},
	} {
		if got := c.w.WaitingBound(c.slots, c.rate); got != c.want {
			t.Errorf("%+v with %d slots at %v/s: %d, want %d", c.w, c.slots, c.rate, got, c.want)
		}
	}
}
