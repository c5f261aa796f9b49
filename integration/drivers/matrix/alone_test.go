package matrix

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// other begins what makes a deadlock of the next statement: it holds deal 2 and waits for
// deal 1, without a look for deadlocks of its own. release ends it.
func (s *stage) other(t *testing.T) (release func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	c, err := pgx.Connect(ctx, s.SocketEndpoint().URL(pgtest.Login{User: pgtest.Superuser, Database: "app"}))
	if err != nil {
		t.Errorf("%v", err)
		return func() {}
	}
	for _, sql := range []string{"set deadlock_timeout = '1h'", "begin", "update deal set n = n + 1 where id = 2"} {
		if _, err := c.Exec(ctx, sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	pid := c.PgConn().PID()
	done := make(chan error)
	go func() {
		_, err := c.Exec(ctx, "update deal set n = n + 1 where id = 1")
		done <- err
	}()
	s.until(t, "the other waits", fmt.Sprintf("select 'waits' from pg_stat_activity where pid = %d and wait_event_type = 'Lock'", pid))
	return func() {
		if err := <-done; err != nil {
			t.Errorf("the other: %v", err)
		}
		_ = c.Close(ctx) // and rolls back
	}
}

// refusals: a refused statement has its code, DETAIL and HINT, a transaction has failed with
// it, and the connection is kept.
func refusals(t *testing.T, s *stage, a agent) outcome {
	sc := &scene{T: t, stage: s, agent: a, to: s.refusing.Endpoint, meet: newBarrier(2)}
	if reply := a.do(0, "pool", sc.options("size=4")...); reply.code() != "" {
		t.Fatalf("pool: %v", reply)
	}
	workers := []*worker{{scene: sc, n: 0, pids: make(map[string]bool)}, {scene: sc, n: 1, pids: make(map[string]bool)}}
	for _, w := range workers {
		w.must("open")
		w.must("query", "select 1")
	}
	before := s.refusing.logins(t)
	release := s.refusing.hold(t)
	defer release()
	refused := func(what string, a answer) {
		t.Helper()
		e := a.first("error")
		if e == nil || e[1] != "53300" || !strings.Contains(e[3], "reason=queue_") || !strings.Contains(e[4], "retry=yes") {
			t.Errorf("%s: %v", what, a)
		}
	}
	for range 2 {
		refused("a statement", workers[0].do("query", "select $1::text as refused", "x"))
		if began := workers[1].do("begin"); began.code() != "" {
			// psycopg2 sets a parameter here when it was in SQLAlchemy's AUTOCOMMIT.
			refused("a begin with a SET", began)
			workers[1].do("rollback")
			continue
		}
		refused("in a transaction", workers[1].do("query", "select 2 as refused"))
		if code := workers[1].do("query", "select 3").code(); code != "25P02" {
			t.Errorf("the next statement of the transaction: %q", code)
		}
		workers[1].must("rollback")
		refused("several", workers[1].do("exec", "select 4 as refused; select 5"))
	}
	release()
	for _, w := range workers {
		w.must("query", "select $1::text as refused", "x")
		w.must("close")
		w.must("open")
		w.must("begin")
		w.must("query", "select 2 as refused")
		w.must("commit")
		w.must("close")
	}
	if n := s.refusing.logins(t) - before; n > 0 {
		t.Errorf("%d connections were opened anew", n)
	}
	return holds
}

// probes: while more comes than fits, pools ask whether their connections live, and open none
// anew.
func probes(t *testing.T, s *stage, a agent) outcome {
	const workers = 8
	sc := &scene{T: t, stage: s, agent: a, to: s.refusing.Endpoint, meet: newBarrier(workers)}
	if reply := a.do(0, "pool", sc.options(fmt.Sprintf("size=%d", workers))...); reply.code() != "" {
		t.Fatalf("pool: %v", reply)
	}
	var mu sync.Mutex
	served, before := 0, 0
	var refused atomic.Int64
	var stop func()
	play := func(w *worker) {
		defer sc.meet.leave()
		w.must("open")
		w.must("query", "select 1")
		sc.meet.wait() // all are open
		w.must("close")
		sc.meet.wait()
		if w.n == 0 {
			before = s.refusing.logins(t)
			stop = s.overload(t)
		}
		sc.meet.wait()
		mine := 0
		for round := 0; round < 200 && (round < 6 || mine < 2 || refused.Load() < 8); round++ {
			for _, step := range []func() answer{
				func() answer { return w.do("open") },
				func() answer { return w.do("ping") },
				func() answer { return w.do("query", "select pg_sleep(0.02)::text") },
			} {
				reply := step()
				if code := reply.code(); code == "" {
					mine++
					continue
				} else if code == "53300" {
					refused.Add(1)
				} else {
					w.Errorf("%v", reply)
				}
				break
			}
			if reply := w.do("close"); reply.code() != "" && reply.code() != "53300" && w.driver != "" {
				w.Errorf("close: %v", reply)
			}
		}
		mu.Lock()
		served += mine
		mu.Unlock()
	}
	var all sync.WaitGroup
	for n := range workers {
		w := &worker{scene: sc, n: n, pids: make(map[string]bool)}
		all.Go(func() { play(w) })
	}
	all.Wait()
	if stop != nil {
		stop()
	}
	n := s.refusing.logins(t) - before
	t.Logf("%d served, %d refused, %d connections opened anew", served, refused.Load(), n-loaders)
	if n > loaders || served == 0 || refused.Load() == 0 {
		t.Errorf("%d served, %d refused, %d connections opened anew", served, refused.Load(), n-loaders)
	}
	return holds
}

// loaders is how many clients an overload has.
const loaders = 16

// overload has many clients at work on the pgweir that refuses.
func (s *stage) overload(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range loaders {
		c, err := pgx.Connect(ctx, s.refusing.URL(pgtest.Login{User: "app", Password: password, Database: "app"})+"&default_query_exec_mode=simple_protocol")
		if err != nil {
			t.Errorf("%v", err)
			break
		}
		all.Go(func() {
			defer func() { _ = c.Close(context.Background()) }()
			for ctx.Err() == nil && !c.IsClosed() {
				_, _ = c.Exec(context.WithoutCancel(ctx), "select pg_sleep(0.06)") // it is refused every now and then
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}
