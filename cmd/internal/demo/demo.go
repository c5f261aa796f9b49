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
// is asked for, for those in a hurry, at the least and at the most. Setting up and ending
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
// gone. The error wraps pgtest.ErrNoPostgres if none is installed, ErrBroken if pgweir
// failed what it was to show, and the cause of ctx if that ended before the demonstration;
// with Serve, the end of ctx is no error once the load is over.
func Run(ctx context.Context, o Options) (err error) {
	if o.Seconds < MinSeconds || o.Seconds > MaxSeconds {
		return fmt.Errorf("the load takes %d to %d seconds, not %d", MinSeconds, MaxSeconds, o.Seconds)
	}
	out := &screen{out: o.Out, rewrites: o.Terminal, colors: o.Colors, unicode: o.Unicode}
	st := &stage{program: o.Program, out: out}
	asked := ctx // to end; by the user
	defer func() {
		if asked.Err() != nil {
			out.say("\nEnding pgweir and PostgreSQL ...")
		}
		err = errors.Join(err, st.end())
	}()
	ctx, st.broken = context.WithCancelCause(ctx)
	defer st.broken(nil)
	if err := st.start(ctx); err != nil {
		return cause(ctx, err)
	}
	var results []*result
	if !o.Serve || !o.NoLoad {
		if results, err = compare(ctx, st, time.Duration(o.Seconds)*time.Second); err != nil {
			return cause(ctx, err)
		}
		out.report(results)
	}
	if !o.Serve {
		out.invite()
		return broken(results)
	}
	if err := serve(ctx, st, o.Load); err != nil {
		return cause(ctx, err)
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

// compare sends the same arrivals through each policy in turn. The last one's pgweir stays
// up.
func compare(ctx context.Context, st *stage, length time.Duration) ([]*result, error) {
	list := schedule(length)
	st.out.introduce(list)
	var results []*result
	for i, p := range policies() {
		if err := st.guard(ctx, p); err != nil {
			return nil, err
		}
		st.out.announce(i+1, p)
		r, err := perform(ctx, p, list, st.front.url(database), st.watch, st.out)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// serve leaves everything up until the user ends it, which is no error.
func serve(ctx context.Context, st *stage, load float64) error {
	if st.front == nil {
		if err := st.guard(ctx, policies()[guarded]); err != nil {
			return err
		}
	}
	st.out.serving(st, load)
	if load > 0 {
		if err := keepUp(ctx, load, st.front.url(database), st.watch, st.out); err != nil {
			return err
		}
	}
	<-ctx.Done()
	if st.front.ended() {
		return context.Cause(ctx)
	}
	return nil
}
