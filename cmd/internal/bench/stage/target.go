package stage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/admission"
)

// Kind is a program, or none, that clients may connect to.
type Kind string

// The kinds.
const (
	Pgweir    Kind = "pgweir"
	PgBouncer Kind = "pgbouncer"
	Odyssey   Kind = "odyssey"
	Direct    Kind = "postgres" // the stage's PostgreSQL itself, without limits
	Remote    Kind = "url"      // anything that speaks the protocol; it is not ours to start
)

// Target is what an experiment is run against. The zero value is none.
type Target struct {
	Kind Kind
	// Policy and Mode are pgweir's, of all its workloads.
	Policy admission.Policy
	Mode   admission.Mode
	// Settings are lines of a peer's own configuration, "name=value", that replace what the
	// plan says; Name names them all with one word.
	Settings []string
	URL      string // of Remote
}

// ErrTarget is wrapped by the errors of [ParseTarget].
var ErrTarget = errors.New("no such target")

// ParseTarget reads the name of a target:
//
//	pgweir                      with its default policy
//	pgweir:fifo                 with another policy
//	pgweir:off, pgweir:dry_run  with its guard in that mode
//	pgbouncer, odyssey          as the plan of the experiment says, else by default
//	pgbouncer:tuned             with the plan's tuned settings
//	pgbouncer:query_wait_timeout=0.2,reserve_pool_size=1
//	postgres                    the database, with nothing between
//	postgres://...              anything else that runs already
func ParseTarget(text string) (Target, error) {
	if strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://") {
		return Target{Kind: Remote, URL: text}, nil
	}
	name, variant, given := strings.Cut(text, ":")
	t := Target{Kind: Kind(name)}
	switch t.Kind {
	case Pgweir:
		return t, t.parseVariant(variant, given)
	case PgBouncer, Odyssey:
		if given && variant == "" {
			return t, fmt.Errorf("%w: nothing behind the colon of %q", ErrTarget, text)
		}
		if given {
			t.Settings = strings.Split(variant, ",")
		}
		for _, s := range t.Settings {
			if s != tuned && !strings.Contains(s, "=") {
				return t, fmt.Errorf("%w: %q is neither %q nor name=value", ErrTarget, s, tuned)
			}
		}
		return t, nil
	case Direct:
		if given {
			return t, fmt.Errorf("%w: %q has no variants", ErrTarget, name)
		}
		return t, nil
	}
	return t, fmt.Errorf("%w: %q; there are pgweir[:POLICY], pgbouncer, odyssey, postgres and a URL", ErrTarget, text)
}

// tuned stands for the settings that a plan has for those who know their pooler.
const tuned = "tuned"

// parseVariant reads what is behind pgweir's colon.
func (t *Target) parseVariant(variant string, given bool) error {
	if !given {
		return nil
	}
	if p, ok := admission.ParsePolicy(variant); ok {
		t.Policy = p
		return nil
	}
	if m, ok := admission.ParseMode(variant); ok {
		t.Mode = m
		return nil
	}
	return fmt.Errorf("%w: pgweir has no policy and no mode %q", ErrTarget, variant)
}

// String is the name that [ParseTarget] reads, and the heading of a column; a password in a
// URL is not told.
func (t Target) String() string {
	switch {
	case t.Kind == Remote:
		return hidePassword(t.URL)
	case t.Kind == Pgweir && t.Mode != admission.Enforce:
		return string(t.Kind) + ":" + t.Mode.String()
	case t.Kind == Pgweir:
		return string(t.Kind) + ":" + t.Policy.String()
	case len(t.Settings) > 0:
		return string(t.Kind) + ":" + strings.Join(t.Settings, ",")
	default:
		return string(t.Kind)
	}
}

// Ours reports whether the target is started by a stage, whose PostgreSQL it then uses.
func (t Target) Ours() bool { return t.Kind != Remote }

// ParseTargets reads a list of targets. Names are separated by commas; a comma between two
// settings of a peer separates these.
func ParseTargets(text string) ([]Target, error) {
	var names []string
	for part := range strings.SplitSeq(text, ",") {
		setting := strings.Contains(part, "=") && !strings.Contains(part, ":")
		if last := len(names) - 1; setting && last >= 0 && strings.Contains(names[last], ":") {
			names[last] += "," + part
			continue
		}
		names = append(names, part)
	}
	var list []Target
	for _, name := range names {
		t, err := ParseTarget(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// MustTargets is [ParseTargets] for lists that are part of the program: it panics.
func MustTargets(text string) []Target {
	list, err := ParseTargets(text)
	if err != nil {
		panic(err)
	}
	return list
}

// isTuned reports whether the plan's tuned settings are asked for.
func (t Target) isTuned() bool { return slices.Contains(t.Settings, tuned) }
