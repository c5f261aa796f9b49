package scenario

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metric is something that is measured in a run: a name, and of what.
type Metric struct {
	Name     string
	Of       string        // a stream; empty: all
	By       string        // a reason of refusals; empty: all
	From, To time.Duration // of the arrivals; both 0: the whole run
}

// Check is a metric and what it has to be.
type Check struct {
	Metric
	Op    string // ">=", "<=" or "="
	Bound float64
}

// Unit is how the values of a metric are written.
type Unit string

const (
	perSecond Unit = "/s"
	millis    Unit = "ms"
	percent   Unit = "%"
	number    Unit = ""
)

// Units are the metrics that every run has, with how their values are written. The others are measured by scenarios; they
// are numbers unless their name ends in -share (%) or -ms.
func Units() map[string]Unit {
	return map[string]Unit{
		"arrived": number, "goodput": perSecond, "served": percent, "served-count": number,
		"p50": millis, "p99": millis, "p999": millis, "max": millis,
		"refused": number, "refused-share": percent, "refusal-p50": millis, "refusal-p99": millis,
		"timeouts": number, "timeouts-share": percent, "stopped": number, "errors": number, "unsent": number,
		"attempts": number, "reconnects": number, "backends": number, "lag-p99": millis,
		"wasted": number, "wasted-share": percent, "jain": number, "jain-seconds": number, "spread": percent,
	}
}

// unitOf is how a metric's values are written.
func unitOf(name string) Unit {
	if u, ok := Units()[name]; ok {
		return u
	}
	switch {
	case strings.HasSuffix(name, "-share"):
		return percent
	case strings.HasSuffix(name, "-ms"):
		return millis
	default:
		return number
	}
}

// ErrSentence is wrapped by the errors of [ParseMetric] and [ParseCheck].
var ErrSentence = errors.New("not understood")

// ParseMetric reads a metric: NAME [of STREAM] [by REASON] [in FROM-TO].
func ParseMetric(text string) (Metric, error) {
	words := strings.Fields(text)
	if len(words) == 0 || !isName(words[0]) {
		return Metric{}, fmt.Errorf("%w: %q is no metric", ErrSentence, text)
	}
	m := Metric{Name: words[0]}
	return m, m.qualify(words[1:])
}

// isName reports whether a word can be a metric's name.
func isName(word string) bool {
	return regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(word)
}

// qualify reads what follows the name.
func (m *Metric) qualify(words []string) error {
	for ; len(words) >= 2; words = words[2:] {
		switch words[0] {
		case "of":
			m.Of = words[1]
		case "by":
			m.By = words[1]
		case "in":
			from, to, ok := strings.Cut(words[1], "-")
			var fromErr, toErr error
			m.From, fromErr = time.ParseDuration(from)
			m.To, toErr = time.ParseDuration(to)
			if !ok || fromErr != nil || toErr != nil || m.From < 0 || m.To <= m.From {
				return fmt.Errorf("%w: %q is no time such as 10s-15s", ErrSentence, words[1])
			}
		default:
			return fmt.Errorf("%w: %q is none of of, by, in", ErrSentence, words[0])
		}
	}
	if len(words) > 0 {
		return fmt.Errorf("%w: %q stands alone", ErrSentence, words[0])
	}
	return nil
}

// String returns what [ParseMetric] reads.
func (m Metric) String() string {
	text := m.Name
	if m.Of != "" {
		text += " of " + m.Of
	}
	if m.By != "" {
		text += " by " + m.By
	}
	if m.To > 0 {
		text += fmt.Sprintf(" in %v-%v", m.From, m.To)
	}
	return text
}

// ParseCheck reads a check: NAME OP VALUE [of STREAM] [by REASON] [in FROM-TO], with the
// value in the metric's unit, such as "p99 <= 130ms of critical in 10s-15s".
func ParseCheck(text string) (Check, error) {
	words := strings.Fields(text)
	if len(words) < 3 || !isName(words[0]) || !slices.Contains([]string{">=", "<=", "="}, words[1]) {
		return Check{}, fmt.Errorf("%w: %q is no check such as goodput >= 98/s", ErrSentence, text)
	}
	c := Check{Metric: Metric{Name: words[0]}, Op: words[1]}
	u := unitOf(c.Name)
	value, ok := strings.CutSuffix(words[2], string(u))
	var err error
	c.Bound, err = strconv.ParseFloat(value, 64)
	if !ok || err != nil || math.IsNaN(c.Bound) || math.IsInf(c.Bound, 0) {
		return Check{}, fmt.Errorf("%w: %q: %s is no number with the unit %q", ErrSentence, text, words[2], u)
	}
	return c, c.qualify(words[3:])
}

// String returns what [ParseCheck] reads.
func (c Check) String() string {
	m := c.Metric
	m.Name += fmt.Sprintf(" %s %v%s", c.Op, c.Bound, unitOf(c.Name))
	return m.String()
}

// Met reports whether a value is what it has to be.
func (c Check) Met(value float64) bool {
	switch c.Op {
	case ">=":
		return value >= c.Bound
	case "<=":
		return value <= c.Bound
	default:
		return value == c.Bound
	}
}

// write writes a value with its unit: as many digits as it deserves.
func write(v float64, u Unit) string {
	size := math.Abs(v)
	switch {
	case math.IsNaN(v):
		return "-"
	case v == math.Trunc(v) || size >= 100:
		return fmt.Sprintf("%.0f%s", v, u)
	case size >= 10:
		return fmt.Sprintf("%.1f%s", v, u)
	case size >= 1:
		return fmt.Sprintf("%.2f%s", v, u)
	default:
		return fmt.Sprintf("%.3f%s", v, u)
	}
}

// scaled is the metric of a run that is longer or shorter by a factor.
func (m Metric) scaled(by float64) Metric {
	m.From, m.To = scale(m.From, by), scale(m.To, by)
	return m
}

// scale makes a time longer or shorter.
func scale(d time.Duration, by float64) time.Duration {
	return time.Duration(float64(d) * by).Round(time.Millisecond)
}
