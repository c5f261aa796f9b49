package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/door"
	"github.com/pgweir/pgweir/cmd/internal/journal"
	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/login/hba"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire/relay"
)

// Proxy is one pgweir. Make it with New, run it with Run.
type Proxy struct {
	o        Options
	settings atomic.Pointer[plan.Settings]
	loop     *loop.Loop
	shared   *relay.Shared
	started  time.Time

	// Owned by the loop thread.
	sessions sessions
	drained  chan struct{}
	ended    chan struct{} // closed when the loop has ended
	ending   bool          // nothing new is let in
	watchers []*watcher
	refusals journal.Refusals
	rates    *session.Rates
	crowd    crowd
	replicas replicas
	failures journal.Sampler[string] // logins to servers
	stopped  journal.Sampler[stoppedKind]
	blocks   journal.Sampler[bool] // who is blocked; true = again and again
	endings  [session.Reasons]uint64
	sweptAt  int64
	lastID   uint64
	paused   bool // everything, also upstreams that a reload brings

	maxGroups int // of an upstream

	mu        sync.Mutex
	upstreams map[string]*cluster // grows only

	draining atomic.Bool   // said to load balancers
	logins   chan struct{} // places for connections that have not authenticated
	clients  atomic.Int64  // sessions, consoles and logins that have a place among MaxClients
	cpu      chan struct{} // places for CPU-heavy login work
	tlsCount login.TLSCount
	work     sync.WaitGroup
	spare    *door.Spares
	disabled names
	blocked  door.BlockList
	throttle door.Throttle
	ruleHits hba.Hits
	held     door.Held // whose refusals as blocked are held back
	consoles consoles
	turned   journal.Turned
	stop     chan control.Shutdown
	life     context.Context // of what the proxy does with servers on goroutines
	die      context.CancelFunc
}

// New makes a proxy. It owns the listeners from here on.
func New(o Options) (*Proxy, error) {
	px := &Proxy{
		o: o, upstreams: make(map[string]*cluster), drained: make(chan struct{}), ended: make(chan struct{}),
		logins: make(chan struct{}, o.MaxLogins), cpu: make(chan struct{}, loginWorkers()),
		stop: make(chan control.Shutdown, 16), started: time.Now(), maxGroups: maxGroups,
		crowd: newCrowd(),
	}
	px.life, px.die = context.WithCancel(context.Background())
	px.sessions.process = o.Process << processShift
	l, err := loop.New(loop.Options{Timer: px.fire, EndOfTurn: px.endOfTurn, NoRing: o.NoRing, RingLost: px.noRing})
	if err != nil {
		px.die()
		return nil, fmt.Errorf("event loop: %w", err)
	}
	px.loop = l
	if err := l.Ring(); err != nil && !o.NoRing {
		px.noRing(err)
	}
	s := o.Settings
	px.prepare(s)
	px.settings.Store(s)
	px.rates = session.NewRates(px.block)
	px.shared = &relay.Shared{Statements: relay.NewStatements(o.StatementMemory), MaxPrepared: s.MaxPrepared, TextLimit: o.TextLimit}
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		px.upstreams[u.Name] = newCluster(px, u, s, px.shared)
	}
	px.limit(0, s)
	return px, nil
}

// noRing tells why sends do not go to the kernel together.
func (px *Proxy) noRing(why error) {
	px.o.Log.Info("no io_uring, so each send is a system call of its own; nothing else changes", "reason", why)
}

// prepare makes settings ready to be put into force.
func (px *Proxy) prepare(s *plan.Settings) {
	s.Prepare()
	if s.Auth.Book != nil {
		s.Auth.Book.Attach(px.o.Log)
	}
	if s.TLS != nil {
		s.TLS.Attach(px.cpu, &px.tlsCount, px.o.Log, bridged)
	}
}

// upstream returns the upstream of a name. It exists for every name in the settings.
func (px *Proxy) upstream(name string) *cluster {
	px.mu.Lock()
	defer px.mu.Unlock()
	return px.upstreams[name]
}

// Run serves until Shutdown, or until ctx ends, which is Shutdown(Drain).
func (px *Proxy) Run(ctx context.Context) error {
	px.spare = door.NewSpares()
	defer px.spare.Close()
	accepting, stop := context.WithCancel(context.Background())
	defer stop()
	for _, ln := range px.o.Listeners {
		px.work.Go(func() { px.accept(accepting, ln) })
	}
	failed := make(chan error, 1)
	go func() {
		defer close(px.ended)
		failed <- px.loop.Run()
	}()
	how := control.Drain
	select {
	case err := <-failed:
		stop()
		px.die()
		px.closeListeners()
		px.consoles.end()
		px.held.End()
		px.endOwn()
		px.work.Wait()
		return errors.Join(errors.New("event loop ended"), err)
	case <-ctx.Done():
	case how = <-px.stop:
	}
	px.shutdown(how, stop)
	px.loop.Stop()
	err := <-failed
	px.die() // nobody waits for a login any more
	px.consoles.end()
	px.held.End()
	px.endOwn()
	px.work.Wait()
	return err
}

// endOwn ends the connections of pgweir's own queries.
func (px *Proxy) endOwn() {
	px.mu.Lock()
	list := slices.Collect(maps.Values(px.upstreams))
	px.mu.Unlock()
	for _, up := range list {
		px.work.Go(up.own.end)
	}
}

func (px *Proxy) closeListeners() {
	for _, ln := range px.o.Listeners {
		_ = ln.Close() // nothing is lost with it
	}
}

// Addrs returns the addresses that the proxy listens on.
func (px *Proxy) Addrs() []net.Addr {
	list := make([]net.Addr, 0, len(px.o.Listeners))
	for _, ln := range px.o.Listeners {
		list = append(list, ln.Addr())
	}
	return list
}

// Stats are the event loop's counters.
func (px *Proxy) Stats() loop.Stats { return px.loop.Stats() }

// post runs f on the loop thread.
func (px *Proxy) post(f func(now int64)) { px.loop.Post(&loop.Task{Run: f}) }

// do runs f on the loop thread and waits for its end. Where it returns an error, f has not
// run and never will.
func (px *Proxy) do(ctx context.Context, f func(now int64)) error {
	var taken atomic.Bool // by f, or by whoever has given up
	done := make(chan struct{})
	px.post(func(now int64) {
		if taken.CompareAndSwap(false, true) {
			defer close(done)
			f(now)
		}
	})
	err := control.ErrEnded
	select {
	case <-done:
		return nil
	case <-px.ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if taken.CompareAndSwap(false, true) {
		return err
	}
	<-done // it runs, or has just ended
	return nil
}
