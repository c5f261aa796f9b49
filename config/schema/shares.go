package schema

import (
	"cmp"
	"slices"

	"github.com/pgweir/pgweir/config/values"
)

// Parts divides n slots or connections among Workloads by their Part, the largest
// remainder first. Each gets its exact part rounded down or up. Whole numbers are for
// people: admission reckons with the fractions.
func (f *File) Parts(n int) []int {
	parts := make([]int, len(f.Workloads))
	order := make([]int, len(f.Workloads))
	left := values.Share(0)
	remainder := func(i int) int64 { return int64(n) * int64(f.Workloads[i].Part) % int64(values.Whole) }
	rest := n
	for i, w := range f.Workloads {
		parts[i], order[i] = w.Part.Of(n), i
		rest -= parts[i]
		left += w.Part
	}
	rest -= (values.Whole - left).Of(n) // what belongs to nobody
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainder(b), remainder(a)) })
	for _, i := range order {
		if rest <= 0 || remainder(i) == 0 {
			break
		}
		parts[i]++
		rest--
	}
	return parts
}

// DivideShares gives each workload its Part: what it says, or an equal part of what those
// that say leave. The built-in "tools" takes no more than is left.
func DivideShares(list []Workload, shrinks func(*Workload) bool) {
	rest, autos := values.Whole, 0
	for i := range list {
		switch w := &list[i]; {
		case w.Share.IsAuto():
			autos++
		case !shrinks(w):
			w.Part = w.Share
			rest -= w.Share
		}
	}
	for i := range list {
		if w := &list[i]; !w.Share.IsAuto() && shrinks(w) {
			w.Part = min(w.Share, rest)
			rest -= w.Part
		}
	}
	for i := range list {
		if w := &list[i]; w.Share.IsAuto() {
			w.Part = (rest + values.Share(autos) - 1) / values.Share(autos)
			rest -= w.Part
			autos--
		}
	}
}
