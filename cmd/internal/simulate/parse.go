package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgweir/pgweir/config/values"
)

// limits of what makes sense, and keeps sums from running over.
const (
	mostRate    = 1e7
	mostLength  = 24 * time.Hour
	mostTenants = 100_000
	mostClients = 100_000
)

// ParseLoad reads "80x5s,200x10s": 80 requests per second for 5 s, then 200 for 10 s.
func ParseLoad(text string) ([]Phase, error) {
	var list []Phase
	var sum time.Duration
	for _, one := range strings.Split(text, ",") {
		rate, length, found := strings.Cut(strings.TrimSpace(one), "x")
		n, err := strconv.ParseFloat(rate, 64)
		if !found || err != nil || !(n >= 0 && n <= mostRate) {
			return nil, fmt.Errorf("%q is not a phase of a load: write requests per second x duration, such as 80x5s", one)
		}
		d, err := duration(length)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("the length of %q is not a duration such as 5s", one)
		}
		if sum += d; sum > mostLength {
			return nil, fmt.Errorf("the load is longer than %v", mostLength)
		}
		list = append(list, Phase{n, d})
	}
	return list, nil
}

// ParseEvent reads "freeze=5s..8s", "slow=0.5:10s..20s", "no_login=5s..8s" and
// "restart=5s..7s".
func ParseEvent(text string) (e Event, err error) {
	kind, when, _ := strings.Cut(text, "=")
	kinds := map[string]EventKind{"freeze": Freeze, "slow": Slow, "no_login": NoLogin, "restart": Restart}
	var known bool
	if e.Kind, known = kinds[kind]; !known {
		return e, fmt.Errorf("%q is not an event: there are %s", text, "freeze=5s..8s, slow=0.5:5s..8s, no_login=5s..8s and restart=5s..7s")
	}
	if e.Kind == Slow {
		speed, rest, _ := strings.Cut(when, ":")
		if e.Speed, err = strconv.ParseFloat(speed, 64); err != nil || !(e.Speed > 0 && e.Speed <= 1000) {
			return e, fmt.Errorf("%q has no speed: write slow=0.5:5s..8s for half the speed", text)
		}
		when = rest
	}
	if e.Begin, e.End, err = span(when); err != nil {
		return e, fmt.Errorf("%q: %w", text, err)
	}
	return e, nil
}

// span reads "5s..8s".
func span(text string) (from, to time.Duration, err error) {
	first, second, found := strings.Cut(text, "..")
	if found {
		if from, err = duration(first); err == nil {
			to, err = duration(second)
		}
	}
	if !found || err != nil || from < 0 || to <= from {
		return 0, 0, fmt.Errorf("%q is not a time: write from and to, such as 5s..8s", text)
	}
	return from, to, nil
}

func duration(text string) (time.Duration, error) {
	if text == "0" || text == "0s" {
		return 0, nil
	}
	d, err := values.ParseDuration(text)
	if err != nil || d.IsNone() {
		return 0, fmt.Errorf("%q is not a duration such as 50ms", text)
	}
	return d.Std(), nil
}

// spec is a stream as it is written: what it is called, and the rest as it is.
type spec struct {
	Stream
	application, role, database string
	class, tenant               string
	deadline                    string
}

// parseStream reads "app_name=web,role=app,share=75%,service=50ms".
func parseStream(text string) (*spec, error) {
	p := &spec{Stream: Stream{Tenants: 1, Statements: 1, RetryWithin: 100 * time.Millisecond, Expected: Learned}}
	given := map[string]bool{}
	spread := Service{}
	for _, pair := range strings.Split(text, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		set, known := streamKeys()[key]
		switch {
		case !known && values.Nearest(key, streamKeyNames()) != "":
			return nil, fmt.Errorf("%q is not a property of a stream; did you mean %q?", key, values.Nearest(key, streamKeyNames()))
		case !known:
			return nil, fmt.Errorf("%q is not a property of a stream: there are %s", key, strings.Join(streamKeyNames(), ", "))
		case !found || value == "":
			return nil, fmt.Errorf("%s has no value", key)
		case given[key]:
			return nil, fmt.Errorf("%s is given twice", key)
		}
		given[key] = true
		if err := set(p, &spread, value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return p, p.complete(given, spread)
}

// complete checks what the properties say together.
func (p *spec) complete(given map[string]bool, spread Service) error {
	sources := 0
	for _, key := range [...]string{"share", "rate", "clients"} {
		if given[key] {
			sources++
		}
	}
	switch {
	case !given["service"]:
		return fmt.Errorf("service is missing: how long a statement takes, such as service=50ms")
	case sources > 1:
		return fmt.Errorf("only one of share, rate and clients makes sense")
	case given["queries"] && !given["clients"]:
		return fmt.Errorf("queries is about clients that ask again and again: it needs clients")
	case given["tenant"] && given["tenants"]:
		return fmt.Errorf("only one of tenant and tenants makes sense")
	case p.Leave != Close && p.Patience == 0:
		return fmt.Errorf("leave is about the end of patience: it needs patience")
	case p.deadline == "patience" && p.Patience == 0:
		return fmt.Errorf("deadline=patience needs patience")
	}
	if sources == 0 {
		p.Share = 1
	}
	if p.deadline == "patience" {
		p.Deadline = p.Patience
	}
	for i := range p.Service {
		p.Service[i].Shape, p.Service[i].Sigma = spread.Shape, spread.Sigma
	}
	if p.Name == "" {
		p.Name = p.application
	}
	return nil
}

// setter puts one property into a spec.
type setter func(p *spec, spread *Service, value string) error

// streamKeys are the properties of a stream.
func streamKeys() map[string]setter {
	text := func(to func(*spec) *string) setter {
		return func(p *spec, _ *Service, v string) error { *to(p) = v; return nil }
	}
	times := func(to func(*spec) *time.Duration) setter {
		return func(p *spec, _ *Service, v string) (err error) { *to(p), err = duration(v); return err }
	}
	number := func(to func(*spec) *int, least, most int) setter {
		return func(p *spec, _ *Service, v string) error { return whole(to(p), v, least, most) }
	}
	return map[string]setter{
		"name":     text(func(p *spec) *string { return &p.Name }),
		"app_name": text(func(p *spec) *string { return &p.application }),
		"role":     text(func(p *spec) *string { return &p.role }),
		"database": text(func(p *spec) *string { return &p.database }),
		"tenant":   text(func(p *spec) *string { return &p.tenant }),
		"class":    text(func(p *spec) *string { return &p.class }),
		"tenants":  number(func(p *spec) *int { return &p.Tenants }, 1, mostTenants),

		"share": func(p *spec, _ *Service, v string) (err error) { p.Share, err = percent(v); return err },
		"rate": func(p *spec, _ *Service, v string) (err error) {
			p.Rate, err = strconv.ParseFloat(strings.TrimSuffix(v, "/s"), 64)
			if err != nil || !(p.Rate > 0 && p.Rate <= mostRate) {
				return fmt.Errorf("%q is not a rate such as 400/s", v)
			}
			return nil
		},
		"clients": number(func(p *spec) *int { return &p.Clients }, 1, mostClients),
		"queries": number(func(p *spec) *int { return &p.Queries }, 1, 1<<31),
		"think":   times(func(p *spec) *time.Duration { return &p.Think }),

		"service":  func(p *spec, _ *Service, v string) (err error) { p.Service, err = parseService(v); return err },
		"spread":   func(_ *spec, spread *Service, v string) error { return spread.parseShape(v) },
		"patience": times(func(p *spec) *time.Duration { return &p.Patience }),
		"deadline": func(p *spec, _ *Service, v string) (err error) {
			if p.deadline = v; v == "patience" || v == "none" {
				return nil
			}
			p.Deadline, err = duration(v)
			return err
		},
		"expected": func(p *spec, _ *Service, v string) (err error) {
			p.Expected, err = word[Estimate](v, estimateNames()...)
			return err
		},
		"leave": func(p *spec, _ *Service, v string) (err error) {
			p.Leave, err = word[Leave](v, "close", "cancel", "walk")
			return err
		},

		"statements": number(func(p *spec) *int { return &p.Statements }, 1, 1<<20),
		"gap":        times(func(p *spec) *time.Duration { return &p.Gap }),

		"retries":      number(func(p *spec) *int { return &p.Retries }, 0, 1000),
		"retry_within": times(func(p *spec) *time.Duration { return &p.RetryWithin }),
		"retry": func(p *spec, _ *Service, v string) error {
			way, err := word[uint8](v, "blind", "hint")
			p.RetryHint = way == 1
			return err
		},
		"attempt": func(p *spec, _ *Service, v string) error {
			way, err := word[uint8](v, "untold", "told")
			p.TellAttempt = way == 1
			return err
		},
		"pool": number(func(p *spec) *int { return &p.Pool }, 0, mostClients),
		"sessions": func(p *spec, _ *Service, v string) (err error) {
			p.Sessions, err = word[Sessions](v, "newest", "oldest", "fresh")
			return err
		},
	}
}

func estimateNames() []string { return []string{"none", "median", "mean", "upper", "exact", "learned"} }

// streamKeyNames in order.
func streamKeyNames() (names []string) {
	for name := range streamKeys() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// word is the index of a word in a list.
func word[T ~uint8](text string, list ...string) (T, error) {
	if i := slices.Index(list, text); i >= 0 {
		return T(i), nil
	}
	return 0, fmt.Errorf("%q is none of %s", text, strings.Join(list, ", "))
}

// whole reads a whole number.
func whole(to *int, text string, least, most int) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return fmt.Errorf("%q is not a number from %d to %d", text, least, most)
	}
	*to = n
	return nil
}

// percent reads a share such as 75%.
func percent(text string) (float64, error) {
	s, err := values.ParseShare(text)
	if err != nil || s == 0 {
		return 0, fmt.Errorf("%q is not a share such as 75%%", text)
	}
	return s.Fraction(), nil
}

// parseService reads "50ms", or several kinds of statements with their shares:
// "8ms@80%+40ms@20%".
func parseService(text string) (list []Service, err error) {
	for _, one := range strings.Split(text, "+") {
		mean, share, found := strings.Cut(one, "@")
		s := Service{Weight: 1}
		if s.Mean, err = duration(mean); err != nil || s.Mean <= 0 {
			return nil, fmt.Errorf("%q is not a duration such as 50ms", mean)
		}
		if found {
			if s.Weight, err = percent(share); err != nil {
				return nil, err
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// parseShape reads "fixed", "exp" or "lognormal:1".
func (s *Service) parseShape(text string) (err error) {
	kind, sigma, found := strings.Cut(text, ":")
	switch {
	case text == "fixed":
		s.Shape = Fixed
	case text == "exp":
		s.Shape = Exponential
	case kind == "lognormal":
		s.Shape, s.Sigma = LogNormal, 1
		if found {
			if s.Sigma, err = strconv.ParseFloat(sigma, 64); err != nil || !(s.Sigma > 0 && s.Sigma <= 5) {
				return fmt.Errorf("%q is not the sigma of a log-normal distribution, such as 1", sigma)
			}
		}
	default:
		return fmt.Errorf("%q is none of fixed, exp, lognormal:1", text)
	}
	return nil
}
