package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// sampleEvery is how often PostgreSQL is asked.
const sampleEvery = 20 * time.Millisecond

// counter is the sequence that counts statements as they end.
const counter = "executed"

// lookAtServers counts pgweir's connections as Postgres sees them, those that do something,
// and what they have done. Only pgweir logs in as this role; everybody else has another.
const lookAtServers = `select count(*)::int, (count(*) filter (where state <> 'idle'))::int,
  (select case when is_called then last_value else 0 end from ` + counter + `)::int
from pg_stat_activity where usename = '` + appRole + `' and backend_type = 'client backend'`

// errNoRest is the cause of not waiting any longer for statements whose clients have left.
var errNoRest = errors.New("statements go on for too long after their clients have left")

// servers is what Postgres says about pgweir's connections.
type servers struct {
	open     int
	busy     int
	executed int // statements, since the cluster was made
}

// watch looks at the servers all the time.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read it after done

	mu    sync.Mutex
	last  servers
	looks int // how often; last is of the latest
	max   int // most open since begin
	base  int // executed at begin
}

// watchServers starts looking; conn is in use until stop.
func watchServers(ctx context.Context, conn *pgx.Conn) *watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.err = w.run(ctx, conn)
	}()
	return w
}

func (w *watch) run(ctx context.Context, conn *pgx.Conn) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		// A look that is under way is finished: pgx would close the connection.
		var s servers
		if err := conn.QueryRow(context.WithoutCancel(ctx), lookAtServers).Scan(&s.open, &s.busy, &s.executed); err != nil {
			return fmt.Errorf("counting the server connections: %w", err)
		}
		w.note(s)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *watch) note(s servers) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.max = s, max(w.max, s.open)
	w.looks++
}

// begin starts to count anew.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.max, w.base = w.last.open, w.last.executed
}

// most is the highest number of connections since begin.
func (w *watch) most() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.max
}

// executed is how many statements Postgres has finished since begin.
func (w *watch) executed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.executed - w.base
}

// rest waits until no server has anything to do.
func (w *watch) rest(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, connectBound, errNoRest)
	defer cancel()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	// A look that is under way may have begun before the last statement did.
	for from := w.looked(); !w.rested(from + 2); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.done:
			return w.err
		case <-tick.C:
		}
	}
	return nil
}

// looked is how often the servers were looked at.
func (w *watch) looked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks
}

// rested reports whether nothing was going on at the latest look, if it is the n-th or a
// later one.
func (w *watch) rested(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks >= n && w.last.busy == 0
}

// stop ends the looking and returns what went wrong with it. It may be called again.
func (w *watch) stop() error {
	w.cancel()
	<-w.done
	return w.err
}
