package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// Who is who in the temporary cluster.
const (
	directRole = "direct" // whoever connects past pgweir, so that the two can be told apart
	database   = "shop"
)

// theatre is what the demonstration plays on.
type theatre struct {
	program string
	out     *screen
	broken  context.CancelCauseFunc // for a pgweir that ends by itself

	stage  *stage.Stage
	front  *stage.Front
	ending context.CancelFunc // of front: that it ends is no surprise any more
}

// start starts PostgreSQL. What it has started is for end.
func (th *theatre) start(ctx context.Context) (err error) {
	th.out.Say("Starting a temporary PostgreSQL ...")
	th.stage, err = stage.Open(ctx, stage.Options{
		Program: th.program, Roles: []string{directRole}, Databases: []string{database},
		SQL: []string{"grant " + stage.Role + " to " + directRole}, // it may see what the clients do
	})
	return err
}

// guard puts a pgweir of a policy in front of PostgreSQL, in the place of the one before.
func (th *theatre) guard(ctx context.Context, p policy) (err error) {
	if th.ending != nil {
		th.ending()
	}
	if th.front, err = th.stage.Put(ctx, p.target(), p.plan()); err != nil {
		return err
	}
	var ending context.Context
	ending, th.ending = context.WithCancel(context.WithoutCancel(ctx))
	front := th.front
	process := front.Process()
	go func() {
		select {
		case <-process.Done():
			if ending.Err() == nil {
				th.broken(fmt.Errorf("pgweir ended by itself (%v); its log ends:\n%s", process.Err(), front.Log(20)))
			}
		case <-ending.Done():
		}
	}()
	return nil
}

// target is whom the load is sent to, and what is watched meanwhile.
func (th *theatre) target(p policy) bench.Target {
	return bench.Target{
		Name: p.name, URL: th.url(database), Apart: true,
		Direct: th.stage.DirectURL(stage.Outsider, database), Roles: []string{stage.Role}, Counter: stage.Counter,
	}
}

// url is where clients connect to a database.
func (th *theatre) url(db string) string { return th.front.URL(stage.Role, db) }

// end ends what was started, the last one first, and removes the files.
func (th *theatre) end(cause error) error {
	if th.ending != nil {
		th.ending()
	}
	if th.stage == nil {
		return nil
	}
	err := th.stage.Close()
	if cause != nil && th.front != nil && errors.Is(err, stage.ErrDied) {
		return nil // the cause says so
	}
	return err
}
