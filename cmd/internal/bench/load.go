package bench

import "time"

// Load is what is sent. It says nothing about whom it is sent to.
type Load struct {
	// Phases are the stretches of the run, one after the other.
	Phases []Phase
	// Even spaces arrivals evenly and takes streams and tenants in turn; else they come at
	// random times of that mean, as they do from many users.
	Even bool
	// Seed makes another run of the same kind; equal seeds make equal runs.
	Seed uint64
	// Streams are the kinds of requests that are mixed; at least one.
	Streams []Stream
	// Window is how long the windows of a report are; 0: they are the phases.
	Window time.Duration
	// Sessions is how many connections are opened ahead for each group of requests that can
	// share them; 0: enough for all whose patience lasts.
	Sessions int
	// MaxSessions bounds the connections of the whole run; 0: 2,000. A request that finds
	// none free is not sent, which the result tells.
	MaxSessions int
	// LoopsPerMS is how many rows of generate_series a backend makes in a millisecond, for
	// the {loops} of texts; 0: it is measured before the run. Runs that are compared should
	// have the same.
	LoopsPerMS float64
}

// Phase is a stretch of constant rate.
type Phase struct {
	Name string        // empty: it is called by its rate
	Rate float64       // arrivals per second, of all streams that have a share; >= 0
	For  time.Duration // > 0
}

// Stream is one kind of request.
type Stream struct {
	// Name is unique in the load; empty: the class.
	Name string
	// Share is the weight of the stream among those that have one: the phases' rate is
	// divided in their proportion.
	Share float64
	// Rate, if not 0, is an own constant rate per second from the first phase to the last,
	// in the place of a share.
	Rate float64
	// Clients, if not 0, makes the stream a closed one: as many clients send Each requests
	// (0: until the phases end), one after the other with Think between them.
	Clients int
	Each    int
	Think   time.Duration

	Class   string   // as pgweir names classes; empty: not told
	Tenants []string // requests are divided evenly among them; empty: not told
	// NameTenants tells the tenant as application_name instead of a tag.
	NameTenants bool
	Tell        Tell // how class, tenant and deadline are told
	Deadline    bool // the patience is told
	Trace       bool // each request has a traceparent; only in a comment

	User, Password string // empty: those of the target
	Database       string
	Application    string // application_name; empty: the target's, else "pgweir-bench"

	Queries  []Query // one of them is chosen by weight; at least one
	Protocol Protocol
	Patience time.Duration // for each statement; 0: for ever
	Leave    Leave         // what a client does when its patience ends
	Retry    Retry
	Churn    int // a new connection after as many requests, part of the request's time; 0: never
	ReadRate int // the client reads so many bytes per second; 0: as fast as it can
}

// Query is one text of a stream, or several.
//
// In the texts {seconds} stands for the work of this request in seconds, {loops} for a
// number of rows that keeps a core busy as long, {id} for a number from 1 to IDs, and
// {count} for a call that counts the statement in Postgres when it is done.
type Query struct {
	Statements []string      // sent one after the other on one connection; at least one
	Repeat     int           // a page: so many times all of Statements; 0 is 1
	Pause      time.Duration // between statements
	GoOn       bool          // a refused statement does not end the request, as in a psql script
	Weight     float64       // among the queries of the stream; all 0: they are equal
	Work       Work
	IDs        int // 0: 100,000
}

// Work is how long something takes: its mean, and the sigma of a log-normal distribution; 0
// is always the same.
type Work struct {
	Mean  time.Duration
	Sigma float64
}

// Tell is how a client says what pgweir should know of its requests.
type Tell int

// The ways to tell.
const (
	ByComment Tell = iota // a trailing comment in sqlcommenter's form
	BySet                 // SET pgweir.NAME, once for each connection
	AtStartup             // options of the startup packet
	Untold                // not at all, for poolers that know nothing of it
)

// Protocol is how a statement is sent.
type Protocol int

// The protocols.
const (
	Simple   Protocol = iota // one Query message
	Extended                 // Parse, Bind, Describe, Execute, Sync, without a name
	Prepared                 // the same with a name that is parsed once for each connection
)

// Leave is what a client does when its patience ends.
type Leave int

// The ways to leave.
const (
	Close       Leave = iota // closes its connection
	Cancel                   // sends a CancelRequest and keeps the connection
	CancelClose              // sends a CancelRequest and closes the connection
	Walk                     // does not listen any more; the connection stays open and unused
)

// Retry is when a client asks again after an attempt that was not served.
type Retry struct {
	Most     int           // attempts after the first; 0: none
	Delay    time.Duration // the pause is random, from 0 to this
	Doubling bool          // Delay doubles with each attempt
	Honour   bool          // the pause is what the refusal's hint says, if it does; retry=no ends it
}

// defaults of a Load.
const (
	maxSessions = 2000
	defaultIDs  = 100_000
	agent       = "pgweir-bench" // application_name of who has no other
)

// sessionsMost is MaxSessions or its default.
func (l *Load) sessionsMost() int {
	if l.MaxSessions > 0 {
		return l.MaxSessions
	}
	return maxSessions
}

// Length is how long the phases are together.
func (l *Load) Length() time.Duration {
	var sum time.Duration
	for _, p := range l.Phases {
		sum += p.For
	}
	return sum
}

// TopRate is the highest rate of the phases.
func (l *Load) TopRate() float64 {
	top := 0.0
	for _, p := range l.Phases {
		top = max(top, p.Rate)
	}
	return top
}

// shares is the sum of the streams' shares.
func (l *Load) shares() float64 {
	sum := 0.0
	for i := range l.Streams {
		if l.Streams[i].open() {
			sum += l.Streams[i].Share
		}
	}
	return sum
}

// Title is the stream's name, or what it is called without one.
func (s *Stream) Title() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Class != "":
		return s.Class
	default:
		return "all"
	}
}

// open reports that the stream takes part in the phases by its share.
func (s *Stream) open() bool { return s.Clients == 0 && s.Rate == 0 }

// repeat is how often the statements are sent.
func (q *Query) repeat() int { return max(q.Repeat, 1) }
