package pgtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCrashAndFreeze(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := Start(ctx, Options{Settings: map[string]string{"synchronous_commit": "on"}})
	if errors.Is(err, ErrNoPostgres) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.SQL(ctx, "postgres", "create table kept as select 7 as n"); err != nil {
		t.Fatal(err)
	}
	if err := c.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := c.Crash(); err == nil {
		t.Error("crashed twice")
	}
	if _, err := c.Freeze(); err == nil {
		t.Error("a dead one was frozen")
	}
	if err := c.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if log, err := c.Log(); err != nil || !strings.Contains(log, "not properly shut down") {
		t.Errorf("no recovery (%v)", err)
	}

	thaw, err := c.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	frozen := make(chan string, 1)
	go func() {
		out, err := c.SQL(ctx, "postgres", "select n from kept")
		if err != nil {
			out = err.Error()
		}
		frozen <- strings.TrimSpace(out)
	}()
	select {
	case out := <-frozen:
		t.Errorf("a frozen server says %q", out)
	case <-time.After(200 * time.Millisecond): // it can't be waited for that nothing happens
	}
	if err := thaw(); err != nil {
		t.Error(err)
	}
	if out := <-frozen; out != "7" {
		t.Errorf("%q", out)
	}
}
