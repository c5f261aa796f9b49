package state

import (
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/login/roster"
	"github.com/pgweir/pgweir/cmd/internal/session"
)

// Upstream is one Postgres cluster.
type Upstream struct {
	Name      string
	Hosts     []string // as configured
	Host      string   // the one in use; "" before the first login
	Names     []HostName
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
	Demoted, Capped                                  uint64                   // requests: see Role
	Stopped                                          [session.Timeouts]uint64 // likewise
	UnknownTags                                      []Count                  // values of tags that meant nothing, by key; without those that never came
	Tenants                                          int                      // that are told apart
	SharedTenants                                    uint64                   // requests of others, for which there was no room
	CancelsEffective, CancelsLate                    uint64                   // requests that failed by cancels of them, and that were over before
	LastError                                        string                   // of a failed login; "" after one that worked
	LastErrorAt                                      time.Time
}

// HostName is a host name of an upstream, for SHOW DNS_HOSTS.
type HostName struct {
	Name      string
	TTL       time.Duration // until it is looked up again
	Addresses []string
}

// Workload is a workload on one upstream.
type Workload struct {
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
	Classes              []Class       // those that were seen, highest first
	FalseRefusals        uint64        // that turned out to be in vain; see admission.WorkloadStats
	Granted              uint64
	Withdrawn            uint64 // left or cancelled while they waited
	Refused              [admission.Reasons]uint64
	GrantWaits           admission.Waits
	RefusalWaits         admission.Waits
	Traffic              Traffic
}

// Class is the work of one class in a workload on an upstream.
type Class struct {
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
func (c *Class) Seen() bool {
	none := [admission.Reasons]uint64{}
	return c.Waiting > 0 || c.Granted > 0 || c.Goodput > 0 || c.Refused != none || c.Would != none
}

// Tenant is the work of one tenant of a role in a class of a workload, since it waits
// where others do: the gate keeps no books while there is enough for everybody.
type Tenant struct {
	Upstream, Workload string
	Class              admission.Class
	Role, Tenant       string
	Waiting, Running   int
	Served             time.Duration // of slots that it has used, since it is known
	Granted, Refused   uint64        // likewise
}
