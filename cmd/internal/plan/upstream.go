package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/upstream"
)

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

	named bool // some of its hosts are names; made by Prepare
}

// Control is the number of connections kept for pgweir's own queries.
func (u *Upstream) Control() int { return min(u.Reserve, 1) }

// Reserves reports whether a role may use the upstream's reserve.
func (u *Upstream) Reserves(role string) bool { return slices.Contains(u.ReserveUsers, role) }

// HasNames reports whether some of its hosts are names, which may come to stand for other
// addresses.
func (u *Upstream) HasNames() bool { return u.named }

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

// ServerRole is the role of the servers of clients of a role.
func (d *Database) ServerRole(role string) string {
	if d.User != "" {
		return d.User
	}
	return role
}

// OnServer is the name on the server of what a client calls name.
func (d *Database) OnServer(name string) string { return cmp.Or(d.DBName, name) }
