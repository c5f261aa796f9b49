package bench

import "time"

// Outcome is what came of an attempt.
type Outcome uint8

// The outcomes.
const (
	Served   Outcome = iota // answered in full within the client's patience
	Refused                 // told that it will not be done
	Stopped                 // begun and cancelled by the other side (57014 without a reason)
	GaveUp                  // the client's patience ended
	Failed                  // any other error, also a connection that ended
	Unsent                  // the generator had no connection for it
	Outcomes                // how many there are
)

// String is a word for the outcome.
func (o Outcome) String() string {
	return nameOf(int(o), []string{"served", "refused", "stopped", "gave up", "failed", "not sent"})
}

// Record is one attempt. A request has as many as it took; the last one says what came of
// it.
type Record struct {
	Due     time.Duration // when the request was due, since the run began
	Sent    time.Duration // when the attempt was sent
	Took    time.Duration // until its end
	Whole   time.Duration // from the first attempt's sending to the end of this one
	Stream  int32         // index in the load
	Tenant  int32         // index in the stream's tenants
	Cause   int32         // index in the result's causes; 0: none
	Done    int32         // statements that were answered in full
	Attempt uint8         // 1 is the first
	Outcome Outcome
	Last    bool // there was no further attempt
	Kept    bool // the connection went on
}

// Cause is why an attempt was not served.
type Cause struct {
	Code   string // SQLSTATE; empty: it was no answer of the server
	Reason string // reason= of DETAIL, else what happened in a word or two
	Fatal  bool   // the server ended the session with it
}

// String is the cause in a few words.
func (c Cause) String() string {
	text := join(c.Code, c.Reason)
	if c.Fatal {
		text += " (FATAL)"
	}
	return text
}
