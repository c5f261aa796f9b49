package simulate

import (
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/pool"
)

// Scenario is what a run depends on, but for its seed.
type Scenario struct {
	Name      string
	Plan      admission.Plan
	Workloads []Workload // by index in Plan.Workloads
	Pool      pool.Options
	Load      []Phase // of the streams with a Share
	Streams   []Stream
	Rates     []quota.Rule
	Database  Database
	Window    time.Duration // of the figures over time; 0 = 5 s
	// Even makes arrivals come at even distances instead of at random times, and the streams
	// that have a share take them in turn.
	Even bool
	// Oracle replays each refusal against what the slots did next, to find those in vain.
	Oracle bool
}

// Workload is what a run has to know of a workload beside the gate's plan.
type Workload struct {
	Name string
	// CancelAbandoned ends work whose client has left.
	CancelAbandoned bool
	// Deadline is what is assumed of clients that tell none; 0 = nothing.
	Deadline time.Duration
	Class    admission.Class // of work that says nothing
}

// Phase is a stretch of the load: so many requests per second for that long.
type Phase struct {
	Rate   float64
	Length time.Duration
}

// Stream is a kind of clients that do the same.
type Stream struct {
	Name     string
	Workload uint16
	Key      admission.Key
	Role     uint32
	Class    admission.Class
	// Tenants is how many there are, which take turns by lot; at least 1. FirstTenant is the
	// number of the first of them.
	Tenants     int
	FirstTenant uint32

	// Share is the stream's part of the load. Rate is arrivals per second beside it, all the
	// time. Clients, of which each asks again when it was answered, come beside both, each
	// Queries times (0 = as long as the load lasts) with a pause of Think between.
	Share   float64
	Rate    float64
	Clients int
	Queries int
	Think   time.Duration

	Service []Service
	// Patience is how long a client waits for one answer; 0 = for ever.
	Patience time.Duration
	// Deadline is what it tells of that; 0 = nothing.
	Deadline time.Duration
	// Expected is what pgweir knows of the service time.
	Expected Estimate
	Leave    Leave

	// Statements of a page follow each other on one session, Gap apart; the page fails with
	// the first that does.
	Statements int
	Gap        time.Duration
	// Retries is how often a client tries again, after a time between 0 and RetryWithin; with
	// RetryHint after what the refusal says, or not at all if it says that this is in vain.
	Retries     int
	RetryWithin time.Duration
	RetryHint   bool
	TellAttempt bool // attempts are tagged
	// Sessions is how clients come to their sessions, Pool how many there are before the first
	// client comes. There is always one more for who finds none.
	Sessions Sessions
	Pool     int
	// Rates are the rates that count for each tenant; nil = none.
	Rates [][]RateKey
}

// RateKey is one bucket of a rate.
type RateKey struct {
	Rule int // in Scenario.Rates
	A, B string
}

// Service is one kind of statement.
type Service struct {
	Weight float64
	Mean   time.Duration
	Shape  Shape
	Sigma  float64 // of LogNormal: the standard deviation of the logarithm
}

// Shape is a distribution of service times.
type Shape uint8

// The shapes.
const (
	Fixed Shape = iota
	Exponential
	LogNormal
)

// Estimate is what the gate is told to expect of a statement.
type Estimate uint8

// The estimates.
const (
	Unknown Estimate = iota // nothing: it takes the workload's mean
	Median                  // of the kind of statement
	Mean                    // of the kind of statement
	Upper                   // what nine of ten statements of the kind do not exceed
	Exact                   // the service time itself
	Learned                 // the median of those that it has seen, as pgweir learns it
)

// Leave is what a client does whose patience ends.
type Leave uint8

// The ways to leave.
const (
	Close  Leave = iota // it closes its connection: work is cancelled if the workload says so
	Cancel              // it sends a CancelRequest
	Walk                // it forgets about it
)

// Sessions is how clients come to their sessions: a session whose last statement was served
// a moment ago goes on with what was begun, or so it looks.
type Sessions uint8

// The ways.
const (
	Newest Sessions = iota // a pool in the application that hands out the one used last
	Oldest                 // one that hands out the one not used for the longest time
	Fresh                  // each page has its own
)

// Database is the model of Postgres.
type Database struct {
	// Cores is how many statements run at full speed; 0 = any number. CPU is the part of their
	// time that they need one for; 0 = all of it.
	Cores int
	CPU   float64
	// Overhead is how long a statement holds its slot beyond its own time, on average: until
	// it has reached the database, has been woken up, and the end of its answer is back. It is
	// at least half of that and varies from there.
	Overhead time.Duration
	// Connect is how long a login takes, Close how long the end of a connection.
	Connect, Close time.Duration
	// Cancel is how long it takes from the end of a client's patience to the end of its
	// statement.
	Cancel time.Duration
	// Events change what it does for a while.
	Events []Event
}

// Event is a time in which the database is different: from Begin to End.
type Event struct {
	Begin, End time.Duration
	Kind       EventKind
	Speed      float64 // of Slow: 0.5 = half as fast
}

// EventKind is what is different.
type EventKind uint8

// The kinds.
const (
	Freeze  EventKind = iota // nothing goes on
	Slow                     // all statements are slower
	NoLogin                  // logins fail
	Restart                  // all connections end at its begin, logins fail until its end
)
