package upstream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
)

// maxKnown bounds how many addresses are remembered: names may resolve to ever
// new ones.
const maxKnown = 256

// Cluster is one Postgres cluster. Its methods may be called from any goroutine,
// never from a loop: they block.
type Cluster struct {
	options atomic.Pointer[Options]

	mu         sync.Mutex
	known      map[string]*health // by address, and by host:port of names
	current    Place              // zero: nothing has served yet, or what did is no longer wanted
	generation uint64             // of current, from 1; 0: nothing has served yet
	moves      []move             // not told yet, in order
	telling    bool               // somebody is at it
}

// move is a change of the current place.
type move struct{ from, to Place }

// Session is a connection on which a log-in is complete: Conn has no deadline, and
// the server waits for its first query.
type Session struct {
	*login.Server
	Where Place

	// Generation is the one of [Cluster.Current] to which this session belongs. A
	// session of an older one was made by a place that no longer serves.
	Generation uint64

	// Encryption is how it was to be encrypted, which a Reconfigure may have changed since.
	Encryption login.Encryption
}

// New makes a cluster. It does not connect.
func New(o Options) *Cluster {
	c := &Cluster{known: make(map[string]*health)}
	c.options.Store(o.completed())
	return c
}

// Reconfigure replaces the options for all dials that begin from now on, and for those under
// way that would fail; it does not block. If the place that serves is not among the hosts any
// more, or other attributes are asked for, it is current no longer and the generation ends:
// that is done by the function returned, which has to be called.
func (c *Cluster) Reconfigure(o Options) (settle func()) {
	next := o.completed()
	old := c.options.Swap(next)
	return func() {
		c.mu.Lock()
		clear(c.known)
		if c.current != (Place{}) && (old.Attrs != next.Attrs || !slices.Contains(next.Hosts, c.current.Host)) {
			c.moveLocked(Place{})
		}
		c.mu.Unlock()
		c.tell(next)
	}
}

// outdated reports whether options have been replaced.
func (c *Cluster) outdated(o *Options) bool { return c.options.Load() != o }

// Current returns the host that served last and the generation, which changes with
// it. The generation is 0 until a host has served; the host is zero then, and after
// a Reconfigure until the next Dial.
func (c *Cluster) Current() (Host, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Host, c.generation
}

// Cancel sends a CancelRequest to the very address that a server was dialled at,
// with the same socket options, and returns when the server has dealt with it. All
// is bounded by ctx. No error does not mean that anything was cancelled. What was
// encrypted was the key too: then the request goes out encrypted or not at all.
func (c *Cluster) Cancel(ctx context.Context, where Place, encrypted bool, pid uint32, secret []byte) error {
	err := c.options.Load().cancel(ctx, where, encrypted, pid, secret)
	if err != nil {
		return &HostError{where, err}
	}
	return nil
}

// moveLocked makes a place the current one.
func (c *Cluster) moveLocked(to Place) {
	from := c.current
	c.current = to
	c.generation++
	if from != (Place{}) {
		c.moves = append(c.moves, move{from, to})
	}
}

// tell tells the moves, unless somebody is at it already.
func (c *Cluster) tell(o *Options) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.telling {
		return
	}
	c.telling = true
	for len(c.moves) > 0 {
		m := c.moves[0]
		c.moves = c.moves[1:]
		c.mu.Unlock()
		o.Log.Info("upstream moved", "upstream", o.Name, "from", m.from.String(), "to", m.to.String())
		if o.Moved != nil {
			o.Moved(m.from, m.to)
		}
		c.mu.Lock()
	}
	c.telling = false
}

// healthLocked returns what is known of an address, to be changed.
func (c *Cluster) healthLocked(key string) *health {
	h := c.known[key]
	if h != nil {
		return h
	}
	if len(c.known) >= maxKnown {
		now := time.Now()
		for key, h := range c.known {
			if h.stale(now) || len(c.known) >= 2*maxKnown {
				delete(c.known, key)
			}
		}
	}
	h = &health{}
	c.known[key] = h
	return h
}

// begin notes that a candidate is tried. It reports false, and notes nothing, for
// one that failed and that somebody else is trying already, unless it has to be.
func (c *Cluster) begin(k *candidate, must bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.generation = c.generation
	h := c.known[k.key]
	if h == nil || h.failures == 0 {
		return true
	}
	if h.probed {
		return must
	}
	h.probed, k.probe = true, true
	return true
}

// end takes back that a candidate is tried.
func (c *Cluster) end(k *candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.known[k.key]; h != nil && k.probe {
		h.probed = false
	}
}

// failed notes that a candidate did not answer as a server does. What it did by options of
// before says nothing.
func (c *Cluster) failed(o *Options, k *candidate, err error) {
	c.mu.Lock()
	if c.outdated(o) {
		c.mu.Unlock()
		return
	}
	h := c.healthLocked(k.key)
	first := h.failures == 0
	h.fail(err, time.Now())
	c.mu.Unlock()
	if first && len(o.Hosts) > 1 {
		o.Log.Warn("host of upstream does not answer", "upstream", o.Name, "host", k.place.String(), "error", reason(err))
	}
}

// answered notes that a candidate did.
func (c *Cluster) answered(o *Options, k *candidate, known, standby bool) {
	c.mu.Lock()
	h := c.healthLocked(k.key)
	again := h.failures > 0
	h.answer(known, standby, time.Now())
	c.mu.Unlock()
	if again && len(o.Hosts) > 1 {
		o.Log.Info("host of upstream answers again", "upstream", o.Name, "host", k.place.String())
	}
}

// serves makes the place of a session the current one, if that has not been decided
// since its dial began, and returns the session's generation.
func (c *Cluster) serves(o *Options, k *candidate) uint64 {
	c.mu.Lock()
	switch {
	case c.current == k.place:
		k.generation = c.generation
	case k.generation != c.generation:
		// The cluster has moved meanwhile. Who came from there now would move it back.
	case c.current.Host == k.place.Host && !c.deserted(o, c.current):
		// Another address of a name whose addresses take turns.
		c.current = k.place
	default:
		c.moveLocked(k.place)
		k.generation = c.generation
	}
	c.mu.Unlock()
	c.tell(o)
	return k.generation
}

// isCurrent reports whether a place is the one that serves.
func (c *Cluster) isCurrent(p Place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current == p
}

// deserted reports whether an address is known not to serve. c.mu is held.
func (c *Cluster) deserted(o *Options, p Place) bool {
	h := c.known[p.Address]
	return h != nil && (h.failures > 0 || h.rank(o.Attrs, time.Now()) == excluded)
}

// String returns the cluster's name and hosts.
func (c *Cluster) String() string {
	o := c.options.Load()
	return fmt.Sprintf("%s %v", o.Name, o.Hosts)
}
