package matrix

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// probes: while more comes than may wait, pools ask whether their connections live, and open
// none anew. What is refused is so because too many wait, not because of the time: also where
// the machine is slow a probe is answered.
func probes(t *testing.T, s *stage, a agent) outcome {
	const workers = 8
	sc := &scene{T: t, stage: s, agent: a, to: s.crowded.Endpoint, meet: newBarrier(workers)}
	if reply := a.do(0, "pool", sc.options(fmt.Sprintf("size=%d", workers))...); reply.code() != "" {
		t.Fatalf("pool: %v", reply)
	}
	before := 0
	var opening sync.Mutex
	var pings, served, refused atomic.Int64
	stop := func() {}
	begin := func() {
		before = s.crowded.logins(t)
		stop = s.overload(t)
	}
	enough := func(round int) bool { return round >= 6 && served.Load() >= 4 && refused.Load() >= 8 }
	play := func(w *worker) {
		defer sc.meet.leave()
		w.openInTurn(&opening)
		sc.meet.wait() // all are open
		if w.driver == "sql" {
			w.must("rollback")
		}
		w.must("close")
		sc.meet.wait()
		if w.n == 0 {
			begin()
		}
		sc.meet.wait()
		late := time.Now().Add(patience)
		for round := 0; !enough(round) && time.Now().Before(late) && !t.Failed(); round++ {
			w.attempt(&pings, &served, &refused)
		}
	}
	var all sync.WaitGroup
	for n := range workers {
		w := &worker{scene: sc, n: n, pids: make(map[string]bool)}
		all.Go(func() { play(w) })
	}
	all.Wait()
	stop()
	n := s.crowded.logins(t) - before - loaders
	t.Logf("%d probes, %d served, %d refused, %d connections opened anew", pings.Load(), served.Load(), refused.Load(), n)
	if n > 0 || !enough(6) {
		t.Errorf("%d probes, %d served, %d refused, %d connections opened anew", pings.Load(), served.Load(), refused.Load(), n)
	}
	return holds
}

// openInTurn opens a connection: what some drivers ask for first must not be too much at once.
func (w *worker) openInTurn(turn *sync.Mutex) {
	w.Helper()
	turn.Lock()
	defer turn.Unlock()
	w.must("open")
	w.must("query", "select 1")
	if w.driver == "sql" {
		w.must("begin") // its pool opens only as many as are in use; this takes no server
	}
}

// attempt takes a connection of the pool, asks whether it lives, and has it do something. Only
// the last may be refused.
func (w *worker) attempt(pings, served, refused *atomic.Int64) {
	w.Helper()
	for _, verb := range []string{"open", "ping"} {
		if reply := w.do(verb); reply.code() != "" {
			w.Errorf("%s: %v", verb, reply)
			return
		}
	}
	pings.Add(1)
	switch reply := w.do("query", "select pg_sleep(0.02)::text"); reply.code() {
	case "":
		served.Add(1)
	case "53300":
		refused.Add(1)
		pause(w.Context(), 5*time.Millisecond)
	default:
		w.Errorf("%v", reply)
	}
	if reply := w.do("close"); reply.code() != "" {
		w.Errorf("close: %v", reply)
	}
}

// loaders is how many clients an overload has: more than run and wait.
const loaders = slots + places + 4

// overload has many clients at work on the pgweir in which few may wait.
func (s *stage) overload(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range loaders {
		c, err := pgx.Connect(ctx, s.crowded.URL(pgtest.Login{User: "app", Password: password, Database: "app"})+"&default_query_exec_mode=simple_protocol")
		if err != nil {
			t.Errorf("%v", err)
			break
		}
		all.Go(func() {
			defer func() { _ = c.Close(context.Background()) }()
			for ctx.Err() == nil && !c.IsClosed() {
				_, _ = c.Exec(context.WithoutCancel(ctx), "select pg_sleep(0.06)") // it is refused every now and then
				pause(ctx, 10*time.Millisecond)                                    // so that others get a place, too
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// pause waits, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
