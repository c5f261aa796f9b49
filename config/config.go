package config

// Config is a configuration without contradictions. Nothing changes it after it has been
// read, so it may be shared.
type Config struct {
	Listen                []Listen // at least one
	MaxClientConn         int      // clients at once; more are refused with FATAL 53300
	ClientLoginTimeout    Duration // from accept to the end of the authentication
	MaxLogins             int      // clients at once that are not authenticated yet
	ShutdownTimeout       Duration // from SIGTERM to the end of the process; None waits for the last transaction
	DrainDelay            Duration // of this, the part during which new work is still served; may be 0
	MaxPreparedStatements int      // kept per server connection
	QueryTextLimit        Size     // longer statements are streamed and not looked at

	Log       Log
	TLS       TLS
	Auth      Auth
	Upstreams []Upstream // in the order of the file; at least one
	Databases []Database // in the order of the file; at least one; "*" wherever it was written
	Workloads []Workload // in the order of matching; the last is called "default" and matches every client

	warnings []string
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
	File string // roles with passwords or verifiers, in PgBouncer's format; absolute or relative to the working directory; "" with Trust and with User

	// User is, when not empty, the only role let in, with Password: the configuration was
	// made from a URL. Without a password Type is Trust.
	User     string
	Password Secret
}

// Upstream is one Postgres cluster and the budget of connections to it.
type Upstream struct {
	Name                 string
	URL                  URL      // pgweir's own login, and where the servers of clients go
	Budget               Count    // connections at once, of all databases and roles; Auto: see [Config.Budget]
	Reserve              int      // of these not for clients' transactions; see [Config.Budget]
	Slots                Count    // transactions at once; Auto: budget - reserve
	ServerConnectTimeout Duration // from the start of a dial to the server's first ReadyForQuery
	ConnectParallel      int      // logins at once
	ConnectRate          Count    // logins begun per second; Auto: the budget
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
}

// Workload is how long a group of clients waits, and for what.
type Workload struct {
	Name         string
	MaxWait      Duration // for a slot, while every connection that may be open is open
	MaxWaiting   Count    // clients at once; Auto: see [Workload.WaitingBound]
	NoServerWait Duration // the longest wait while Postgres cannot be reached; may be 0
	OnDisconnect OnDisconnect
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

// Warnings are things that work and that somebody will regret. The order is fixed.
func (c *Config) Warnings() []string { return c.warnings }

// anyDatabase is the name that stands for all others.
const anyDatabase = "*"

// defaultWorkload is the only name that a workload may have in this version.
const defaultWorkload = "default"
