package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// Scenario is one experiment.
type Scenario struct {
	Name  string // as the command line has it
	Group string // of several that belong together; its name runs all. Empty: none
	Title string // one line
	Shows string // what is to be seen, in a few sentences

	Against string // targets that it is run against unless others are named
	Stage   stage.Options
	Plan    stage.Plan
	Load    bench.Load

	// Columns are what the table shows, metrics each; Published are the values that others
	// have published, by the target, "-" where there is none. Source says where.
	Columns   []string
	Published map[string][]string
	Source    string
	// Checks are what the guard has to meet.
	Checks []string

	// Samples asks for the front's CPU and memory and for the servers' states over time.
	Samples bool
	Events  []Event
	// Before is run before the load, and After behind it: it adds measurements. Instead
	// takes the place of the load.
	Before, After, Instead func(ctx context.Context, s *Scene) error
	// OwnPostgres gives each target a fresh one, that is not watched: the scenario ends it, or
	// changes it.
	OwnPostgres bool
}

// Event is something that happens while the load runs.
type Event struct {
	At   time.Duration // since the run began
	Name string
	Do   func(ctx context.Context, s *Scene) error
}

// ParsedChecks are Checks as they are understood.
func (s *Scenario) ParsedChecks() ([]Check, error) {
	var list []Check
	for _, text := range s.Checks {
		c, err := ParseCheck(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		list = append(list, c)
	}
	return list, nil
}

// ParsedColumns are Columns as they are understood.
func (s *Scenario) ParsedColumns() ([]Metric, error) {
	var list []Metric
	for _, text := range s.Columns {
		m, err := ParseMetric(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// Stretched is the scenario in a longer or shorter time, by a factor.
func (s Scenario) Stretched(by float64) Scenario {
	s.Load.Phases = slices.Clone(s.Load.Phases)
	for i := range s.Load.Phases {
		s.Load.Phases[i].For = scale(s.Load.Phases[i].For, by)
	}
	s.Load.Window = scale(s.Load.Window, by)
	s.Events = slices.Clone(s.Events)
	for i := range s.Events {
		s.Events[i].At = scale(s.Events[i].At, by)
	}
	return s
}
