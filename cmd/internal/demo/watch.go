package demo

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// sampleEvery is how often the server connections are counted.
const sampleEvery = 20 * time.Millisecond

// countServers counts pgweir's connections as Postgres sees them. Only pgweir logs in as
// this role; everybody else has another.
const countServers = `select count(*)::int from pg_stat_activity where usename = '` + appRole + `' and backend_type = 'client backend'`

// watch counts server connections all the time.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read it after done

	mu   sync.Mutex
	last int
	max  int
}

// watchServers starts counting; conn is in use until stop.
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
		// A count that is under way is finished: pgx would close the connection.
		var n int
		if err := conn.QueryRow(context.WithoutCancel(ctx), countServers).Scan(&n); err != nil {
			return err
		}
		w.note(n)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *watch) note(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.max = n, max(w.max, n)
}

// reset forgets the maximum.
func (w *watch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.max = w.last
}

// now is the last count.
func (w *watch) now() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// most is the highest count since reset.
func (w *watch) most() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.max
}

// stop ends the counting and returns what went wrong with it. It may be called again.
func (w *watch) stop() error {
	w.cancel()
	<-w.done
	return w.err
}
