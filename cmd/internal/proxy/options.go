package proxy

import (
	"log/slog"
	"net"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
)

// Options are a proxy's settings: plain values, already validated.
type Options struct {
	Listeners []net.Listener

	MaxClients      int           // sessions; over it: FATAL 53300
	MaxLogins       int           // connections that have not authenticated yet
	LoginTimeout    time.Duration // for a client to authenticate
	DrainDelay      time.Duration // after SIGTERM: still serving
	ShutdownTimeout time.Duration // then: for transactions to end
	MaxPrepared     int           // prepared statements per server connection
	TextLimit       int           // bytes of a statement that are looked at
	StatementMemory int           // bytes for the texts of prepared statements
	Method          login.Method
	Secrets         login.Secrets
	OnlyUser        string // if set, the only role let in
	Upstreams       map[string]Upstream
	// Route finds what a client's database name stands for: the upstream and the
	// name there. It is called from any goroutine.
	Route    func(database string) (upstream, name string, ok bool)
	Workload Workload
	Log      *slog.Logger
}

// Upstream is one Postgres cluster.
type Upstream struct {
	Network, Address string // tcp host:port, or unix path of the socket
	Budget           int    // server connections
	Slots            int    // transactions at once
	ConnectTimeout   time.Duration
	ConnectParallel  int
	ConnectRate      float64 // per second; 0 = the budget
	Lifetime         time.Duration
	IdleTimeout      time.Duration
	UserTimeout      time.Duration // TCP_USER_TIMEOUT; 0 = the system's
	// Role and Password log in where a client's own credentials are not known;
	// only for clients of that role.
	Role, Password string
}

// Workload is how the clients of a proxy are treated.
type Workload struct {
	Name            string
	MaxWait         time.Duration
	MaxWaiting      int           // 0 = auto
	NoServerWait    time.Duration // MaxWait while the database is away
	CancelAbandoned bool
}
