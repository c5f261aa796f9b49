package schema

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/values"
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
	each, err := values.ParseDuration("1" + unit)
	if err != nil {
		return pace{}, err
	}
	if strings.Trim(amount, "0123456789.") == "" {
		n, err := strconv.ParseFloat(amount, 64)
		if err != nil {
			return pace{}, errors.New("has no number")
		}
		return pace{n / each.Std().Seconds(), false}, nil
	}
	d, err := values.ParseDuration(amount)
	if err != nil || d.IsNone() {
		return pace{}, errors.New("has neither a number nor a duration")
	}
	return pace{d.Std().Seconds() / each.Std().Seconds(), true}, nil
}

// fits reports whether the rate is one that can be kept.
func (p pace) fits() bool {
	if p.serverTime {
		return p.perSecond >= leastTimePace && p.perSecond <= mostTimePace
	}
	return p.perSecond >= leastPace && p.perSecond <= mostPace
}

// paceKind is the rate of r.
func paceKind(r *Rate) values.Type {
	k := values.Type{
		Admits: `a number of statements, or a duration of server-time, per s, m, h or d: from "1/h" to "1000000/s"`,
		Get:    func() string { return values.QuoteIfAny(r.Rate) },
	}
	k.Set = func(v values.Value) *values.Complaint {
		p, err := parsePace(v.Text)
		switch {
		case v.Kind != document.Text && v.Kind != document.Integer:
			return k.Must(v, "")
		case v.Kind == document.Integer || err != nil:
			return k.Must(v, paceFix(v.Text))
		case !p.fits():
			return k.Must(v, "")
		}
		r.Rate, r.PerSecond, r.ServerTime = v.Text, p.perSecond, p.serverTime
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
			return values.Quote(amount + "/" + u)
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
func burstKind(r *Rate) values.Type {
	var n int
	var d values.Duration
	number, duration := values.Integer(&n, 1, mostBurst), values.Period(&d, leastTimeBurst, mostTimeBurst)
	k := values.Type{Admits: `"auto", ` + number.Admits + ", or of server-time " + duration.Admits}
	k.Get = func() string {
		switch {
		case r.AutoBurst:
			return `"auto"`
		case r.burstIsTime:
			return values.Quote(r.BurstText())
		default:
			return r.BurstText()
		}
	}
	k.Set = func(v values.Value) *values.Complaint {
		if v.Kind == document.Text && v.Text == "auto" {
			r.Burst, r.AutoBurst, r.burstIsTime = 0, true, false
			return nil
		}
		isTime := v.Kind == document.Text && !values.IsNumber(v.Text)
		inner := number
		if isTime {
			inner = duration
		}
		if problem := inner.Set(v); problem != nil {
			problem.Message = v.Shown() + " is not " + k.Admits
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

// perKind is what r is per. Unlike a choice it has no value until somebody writes one.
func perKind(r *Rate) values.Type {
	k := values.Choice(&r.Per, []RatePer{PerClient, PerRole, PerTenant})
	k.Get = func() string { return values.QuoteIfAny(string(r.Per)) }
	return k
}
