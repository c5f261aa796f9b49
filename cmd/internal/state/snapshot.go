package state

import (
	"time"

	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/session"
)

// Snapshot is what a pgweir tells of itself. It is taken in a few turns of the event loop, the
// more the more there is to tell, so that numbers of two rows may be of two moments. Nothing
// in it is shared with what runs: it may be kept.
type Snapshot struct {
	Now, Started time.Time
	Draining     bool

	Clients    int // sessions
	LoggingIn  int // connections that have not authenticated yet
	MaxClients int
	MaxLogins  int

	Upstreams []Upstream // by name
	Workloads []Workload // in the order of the file, for every upstream that has it in use
	Pools     []Pool     // by upstream, database, role
	Databases []Database // as configured, and those that "*" stands for and clients have named
	Roles     []Role     // that clients have logged in as

	Rates      []Rate // in the order of the file
	Escalation session.EscalationState
	Blocks     []Block // who is blocked, or was within the last hour; bounded

	Refusals []RefusalCount // the most frequent, bounded; the last one has empty names and stands for all others
	Turned   []Count        // clients and requests refused that no workload counts (at the door, statements, ...), by reason
	Ended    []Count        // sessions that ended, by reason
	Traffic  Traffic        // of all clients since the start, also where workload, database or role are gone
	TLS      TLS
	HBA      []HBARule // in the order in which they are tried; none without an hba file
	Logins   LoginStats
	Suspects []Suspect // addresses from where logins have failed, those of now first: at most a thousand
	Loop     loop.Stats
	Memory   []Memory
}

// TLS is the encryption of clients' connections. The totals only grow.
type TLS struct {
	On       bool
	Done     uint64    // handshakes that ended well
	Failed   uint64    // that did not, for client and server do not agree
	Lost     uint64    // whose client left or took too long
	Loaded   uint64    // times that changed files were taken into use
	Unusable uint64    // times that changed files could not be used
	NotAfter time.Time // the certificate in use is good until then
	Stale    string    // why the files as they are now are not in use; "" = they are
}

// Rate is a [[rate]].
type Rate struct {
	Name, Per, Rate, Escalation, Mode string
	Passed, Refused, Would            uint64 // statements; Would = would have been refused in mode enforce
	Keys                              int    // clients, roles or tenants that are known
	Evicted                           uint64 // that were forgotten because there were too many
}

// Block is a role at an address that has not heeded its refusals.
type Block struct {
	Address    string // "unix" of a Unix socket
	Role       string
	Level      int // 0 = it is blocked no more, and remembered; 1 = its refusals are held back; 2 = blocked
	Since      time.Time
	Until      time.Time // in the past if it is blocked no more
	Blocks     int       // within the last hour
	Violations uint64
}

// Count is a total with its label. It only grows.
type Count struct {
	Label string
	N     uint64
}

// Memory is the memory of one kind of things.
type Memory struct {
	Name  string
	Size  int // bytes of one; 0 where they differ
	Used  int // how many are in use
	Free  int // how many are kept for use
	Bytes int // of all of them, about
}

// Traffic is what passed for some clients. It only grows.
type Traffic struct {
	Transactions uint64 // servers handed back at a boundary
	Queries      uint64 // Query messages and Syncs answered by servers
	Assignments  uint64 // servers given to clients
	Received     uint64 // bytes from clients
	Sent         uint64 // bytes to clients
	ToServers    uint64 // bytes to servers
	FromServers  uint64 // bytes from servers
	ClientParses uint64 // Parse messages of clients
	ServerParses uint64 // of these sent to servers
	Binds        uint64 // Bind messages of clients
	Logins       uint64 // clients that were let in
	Refused      uint64 // requests refused
	Goodput      uint64 // requests answered while that was of use
	Wasted       uint64 // requests that servers went on with for clients that had left or given up

	TransactionTime time.Duration // servers were bound to clients
	QueryTime       time.Duration // servers had something to answer
	WaitTime        time.Duration // clients waited for a server or a slot
	WastedTime      time.Duration // servers worked for nobody
}

// Add adds what a group of sessions has had.
func (t *Traffic) Add(g *session.Group) {
	t.Transactions += g.Traffic.Transactions
	t.Queries += g.Counts.Queries
	t.Assignments += g.Traffic.Assignments
	t.Received += g.Traffic.Received
	t.Sent += g.Traffic.Sent
	t.ToServers += g.Traffic.ToServers
	t.FromServers += g.Traffic.FromServers
	t.ClientParses += g.Counts.ClientParses
	t.ServerParses += g.Counts.ServerParses
	t.Binds += g.Counts.Binds
	t.Logins += g.Traffic.Logins
	t.Refused += g.Traffic.Refused
	for _, n := range g.Traffic.Goodput {
		t.Goodput += n
	}
	t.TransactionTime += g.Traffic.TransactionTime
	t.QueryTime += g.Traffic.QueryTime
	t.WaitTime += g.Traffic.WaitTime
	t.Wasted += g.Traffic.Wasted
	t.WastedTime += g.Traffic.WastedTime
}
