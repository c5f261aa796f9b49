package values

import (
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, or [None]: no limit.
type Duration time.Duration

// None is the Duration that a file writes as "none".
const None Duration = -1

// IsNone reports whether d is [None].
func (d Duration) IsNone() bool { return d < 0 }

// Std is d for package time. [None] gives 0, so ask [Duration.IsNone] first where 0 would
// mean "at once".
func (d Duration) Std() time.Duration { return max(0, time.Duration(d)) }

// String writes d as a file does: "none", "200ms", "1h30m", "7d".
func (d Duration) String() string {
	if d.IsNone() {
		return "none"
	}
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	rest := time.Duration(d)
	for _, u := range durationUnits() {
		if n := rest / u.size; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + u.name)
			rest -= n * u.size
		}
	}
	return b.String()
}

// Count is a number, or [Auto]: pgweir works it out.
type Count int

// Auto is the Count that a file writes as "auto".
const Auto Count = -1

// IsAuto reports whether c is [Auto].
func (c Count) IsAuto() bool { return c < 0 }

// String writes c as a file does.
func (c Count) String() string {
	if c.IsAuto() {
		return "auto"
	}
	return strconv.Itoa(int(c))
}

// Size is a number of bytes.
type Size int64

// String writes s as a file does, in the largest unit that divides it: "1MiB", "1500B".
func (s Size) String() string {
	for _, u := range sizeUnits() {
		if s >= u.size && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Share is a part of a whole in hundredths of a percent: 10000 is all of it.
type Share int

// AutoShare is the Share that a file writes as "auto": a part of what the others leave.
const AutoShare Share = -1

// Whole is all of it, as a Share.
const Whole Share = 10000

// IsAuto reports whether s is [AutoShare].
func (s Share) IsAuto() bool { return s < 0 }

// Fraction is the share as a number from 0 to 1.
func (s Share) Fraction() float64 { return float64(max(0, s)) / float64(Whole) }

// Of is the share of n, rounded down.
func (s Share) Of(n int) int { return int(int64(n) * int64(s) / 10000) }

// String writes s as a file does: "30%", "12.5%".
func (s Share) String() string {
	if s.IsAuto() {
		return "auto"
	}
	return strconv.FormatFloat(float64(s)/100, 'f', -1, 64) + "%"
}
