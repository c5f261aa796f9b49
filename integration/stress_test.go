package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// TestManySessions lets 200 sessions do everything at once on six servers: they ask by
// every way of the protocol, copy, set, cancel, vanish in the middle of anything, while
// backends are ended under them. Each answer must be the session's own, under its own
// settings. PostgreSQL has not one place more than pgweir may use.
//
// The workload is patient, for its clients often give up: the guard would make room at the
// cost of those who do not.
//
// [stressTimeEnv] and [stressClientsEnv] make it longer and larger.
func TestManySessions(t *testing.T) {
	duration, clients := stressSize(t, 8*time.Second, 200)
	const slots, budget, reserved, control = 6, 7, 2, 1
	most := budget + reserved + control
	if os.Getenv(directEnv) != "" {
		most += clients
	}
	f := startFront(t, plan{
		slots: slots,
		settings: map[string]string{
			"max_connections":                strconv.Itoa(most),
			"superuser_reserved_connections": strconv.Itoa(reserved),
			"track_activity_query_size":      "200",
		},
		top:  "max_logins = 1000\nmax_prepared_statements = 12\n",
		more: fmt.Sprintf("[console]\nadmin_users = [\"app\"]\n[[workload]]\nname = \"default\"\npatient = true\nmax_wait = %q\nmax_waiting = %d\n", patience, 2*clients),
	})
	f.sql(t, "app", stressSchema())
	admin, err := pgconn.Connect(t.Context(), f.cluster.SocketEndpoint().DSN(pgtest.Superuser, "app"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.WithoutCancel(t.Context())) })

	seed := rand.Uint64()
	t.Logf("%d sessions for %v, seed %d", clients, duration, seed)
	var done stressTally
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		s := &stressed{f: f, id: i, rnd: rand.New(rand.NewPCG(seed, uint64(i))), done: &done}
		g.Go(func() error { return s.live(ctx) })
	}
	g.Go(func() error { return endBackends(ctx, admin, &done) })
	if err := errors.Join(g.Wait(), done.failed); err != nil {
		t.Fatal(err)
	}
	t.Log(done.String())
	if !done.complete() {
		t.Error("something did not happen at all")
	}
	awaitIdle(t, admin)
	if f.proc != nil {
		everySlotIsFree(t, f, slots)
	}
	noRefusal(t, f)
}

// stressTally counts what has happened, so that a run in which nothing did is no success.
type stressTally struct {
	logins, answers, transactions, sets, parses, prepared, copies, cancels, cancelled, vanished, ended, lost atomic.Int64

	outage, back recovery // see there

	mu     sync.Mutex
	tolds  map[string]int // what else clients were told
	failed error
}

func (s *stressTally) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d logins, %d answers, %d transactions, %d settings, %d statements prepared and %d times run, %d copies, %d cancels (%d met), %d vanished, %d backends ended, %d sessions lost; clients were told %v",
		s.logins.Load(), s.answers.Load(), s.transactions.Load(), s.sets.Load(), s.parses.Load(), s.prepared.Load(), s.copies.Load(),
		s.cancels.Load(), s.cancelled.Load(), s.vanished.Load(), s.ended.Load(), s.lost.Load(), s.tolds)
}

func (s *stressTally) complete() bool {
	for _, n := range []*atomic.Int64{
		&s.logins, &s.answers, &s.transactions, &s.sets, &s.parses, &s.prepared, &s.copies,
		&s.cancels, &s.cancelled, &s.vanished, &s.ended, &s.lost,
	} {
		if n.Load() == 0 {
			return false
		}
	}
	return true
}

// told counts what a client was told.
func (s *stressTally) told(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tolds == nil {
		s.tolds = make(map[string]int)
	}
	s.tolds[what]++
}

// fail notes an error of what runs beside a client.
func (s *stressTally) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = errors.Join(s.failed, err)
}

// answer counts an answer to what was asked then.
func (s *stressTally) answer(asked time.Time) {
	s.answers.Add(1)
	s.outage.answer(asked)
	s.back.answer(asked)
}

// recovery is how long it takes from a moment to the first answer to what was asked since.
type recovery struct {
	mu    sync.Mutex
	since time.Time // zero: it is not looked for
	took  time.Duration
}

// begin looks for it from now on.
func (r *recovery) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.took = time.Now(), 0
}

func (r *recovery) answer(asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.since.IsZero() && asked.After(r.since) {
		r.took, r.since = time.Since(r.since), time.Time{}
	}
}

// over tells how long it took, once it is over.
func (r *recovery) over() (took time.Duration, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.took.Round(time.Millisecond), r.since.IsZero()
}

// endBackends ends a random backend of the role, again and again, and leaves pgweir the
// time to open others: it logs in to as many a second as its budget has places.
func endBackends(ctx context.Context, admin *pgconn.PgConn, done *stressTally) error {
	tick := time.NewTicker(400 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		out, err := adminAsk(admin, `select count(pg_terminate_backend(pid)) from (
			select pid from pg_stat_activity where usename = 'app' order by random() limit 1) s`)
		if err != nil {
			return err
		}
		if out == "1" {
			done.ended.Add(1)
		}
	}
}

// adminAsk returns the one value of a query.
func adminAsk(admin *pgconn.PgConn, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results, err := admin.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

// awaitIdle waits until no backend of the role is in a transaction.
func awaitIdle(t *testing.T, admin *pgconn.PgConn) {
	t.Helper()
	const busy = "select count(*) from pg_stat_activity where usename = 'app' and state <> 'idle'"
	eventually(t, "no backend is in a transaction", func() bool {
		n, err := adminAsk(admin, busy)
		if err != nil {
			t.Fatal(err)
		}
		return n == "0"
	})
}

// noRefusal fails the test if PostgreSQL had to refuse a connection. (The end of the
// cluster looks for other words.)
func noRefusal(t *testing.T, f *front) {
	t.Helper()
	log, err := f.cluster.Log()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "remaining connection slots") || strings.Contains(line, "too many clients") {
			t.Errorf("a backend over the budget: %s", line)
		}
	}
}
