package state

import "time"

// Client is one client session.
type Client struct {
	ID                                              uint64 // names it to KILL_CLIENT
	Database, Role, Application, Workload, Upstream string
	State                                           string // active (has a server), waiting, idle, login
	Address, LocalAddress                           string // host, or "unix"
	Port, LocalPort                                 int
	Connected, Requested                            time.Time     // Requested: when it last asked for a slot, or has connected
	Wait                                            time.Duration // now, if it waits
	Server                                          uint64        // ID of its server; 0 = none
	Transaction                                     bool          // it is in a transaction
	TLS                                             string        // version, cipher and curve; "" = in clear
	ServerName                                      string        // that it has asked for (SNI); "" = none
	Prepared                                        int           // names of prepared statements
	CancelPID                                       uint32        // the process id in its cancel key
	Pinned                                          string        // for what it keeps its server: "listen,temp"; "" = it does not
	PinnedFor                                       time.Duration // since when
	Silent                                          time.Duration // since it last said something
	ServerPID                                       uint32        // of its server's backend
	Replication                                     string        // "physical" or "logical"; "" = it is a session
}

// Server is one server connection.
type Server struct {
	ID                       uint64
	Upstream, Database, Role string // Database as clients call it
	State                    string // active, idle, login, closing, being_canceled, held (kept by an idle session)
	Address, LocalAddress    string
	Port, LocalPort          int
	Connected, Requested     time.Time
	Since                    time.Duration // in this state
	Client                   uint64        // ID of the client that has it; 0 = none
	PID                      uint32        // of the backend
	TLS                      string
	Prepared                 int
	Application              string // of its client
	CloseNeeded              bool   // it is closed when it comes back
	Pinned                   string // for what its client keeps it
	Replication              string // as in Client
}
