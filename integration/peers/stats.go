package main

import (
	"math"
	"slices"
)

// quantile is the q-quantile (0 to 1) of values, linear between neighbours; NaN of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(math.Floor(at))
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

// median is the 0.5-quantile.
func median(values []float64) float64 { return quantile(values, 0.5) }

// ratios divides round by round; rounds that one side lacks, or where b is 0, are left out.
func ratios(a, b []float64) []float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			all = append(all, a[i]/b[i])
		}
	}
	return all
}
