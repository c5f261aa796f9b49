package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// TestOwnersThroughATakeover is [TestManySessions] over TLS on both sides, while the primary
// crashes and its standby takes over, crashes itself, and is restarted. Each answer must be
// the session's own, under its own settings; who is told that he was cancelled must have
// asked for it; PostgreSQL has not one connection more than the budget; and when all have
// gone nothing is left of them.
//
// [stressTimeEnv] and [stressClientsEnv] make it longer and larger.
func TestOwnersThroughATakeover(t *testing.T) {
	duration, clients := stressSize(t, 12*time.Second, 200)
	const slots = 6
	f := startPair(t, pairPlan{
		slots: slots, standby: true, encrypted: true, schema: stressSchema(),
		settings: map[string]string{"max_connections": "30", "track_activity_query_size": "200"},
		top:      "max_logins = 1000\nmax_prepared_statements = 12\n",
		workload: fmt.Sprintf("patient = true\nmax_wait = %q\nmax_waiting = %d\nno_server_wait = \"300ms\"\n", patience/6, 2*clients),
		tables:   "[console]\nadmin_users = [\"app\"]\n",
	})
	watch, there := watchBackends(t, f.cluster), watchBackends(t, f.standby)
	before := atRest(t, f)

	seed := rand.Uint64()
	t.Logf("%d sessions for %v, seed %d", clients, duration, seed)
	var done stressTally
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	g, running := errgroup.WithContext(ctx)
	for i := range clients {
		s := &stressed{f: f.front, id: i, rnd: rand.New(rand.NewPCG(seed, uint64(i))), done: &done, outages: true}
		g.Go(func() error { return s.live(running) })
	}
	g.Go(func() error {
		d := &disturber{pair: f, primary: f.cluster, done: &done, log: t.Logf}
		return d.act(running, duration)
	})
	if err := errors.Join(g.Wait(), done.failed); err != nil {
		t.Fatal(err)
	}
	t.Log(done.String())
	if !done.complete() {
		t.Error("something did not happen at all")
	}

	var after pgtest.Books
	eventually(t, "nothing is left of the clients", func() bool {
		var err error
		after, err = f.proc.Books(f.http)
		return err == nil && after.Same(before)
	}, func() string { return fmt.Sprintf("before %+v\nafter  %+v", before, after) })
	for _, pool := range stormTable(t, f.front, "SHOW POOLS") {
		if pool["database"] == "app" && (pool["cl_active"] != "0" || pool["cl_waiting"] != "0" || pool["sv_active"] != "0") {
			t.Errorf("a pool is not at rest: %v", pool)
		}
	}
	everySlotIsFree(t, f.front, slots)
	m, err := pgtest.Metrics(f.http)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f handshakes of TLS, %.0f log-ins of clients, %.0f to servers, %.0f transactions, %.0f cancels, %.0f servers cleaned",
		m.Sum("pgweir_tls_handshakes_total"), m.Sum("pgweir_client_logins_total"), m.Sum("pgweir_server_logins_total"),
		m.Sum("pgweir_transactions_total"), m.Sum("pgweir_cancels_total"), m.Sum("pgweir_server_cleanups_total"))
	watch.within(t, f.budget)
	there.within(t, f.budget)
}

// atRest returns the books when no client is there, and somebody was: the most that was seen,
// as the listener for HTTP has a goroutine more or less.
func atRest(t *testing.T, f *pair) (most pgtest.Books) {
	t.Helper()
	f.psql(t, "select 1")
	for range 10 {
		var b pgtest.Books
		eventually(t, "nobody is there", func() bool {
			var err error
			b, err = f.proc.Books(f.http)
			return err == nil && b.Clients == 0 && b.Busy == 0 && b.Waiting == 0
		})
		b.Goroutines = max(b.Goroutines, most.Goroutines)
		b.Descriptors = max(b.Descriptors, most.Descriptors)
		most = b
	}
	return most
}

// disturber makes trouble for PostgreSQL.
type disturber struct {
	*pair
	primary *pgtest.Cluster // of now
	done    *stressTally
	log     func(string, ...any)
}

// act ends a backend now and then, and in between the primary: for a part of the duration
// there is none.
func (d *disturber) act(ctx context.Context, duration time.Duration) error {
	type trouble struct {
		at   float64 // of the duration
		what string
		do   func(context.Context) error
	}
	agenda := []trouble{{0.3, "crash and takeover", d.takeOver}, {0.55, "crash", d.crash}, {0.75, "restart", d.restart}}
	start := time.Now()
	// While a server is being opened the clock of max_wait stands still, so there must be
	// times without that.
	tick := time.NewTicker(max(400*time.Millisecond, duration/200))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var err error
		if len(agenda) > 0 && time.Since(start) > time.Duration(agenda[0].at*float64(duration)) {
			next := agenda[0]
			agenda = agenda[1:]
			err = d.outage(ctx, next.what, next.do)
		} else {
			err = d.endOne(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// endOne ends a random backend.
func (d *disturber) endOne(ctx context.Context) error {
	out, err := d.primary.SQL(ctx, "app", `select count(pg_terminate_backend(pid)) from (
		select pid from pg_stat_activity where usename = 'app' order by random() limit 1) s`)
	if out == "1\n" {
		d.done.ended.Add(1)
	}
	return err
}

// outage does something that takes the database away and brings it back, and waits until
// somebody is served.
func (d *disturber) outage(ctx context.Context, what string, do func(context.Context) error) error {
	if err := do(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		back, over := d.done.back.over()
		if over {
			all, _ := d.done.outage.over()
			d.log("%s: the first answer %v after the database was back, %v after it went", what, back, all)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// away is for how long there is no database: longer than no_server_wait.
const away = 600 * time.Millisecond

func (d *disturber) takeOver(ctx context.Context) error {
	if err := d.gone(ctx); err != nil {
		return err
	}
	if err := d.standby.Promote(ctx); err != nil {
		return err
	}
	d.done.back.begin()
	d.primary = d.standby
	return nil
}

func (d *disturber) crash(ctx context.Context) error {
	if err := d.gone(ctx); err != nil {
		return err
	}
	if err := d.primary.Resume(ctx); err != nil {
		return err
	}
	d.done.back.begin()
	return nil
}

// gone crashes the primary and waits.
func (d *disturber) gone(ctx context.Context) error {
	if err := d.primary.Crash(); err != nil {
		return err
	}
	d.done.outage.begin()
	select {
	case <-ctx.Done():
	case <-time.After(away):
	}
	return nil
}

func (d *disturber) restart(ctx context.Context) error {
	if err := d.primary.Halt(); err != nil {
		return err
	}
	d.done.outage.begin()
	if err := d.primary.Resume(ctx); err != nil {
		return err
	}
	d.done.back.begin()
	return nil
}
