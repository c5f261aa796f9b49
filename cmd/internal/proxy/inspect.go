package proxy

import (
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/login/roster"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/session"
)

// Snapshot is what a proxy tells of itself. It is taken in a few turns of the event loop, the
// more the more there is to tell, so that numbers of two rows may be of two moments. Nothing
// in it is shared with the proxy: it may be kept.
type Snapshot struct {
	Now, Started time.Time
	Draining     bool

	Clients    int // sessions
	LoggingIn  int // connections that have not authenticated yet
	MaxClients int
	MaxLogins  int

	Upstreams []UpstreamState // by name
	Workloads []WorkloadState // in the order of the file, for every upstream that has it in use
	Pools     []PoolState     // by upstream, database, role
	Databases []DatabaseState // as configured, and those that "*" stands for and clients have named
	Roles     []RoleState     // that clients have logged in as

	Rates      []RateState // in the order of the file
	Escalation session.EscalationState
	Blocks     []BlockState // who is blocked, or was within the last hour; bounded

	Refusals []RefusalState // the most frequent, bounded; the last one has empty names and stands for all others
	Turned   []Count        // clients and requests refused that no workload counts (at the door, statements, ...), by reason
	Ended    []Count        // sessions that ended, by reason
	Traffic  Traffic        // of all clients since the start, also where workload, database or role are gone
	TLS      TLSState
	HBA      []HBARule // in the order in which they are tried; none without an hba file
	Logins   LoginStats
	Suspects []Suspect // addresses from where logins have failed, those of now first: at most a thousand
	Loop     loop.Stats
	Memory   []MemoryState
}

// TLSState is the encryption of clients' connections. The totals only grow.
type TLSState struct {
	On       bool
	Done     uint64    // handshakes that ended well
	Failed   uint64    // that did not, for client and server do not agree
	Lost     uint64    // whose client left or took too long
	Loaded   uint64    // times that changed files were taken into use
	Unusable uint64    // times that changed files could not be used
	NotAfter time.Time // the certificate in use is good until then
	Stale    string    // why the files as they are now are not in use; "" = they are
}

// RateState is a [[rate]].
type RateState struct {
	Name, Per, Rate, Escalation, Mode string
	Passed, Refused, Would            uint64 // statements; Would = would have been refused in mode enforce
	Keys                              int    // clients, roles or tenants that are known
	Evicted                           uint64 // that were forgotten because there were too many
}

// BlockState is a role at an address that has not heeded its refusals.
type BlockState struct {
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

// MemoryState is the memory of one kind of things.
type MemoryState struct {
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

// UpstreamState is one Postgres cluster.
type UpstreamState struct {
	Name      string
	Hosts     []string // as configured
	Host      string   // the one in use; "" before the first login
	Names     []NameState
	Lookups   uint64 // of names again
	Budget    int    // connections of this process
	BudgetSum string // where the budget comes from
	Reserve   int
	Slots     int
	Running   int // slots in use
	Waiting   int // clients in the queue
	MaxWait   time.Duration
	Paused    bool
	Down      bool         // no server is open and the last login failed
	Roles     roster.Stats // what it was asked about roles

	Dialling, Idle, Active, Closing, Cancelling int // server connections by state
	Replicating                                 int // not of these: places of replication connections
	Held                                        int // of Active kept by sessions in session mode, idle or not

	Logins, LoginFailures, Moved, IdledOut, Outlived uint64 // server connections: started, failed, given up for others, closed for idleness, for age
	Cancels, Abandoned, Broken, Cleaned, Replanned   uint64
	Replications                                     uint64                   // replication connections begun
	Demoted, Capped                                  uint64                   // requests: see RoleState
	Stopped                                          [session.Timeouts]uint64 // likewise
	UnknownTags                                      []Count                  // values of tags that meant nothing, by key; without those that never came
	Tenants                                          int                      // that are told apart
	SharedTenants                                    uint64                   // requests of others, for which there was no room
	CancelsEffective, CancelsLate                    uint64                   // requests that failed by cancels of them, and that were over before
	LastError                                        string                   // of a failed login; "" after one that worked
	LastErrorAt                                      time.Time
}

// WorkloadState is a workload on one upstream.
type WorkloadState struct {
	Name, Upstream, Mode string
	Clients              int     // sessions in it
	Share                float64 // of the slots, in force
	Part                 float64 // the same in slots
	Running              int     // slots in use
	Held                 int     // connections that its sessions keep
	Pinned, MaxPinned    int     // of these for what is left on them, and how many may be
	Pins                 uint64  // how often that was
	Lent, Borrowed       float64 // slots
	Waiting              int
	MaxWaiting           int
	MaxWait              time.Duration // the longest wait allowed
	Oldest               time.Duration // the longest wait now
	DrainRate            float64       // transactions per second that its slots can end; 0 = not known
	Policy               string        // of its queue
	Guard                string        // enforce, dry_run or off: what becomes of the policy's refusals
	Classes              []ClassState  // those that were seen, highest first
	FalseRefusals        uint64        // that turned out to be in vain; see admission.WorkloadStats
	Granted              uint64
	Withdrawn            uint64 // left or cancelled while they waited
	Refused              [admission.Reasons]uint64
	GrantWaits           admission.Waits
	RefusalWaits         admission.Waits
	Traffic              Traffic
}

// PoolState is the servers of one database and role, and the clients that use them.
type PoolState struct {
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

// DatabaseState is a name that clients may ask for.
type DatabaseState struct {
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

// RoleState is a role that clients log in as.
type RoleState struct {
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

// RefusalState counts refusals of one kind.
type RefusalState struct {
	Reason, Workload, Database, Role, Application string
	Tenant                                        string // if the request or its session has named one
	N                                             uint64
	Last                                          time.Time
}

// Refusal is one request or login that was refused, with what the client was told.
type Refusal struct {
	At                                    time.Time
	Client                                string // its address, or "unix"
	ClientID                              uint64 // as in ClientState; 0 = it had no session yet
	Upstream, Database, Role, Application string // "" = it had no session yet
	Workload, Class, Tenant               string
	Traceparent                           string // as its tag or parameter has it
	Reason                                string
	Code                                  string // SQLSTATE
	Detail, Hint                          string
	Waited                                time.Duration
	Login                                 bool // it was refused at its login
}

// TenantState is the work of one tenant of a role in a class of a workload, since it waits
// where others do: the gate keeps no books while there is enough for everybody.
type TenantState struct {
	Upstream, Workload string
	Class              admission.Class
	Role, Tenant       string
	Waiting, Running   int
	Served             time.Duration // of slots that it has used, since it is known
	Granted, Refused   uint64        // likewise
}

// ClassState is the work of one class in a workload on an upstream.
type ClassState struct {
	Class                    admission.Class
	MaxWait                  time.Duration // the longest wait allowed
	Waiting                  int
	Standing                 bool // its queue has not been short for a while: the newest are served first
	Oldest                   time.Duration
	Granted                  uint64
	Goodput                  uint64 // answered while it was of use: see session.Traffic
	Refused                  [admission.Reasons]uint64
	Would                    [admission.Reasons]uint64 // let in, but refused with mode = "enforce"
	GrantWaits, RefusalWaits admission.Waits
}

// Seen reports whether there has been any work of the class.
func (c *ClassState) Seen() bool {
	none := [admission.Reasons]uint64{}
	return c.Waiting > 0 || c.Granted > 0 || c.Goodput > 0 || c.Refused != none || c.Would != none
}

// ClientState is one client session.
type ClientState struct {
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

// ServerState is one server connection.
type ServerState struct {
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
	Replication              string // as in ClientState
}
