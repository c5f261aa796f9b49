package drivers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// The modes of a job.
const (
	Plain    = "plain"
	Tx       = "tx"
	Several  = "several"
	Mixed    = "mixed"
	Ping     = "ping" // only of events: a pool's own question whether a connection lives
	Transfer = "transfer"
)

// Job is what a driver is to do.
type Job struct {
	To          pgtest.Endpoint // on 127.0.0.1
	User        string          // who needs no password
	Application string          // application_name, and the beginning of the names of its transfers
	Database    string
	Mode        string
	Workers     int
	Time        time.Duration // for how long it makes attempts
	SQL         string        // the statement
	Tag         string        // a comment behind it
	After       string        // what follows a refusal in a transaction, and is tried in the end
	Transfers   int           // how many each worker makes
	Ping        bool          // pools that can ask with SELECT 1 whether a connection lives do so before each use
	Tags        []string      // comments behind the updates of a transfer: worker n has the n-th, modulo
}

// line is the job as the programs read it.
func (j Job) line() string {
	return fmt.Sprintf("host=%s\tport=%d\tuser=%s\tapplication=%s\tdatabase=%s\tmode=%s\tworkers=%d\tms=%d\tsql=%s\ttag=%s\tafter=%s\ttransfers=%d\tping=%t\ttags=%s\n",
		j.To.Host, j.To.Port, j.User, j.Application, j.Database, j.Mode, j.Workers, j.Time.Milliseconds(), j.statement(), j.Tag, j.After, j.Transfers, j.Ping, strings.Join(j.Tags, "|"))
}

// statement is the SQL with its tag.
func (j Job) statement() string { return strings.TrimSpace(j.SQL + " " + j.Tag) }

// mode is that of a worker.
func (j Job) mode(worker int) string {
	if j.Mode != Mixed {
		return j.Mode
	}
	return []string{Plain, Tx, Several}[worker%3]
}

// The kinds of events.
const (
	Refused   = "refused"   // an attempt, by the server
	Ready     = "ready"     // all connections are open; the work begins when the call returns
	Calm      = "calm"      // the time of the job is over
	Committed = "committed" // a transfer, says the server
	Failed    = "failed"    // a statement of a transfer
	Broken    = "broken"    // what must not happen: a connection was lost, or nothing is served again
	Done      = "done"      // the job is over
)

// Event is something that a driver has seen.
type Event struct {
	Kind   string `json:"event"`
	Mode   string `json:"mode"`   // of the attempt
	Code   string `json:"code"`   // SQLSTATE
	Detail string `json:"detail"` // as the driver's own interface gives it
	Hint   string `json:"hint"`
	Wait   int    `json:"wait"`  // retry_after_ms as the program has read it in the hint; -1: it is not there
	Retry  string `json:"retry"` // retry= likewise
	After  string `json:"after"` // in a transaction: the SQLSTATE of the statement after it, or "served"
	Text   string `json:"text"`  // of what is broken; the name of a transfer
	Served int    `json:"served"`
	PIDs   []int  `json:"pids"` // from the BackendKeyData of all connections; none if the driver does not tell
}

// Driver does jobs.
type Driver interface {
	// Do does a job and calls seen for each event, the last of which is Done; from one
	// goroutine at a time. It ends early when ctx does.
	Do(ctx context.Context, job Job, seen func(Event)) error
	// Close ends it.
	Close() error
}
