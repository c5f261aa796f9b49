package schema

import (
	"github.com/pgweir/pgweir/config/endpoint"
	"github.com/pgweir/pgweir/config/values"
)

// File has a section's values for each section of a file, and for those that are there
// without being written.
type File struct {
	Listen                []endpoint.Listen // at least one
	HTTP                  endpoint.Listen   // metrics, health and the status page; not set: none
	AdminHTTP             endpoint.Listen   // reload and pprof: loopback or a Unix socket; not set: none
	MaxClientConn         int               // clients at once; more are refused with FATAL 53300
	ReservedClients       int               // of these kept for the console and for probes; less than MaxClientConn
	ClientLoginTimeout    values.Duration   // from accept to the end of the authentication
	ClientIdleTimeout     values.Duration   // a client without a transaction that says nothing for so long is closed; may be None
	ReusePort             bool              // the TCP listeners share their ports with other processes
	IOUring               bool              // small sends of a turn go to the kernel together
	MaxLogins             int               // clients at once that are not authenticated yet
	ShutdownTimeout       values.Duration   // from SIGTERM to the end of the process; None waits for the last transaction
	DrainDelay            values.Duration   // of this, the part during which new work is still served; may be 0
	MaxPreparedStatements int               // kept per server connection
	QueryTextLimit        values.Size       // longer statements are streamed and not looked at
	Compat                Compat

	Log       Log
	TLS       TLS
	Auth      Auth
	Console   Console
	Upstreams []Upstream // in the order of the file; at least one
	Databases []Database // in the order of the file; at least one; "*" wherever it was written
	Workloads []Workload // in the order of matching; the last is called "default" and matches every client
	Roles     []Role     // in the order of the file; a role may also have none
	Rates     []Rate     // in the order of matching
}

// Log is what is logged, and how.
type Log struct {
	Level  LogLevel
	Format LogFormat
}

// TLS is the encryption between clients and pgweir. Without a CertFile there is none.
type TLS struct {
	SSLMode     endpoint.SSLMode // Disable, Prefer, Require, VerifyCA or VerifyFull; only the first two without a CertFile
	CertFile    string           // with the certificates up to an authority; may be ""
	KeyFile     string           // set with CertFile
	CAFile      string           // the authorities of clients' certificates; "": clients are not asked for one
	MinProtocol TLSProtocol
}

// Enabled reports whether clients can encrypt.
func (t *TLS) Enabled() bool { return t.CertFile != "" && t.SSLMode != endpoint.Disable }

// Auth is who may come in.
type Auth struct {
	Type AuthType
	File string // roles with passwords or verifiers, in PgBouncer's format; absolute or relative to the working directory; may be "" with Trust and with User

	Query     string          // asks Postgres for the secret of a role that is not in File; "": nobody is asked
	QueryAge  values.Duration // how old an answer may be while Postgres does not answer
	HBAFile   string          // rules in the syntax of pg_hba.conf; set with HBA and else not
	IdentFile string          // maps in the syntax of pg_ident.conf; only with Cert, Peer and HBA; may be ""

	// User is, when not empty, the only role let in, with Password: the configuration was
	// made from a URL. Without a password Type is Trust.
	User     string
	Password values.Secret
}

// Console is who may use the console, the database "pgweir".
type Console struct {
	AdminUsers []string // roles that may SHOW and change
	StatsUsers []string // roles that may SHOW
}

// Upstream is one Postgres cluster and the budget of connections to it.
type Upstream struct {
	Name                 string
	URL                  endpoint.URL // pgweir's own login, and where the servers of clients go
	Budget               values.Count // connections of the fleet at once, of all databases and roles; Auto: see config.Config.Budget
	Reserve              int          // of these not for everybody's transactions; see config.Config.Budget
	ReserveUsers         []string     // roles that may use the reserve, but for one connection
	Slots                values.Count // transactions of the fleet at once; Auto: budget - reserve
	Limit                Limit
	Fleet                Fleet
	Instances            int             // the processes that share budget, reserve and slots; at least 1
	ServerConnectTimeout values.Duration // from the start of a dial to the server's first ReadyForQuery
	ConnectParallel      int             // logins at once
	ConnectRate          values.Count    // logins begun per second; Auto: the budget, at least 20
	ServerLifetime       values.Duration // a connection's age, +-20 %, after which it is closed when idle; may be None
	ServerIdleTimeout    values.Duration // may be None
	DNSMaxTTL            values.Duration // between two lookups of the names of hosts; may be None
	TCPUserTimeout       values.Duration // unacknowledged data on a server's socket; may be None: the kernel's

	ReserveGiven bool // the file says Reserve; else it is the default, which gives way to a small budget
}

// Database is a name that clients may ask for.
type Database struct {
	Name     string // "*": every name that no other Database has
	Upstream string // the Name of an [Upstream]
	DBName   string // the name on the server; "": the name that the client asked for

	// User is, when not empty, the role of the server connections instead of the client's.
	User string
	// PasswordFile has User's password in its first line, and PasswordCommand prints it as
	// the first line when /bin/sh -c runs it. At most one is set, and only with User. Both
	// are for each login to Postgres anew.
	PasswordFile    string
	PasswordCommand string

	MaxClients           int // at once; 0 = as many as there may be
	MaxServerConnections int // likewise
}

// Upstream is the upstream of that name, or nil.
func (f *File) Upstream(name string) *Upstream {
	for i := range f.Upstreams {
		if f.Upstreams[i].Name == name {
			return &f.Upstreams[i]
		}
	}
	return nil
}

// AnyName is the database or role that stands for all that have no section.
const AnyName = "*"
