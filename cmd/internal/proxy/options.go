package proxy

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// Options are what a proxy has for all its life: plain values, already validated.
type Options struct {
	Listeners       []net.Listener
	MaxLogins       int // connections that have not authenticated yet
	TextLimit       int // bytes of a statement that are looked at
	StatementMemory int // bytes for the texts of prepared statements
	Settings        *Settings
	Log             *slog.Logger
	NoRing          bool // no io_uring for sends, also where there is one

	// Process tells the processes apart that listen on one port (so_reuseport): it is in
	// the cancel keys of their clients. 0 = there is only this one; at most MaxProcess.
	Process uint32
	// Forward sends a cancel request to the process that it names. It returns when that
	// one has dealt with it. nil = there are no others.
	Forward func(ctx context.Context, process uint32, r *wire.CancelRequest)
	// Console serves an administrator who has authenticated, until its connection ends
	// or ctx does. nil = there is no console.
	Console func(ctx context.Context, conn net.Conn, who Administrator)
}

// Administrator is who has connected to the console.
type Administrator struct {
	Role     string
	Database string // as asked for: "pgweir" or "pgbouncer"
	Admin    bool   // may change things; else only look
	Addr     string
	Key      wire.CancelKey
	Params   []wire.Param    // of the startup packet
	Cancel   <-chan struct{} // gets a value for each cancel request with Key
}

// Settings are what a reload changes. They are immutable: a reload brings new ones.
type Settings struct {
	MaxClients        int           // sessions and consoles; over it: FATAL 53300
	ReservedClients   int           // of these for consoles
	LoginTimeout      time.Duration // for a client to authenticate
	ClientIdleTimeout time.Duration // 0 = none
	DrainDelay        time.Duration // after SIGTERM: still serving
	ShutdownTimeout   time.Duration // then: for transactions to end
	MaxPrepared       int           // prepared statements per server connection
	Auth              Auth
	TLS               *login.TLS // towards clients; nil = none
	AdminUsers        []string
	StatsUsers        []string
	Upstreams         []Upstream
	Databases         []Database
	Workloads         []Workload
	// WorkloadOf returns the index in Workloads of a client's workload. The address is
	// the zero one for a Unix socket. It is called from any goroutine.
	WorkloadOf func(database, role, application string, client netip.Addr) int
	// RoleOf returns what a role may ask for. It is called from any goroutine.
	RoleOf func(role string) Role
	Rates  []Rate
	// RatesOf returns the indices in Rates of those for a client's work, in their order, as
	// far as that is known without a tenant; RateHasTenant reports whether one of them is
	// for a tenant's. Of those with the same Per the first counts that is. They are called
	// from any goroutine; nil = there are none.
	RatesOf       func(database, role, application string, client netip.Addr) []int
	RateHasTenant func(rate int, tenant string) bool
	// AsPgBouncer makes refusals of the queue those of PgBouncer: FATAL 08P01
	// query_wait_timeout, and the end of the session.
	AsPgBouncer bool

	databases map[string]*Database // by name; made by prepare
	workloads map[string]int       // likewise: index in Workloads
}

// prepare works out what is asked often. Call it before the settings are shared.
func (s *Settings) prepare() {
	s.databases, s.workloads = make(map[string]*Database, len(s.Databases)), make(map[string]int, len(s.Workloads))
	for i := range s.Databases {
		s.databases[s.Databases[i].Name] = &s.Databases[i]
	}
	for i := range s.Workloads {
		s.workloads[s.Workloads[i].Name] = i
	}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		u.named = slices.ContainsFunc(u.Hosts.Hosts, upstream.Host.Named)
	}
}

// Upstream is one Postgres cluster.
type Upstream struct {
	Name         string
	Hosts        upstream.Options // Moved and Log are the proxy's
	Budget       int              // server connections, the one for control included
	BudgetSum    string           // where it comes from
	Reserve      int              // of these: 1 for control, the others for ReserveUsers
	ReserveUsers []string         // roles of clients
	Slots        int              // transactions at once

	ConnectParallel int
	ConnectRate     float64 // per second; 0 = the budget
	Lifetime        time.Duration
	IdleTimeout     time.Duration
	DNSMaxTTL       time.Duration // how often names of hosts are looked up again while there are servers; 0 = never
	// Role and Password log in where a client's own credentials are not known; only for
	// servers of that role.
	Role, Password string
	Database       string // where pgweir's own queries go, as Role

	named bool // some of its hosts are names; made by prepare
}

// control is the number of connections kept for pgweir's own queries.
func (u *Upstream) control() int { return min(u.Reserve, 1) }

// Database is a name that clients may ask for.
type Database struct {
	Name      string // "*" = every name that no other has
	Upstream  string
	DBName    string             // on the server; "" = the name that the client asked for
	User      string             // role of the servers; "" = the client's
	Passwords upstream.Passwords // of User; nil = what is known of it from Secrets or the upstream
	// MaxClients is its sessions at once, of "*" for each name; MaxServers the connections to
	// it on the server. 0 = no limit of its own.
	MaxClients, MaxServers int
}

// serverRole is the role of the servers of clients of a role.
func (d *Database) serverRole(role string) string {
	if d.User != "" {
		return d.User
	}
	return role
}

// Workload is how a group of clients is treated.
type Workload struct {
	Name                               string
	Mode                               relay.Mode
	Share, Lendable, Borrow            float64 // see admission.Workload
	MaxWait, NoServerWait, SessionWait time.Duration
	MaxWaiting                         int // 0 = auto
	Patient                            bool
	CancelAbandoned                    bool
	MinPoolSize                        int
	Uncapped                           bool    // the ceilings of roles are not for it
	MaxPinned                          float64 // of its connections; see admission.Workload

	Queue     admission.Policy
	Guard     admission.Mode                   // of the queue
	Class     admission.Class                  // of work that does not say
	ClassWait [admission.Classes]time.Duration // by class, the highest first; all 0 = MaxWait
	Deadline  time.Duration                    // how long clients wait for an answer; 0 = not known
	Learn     bool                             // Deadline is what they are seen to wait
}

// Role is what a Postgres role may ask for.
type Role struct {
	MaxClass     admission.Class
	PromoteShare float64 // of its work, what may be above the class of its workload
	// Timeouts are the defaults of its sessions on the server; 0 = what Postgres says.
	Timeouts [session.Timeouts]time.Duration
	Ceiling  bool // and no work of it takes longer, but for workloads that are Uncapped
	// MaxClients is its sessions at once, MaxServers the server connections that are logged in as
	// it, on each upstream; 0 = no limit of its own.
	MaxClients, MaxServers int
}

// Rate is how much one caller may ask for.
type Rate struct {
	Name       string  // unique
	Per        string  // "client", "role" or "tenant"
	Text       string  // as the file has it: "150/s"
	PerSecond  float64 // statements, or with ServerTime seconds of server-time
	ServerTime bool
	Burst      float64 // likewise
	Delay      bool    // hold back the answers to those who do not heed them
	Block      bool    // and then end their sessions; only with Delay
	Mode       admission.Mode
}

// route finds what a client's database name stands for: its entry and the name on the
// server. It is nil for a name that nobody has configured.
func (s *Settings) route(name string) (*Database, string) {
	d := cmp.Or(s.databases[name], s.databases["*"])
	if d == nil {
		return nil, ""
	}
	return d, d.onServer(name)
}

// onServer is the name on the server of what a client calls name.
func (d *Database) onServer(name string) string { return cmp.Or(d.DBName, name) }

// reserves reports whether a role may use the upstream's reserve.
func (u *Upstream) reserves(role string) bool { return slices.Contains(u.ReserveUsers, role) }
