package values

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// durationUnit is one unit of a duration.
type durationUnit struct {
	name string
	size time.Duration
}

// durationUnits are the units in which a duration is written, the largest first.
func durationUnits() []durationUnit {
	return []durationUnit{
		{"d", 24 * time.Hour},
		{"h", time.Hour},
		{"m", time.Minute},
		{"s", time.Second},
		{"ms", time.Millisecond},
		{"us", time.Microsecond},
		{"ns", time.Nanosecond},
	}
}

// unitSize adds to durationUnits what Postgres calls the same units, for reading.
func unitSize(name string) (time.Duration, bool) {
	if name == "min" {
		return time.Minute, true
	}
	for _, u := range durationUnits() {
		if u.name == name {
			return u.size, true
		}
	}
	return 0, false
}

// longest is the most that a duration may be: a year, so that sums never overflow.
const longest = Duration(365 * 24 * time.Hour)

// ParseDuration reads "none" or a sum of numbers with units: "200ms", "1h30m", "1.5s",
// "7d". The units are us, ms, s, m or min, h, d. The error says what is wrong, without the
// text itself.
func ParseDuration(text string) (Duration, error) {
	if text == "none" {
		return None, nil
	}
	if text == "" {
		return 0, fmt.Errorf("is empty")
	}
	var sum Duration
	for rest := text; rest != ""; {
		number := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		after := rest[number:]
		unit := len(after) - len(strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyz"))
		size, known := unitSize(after[:unit])
		if !known {
			return 0, fmt.Errorf("is not a duration")
		}
		n, err := times(rest[:number], size)
		if err != nil {
			return 0, err
		}
		if sum += n; sum > longest {
			return 0, fmt.Errorf("is longer than a year")
		}
		rest = after[unit:]
	}
	return sum, nil
}

// times multiplies a number, whole or with decimals, with a unit; the product is at most a
// year. Whole numbers stay exact.
func times(number string, unit time.Duration) (Duration, error) {
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("is not a duration")
	case n > float64(longest)/float64(unit):
		return 0, fmt.Errorf("is longer than a year")
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		return Duration(whole) * Duration(unit), nil
	}
	return Duration(math.Round(n * float64(unit))), nil
}

// sizeUnit is one unit of a size.
type sizeUnit struct {
	name string
	size Size
}

// sizeUnits are the units of a size, the largest first. Those of a thousand are missing on
// purpose: Postgres and the rest of the world disagree about kB.
func sizeUnits() []sizeUnit {
	return []sizeUnit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

// ParseSize reads a whole number with a unit: B, KiB, MiB or GiB. The error says what is
// wrong, without the text itself.
func ParseSize(text string) (Size, error) {
	for _, u := range sizeUnits() {
		digits, found := strings.CutSuffix(text, u.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil {
			break
		}
		return Size(n) * u.size, nil
	}
	return 0, fmt.Errorf("is not a size")
}

// ParseShare reads a percentage from 0% to 100% with at most two decimals. The error says
// what is wrong, without the text itself.
func ParseShare(text string) (Share, error) {
	digits, found := strings.CutSuffix(text, "%")
	whole, part, dot := strings.Cut(digits, ".")
	if !found || (dot && (part == "" || len(part) > 2)) {
		return 0, fmt.Errorf("is not a share")
	}
	n, err := strconv.ParseUint(whole+(part + "00")[:2], 10, 16)
	if err != nil || whole == "" {
		return 0, fmt.Errorf("is not a share")
	}
	if n > 10000 {
		return 0, fmt.Errorf("is more than 100%%")
	}
	return Share(n), nil
}

// Seconds is a number of seconds as a duration.
func Seconds(n float64) Duration { return Duration(n*float64(time.Second) + 0.5) }
