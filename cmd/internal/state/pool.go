package state

import (
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
)

// Pool is the servers of one database and role, and the clients that use them.
type Pool struct {
	Upstream string
	Database string // as clients call it: the first name, if there are several
	Role     string // on the server
	Mode     string // of the workload that uses it most

	ClientsActive    int // sessions that do not wait: idle ones too
	ClientsWaiting   int
	ClientsCancel    int // cancel requests under way
	ServersActive    int
	ServersIdle      int
	ServersLogin     int
	ServersClosing   int
	ServersCancelled int           // held back until a cancel has ended
	Oldest           time.Duration // the longest wait now
	Minimum          int           // kept open
	Paused, Down     bool
	LastError        string
	Traffic          Traffic
}

// Database is a name that clients may ask for.
type Database struct {
	Name             string
	Upstream         string
	Host             string // address of the first host, or directory of the socket
	Port             int
	DBName           string // on the server
	ForceUser        string // the role of its servers; "" = the client's
	Budget           int    // of the upstream
	MaxServers       int    // of its own; 0 = no limit but the budget
	MaxClients       int    // 0 = no limit of its own
	MinPoolSize      int
	Reserve          int // of the upstream
	ServerLifetime   time.Duration
	Mode             string
	Clients          int
	Servers          int
	Paused, Disabled bool
	Traffic          Traffic
}

// Role is a role that clients log in as.
type Role struct {
	Name    string
	Clients int
	Servers int
	Mode    string // of the workload that uses it most
	Traffic Traffic

	MaxClass     admission.Class // the highest that it may ask for
	PromoteShare float64         // how much of its work may be above the class of its workload,
	Promoted     float64         // and how much was, about in the last ten seconds
	Demoted      uint64          // requests put back to that class because it was more
	Capped       uint64          // requests that asked for more than MaxClass

	Timeouts               [session.Timeouts]time.Duration // of its sessions on the server; 0 = what Postgres says
	Ceiling                bool                            // nothing of it takes longer
	Stopped                [session.Timeouts]uint64        // what would have
	MaxClients, MaxServers int                             // 0 = no limit of its own
}
