package console

import (
	"context"
	"log/slog"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/wire"
)

// Guard is the running pgweir that a console shows and controls.
type Guard interface {
	state.Inspector
	control.Control
	control.Configurator
}

// Options are the plain values of a console. The zero value is useful.
type Options struct {
	Version      string        // as SHOW VERSION tells it after "pgweir "; default "unknown"
	Log          *slog.Logger  // gets one line for each command that changes something; nil = none
	StatsPeriod  time.Duration // what avg_ columns look back on, at least; default 60 s, as in PgBouncer
	WriteTimeout time.Duration // how long the peer may take nothing of what is sent; default 30 s
}

// Console answers administrators. It is made by [New] and may serve many at once.
type Console struct {
	guard Guard
	o     Options
	views map[string]*view
	names []string // of the views, for suggestions
	past  history
}

// New returns a console for a guard.
func New(g Guard, o Options) *Console {
	if o.Version == "" {
		o.Version = "unknown"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.StatsPeriod <= 0 {
		o.StatsPeriod = time.Minute
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 30 * time.Second
	}
	c := &Console{guard: g, o: o, views: make(map[string]*view)}
	for _, v := range allViews() {
		c.views[v.name] = &v
		c.names = append(c.names, v.name)
	}
	return c
}

// Run keeps the samples that the avg_ columns compare with, until ctx ends. Without it they
// are averages since the start.
func (c *Console) Run(ctx context.Context) {
	t := time.NewTicker(c.o.StatsPeriod)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if now, err := c.snapshot(ctx); err == nil {
				c.past.add(now)
			}
		}
	}
}

// answerTime is how long the guard may take for a snapshot.
const answerTime = 10 * time.Second

// snapshot asks the guard for its state.
func (c *Console) snapshot(ctx context.Context) (*state.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return c.guard.Snapshot(ctx)
}

// Who is an administrator that has authenticated.
type Who struct {
	User     string
	Database string // as asked for; "pgbouncer" gets PgBouncer's columns only
	Admin    bool   // may change things; otherwise only SHOW
	Addr     string // for the log
	Key      wire.CancelKey
	Params   []wire.Param // of the startup packet
	// Cancel gets a value for each cancel request with Key; nil = there are none. A
	// buffer of one lets the sender never wait.
	Cancel <-chan struct{}
}

// strict reports whether only PgBouncer's columns are wanted.
func (w *Who) strict() bool { return w.Database == "pgbouncer" }
