package session

import (
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
)

// Conn is one socket as a session sees it. Its methods are called on the loop
// thread and never call back before they return.
type Conn interface {
	// Send writes the spans in order and keeps what the kernel did not take. It
	// returns the number of bytes kept.
	Send(spans [][]byte) (unsent int)
	// Unsent returns the number of bytes kept.
	Unsent() int
	// Pause stops reading until Resume.
	Pause()
	// Resume reads on, and gives the handler again what it has not used.
	Resume()
	// Close ends the connection at once.
	Close()
	// Finish ends it after the unsent bytes are written.
	Finish()
	// ShutdownWrite ends the writing side after the unsent bytes are written.
	ShutdownWrite()
}

// Env is what the sessions need from outside. Its methods are called on the
// loop thread and never call back before they return.
type Env interface {
	// Dial starts a login for the server; Core.Dialed reports how it went.
	Dial(sv *Server)
	// Cancel sends a CancelRequest for the server's backend and reports the end
	// of that request's connection with Core.CancelDone.
	Cancel(sv *Server)
	// CommitsAlone reports whether it is known, as of this moment, that on the server's
	// Postgres no commit waits for a standby, so that cancelling a write never makes it look
	// done. If it is not known it is asked, and Core.LookAgain tells that there is an answer.
	CommitsAlone(sv *Server) bool
	// AskLocks asks the server's Postgres for how long its backends wait for locks, or does
	// nothing if that has just been asked; Core.LockWaits tells the answer. That there is none
	// is not told.
	AskLocks(sv *Server)
	// Stopped tells that work of the client, which has taken so long, is stopped by a timeout of
	// its role.
	Stopped(cl *Client, t Timeout, after time.Duration)
	// Group returns the group that the client belongs to, as its settings and the
	// configuration are now; nil leaves it where it is.
	Group(cl *Client) *Group
	// Refused tells that a request, or with login a login, was not let in. The client is told
	// e, which may be kept but not changed.
	Refused(cl *Client, v admission.Verdict, e *wire.Error, login bool)
	// Ended tells that a client's session is over. Its Conn has been closed or
	// is being finished.
	Ended(cl *Client, reason Reason)
}

// Reason says why a session or a server connection ended. It is a metric label
// and a log field.
type Reason uint8

// Reasons.
const (
	Goodbye         Reason = iota // the client sent Terminate
	ClientEOF                     // the client closed without Terminate
	ClientLost                    // reset, or nothing of what it was owed could be written
	Protocol                      // the client broke the protocol
	ServerLost                    // the server connection of its open request ended
	ServerDesync                  // the server answered out of step
	LoginRefused                  // no slot for the login
	LoginFailed                   // the server refused the login's settings, or no server could be logged in to
	Draining                      // pgweir shuts down
	Lifetime                      // server connection: too old, idle too long, or in the way
	ServerClosed                  // server connection: Postgres ended it
	AbandonedServer               // server connection: its client left where nothing could be saved
	Internal                      // pgweir failed: see the log
	Killed                        // an administrator ended it
	IdleTimeout                   // it was idle for longer than client_idle_timeout
	Reloaded                      // a reload has sent its database elsewhere
	Block                         // it opened a transaction block in statement mode
	TurnedAway                    // it was refused and is not to stay: blocked, or compat = "pgbouncer"
	OverStatement                 // its statement took too long for its role, and it kept it from being stopped
	OverTransaction               // its transaction took too long for its role
	OverIdle                      // it was idle in a transaction for too long for its role
	Reasons         = iota        // how many there are
)

var reasonNames = [...]string{
	"goodbye", "client_eof", "client_lost", "protocol", "server_lost", "server_desync",
	"login_refused", "login_failed", "draining", "lifetime", "server_closed", "abandoned",
	"internal", "killed", "idle_timeout", "reloaded", "statement_mode", "turned_away",
	"statement_timeout", "transaction_timeout", "idle_in_transaction_session_timeout",
}

// String returns the reason as metrics and logs name it.
func (r Reason) String() string { return reasonNames[r] }
