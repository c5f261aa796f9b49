package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/login/hba"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
)

// Settings are what a reload changes. They are immutable from Prepare on: a reload brings new
// ones.
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

	databases map[string]*Database // by name; made by Prepare
	workloads map[string]int       // likewise: index in Workloads
}

// Prepare works out what is asked often. Call it before the settings are shared.
func (s *Settings) Prepare() {
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

// Route finds what a client's database name stands for: its entry and the name on the
// server. It is nil for a name that nobody has configured.
func (s *Settings) Route(name string) (*Database, string) {
	d := cmp.Or(s.databases[name], s.databases["*"])
	if d == nil {
		return nil, ""
	}
	return d, d.OnServer(name)
}

// Home is the upstream of a database, and of one that is not there any that can be asked who a
// client is.
func (s *Settings) Home(db *Database) string {
	if db == nil {
		return s.Upstreams[0].Name // there is one at least
	}
	return db.Upstream
}

// Index finds a workload in Workloads by its name; known tells whether there is one.
func (s *Settings) Index(workload string) (i int, known bool) {
	i, known = s.workloads[workload]
	return i, known
}

// Auth is how clients prove who they are.
type Auth struct {
	Method login.Method
	HBA    *hba.File       // if set, its rules say the method instead
	Maps   *hba.Maps       // of system users and certificates; may be nil
	Map    string          // the one for Method; "" = the names have to be the same
	Book   *login.BookFile // roles of the file; nil = there are none
	// Query asks Postgres for the secret of a role that is not in Book: a statement with $1
	// for its name and the columns name and secret. "" = nobody is asked.
	Query string
	// QueryAge is how old an answer may be while Postgres cannot be asked.
	QueryAge time.Duration
	OnlyUser string // if set, the only role let in
}
