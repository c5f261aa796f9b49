package session

import (
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
)

// What an administrator sees of sessions and servers. All of it belongs to the loop thread.

// State is what a client is doing.
type State uint8

// The states of a client.
const (
	LoggingIn State = iota // its settings are not accepted yet
	Waiting                // in the queue
	Active                 // it has a server
	Idle                   // between transactions, or in one that has not reached a server
)

// String returns the state as SHOW CLIENTS has it.
func (s State) String() string { return [...]string{"login", "waiting", "active", "idle"}[s] }

// State returns what the client is doing.
func (cl *Client) State() State {
	switch {
	case cl.wait.Waiting():
		return Waiting
	case cl.login:
		return LoggingIn
	case cl.server != nil:
		return Active
	}
	return Idle
}

// Since returns when the client was let in, Seen when it last said something and Requested
// when it last asked for a slot, in the loop's nanoseconds.
func (cl *Client) Since() int64 { return cl.since }

// Seen returns when the client last said something.
func (cl *Client) Seen() int64 { return cl.seen }

// Requested returns when the client last asked for a slot; 0 = never.
func (cl *Client) Requested() int64 { return cl.wait.Arrived() }

// Server returns the server that the client has or keeps, or nil.
func (cl *Client) Server() *Server {
	if cl.server != nil {
		return cl.server
	}
	return cl.kept
}

// Application returns the client's application_name as it is now.
func (cl *Client) Application() string {
	name, _ := cl.link.Params().Get("application_name")
	return name
}

// InTransaction reports whether the client is in a transaction block, as far as it knows.
func (cl *Client) InTransaction() bool {
	if cl.server != nil && !cl.pending {
		return cl.server.link.Tx() != wire.Idle
	}
	return cl.link.Tx() != wire.Idle
}

// Prepared returns how many names of prepared statements the client has.
func (cl *Client) Prepared() int { return cl.link.Prepared() }

// Pool returns the server's place in the budget.
func (sv *Server) Pool() *pool.Server { return sv.pool }

// Client returns the client that has or keeps the server, or nil.
func (sv *Server) Client() *Client {
	if sv.client != nil {
		return sv.client
	}
	return sv.keeper
}

// Kept reports whether the server is kept by a session that runs no transaction now.
func (sv *Server) Kept() bool { return sv.keeper != nil && sv.client == nil }

// Cancelling reports whether a CancelRequest for the server is under way.
func (sv *Server) Cancelling() bool { return sv.cancels > 0 }

// Prepared returns how many prepared statements the server has.
func (sv *Server) Prepared() int {
	if sv.link == nil {
		return 0
	}
	return sv.link.Prepared()
}
