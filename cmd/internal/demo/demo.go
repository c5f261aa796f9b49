package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// How long the load takes, in seconds through each of the two policies: when nothing else
// is asked for, for those in a hurry, at the least and at the moth. Setting up and ending
// take a few seconds more.
const (
	DefaultSeconds = 15
	ShortSeconds   = 5
	MinSeconds     = 4 // less is no time for a queue to grow
	MaxSeconds     = 3600
)

// ErrBroken says that pgweir did not keep a promise which it keeps under any load: its
// budget, its clients' sessions, and an answer that is the server's or says why not.
var ErrBroken = errors.New("pgweir broke a promise; this is a bug, please report it with the output above")

// Options say what to run and where to show it.
type Options struct {
	Program string  // a pgweir executable, run as `Program serve FILE`
	Seconds int     // of load through each of the two, MinSeconds to MaxSeconds
	Serve   bool    // keep PostgreSQL and the guarded pgweir up after the load, until ctx ends
	NoLoad  bool    // with Serve: there is no load before that
	Load    float64 // with Serve: the load that is kept up, as a multiple of capacity; 0: none

	Out      io.Writer // where everything is told
	Terminal bool      // Out is a terminal: the second that is passing is shown
	Colors   bool      // Out understands the terminal's codes for colors
	Unicode  bool      // Out shows UTF-8
}

// ParseLoad reads a multiple of capacity: "2x" or "0.6".
func ParseLoad(text string) (float64, error) {
	load, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(load >= minLoad && load <= maxLoad) {
		return 0, fmt.Errorf("%q is no multiple of capacity from %gx to %gx", text, minLoad, maxLoad)
	}
	return load, nil
}

// Run runs the demonstration. It returns after all servers have ended and their files are
// gone. The error wraps pgteth.ErrNoPostgres if none is installed, ErrBroken if pgweir
// failed what it was to show, and the cause of ctx if that ended before the demonstration;
// with Serve, the end of ctx is no error once the load is over.
func Run(ctx context.Context, o Options) (err error) {
	if o.Seconds < MinSeconds || o.Seconds > MaxSeconds {
		return fmt.Errorf("the load takes %d to %d seconds, not %d", MinSeconds, MaxSeconds, o.Seconds)
	}
	out := newScreen(o.Out, o)
	th := &theatre{program: o.Program, out: out}
	asked := ctx // to end; by the user
	defer func() {
		if asked.Err() != nil {
			out.Say("\nEnding pgweir and PostgreSQL ...")
		}
		err = errors.Join(err, th.end(err))
	}()
	ctx, th.broken = context.WithCancelCause(ctx)
	defer th.broken(nil)
	if err := th.start(ctx); err != nil {
		return th.cause(ctx, err)
	}
	var results []*result
	if !o.Serve || !o.NoLoad {
		if results, err = compare(ctx, th, time.Duration(o.Seconds)*time.Second); err != nil {
			return th.cause(ctx, err)
		}
		out.report(results)
	}
	if !o.Serve {
		out.invite()
		return broken(results)
	}
	if err := serve(ctx, th, o.Load); err != nil {
		return th.cause(ctx, err)
	}
	return broken(results)
}

// dying is how long the end of a process may come after that of its connections.
const dying = time.Second

// cause is why ctx ended, if it did: whatever failed then failed because of that. A pgweir that
// is killed resets its clients before its end is seen, so that is waited for.
func (th *theatre) cause(ctx context.Context, err error) error {
	if th.front != nil {
		select {
		case <-ctx.Done():
		case <-time.After(dying):
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// compare sends the same arrivals through each policy in turn. The last one's pgweir stays
// up.
func compare(ctx context.Context, th *theatre, length time.Duration) ([]*result, error) {
	list := schedule(length)
	th.out.introduce(list)
	var results []*result
	for i, p := range policies() {
		if err := th.guard(ctx, p); err != nil {
			return nil, err
		}
		th.out.announce(i+1, p)
		r, err := perform(ctx, th, p, list)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// serve leaves everything up until the user ends it, which is no error.
func serve(ctx context.Context, th *theatre, load float64) error {
	if th.front == nil {
		if err := th.guard(ctx, policies()[guarded]); err != nil {
			return err
		}
	}
	th.out.serving(th, load)
	if load > 0 {
		if err := keepUp(ctx, th, load); err != nil {
			return err
		}
	}
	<-ctx.Done()
	if th.front.Process().Ended() != nil {
		return context.Cause(ctx)
	}
	return nil
}
