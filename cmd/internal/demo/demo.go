package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// DefaultSeconds is how long the load takes when nothing else is asked for. Setting up and
// ending take a few seconds more.
const DefaultSeconds = 12

// The least and the most that Options.Seconds may be.
const (
	MinSeconds = 2
	MaxSeconds = 3600
)

// ErrBroken says that pgweir did not keep a promise which it keeps under any load: its
// budget, its clients' sessions, refusals that say why, and transactions that are done in
// full or not at all.
var ErrBroken = errors.New("pgweir broke a promise; this is a bug, please report it with the output above")

// Options say what to run and where to show it.
type Options struct {
	Program  string    // a pgweir executable, run as `Program serve FILE`
	Seconds  int       // of load over all phases, MinSeconds to MaxSeconds
	Serve    bool      // keep both servers up after the load, until ctx ends
	Out      io.Writer // where everything is told
	Terminal bool      // Out is a terminal: progress rewrites its line
}

// Run runs the demonstration. It returns after both servers have ended and their files are
// gone. The error wraps pgtest.ErrNoPostgres if none is installed, ErrBroken if pgweir
// failed what it was to show, and the cause of ctx if that ended before the demonstration;
// with Serve, the end of ctx is no error once the load is over.
func Run(ctx context.Context, o Options) (err error) {
	if o.Seconds < MinSeconds || o.Seconds > MaxSeconds {
		return fmt.Errorf("the load takes %d to %d seconds, not %d", MinSeconds, MaxSeconds, o.Seconds)
	}
	out := &screen{out: o.Out, rewrites: o.Terminal}
	st := &stage{}
	asked := ctx // to end; by the user
	defer func() {
		if asked.Err() != nil {
			out.say("\nEnding pgweir and PostgreSQL ...")
		}
		err = errors.Join(err, st.end())
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := st.start(ctx, cancel, o.Program, out); err != nil {
		return cause(ctx, err)
	}
	results, err := play(ctx, st, phases(), time.Duration(o.Seconds)*time.Second, out)
	if err != nil {
		return cause(ctx, err)
	}
	out.report(results)
	if !o.Serve {
		out.invite()
		return broken(results)
	}
	out.serving(st)
	<-ctx.Done()
	if st.front.ended() {
		return context.Cause(ctx)
	}
	return broken(results)
}

// cause is why ctx ended, if it did: whatever failed then failed because of that.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// play runs the phases one after the other with the same clients.
func play(ctx context.Context, st *stage, list []phase, length time.Duration, out *screen) ([]*result, error) {
	out.say("%d clients connect through pgweir ...", clients)
	crowd, err := newCrowd(ctx, st.front.url())
	if err != nil {
		return nil, err
	}
	defer crowd.close()

	watch := watchServers(ctx, st.admin)
	defer watch.stop()
	shares := 0
	for _, p := range list {
		shares += p.share
	}
	var results []*result
	for _, p := range list {
		out.say("\n%s: %s", p.name, p.about)
		r := perform(ctx, p, length*time.Duration(p.share)/time.Duration(shares), crowd, watch, out)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		results = append(results, r)
	}
	if err := watch.stop(); err != nil {
		return nil, fmt.Errorf("counting the server connections: %w", err)
	}
	return results, st.audit(ctx, results)
}
