package proxy

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/login/roster"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire/relay"
)

// cluster is one upstream with its sessions. It is the Env of its core.
type cluster struct {
	px   *Proxy
	name string
	o    atomic.Pointer[plan.Upstream]
	core *session.Core
	link *upstream.Cluster
	// modern: its servers know transaction_timeout, as far as is known.
	modern atomic.Bool

	own    *ownConn
	roster atomic.Pointer[roster.Roster]

	// Owned by the loop thread.
	asked     asked                  // by the roster
	index     map[string]uint16      // of workloads at the gate, by name; for ever
	plan      []admission.Workload   // by that index
	names     []string               // likewise
	workloads []treatment            // by the index in the settings' Workloads
	reserved  map[admission.Key]bool // keys whose servers may use the reserve
	quotaIDs  map[string]int
	disowned  bool           // the configuration has it no more
	place     upstream.Place // where the servers of now are
	sites     map[upstream.Place]*site
	patrolAt  int64 // when patrol is due; 0 = when something is to be looked at
	looking   bool  // a look is under way
	lookedAt  int64 // when the last began,
	lookPause int64 // and how long after it there is none
	failedAt  int64 // when a login failed for a reason that concerns all, until one works; 0 = none has
	askedAt   int64 // when it was last asked what commits wait for
	// and who waits for locks
	locksAskedAt int64
	naming       naming
	seats        seats
	replications uint64 // begun
}

// treatment is a workload as the sessions of an upstream know it, for roles that may use
// its reserve and for others.
type treatment [2]*session.Workload

func newCluster(px *Proxy, u *plan.Upstream, s *plan.Settings, shared *relay.Shared) *cluster {
	up := &cluster{px: px, name: u.Name, index: make(map[string]uint16), reserved: make(map[admission.Key]bool), quotaIDs: make(map[string]int), sites: make(map[upstream.Place]*site)}
	up.o.Store(u)
	up.own = newOwnConn()
	up.link = upstream.New(up.hosts(u))
	up.enlist(u, s)
	up.arrange(s)
	set := pool.New(up.poolOptions(u, s))
	gate := admission.New(up.gatePlan(u), set, rand.Float64)
	up.core = session.New(up, shared, gate, set)
	up.core.Imitate(s.AsPgBouncer)
	up.ceilings(s)
	return up
}

// hosts is the options of the upstream's link.
func (up *cluster) hosts(u *plan.Upstream) upstream.Options {
	o := u.Hosts
	o.Name, o.Log, o.CPU = u.Name, up.px.o.Log, up.px.cpu
	o.Moved, o.Below = up.moved, bridged
	return o
}

// moved closes the servers of a place that is not the one to be used any more.
func (up *cluster) moved(from, to upstream.Place) {
	up.px.post(func(now int64) {
		up.place = to
		if to != (upstream.Place{}) {
			up.site(from).left, up.site(to).left = true, false
		}
		up.core.Retire(now, func(sv *session.Server) bool {
			b, ok := sv.Tag.(*backend)
			return ok && b.place == from
		})
		if to != (upstream.Place{}) {
			up.patrol(now) // who got no answer there for long will not get one
		}
	})
}

// arrange makes the treatments and the gate's plan for the workloads of s. A workload that
// is gone keeps its index, and a plan by which whoever still waits is served with what
// others leave.
func (up *cluster) arrange(s *plan.Settings) {
	for i := range up.plan {
		up.plan[i].Share, up.plan[i].Borrow = 0, 1
	}
	up.workloads = up.workloads[:0:0]
	for i := range s.Workloads {
		w := &s.Workloads[i]
		at, known := up.index[w.Name]
		if !known {
			at = uint16(len(up.plan))
			up.index[w.Name] = at
			up.plan, up.names = append(up.plan, admission.Workload{}), append(up.names, w.Name)
		}
		up.plan[at] = admission.Workload{
			MaxWait: int64(w.MaxWait), NoServerWait: max(1, int64(w.NoServerWait)), SessionWait: max(1, int64(w.SessionWait)),
			MaxWaiting: w.MaxWaiting, Patient: w.Patient, Share: w.Share, Lendable: w.Lendable, Borrow: w.Borrow,
			Policy: w.Queue, Mode: w.Guard, MaxPinned: w.MaxPinned,
		}
		for class, wait := range w.ClassWait {
			up.plan[at].ClassWait[class] = int64(wait)
		}
		var t treatment
		for reserved := range t {
			t[reserved] = &session.Workload{
				Index: at, Name: w.Name, Mode: w.Mode, CancelAbandoned: w.CancelAbandoned,
				Reserved: reserved == 1, Minimum: w.MinPoolSize, ServesGone: up.plan[at].Policy.IgnoresGone(),
				Uncapped: w.Uncapped,
				Class:    w.Class, Deadline: int64(w.Deadline), Learn: w.Learn,
				CountsAttempts: w.Queue == admission.Guard && w.Guard == admission.Enforce,
			}
		}
		up.workloads = append(up.workloads, t)
	}
}

// ceilings tells the sessions what roles may ask for.
func (up *cluster) ceilings(s *plan.Settings) {
	if s.RoleOf == nil {
		return
	}
	up.core.Limit(func(role string) session.Role {
		r := s.RoleOf(role)
		to := session.Role{MaxClass: r.MaxClass, PromoteShare: r.PromoteShare, Ceiling: r.Ceiling, Slack: slack}
		for t, d := range r.Timeouts {
			to.Timeouts[t] = int64(d)
		}
		return to
	})
}

// gatePlan is what the gate enforces.
func (up *cluster) gatePlan(u *plan.Upstream) admission.Plan {
	ordinary, reserved := up.seats.count()
	p := admission.Plan{Slots: u.Slots, Connections: max(u.Budget-u.Reserve-ordinary, 1), Workloads: up.plan}
	if len(u.ReserveUsers) > 0 {
		p.Extra = max(u.Reserve-u.Control()-reserved, 0)
	}
	return p
}

func (up *cluster) poolOptions(u *plan.Upstream, s *plan.Settings) pool.Options {
	ordinary, reserved := up.seats.count()
	quotas := up.quotasOf(s)
	return pool.Options{
		Budget: u.Budget - u.Control() - ordinary - reserved, Reserve: u.Reserve - u.Control() - reserved,
		ReservedKey: func(k admission.Key) bool { return up.reserved[k] },
		Quotas: func(k admission.Key) [2]pool.Quota {
			info := up.core.KeyInfo(k)
			return quotas(info.Role, info.Database)
		},
		ConnectParallel: u.ConnectParallel, ConnectRate: u.ConnectRate,
		Lifetime: int64(u.Lifetime), IdleTimeout: int64(u.IdleTimeout), Rand: rand.Float64,
	}
}

// reconfigure puts new settings into force. Loop thread.
func (up *cluster) reconfigure(now int64, u *plan.Upstream, s *plan.Settings) {
	up.o.Store(u)
	up.disowned = false
	up.enlist(u, s)
	up.arrange(s)
	up.ceilings(s)
	clear(up.reserved)
	for _, g := range up.core.Groups() {
		if u.Reserves(g.Role) {
			up.reserved[g.Key.Key] = true
		}
		up.credentials(g, s)
	}
	up.core.Imitate(s.AsPgBouncer)
	up.core.Regroup()
	up.core.Forgive(now)
	up.core.Reconfigure(now, up.gatePlan(u), up.poolOptions(u, s))
	up.core.Retire(now, func(sv *session.Server) bool {
		b, ok := sv.Tag.(*backend)
		return ok && b.outdated(u, s, sv.Info().Role)
	})
	up.core.Treat(func(g *session.Group) *session.Workload {
		i, known := s.Index(g.Workload.Name)
		if !known || !up.houses(s, g.Database, g.Role, g.Key) {
			return nil
		}
		return up.workloads[i][flag(g.Workload.Reserved)]
	})
}

// disown closes what is not in use of an upstream that the configuration has no more.
func (up *cluster) disown(now int64) {
	up.disowned = true
	up.core.Treat(func(*session.Group) *session.Workload { return nil })
	up.core.Reconnect(now, func(*session.KeyInfo) bool { return true })
}

// houses reports whether clients of a role that ask for a database come to the servers of
// that key.
func (up *cluster) houses(s *plan.Settings, database, role string, k *session.KeyInfo) bool {
	db, dbname := s.Route(database)
	return db != nil && db.Upstream == up.name && dbname == k.Database && db.ServerRole(role) == k.Role
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// group finds the group of a client by what it says of itself. Loop thread.
func (up *cluster) group(k *session.KeyInfo, c *clientConn, database, role, application string) *session.Group {
	w := up.workload(c, database, role, application)
	if w.Reserved {
		up.reserved[k.Key] = true
	}
	return up.core.Group(k, database, role, w)
}

// workload finds a client's workload by what it says of itself. Loop thread.
func (up *cluster) workload(c *clientConn, database, role, application string) *session.Workload {
	i := up.px.settings.Load().WorkloadOf(database, role, application, c.ip)
	return up.workloads[i][flag(up.o.Load().Reserves(role))]
}

// Group implements session.Env.
func (up *cluster) Group(cl *session.Client) *session.Group {
	g := cl.Group()
	return up.group(g.Key, cl.Tag.(*clientConn), g.Database, g.Role, cl.Application())
}
