package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// Options are how scenarios are run.
type Options struct {
	Program   string         // a pgweir executable
	PeersRoot string         // see [stage.Options]
	Against   []stage.Target // none: what the scenario says
	Scale     float64        // makes the run longer or shorter; 0 is 1. The targets stay what they are
	Out       io.Writer      // for progress
	// Live, if not nil, is called before each load with what is sent, and returns what to call
	// with how it stands, about every quarter of a second, and at its end.
	Live func(*bench.Load) (look func(bench.Mark), end func())
}

// Scene is a scenario on its stage with one target.
type Scene struct {
	Scenario
	Target  stage.Target
	Stage   *stage.Stage // nil if the target is not ours
	Front   *stage.Front // nil if the target is not ours
	URL     string       // of the target
	Options Options
	Outcome *Outcome

	Seen *Sampler // if the scenario asks for samples; else nil
}

// Report is what came of a scenario with all its targets.
type Report struct {
	Scenario Scenario
	Outcomes []*Outcome
}

// Run runs a scenario with one target after the other. The error says why there is no
// report, or not of all targets: those before are in it.
func Run(ctx context.Context, s Scenario, o Options) (*Report, error) {
	if o.Scale <= 0 {
		o.Scale = 1
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	r := &Report{Scenario: s}
	targets := o.Against
	if len(targets) == 0 {
		var err error
		if targets, err = stage.ParseTargets(s.Against); err != nil {
			return r, err
		}
	}
	st := (*stage.Stage)(nil)
	for i, t := range targets {
		if t.Ours() && (st == nil || s.OwnPostgres) {
			var err error
			if st, err = replaceStage(ctx, st, s, o); err != nil {
				return r, err
			}
		}
		fmt.Fprintf(o.Out, "%s %d/%d: %v\n", s.Name, i+1, len(targets), t)
		outcome, err := play(ctx, s, t, st, o)
		if errors.Is(err, stage.ErrNotInstalled) && len(o.Against) == 0 {
			fmt.Fprintf(o.Out, "  left out: %v\n", err)
			continue
		}
		if outcome != nil {
			r.Outcomes = append(r.Outcomes, outcome)
		}
		if err != nil {
			return r, errors.Join(fmt.Errorf("%s with %v: %w", s.Name, t, err), closeStage(st))
		}
	}
	return r, closeStage(st)
}

// replaceStage opens a stage in the place of another, or of none.
func replaceStage(ctx context.Context, old *stage.Stage, s Scenario, o Options) (*stage.Stage, error) {
	if err := closeStage(old); err != nil {
		return nil, err
	}
	options := s.Stage
	options.Program, options.PeersRoot = o.Program, o.PeersRoot
	return stage.Open(ctx, options)
}

// closeStage closes a stage, if there is one.
func closeStage(st *stage.Stage) error {
	if st == nil {
		return nil
	}
	return st.Close()
}

// play runs a scenario with one target.
func play(ctx context.Context, s Scenario, t stage.Target, st *stage.Stage, o Options) (*Outcome, error) {
	scene := &Scene{
		Scenario: s.Stretched(o.Scale), Target: t, URL: t.URL, Options: o,
		Outcome: &Outcome{Target: t.String(), Extra: map[string]float64{}, by: o.Scale},
	}
	if t.Ours() {
		front, err := st.Put(ctx, t, s.Plan)
		if err != nil {
			return nil, err
		}
		scene.Stage, scene.Front, scene.URL = st, front, front.URL(stage.Role, stage.Database)
		if t.Kind == stage.Pgweir {
			bench.Rest(ctx, settled)
		}
	} else if s.needsStage() {
		return nil, errors.New("this scenario needs a Postgres of its own, which a URL is not")
	}
	err := scene.play(ctx)
	return scene.Outcome, err
}

// settled is for how long pgweir has been there when a load begins. In its first three seconds it
// takes those who come for clients that come back, and no queue of theirs for an overload.
const settled = 3 * time.Second

// needsStage reports that the scenario does something to Postgres or the pooler, or has
// roles and tables.
func (s *Scenario) needsStage() bool {
	return s.Before != nil || s.Instead != nil || s.After != nil || s.Events != nil || s.Samples ||
		len(s.Stage.Roles) > 0 || len(s.Stage.Databases) > 0 || len(s.Stage.SQL) > 0
}

func (s *Scene) play(ctx context.Context) error {
	if s.Before != nil {
		if err := s.Before(ctx, s); err != nil {
			return err
		}
	}
	if s.Instead != nil {
		return s.Instead(ctx, s)
	}
	if err := s.send(ctx); err != nil {
		return err
	}
	if s.After != nil {
		return s.After(ctx, s)
	}
	return nil
}

// send sends the load, with the events.
func (s *Scene) send(ctx context.Context) (err error) {
	if s.Samples {
		if s.Seen, err = startSampling(ctx, s); err != nil {
			return err
		}
		defer s.Seen.stop()
	}
	s.Outcome.Result, err = s.Send(ctx, s.Load, s.Events...)
	return err
}

// Send sends a load to the target while events happen.
func (s *Scene) Send(ctx context.Context, l bench.Load, events ...Event) (*bench.Result, error) {
	target := bench.Target{Name: s.Target.String(), URL: s.URL, Apart: s.Stage != nil}
	if s.Stage != nil {
		target.Roles = append([]string{stage.Role}, s.Scenario.Stage.Roles...)
		if !s.OwnPostgres { // else it may be ended, and what is watched with it
			target.Direct, target.Counter = s.Stage.DirectURL(stage.Outsider, stage.Database), stage.Counter
		}
	}
	ctx, broken := context.WithCancelCause(ctx)
	defer broken(nil)
	going, over := context.WithCancel(ctx)
	defer over()
	options := bench.Options{}
	if s.Options.Live != nil {
		var end func()
		options.Look, end = s.Options.Live(&l)
		defer end()
	}
	var work sync.WaitGroup
	options.Started = func(begin time.Time) {
		if s.Seen != nil {
			s.Seen.restart(begin)
		}
		for _, e := range events {
			work.Go(func() {
				if err := s.happen(going, begin, e); err != nil {
					broken(err)
				}
			})
		}
	}
	r, err := bench.Run(ctx, target, l, options)
	over()
	work.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return r, cause
	}
	return r, err
}

// happen waits for an event's time and lets it happen; not if the run is over before.
func (s *Scene) happen(ctx context.Context, begin time.Time, e Event) error {
	if !WaitUntil(ctx, begin.Add(e.At)) {
		return nil
	}
	fmt.Fprintf(s.Options.Out, "  at %v: %s\n", e.At, e.Name)
	// What has begun is brought to its end: a database must not stay frozen.
	if err := e.Do(context.WithoutCancel(ctx), s); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	return nil
}

// WaitUntil waits for a time; false if ctx ends before.
func WaitUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
