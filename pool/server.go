package pool

import "github.com/pgweir/pgweir/admission"

// State is where a server stands in its life.
type State uint8

// The states. All but Gone hold a place in the budget.
const (
	Dialling State = iota // being opened: a Dial action was given
	Idle                  // logged in, waiting for a ticket
	Busy                  // reserved by a ticket, or held by a cancel
	Closing               // being closed; its socket has not ended yet
	Gone                  // its socket has ended
	states
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Dialling:
		return "dialling"
	case Idle:
		return "idle"
	case Busy:
		return "busy"
	case Closing:
		return "closing"
	case Gone:
		return "gone"
	}
	return "unknown"
}

// Server is one place in the budget. The caller may keep pointers to it as
// long as it likes; a Server is never used again for another connection.
type Server struct {
	ID      uint32        // its handle, never 0; not given out again for 65,535 successors in its slot
	Key     admission.Key // what it is logged in as
	Payload any           // the caller's connection; the set never looks at it

	state  State
	parked bool // Busy only because of holds: its ticket has ended
	doomed bool // close it instead of making it idle
	// reserved: its key may fill the reserve.
	reserved bool
	holds    int32
	since    int64 // when it got into its state
	born     int64 // when its dial began
	expires  int64
	// heir is the key for whose sake it is closed, if hasHeir.
	heir    admission.Key
	hasHeir bool

	above, below *Server // in its key's stack of idle servers
	newer, older *Server // among all idle servers
}

// State returns the server's state.
func (sv *Server) State() State { return sv.state }

// Since returns when the server got into its state, in the caller's ns.
func (sv *Server) Since() int64 { return sv.since }

// Born returns when the server's dial began, in the caller's ns.
func (sv *Server) Born() int64 { return sv.born }

// Doomed reports whether the server is being closed, or will be when it is put.
func (sv *Server) Doomed() bool { return sv.doomed || sv.state == Closing }

// Held reports whether a cancel for the server is on its way.
func (sv *Server) Held() bool { return sv.holds > 0 }

// Kind is what an Action asks for.
type Kind uint8

// The kinds of actions.
const (
	// Dial: open a connection for Server.Key and log in; answer with Dialed, or
	// with Gone if it was given up. The dial's time-out is the caller's.
	Dial Kind = iota
	// Close: say Terminate, close the socket, and report Gone at its end.
	Close
)

// String returns the kind in lower case.
func (k Kind) String() string {
	if k == Dial {
		return "dial"
	}
	return "close"
}

// Action is something the caller has to do.
type Action struct {
	Kind   Kind
	Server *Server
}
