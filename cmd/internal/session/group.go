package session

import (
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// Workload is how a group of clients is treated. It is immutable; a reload brings new ones.
type Workload struct {
	Index           uint16 // of its plan at the gate
	Name            string
	Mode            relay.Mode
	CancelAbandoned bool // on_disconnect: cancel reads whose client has left
	ServesGone      bool // nobody looks whether those who wait are still there: admission.Policy.IgnoresGone
	Reserved        bool // its clients may use the upstream's reserve
	Minimum         int  // servers kept open for each of its keys
	Uncapped        bool // the ceilings of roles are not for its clients

	Class    admission.Class // of requests that say nothing
	Deadline int64           // ns that its clients wait for an answer; 0 = not known
	Learn    bool            // how long they wait is learned from those who give up
	// CountsAttempts: what was tried too often is refused.
	CountsAttempts bool
}

// Traffic is what passed for the clients of a group. It only grows.
type Traffic struct {
	Transactions uint64 // servers handed back at a boundary
	Assignments  uint64 // servers given to clients
	Received     uint64 // bytes from clients
	Sent         uint64 // bytes to clients
	ToServers    uint64
	FromServers  uint64
	Logins       uint64
	Refused      uint64
	Wasted       uint64 // requests that servers went on with for clients that had left or given up
	// Goodput is how many requests were answered while it was of use, by class, highest first:
	// before their deadline, or without one at all, to a client that was still there.
	Goodput [admission.Classes]uint64

	TransactionTime time.Duration // servers were bound to clients
	QueryTime       time.Duration // servers had something to answer
	WaitTime        time.Duration // clients waited for a server or a slot
	WastedTime      time.Duration // servers worked for nobody: from when the client left, or its deadline
}

// Group is clients that are counted together: those of one database and role, as clients
// name them, in one workload. Owned by the loop thread.
type Group struct {
	Key            *KeyInfo
	Database, Role string
	Workload       *Workload
	Clients        int
	role           *roleState

	Counts  relay.Counts
	Traffic Traffic
}

// groupName tells groups apart. A workload is known by its name: a reload makes new ones.
type groupName struct {
	key                      admission.Key
	database, role, workload string
	reserved                 bool
}

// Group returns the group of the clients of a role that ask for a database, whose servers
// are k's, in workload w; new if it is not known.
func (co *Core) Group(k *KeyInfo, database, role string, w *Workload) *Group {
	n := groupName{k.Key, database, role, w.Name, w.Reserved}
	g := co.byGroup[n]
	if g == nil {
		g = &Group{Key: k, Database: database, Role: role, role: co.role(role)}
		co.byGroup[n] = g
		co.groups = append(co.groups, g)
	}
	if g.Workload != w {
		g.Workload = w
		if w.Minimum > k.minimum {
			k.minimum = w.Minimum
			co.keep(k)
			co.timer = true
		}
	}
	return g
}

// FindGroup is Group for one that is known; else it returns nil.
func (co *Core) FindGroup(k *KeyInfo, database, role string, w *Workload) *Group {
	return co.byGroup[groupName{k.Key, database, role, w.Name, w.Reserved}]
}

// Groups returns all groups that were ever seen. The caller must not change the list.
func (co *Core) Groups() []*Group { return co.groups }

// keep has the set keep as many servers of a key open as is wanted: none while it is paused.
func (co *Core) keep(k *KeyInfo) {
	if co.gate.Paused(k.Key) {
		co.set.SetMinimum(k.Key, 0)
	} else {
		co.set.SetMinimum(k.Key, k.minimum)
	}
}

// Treat gives every group the workload that now returns, which has the name of the one
// that it had: the one that a reload has brought. Where it returns nil the configuration
// has no place for the group any more: its clients are treated as before until they are
// idle, and no server is kept open for it.
func (co *Core) Treat(now func(*Group) *Workload) {
	for _, k := range co.keys {
		k.minimum = 0
	}
	for _, g := range co.groups {
		if w := now(g); w != nil {
			g.Workload = w
		} else if g.Workload.Minimum > 0 {
			w := *g.Workload
			w.Minimum = 0
			g.Workload = &w
		}
		g.Key.minimum = max(g.Key.minimum, g.Workload.Minimum)
	}
	for _, k := range co.keys {
		co.keep(k)
	}
	co.timer = true
}

// join makes cl one of g's clients from now on.
func (cl *Client) join(g *Group) {
	if cl.group != nil {
		cl.group.Clients--
	}
	cl.group = g
	g.Clients++
	cl.link.Count(&g.Counts)
	cl.wait.Workload, cl.wait.Reserved = g.Workload.Index, g.Workload.Reserved
	cl.link.SetMode(g.Workload.Mode)
}

// regroup puts a client between two transactions into the group that it belongs to now, if
// its settings or the configuration have changed. Whoever leaves session mode gives back its
// server; who is pinned keeps it.
func (cl *Client) regroup(now int64) {
	if !cl.stale() || cl.server != nil || cl.login || cl.link.Tx() != wire.Idle {
		return
	}
	co := cl.core
	cl.generation, cl.grouped = co.generation, cl.link.Params()
	g := co.env.Group(cl)
	if g == nil || g == cl.group && cl.link.Mode() == g.Workload.Mode {
		return
	}
	if sv := cl.kept; sv != nil && g.Workload.Mode != relay.Session && cl.link.Pinned() == 0 {
		cl.unkeep()
		sv.done(now)
	}
	cl.join(g)
}

// stale reports whether the client may belong to another group than it is in.
func (cl *Client) stale() bool {
	return cl.generation != cl.core.generation || cl.grouped != cl.link.Params()
}

// Regroup makes every client look for its group before its next request.
func (co *Core) Regroup() { co.generation++ }
