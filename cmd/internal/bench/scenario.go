package bench

import (
	"context"
	"io"
)

// Scenario is a load with a place to play and with figures to reach. Package stage has
// them.
type Scenario struct {
	Name  string // E1
	Shows string // in one line
	// Run plays it against each of the targets that Against names, one after the other, and
	// returns their results in that order, and what was promised of them.
	Run func(ctx context.Context, o ScenarioOptions) ([]*Result, []Check, error)
}

// ScenarioOptions are what a user says about a scenario.
type ScenarioOptions struct {
	Against []string  // pgweir, pgweir:POLICY, pgbouncer, odyssey or a DSN; none: what the scenario says
	Out     io.Writer // for progress
	Look    func(Mark)
}

// Check is a figure that was promised and what it came to.
type Check struct {
	Target   string // whose
	What     string // "goodput, 10-15 s"
	Measured string
	Promised string // ">= 98/s"
	OK       bool
}
