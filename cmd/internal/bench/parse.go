package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParsePhases reads phases as "80x5s,200x10s": rate per second times duration.
func ParsePhases(text string) ([]Phase, error) {
	var list []Phase
	for one := range strings.SplitSeq(text, ",") {
		rate, length, ok := strings.Cut(strings.TrimSpace(one), "x")
		p := Phase{}
		var rateErr, lengthErr error
		p.Rate, rateErr = strconv.ParseFloat(rate, 64)
		p.For, lengthErr = time.ParseDuration(length)
		if !ok || rateErr != nil || lengthErr != nil || !(p.Rate >= 0) || math.IsInf(p.Rate, 0) || p.For <= 0 {
			return nil, fmt.Errorf("phase %q: a rate per second and a duration, such as 200x10s", one)
		}
		list = append(list, p)
	}
	return list, nil
}

// Title is the phase's name, or its rate.
func (p Phase) Title() string {
	if p.Name != "" {
		return p.Name
	}
	return fmt.Sprintf("%g/s", p.Rate)
}

// String returns what [ParsePhases] reads.
func (p Phase) String() string { return fmt.Sprintf("%gx%v", p.Rate, p.For) }

// ParseWork reads "50ms", or "lognormal:50ms:1" with the mean and sigma.
func ParseWork(text string) (Work, error) {
	mean, sigma := text, "0"
	if rest, ok := strings.CutPrefix(text, "lognormal:"); ok {
		if mean, sigma, ok = strings.Cut(rest, ":"); !ok {
			sigma = "1"
		}
	}
	d, err := time.ParseDuration(mean)
	s, sErr := strconv.ParseFloat(sigma, 64)
	if err != nil || sErr != nil || d < 0 || !(s >= 0 && s <= 5) {
		return Work{}, fmt.Errorf("work %q: a duration such as 50ms, or lognormal:MEAN:SIGMA", text)
	}
	return Work{d, s}, nil
}

// ParseRetry reads "none" or "N@DELAY" with further words behind a plus: "3@100ms" pauses
// at random up to 100 ms, "3@100ms+doubling" up to twice as long each time, "3@100ms+hint"
// as long as the refusal's hint says if it has one.
func ParseRetry(text string) (Retry, error) {
	if text == "none" {
		return Retry{}, nil
	}
	words := strings.Split(text, "+")
	most, delay, ok := strings.Cut(words[0], "@")
	n, err := strconv.Atoi(most)
	d, dErr := time.ParseDuration(delay)
	if !ok || err != nil || dErr != nil || n < 1 || n > 100 || d < 0 {
		return Retry{}, fmt.Errorf("retry %q: none, or a number and a pause such as 3@100ms", text)
	}
	r := Retry{Most: n, Delay: d}
	for _, word := range words[1:] {
		switch word {
		case "doubling":
			r.Doubling = true
		case "hint":
			r.Honour = true
		default:
			return Retry{}, fmt.Errorf("retry %q: %q is neither doubling nor hint", text, word)
		}
	}
	return r, nil
}

// ParseShare reads "25%" or "0.25".
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0) || math.IsInf(share, 0) {
		return 0, fmt.Errorf("share %q: a percentage or a fraction", text)
	}
	return share, nil
}

// ParseQuery reads a statement, or several that are divided by semicolons, with a weight
// before it if it has one: "3x SELECT 1".
func ParseQuery(text string) (Query, error) {
	q := Query{Weight: 1}
	if number, rest, ok := strings.Cut(text, "x "); ok {
		if weight, err := strconv.ParseFloat(number, 64); err == nil {
			q.Weight, text = weight, rest
		}
	}
	for one := range strings.SplitSeq(text, ";") {
		if one = strings.TrimSpace(one); one != "" {
			q.Statements = append(q.Statements, one)
		}
	}
	return q, q.check()
}
