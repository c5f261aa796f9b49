package simulate

import (
	"math"
	"math/rand/v2"
)

// draw is a service time in ns, at least 1.
func (s *Service) draw(rnd *rand.Rand) float64 {
	mean := float64(s.Mean)
	switch s.Shape {
	case Exponential:
		mean *= rnd.ExpFloat64()
	case LogNormal:
		mean *= math.Exp(s.Sigma*rnd.NormFloat64() - s.Sigma*s.Sigma/2)
	}
	return max(mean, 1)
}

// estimate is what an estimate says of a statement of this kind that will take so long.
func (s *Service) estimate(e Estimate, takes float64) int64 {
	const ninth = 1.2815515655446004 // of a normal distribution: nine of ten are below
	mean := float64(s.Mean)
	switch {
	case e == Unknown:
		return 0
	case e == Exact:
		return int64(takes)
	case e == Mean || s.Shape == Fixed:
		return int64(mean)
	case s.Shape == Exponential && e == Median:
		return int64(mean * math.Ln2)
	case s.Shape == Exponential:
		return int64(mean * math.Ln10)
	case e == Median:
		return int64(mean * math.Exp(-s.Sigma*s.Sigma/2))
	}
	return int64(mean * math.Exp(s.Sigma*ninth-s.Sigma*s.Sigma/2))
}

// pick chooses one of the kinds by weight.
func pick(list []Service, rnd *rand.Rand) int {
	if len(list) == 1 {
		return 0
	}
	total := 0.0
	for i := range list {
		total += list[i].Weight
	}
	at := rnd.Float64() * total
	for i := range list {
		if at -= list[i].Weight; at < 0 {
			return i
		}
	}
	return len(list) - 1
}
