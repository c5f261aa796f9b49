package config

// Config is a configuration without contradictions. Nothing changes it after it has been
// read, so it may be shared.
type Config struct {
	Listen                []Listen // at least one
	HTTP                  Listen   // metrics, health and the status page; not [Listen.IsSet]: none
	AdminHTTP             Listen   // reload and pprof: loopback or a Unix socket; not [Listen.IsSet]: none
	MaxClientConn         int      // clients at once; more are refused with FATAL 53300
	ReservedClients       int      // of these kept for the console and for probes; less than MaxClientConn
	ClientLoginTimeout    Duration // from accept to the end of the authentication
	ClientIdleTimeout     Duration // a client without a transaction that says nothing for so long is closed; may be None
	ReusePort             bool     // the TCP listeners share their ports with other processes
	MaxLogins             int      // clients at once that are not authenticated yet
	ShutdownTimeout       Duration // from SIGTERM to the end of the process; None waits for the last transaction
	DrainDelay            Duration // of this, the part during which new work is still served; may be 0
	MaxPreparedStatements int      // kept per server connection
	QueryTextLimit        Size     // longer statements are streamed and not looked at
	Compat                Compat

	Log       Log
	TLS       TLS
	Auth      Auth
	Console   Console
	Upstreams []Upstream // in the order of the file; at least one
	Databases []Database // in the order of the file; at least one; "*" wherever it was written
	Workloads []Workload // in the order of matching; the last is called "default" and matches every client
	Roles     []Role     // in the order of the file; ask [Config.RoleOf]
	Rates     []Rate     // in the order of matching

	warnings  []string
	matcher   *matcher
	rates     []rule            // what Rates ask of a client
	roles     map[string]int    // indices of Roles by name
	otherRole Role              // of those without a section
	origin    map[string]string // where the keys and sections that are not defaults come from
}

// Log is what is logged, and how.
type Log struct {
	Level  LogLevel
	Format LogFormat
}

// TLS is the encryption between clients and pgweir: none in this version.
type TLS struct {
	SSLMode SSLMode // always Disable
}

// Auth is who may come in.
type Auth struct {
	Type AuthType
	File string // roles with passwords or verifiers, in PgBouncer's format; absolute or relative to the working directory; may be "" with Trust and with User

	// User is, when not empty, the only role let in, with Password: the configuration was
	// made from a URL. Without a password Type is Trust.
	User     string
	Password Secret
}

// Console is who may use the console, the database "pgweir".
type Console struct {
	AdminUsers []string // roles that may SHOW and change
	StatsUsers []string // roles that may SHOW
}

// Upstream is one Postgres cluster and the budget of connections to it.
type Upstream struct {
	Name                 string
	URL                  URL      // pgweir's own login, and where the servers of clients go
	Budget               Count    // connections of the fleet at once, of all databases and roles; Auto: see [Config.Budget]
	Reserve              int      // of these not for everybody's transactions; see [Config.Budget]
	ReserveUsers         []string // roles that may use the reserve, but for one connection
	Slots                Count    // transactions of the fleet at once; Auto: budget - reserve
	Limit                Limit
	Fleet                Fleet
	Instances            int      // the processes that share budget, reserve and slots; at least 1
	ServerConnectTimeout Duration // from the start of a dial to the server's first ReadyForQuery
	ConnectParallel      int      // logins at once
	ConnectRate          Count    // logins begun per second; Auto: the budget, at least 20
	ServerLifetime       Duration // a connection's age, +-20 %, after which it is closed when idle; may be None
	ServerIdleTimeout    Duration // may be None
	TCPUserTimeout       Duration // unacknowledged data on a server's socket; may be None: the kernel's

	reserveGiven bool // else Reserve is the default, which gives way to a small budget
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
}

// Upstream is the upstream of that name, or nil.
func (c *Config) Upstream(name string) *Upstream {
	for i := range c.Upstreams {
		if c.Upstreams[i].Name == name {
			return &c.Upstreams[i]
		}
	}
	return nil
}

// Route finds where a client goes that asks for a database: the upstream, as an index into
// Upstreams, and the database's name there. It reports false for a name that no one
// configured.
func (c *Config) Route(database string) (upstream int, dbname string, ok bool) {
	var found *Database
	for i := range c.Databases {
		switch d := &c.Databases[i]; d.Name {
		case database:
			found = d
		case anyDatabase:
			if found == nil {
				found = d
			}
		}
	}
	if found == nil {
		return 0, "", false
	}
	for i := range c.Upstreams {
		if c.Upstreams[i].Name == found.Upstream {
			upstream = i
		}
	}
	if found.DBName != "" {
		database = found.DBName
	}
	return upstream, database, true
}

// anyDatabase is the name that stands for all others.
const anyDatabase = "*"
