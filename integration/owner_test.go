package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

// The stress is short by default. PGWEIR_STRESS_TIME (such as 60s) and
// PGWEIR_STRESS_CLIENTS make it long.
const (
	stressTimeEnv    = "PGWEIR_STRESS_TIME"
	stressClientsEnv = "PGWEIR_STRESS_CLIENTS"
)

// stressSize is how long a stress is and of how many clients: as given, unless the
// environment says otherwise.
func stressSize(t *testing.T, duration time.Duration, clients int) (time.Duration, int) {
	t.Helper()
	var err error
	if v := os.Getenv(stressTimeEnv); v != "" {
		if duration, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	if v := os.Getenv(stressClientsEnv); v != "" {
		if clients, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	return duration, clients
}

// Many clients on few servers each ask for a text that only they can know, while they
// cancel, hang up in the middle, and lose their servers. Nobody may ever read another's
// text or feel another's cancel, and in the end every slot is free again. The workload is
// patient: where many give up, the guard would make room at the cost of the others.
func TestOwners(t *testing.T) {
	duration, clients := stressSize(t, 4*time.Second, 48)
	const slots = 6
	f := startFront(t, plan{
		slots:    slots,
		settings: map[string]string{"max_connections": strconv.Itoa(clients + 20)}, // for direct mode
		more:     fmt.Sprintf("[[workload]]\nname = \"default\"\npatient = true\nmax_wait = %q\nmax_waiting = %d\n", patience, 2*clients),
	})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	g, background := errgroup.WithContext(t.Context())
	var tally tally
	for i := range clients {
		o := &owner{f: f, id: i, r: rand.New(rand.NewPCG(seed, uint64(i))), tally: &tally}
		g.Go(func() error { return o.live(background, ctx.Done()) })
	}
	g.Go(func() error { return killBackends(background, f, ctx.Done(), &tally) })
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d answers, %d cancels, %d hang-ups, %d backends killed, %d sessions lost with them",
		tally.answers.Load(), tally.cancels.Load(), tally.hangUps.Load(), tally.kills.Load(), tally.lost.Load())
	if tally.answers.Load() == 0 || tally.cancels.Load() == 0 || tally.hangUps.Load() == 0 || tally.kills.Load() == 0 {
		t.Error("something did not happen at all")
	}
	everySlotIsFree(t, f, slots)
}

// everySlotIsFree opens as many transactions at once as there are slots.
func everySlotIsFree(t *testing.T, f *front, slots int) {
	t.Helper()
	for range slots {
		c := f.connect(t, execMode(pgx.QueryExecModeSimpleProtocol))
		ctx, cancel := context.WithTimeout(t.Context(), patience/2) // less than max_wait
		defer cancel()
		if _, err := c.Exec(ctx, "begin"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(ctx, "select 1 as held"); err != nil {
			t.Fatalf("a slot is missing: %v", err)
		}
	}
}

// tally counts what happened, so that a run in which nothing did is no success.
type tally struct {
	answers, cancels, hangUps, kills, lost atomic.Int64
}

// owner is one client. Its connection is nil before the first and after a lost one.
type owner struct {
	f     *front
	id    int
	r     *rand.Rand
	tally *tally

	conn *pgx.Conn
	n    int // of the texts so far
}

// live acts until stop is closed. Only what must not happen is an error.
func (o *owner) live(ctx context.Context, stop <-chan struct{}) error {
	defer func() {
		if o.conn != nil {
			_ = o.conn.Close(ctx)
		}
	}()
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return nil // another one has the error
		default:
		}
		err := o.act(ctx)
		switch {
		case err == nil:
		case lostServer(err):
			o.tally.lost.Add(1)
			if o.conn != nil {
				_ = o.conn.Close(ctx)
				o.conn = nil
			}
		default:
			return fmt.Errorf("client %d: %w", o.id, err)
		}
	}
}

// lostServer tells what a client sees whose backend was killed: an error of class 57P, or
// the end of its connection.
func lostServer(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "57P01" || e.Code == "57P02" || e.Code == "57P03"
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// act does one thing.
func (o *owner) act(ctx context.Context) error {
	if o.conn == nil {
		config, err := pgx.ParseConfig(o.f.URL(o.f.app))
		if err != nil {
			return err
		}
		if o.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
			return err
		}
	}
	switch n := o.r.IntN(100); {
	case n < 50:
		return o.ask(ctx)
	case n < 85:
		return o.transact(ctx)
	case n < 95:
		return o.cancel(ctx)
	default:
		return o.hangUp(ctx)
	}
}

// nonce is a text that no other client and no other question has.
func (o *owner) nonce() string {
	o.n++
	return fmt.Sprintf("owner-%d-%d", o.id, o.n)
}

// sleep is a short time in SQL, so that answers come in another order than questions.
func (o *owner) sleep() string { return fmt.Sprintf("pg_sleep(%f)", o.r.Float64()*0.004) }

// ask wants its own text back, in one of the ways to say it.
func (o *owner) ask(ctx context.Context) error {
	want := o.nonce()
	var got string
	var err error
	switch o.r.IntN(3) {
	case 0:
		err = o.conn.QueryRow(ctx, "select $1::text from "+o.sleep(), pgx.QueryExecModeSimpleProtocol, want).Scan(&got)
	case 1:
		err = o.conn.QueryRow(ctx, "select $1::text from "+o.sleep(), pgx.QueryExecModeExec, want).Scan(&got)
	default:
		err = o.conn.QueryRow(ctx, "select $1::text, 'kept by name'", want).Scan(&got, nil)
	}
	return o.judge(want, got, err)
}

// judge compares an answer.
func (o *owner) judge(want, got string, err error) error {
	if err != nil {
		return err
	}
	o.tally.answers.Add(1)
	if got != want {
		return fmt.Errorf("asked for %q and got %q", want, got)
	}
	return nil
}

// transact leaves a text in its transaction and finds it there, statement by statement.
func (o *owner) transact(ctx context.Context) error {
	want := o.nonce()
	tx, err := o.conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "select set_config('pgweir.owner_test', $1, true)", want); err != nil {
		return err
	}
	for range 1 + o.r.IntN(3) {
		var got string
		err := tx.QueryRow(ctx, "select current_setting('pgweir.owner_test') from "+o.sleep(), pgx.QueryExecModeExec).Scan(&got)
		if err := o.judge(want, got, err); err != nil {
			return err
		}
	}
	if o.r.IntN(3) == 0 {
		return tx.Rollback(ctx)
	}
	return tx.Commit(ctx)
}

// cancel cancels a statement of its own, before, while or after it runs, and waits for the
// end of the request, so that nothing of it can meet a later statement. (A context that ends
// will not do: pgx then drops a request that is still under way.) Whoever feels a cancel
// that he did not send fails in ask or transact.
func (o *owner) cancel(ctx context.Context) error {
	o.tally.cancels.Add(1)
	done := make(chan error, 1)
	go func() {
		_, err := o.conn.Exec(ctx, "select pg_sleep(0.005)", pgx.QueryExecModeExec)
		done <- err
	}()
	moment := time.NewTimer(time.Duration(o.r.IntN(10000)) * time.Microsecond)
	defer moment.Stop()
	<-moment.C
	cancelErr := o.conn.PgConn().CancelRequest(ctx)
	err := <-done
	if err == nil || sqlstate(err) == "57014" {
		err = cancelErr
	}
	return err
}

// hangUp drops the connection in the middle of a transaction that runs a statement.
func (o *owner) hangUp(ctx context.Context) error {
	o.tally.hangUps.Add(1)
	c := o.conn
	o.conn = nil
	if o.r.IntN(2) == 0 {
		if _, err := c.Exec(ctx, "begin; select 1", pgx.QueryExecModeSimpleProtocol); err != nil {
			_ = c.Close(ctx)
			return err
		}
	}
	conn := c.PgConn().Conn()
	_, err := conn.Write([]byte("Q\x00\x00\x00\x19select pg_sleep(.01)\x00"))
	return errors.Join(err, conn.Close())
}

// killBackends ends a random backend of the role now and then.
func killBackends(ctx context.Context, f *front, stop <-chan struct{}, tally *tally) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		out, err := f.cluster.SQL(ctx, "app", `select count(pg_terminate_backend(pid)) from (
			select pid from pg_stat_activity where usename = 'app' and datname = 'app' order by random() limit 1) s`)
		if err != nil {
			return err
		}
		if out == "1\n" {
			tally.kills.Add(1)
		}
	}
}
