package pgtest

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestStandby(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	primary, err := Start(ctx, Options{Replicas: true})
	if errors.Is(err, ErrNoPostgres) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	standby, err := primary.Standby(ctx)
	if err != nil {
		t.Fatal(errors.Join(err, primary.Stop()))
	}
	recovering := func() string {
		out, err := standby.SQL(ctx, "postgres", "SELECT pg_is_in_recovery()")
		if err != nil {
			t.Error(err)
		}
		return out[:1]
	}
	if r := recovering(); r != "t" {
		t.Errorf("in recovery: %q", r)
	}
	if err := primary.Halt(); err != nil {
		t.Error(err)
	}
	if err := standby.Promote(ctx); err != nil {
		t.Error(err)
	}
	if r := recovering(); r != "f" {
		t.Errorf("in recovery after the promotion: %q", r)
	}
	if err := errors.Join(standby.Stop(), primary.Stop()); err != nil {
		t.Error(err)
	}
}
