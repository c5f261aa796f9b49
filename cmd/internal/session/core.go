package session

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/costlimit"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// Core runs all sessions over one upstream. Owned by the loop thread.
type Core struct {
	env    Env
	shared *relay.Shared
	gate   *admission.Gate
	set    *pool.Set

	keys    []*KeyInfo
	byKey   map[keyName]*KeyInfo
	groups  []*Group
	byGroup map[groupName]*Group
	paused  Pauses
	// generation is that of the configuration by which clients were grouped.
	generation uint32

	clients  int
	opened   bool // a client has come
	draining bool
	imitates bool // PgBouncer, in what it says to who is refused
	counts   Counts
	rates    *Rates // nil = there are none
	parked   parked // whose refusals by a rate are held back
	looks    looks  // servers with work that is to be stopped, now or at its deadline
	nextLook int64  // when Fire was told that the next one is due

	caps    caps  // servers whose work is of a role with a ceiling,
	nextCap int64 // and when Fire was told that the next one is due

	names      *names
	limits     func(role string) Role
	traces     traces
	patience   map[patienceKey]*patience
	costs      *costlimit.Estimator
	shapes     shapes
	asked      uint32 // requests, modulo
	metaCounts MetaCounts

	plan       relay.Plan
	now        int64 // of the client that is read
	verdicts   []admission.Verdict
	delivering bool
	actions    []pool.Action
	lazy       bool // a server came back: what is due for it is not due soon
	timer      bool // something changed that Fire's next time depends on
}

// Counts are totals since the start.
type Counts struct {
	Transactions uint64 // servers handed back at a boundary
	Refused      uint64 // requests refused
	Cancels      uint64 // CancelRequests sent to servers
	Abandoned    uint64 // clients that left while a server worked for them
	// Of the requests for which cancels were sent: those that failed by them, and those that
	// were over before.
	CancelsEffective, CancelsLate uint64
	Wasted                        uint64        // requests that servers went on with for nobody
	WastedTime                    time.Duration // how long they did
	Broken                        uint64        // servers closed because they were in doubt
	Cleaned                       uint64        // servers cleaned before they went back
	Replanned                     uint64        // batches sent again because a prepared statement was out of date
}

// KeyInfo is one (database, role) on the upstream.
type KeyInfo struct {
	Key            admission.Key
	Database, Role string
	// Target is what Env.Dial needs to log in; opaque here.
	Target any
	// LogInAgain: what clients have proved lets nobody in at the server any more. Who finds
	// no server is sent away to prove something else. Owned by the Env.
	LogInAgain bool

	group    uint32               // unique among all keys of the process
	joining  map[uint64][]*Client // logins that wait for another one with settings of the same meaning
	welcomes map[uint64]*greeting // by the meaning of the settings
	status   []relay.Param        // what the last login was told
	failure  *wire.Error          // why the last login failed; nil after one that did not
	failedAt int64
	minimum  int // servers kept open
}

// learn forgets the welcomes when a server's own settings have changed: after
// an upgrade, a failover or ALTER ROLE ... SET.
func (k *KeyInfo) learn(status []relay.Param) {
	if !slices.Equal(k.status, status) {
		clear(k.welcomes)
		k.status = status
	}
}

// greeting is what a client is told at the end of its login.
type greeting struct {
	status []relay.Param // ParameterStatus
	facts  *relay.Facts  // of the server that has reported it
}

type keyName struct{ database, role string }

// maxWelcomes bounds the settings for which a role's welcome is remembered.
const maxWelcomes = 256

// New returns a Core without clients.
func New(env Env, shared *relay.Shared, gate *admission.Gate, set *pool.Set) *Core {
	return &Core{
		env: env, shared: shared, gate: gate, set: set, byKey: make(map[keyName]*KeyInfo), byGroup: make(map[groupName]*Group), nextLook: math.MaxInt64, nextCap: math.MaxInt64,
		names: newNames(), traces: newTraces(), costs: costlimit.New(0),
	}
}

// Key returns the dense key of a database and role, new if it is not known.
func (co *Core) Key(database, role string) *KeyInfo {
	n := keyName{database, role}
	k := co.byKey[n]
	if k == nil {
		k = &KeyInfo{
			Key: admission.Key(len(co.keys)), Database: database, Role: role,
			group: co.shared.NewGroup(), welcomes: make(map[uint64]*greeting), joining: make(map[uint64][]*Client),
		}
		co.keys = append(co.keys, k)
		co.byKey[n] = k
		if co.paused.Covers(database) {
			co.gate.Pause(0, []admission.Key{k.Key})
		}
	}
	return k
}

// FindKey returns the key of a database and role, or nil if it is not known.
func (co *Core) FindKey(database, role string) *KeyInfo { return co.byKey[keyName{database, role}] }

// Failure returns why the last login failed and when; nil after one that did not.
func (k *KeyInfo) Failure() (*wire.Error, int64) { return k.failure, k.failedAt }

// Keys returns all keys that were ever asked for. The caller must not change the list.
func (co *Core) Keys() []*KeyInfo { return co.keys }

// KeyInfo returns what is known of a server's key.
func (co *Core) KeyInfo(k admission.Key) *KeyInfo { return co.keys[k] }

// Gate returns the gate.
func (co *Core) Gate() *admission.Gate { return co.gate }

// Set returns the set of server connections.
func (co *Core) Set() *pool.Set { return co.set }

// Counts returns the totals.
func (co *Core) Counts() Counts {
	c := co.counts
	for _, g := range co.groups {
		c.Replanned += g.Counts.Replanned
	}
	return c
}

// Clients returns the number of sessions.
func (co *Core) Clients() int { return co.clients }

// Shared returns what all sessions have in common.
func (co *Core) Shared() *relay.Shared { return co.shared }

// TimerChanged reports, once, whether Fire must be asked again for its next
// time.
func (co *Core) TimerChanged() bool {
	t := co.timer
	co.timer = false
	return t
}

// Lazy is how late, in ns, Fire may notice that a server came back.
const Lazy = 1e9

// TimerLazy reports, once, whether Fire must be called within Lazy.
func (co *Core) TimerLazy() bool {
	t := co.lazy
	co.lazy = false
	return t
}

// Fire does what is due and returns when it must be called next.
func (co *Core) Fire(now int64) (next int64) {
	for acted := true; acted; { // what was opened or closed may change what is due, and whose clocks stand still
		next = co.set.Fire(now)
		n, out := co.gate.Fire(now, co.verdicts)
		co.deliver(now, out)
		next = min(next, n, co.fireLooks(now), co.fireCaps(now), co.fireParked(now))
		acted = co.act(now)
	}
	co.timer = false
	return next
}

// Drain lets nothing new in and ends idle sessions; those in a transaction end
// with it, also where it has begun for the client only and still needs a server.
func (co *Core) Drain(now int64, idle func(yield func(*Client))) {
	co.draining = true
	co.deliver(now, co.gate.Drain(now, co.verdicts))
	co.timer = true // for those who have not been told yet
	idle(func(cl *Client) {
		if cl.idle() {
			co.endDraining(cl, now)
		}
	})
	co.act(now)
}

var draining = Say("draining")

func (co *Core) endDraining(cl *Client, now int64) { co.fatal(cl, draining, Draining, now) }

// deliver tells waiters what was decided: out is co.verdicts with more appended.
// A delivery may decide more, which the call that is under way takes along.
func (co *Core) deliver(now int64, out []admission.Verdict) {
	co.verdicts = out
	if co.delivering {
		return
	}
	co.delivering = true
	for i := 0; i < len(co.verdicts); i++ {
		v := co.verdicts[i]
		cl := v.W.Owner.(*Client)
		switch v.Outcome {
		case admission.Granted:
			cl.granted(v, now)
		case admission.Refused:
			cl.refused(v, now)
		}
	}
	clear(co.verdicts)
	co.verdicts = co.verdicts[:0]
	co.delivering = false
}

// act does what the set of servers has decided, and reports whether there was anything.
func (co *Core) act(now int64) (acted bool) {
	co.actions = co.set.Actions(co.actions[:0])
	for _, a := range co.actions {
		co.timer = true
		switch a.Kind {
		case pool.Dial:
			sv := &Server{core: co, pool: a.Server, info: co.keys[a.Server.Key]}
			a.Server.Payload = sv
			co.env.Dial(sv)
		case pool.Close:
			a.Server.Payload.(*Server).shut(now)
		}
	}
	acted = len(co.actions) > 0
	clear(co.actions)
	return acted
}

// Check verifies that nothing is lost at a moment when nothing runs: permits
// and connections add up, and no client waits or holds a server without cause.
func (co *Core) Check() error {
	if err := co.set.Check(); err != nil {
		return err
	}
	for _, p := range co.set.Servers(nil) {
		if sv, ok := p.Payload.(*Server); ok && sv.link != nil {
			if err := sv.check(); err != nil {
				return fmt.Errorf("%w: %s", err, sv)
			}
		}
	}
	for i, cl := range co.parked {
		if cl.ended || cl.meter.place != i+1 || cl.stops&stopParked == 0 || cl.server != nil || cl.wait.Waiting() {
			return fmt.Errorf("a refusal is held back wrongly: %s", cl)
		}
	}
	return co.gate.Check()
}

// check verifies that a server and whoever has or keeps it agree.
func (sv *Server) check() error {
	cl, own := sv.client, sv.keeper
	switch {
	case cl != nil && cl.server != sv || own != nil && own.kept != sv || own != nil && cl != nil && own != cl:
		return errors.New("a client does not know its server")
	case own != nil && (cl == nil && own.link.Mode() != relay.Session && own.link.Pinned() == 0 || !sv.hold.held):
		return errors.New("a server is kept without a reason")
	case sv.pool.State() == pool.Idle && (cl != nil || own != nil || sv.ticket.held || sv.hold.held || sv.link.Dirty()):
		return errors.New("an idle server is not free")
	}
	return nil
}

// internalError is what a client is told when pgweir has failed at its request.
var internalError = Say("internal")

// Panicked ends what a panic has left in an unknown state: the client, the
// server or both. The other sessions go on.
func (co *Core) Panicked(cl *Client, sv *Server, now int64) {
	co.delivering = false
	co.plan = relay.Plan{}
	if sv == nil && cl != nil && !cl.pending {
		sv = cl.server
	}
	if sv == nil && cl != nil {
		sv = cl.kept
	}
	if sv != nil && sv.client != nil {
		cl = sv.client
	} else if sv != nil && sv.keeper != nil {
		cl = sv.keeper
	}
	if cl != nil {
		cl.server = nil // not to be brought back to a boundary: it is closed
		cl.unkeep()
		co.fatal(cl, internalError, Internal, now)
	}
	if sv != nil {
		sv.client = nil
		sv.broken(Internal, now)
	}
	co.act(now)
}
