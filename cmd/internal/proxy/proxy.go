package proxy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire/relay"
)

// Proxy is one pgweir. Make it with New, run it with Run.
type Proxy struct {
	o    Options
	loop *loop.Loop

	// Owned by the loop thread.
	sessions  sessions
	upstreams map[string]*upstream
	drained   chan struct{}
	ended     chan struct{} // closed when the loop has ended
	draining  bool

	logins  chan struct{} // places for connections that have not authenticated
	clients atomic.Int64  // sessions and logins that have a place among MaxClients
	cpu     chan struct{} // places for CPU-heavy login work
	work    sync.WaitGroup
	spare   *spares
}

// upstream is one cluster with its sessions. It is the Env of its core.
type upstream struct {
	px   *Proxy
	name string
	o    Upstream
	core *session.Core
}

// New makes a proxy. It owns the listeners from here on.
func New(o Options) (*Proxy, error) {
	px := &Proxy{
		o: o, upstreams: make(map[string]*upstream), drained: make(chan struct{}), ended: make(chan struct{}),
		logins: make(chan struct{}, o.MaxLogins), cpu: make(chan struct{}, loginWorkers()),
	}
	l, err := loop.New(loop.Options{Timer: px.fire, EndOfTurn: px.endOfTurn})
	if err != nil {
		return nil, fmt.Errorf("event loop: %w", err)
	}
	px.loop = l
	shared := &relay.Shared{Statements: relay.NewStatements(o.StatementMemory), MaxPrepared: o.MaxPrepared, TextLimit: o.TextLimit}
	for name, u := range o.Upstreams {
		up := &upstream{px: px, name: name, o: u}
		set := pool.New(pool.Options{
			Budget: u.Budget, ConnectParallel: u.ConnectParallel, ConnectRate: u.ConnectRate,
			Lifetime: int64(u.Lifetime), IdleTimeout: int64(u.IdleTimeout), Rand: rand.Float64,
		})
		gate := admission.New(admission.Plan{
			Slots: u.Slots, Workloads: []admission.Workload{{
				MaxWait: int64(o.Workload.MaxWait), MaxWaiting: o.Workload.MaxWaiting,
				NoServerWait: max(1, int64(o.Workload.NoServerWait)),
			}},
		}, set, rand.Float64)
		up.core = session.New(up, shared, gate, set, session.Options{
			CancelAbandoned: o.Workload.CancelAbandoned, DetailPool: o.Workload.Name,
		})
		px.upstreams[name] = up
	}
	return px, nil
}

// Run serves until ctx ends, then drains: it goes on serving for DrainDelay,
// lets transactions end for ShutdownTimeout and closes what is left.
func (px *Proxy) Run(ctx context.Context) error {
	px.spare = newSpares()
	defer px.spare.close()
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
	select {
	case err := <-failed:
		stop()
		px.closeListeners()
		px.work.Wait()
		return errors.Join(errors.New("event loop ended"), err)
	case <-ctx.Done():
	}
	px.drain(stop)
	px.loop.Stop()
	err := <-failed
	px.work.Wait()
	return err
}

// drain ends what can be ended in peace.
func (px *Proxy) drain(stopAccepting func()) {
	px.o.Log.Info("draining", "serving_for", px.o.DrainDelay, "then_at_most", px.o.ShutdownTimeout)
	wait(px.o.DrainDelay)
	stopAccepting()
	px.closeListeners()
	px.post(func(now int64) {
		px.draining = true
		for _, up := range px.upstreams {
			up.core.Drain(now, func(yield func(*session.Client)) { px.sessions.each(up.core, yield) })
		}
		px.checkDrained()
	})
	t := time.NewTimer(px.o.ShutdownTimeout)
	defer t.Stop()
	select {
	case <-px.drained:
		px.o.Log.Info("drained")
	case <-t.C:
		px.o.Log.Warn("shutdown timeout: closing sessions that are still in a transaction", "sessions", px.clients.Load())
	}
}

func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// checkDrained ends the drain when no session is left. Loop thread.
func (px *Proxy) checkDrained() {
	if !px.draining {
		return
	}
	for _, up := range px.upstreams {
		if up.core.Clients() > 0 {
			return
		}
	}
	select {
	case <-px.drained:
	default:
		close(px.drained)
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

// fire runs what is due. Loop thread.
func (px *Proxy) fire(now int64) (next int64) {
	next = math.MaxInt64
	for _, up := range px.upstreams {
		next = min(next, up.core.Fire(now))
	}
	return next
}

// endOfTurn plans the next fire if a core's plans changed. Loop thread.
func (px *Proxy) endOfTurn(now int64) {
	for _, up := range px.upstreams {
		if up.core.TimerChanged() {
			px.loop.WakeAt(up.core.Fire(now))
			up.core.TimerChanged()
		}
		if up.core.TimerLazy() {
			px.loop.WakeAt(now + session.Lazy)
		}
	}
}
