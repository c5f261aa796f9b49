package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Bounds of a rate: one an hour to a million per second, and of server-time what a hundred
// servers would do at most.
const (
	leastPace = 1.0 / 3600
	mostPace  = 1e6

	leastTimePace = 1e-6
	mostTimePace  = 1e5
)

// paceUnits are what a rate may be per.
func paceUnits() []string { return []string{"s", "m", "h", "d"} }

// pace is a rate as it is written, and per second.
type pace struct {
	perSecond  float64
	serverTime bool
}

// parsePace reads "150/s", "10/m" or "500ms/s". The error says what is wrong, without the
// text itself.
func parsePace(text string) (pace, error) {
	amount, unit, found := strings.Cut(text, "/")
	if !found || !slices.Contains(paceUnits(), unit) && unit != "min" {
		return pace{}, errors.New("does not say per what")
	}
	size, _ := unitSize(unit)
	if strings.Trim(amount, "0123456789.") == "" {
		n, err := strconv.ParseFloat(amount, 64)
		if err != nil {
			return pace{}, errors.New("has no number")
		}
		return pace{n / size.Seconds(), false}, nil
	}
	d, err := ParseDuration(amount)
	if err != nil || d.IsNone() {
		return pace{}, errors.New("has neither a number nor a duration")
	}
	return pace{d.Std().Seconds() / size.Seconds(), true}, nil
}

// fits reports whether the rate is one that can be kept.
func (p pace) fits() bool {
	if p.serverTime {
		return p.perSecond >= leastTimePace && p.perSecond <= mostTimePace
	}
	return p.perSecond >= leastPace && p.perSecond <= mostPace
}

// paceKind is the rate of r.
func paceKind(r *Rate) kind {
	k := kind{
		admits: `a number of statements, or a duration of server-time, per s, m, h or d: from "1/h" to "1000000/s"`,
		get:    func() string { return quotedOrNothing(r.Rate) },
	}
	k.set = func(v value) *complaint {
		p, err := parsePace(v.text)
		switch {
		case v.kind != unstable.String && v.kind != unstable.Integer:
			return k.must(v, "")
		case v.kind == unstable.Integer || err != nil:
			return k.must(v, paceFix(v.text))
		case !p.fits():
			return k.must(v, "")
		}
		r.Rate, r.PerSecond, r.ServerTime = v.text, p.perSecond, p.serverTime
		return nil
	}
	return k
}

// paceFix turns what looks like a rate into one.
func paceFix(text string) string {
	text = strings.Map(func(c rune) rune {
		if c == ' ' || c == '_' {
			return -1
		}
		return c
	}, strings.ToLower(text))
	text = strings.Replace(strings.Replace(text, "rps", "/s", 1), "per", "/", 1)
	amount, unit, found := strings.Cut(text, "/")
	if !found {
		unit = "s"
	}
	for _, u := range paceUnits() {
		if p, err := parsePace(amount + "/" + u); err == nil && p.fits() && strings.HasPrefix(unit, u) && !strings.HasPrefix(unit, "ms") {
			return quoted(amount + "/" + u)
		}
	}
	return ""
}

// Bounds of a burst.
const (
	mostBurst      = 1_000_000
	leastTimeBurst = time.Millisecond
	mostTimeBurst  = time.Hour
)

// burstKind is the burst of r. Whether statements or server-time are right is looked at when
// the rate is known.
func burstKind(r *Rate) kind {
	var n int
	var d Duration
	number, duration := integer(&n, 1, mostBurst), period(&d, leastTimeBurst, mostTimeBurst)
	k := kind{admits: `"auto", ` + number.admits + ", or of server-time " + duration.admits}
	k.get = func() string {
		switch {
		case r.AutoBurst:
			return `"auto"`
		case r.burstIsTime:
			return quoted(r.BurstText())
		default:
			return r.BurstText()
		}
	}
	k.set = func(v value) *complaint {
		if v.kind == unstable.String && v.text == "auto" {
			r.Burst, r.AutoBurst, r.burstIsTime = 0, true, false
			return nil
		}
		isTime := v.kind == unstable.String && !isNumber(v.text)
		inner := number
		if isTime {
			inner = duration
		}
		if problem := inner.set(v); problem != nil {
			problem.message = v.shown() + " is not " + k.admits
			return problem
		}
		r.Burst, r.AutoBurst, r.burstIsTime = float64(n), false, isTime
		if isTime {
			r.Burst = d.Std().Seconds()
		}
		return nil
	}
	return k
}

// secondsOf is a number of seconds as a duration.
func secondsOf(n float64) Duration { return Duration(n*float64(time.Second) + 0.5) }

// perKind is what r is per. Unlike a choice it has no value until somebody writes one.
func perKind(r *Rate) kind {
	k := choice(&r.Per, []RatePer{PerClient, PerRole, PerTenant})
	k.get = func() string { return quotedOrNothing(string(r.Per)) }
	return k
}
