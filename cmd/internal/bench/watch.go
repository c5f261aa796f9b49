package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// sampleEvery is how often Postgres is asked.
const sampleEvery = 50 * time.Millisecond

// watcher is the application_name of the connection that watches.
const watcher = "pgweir-bench-watch"

// Servers is what Postgres says of the connections that a run uses.
type Servers struct {
	Open     int   // backends
	Busy     int   // those that are not idle
	Executed int64 // statements that it has finished, since the run began; if they are counted
}

// Look is how Postgres stood at a time of the run.
type Look struct {
	At time.Duration
	Servers
}

// watch looks at Postgres all the time. How many statements it has finished is the value of
// a sequence that they increment: that is exact at once and costs them a microsecond, where
// pg_stat_statements has to be there and pg_stat_database comes late.
type watch struct {
	query  string
	args   []any
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read it after done

	mu     sync.Mutex
	last   Servers
	looks  int       // how often; last is of the latest
	calm   int       // for how many looks nothing has been going on and nothing was finished
	start  time.Time // of the run
	base   int64     // the counter then
	most   Servers   // since then
	series []Look    // one for each second since then
}

// watchServers connects to the target's Postgres and looks until stop.
func watchServers(ctx context.Context, t Target) (*watch, error) {
	config, err := pgx.ParseConfig(t.Direct)
	if err != nil {
		return nil, err
	}
	if t.Apart {
		config.ValidateConnect, config.RuntimeParams = nil, map[string]string{}
	}
	config.RuntimeParams["application_name"] = watcher
	config.ConnectTimeout = connectBound
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("watching Postgres: %w", err)
	}
	w := &watch{done: make(chan struct{})}
	w.query, w.args = lookAt(t)
	s, err := w.look(ctx, conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	w.note(s)
	ctx, w.cancel = context.WithCancel(ctx)
	go func() {
		defer close(w.done)
		w.err = w.run(ctx, conn)
		_ = conn.Close(context.WithoutCancel(ctx)) // it has done its work
	}()
	return w, nil
}

// lookAt is the query that counts connections and finished statements.
func lookAt(t Target) (query string, args []any) {
	counted := "0::bigint"
	if t.Counter != "" {
		counted = "(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM " + t.Counter + ")"
	}
	where := "application_name <> $1 AND pid <> pg_backend_pid()"
	args = []any{watcher}
	if len(t.Roles) > 0 {
		where += " AND usename = ANY($2)"
		args = append(args, t.Roles)
	}
	// Who may not see the states of others counts them as idle.
	return "SELECT count(*)::int, (count(*) FILTER (WHERE state <> 'idle'))::int, " + counted +
		" FROM pg_stat_activity WHERE (backend_type = 'client backend' OR backend_type IS NULL) AND " + where, args
}

func (w *watch) look(ctx context.Context, conn *pgx.Conn) (s Servers, err error) {
	if err = conn.QueryRow(ctx, w.query, w.args...).Scan(&s.Open, &s.Busy, &s.Executed); err != nil {
		err = fmt.Errorf("counting the server connections: %w", err)
	}
	return s, err
}

func (w *watch) run(ctx context.Context, conn *pgx.Conn) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		// A look that is under way is finished: pgx would close the connection.
		s, err := w.look(context.WithoutCancel(ctx), conn)
		if err != nil {
			return err
		}
		w.note(s)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// begin is the start of the run.
func (w *watch) begin(start time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start, w.base = start, w.last.Executed
	w.most = Servers{Open: w.last.Open, Busy: w.last.Busy}
}

func (w *watch) note(s Servers) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm++; s.Busy > 0 || s.Executed != w.last.Executed {
		w.calm = 0
	}
	w.last = s
	w.looks++
	w.most.Open, w.most.Busy = max(w.most.Open, s.Open), max(w.most.Busy, s.Busy)
	if w.start.IsZero() {
		return
	}
	s.Executed -= w.base
	if at := time.Since(w.start); len(w.series) == 0 || at >= w.series[len(w.series)-1].At+time.Second {
		w.series = append(w.series, Look{at, s})
	}
}

// now is what the latest look saw.
func (w *watch) now() Servers {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.last
	s.Executed -= w.base
	return s
}

// calmLooks is in how many looks nothing must have been going on for the servers to be at
// rest: between two statements of a queue all of them may be idle in one or two.
const calmLooks = 5

// rest waits until no server has anything to do, or ctx ends.
func (w *watch) rest(ctx context.Context) bool {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	// A look that is under way may have begun before the last statement did.
	for from := w.looked(); !w.rested(from + 1 + calmLooks); {
		select {
		case <-ctx.Done():
			return false
		case <-w.done:
			return false
		case <-tick.C:
		}
	}
	return true
}

// looked is how often Postgres was looked at.
func (w *watch) looked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks
}

// rested reports whether nothing was going on in the latest looks, if the last is the n-th or
// a later one.
func (w *watch) rested(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks >= n && w.calm >= calmLooks
}

// stop ends the looking and returns what went wrong with it. It may be called again.
func (w *watch) stop() error {
	w.cancel()
	<-w.done
	return w.err
}

// MakeCounter makes the sequence of t.Counter, for all roles, in the Postgres of t.Direct.
// It is for who may create one there; the returned function removes it.
func (t Target) MakeCounter(ctx context.Context) (remove func() error, err error) {
	err = execute(ctx, t.Direct,
		"CREATE SEQUENCE IF NOT EXISTS "+t.Counter,
		"GRANT USAGE, SELECT ON SEQUENCE "+t.Counter+" TO PUBLIC")
	return func() error {
		return execute(context.WithoutCancel(ctx), t.Direct, "DROP SEQUENCE IF EXISTS "+t.Counter)
	}, err
}

// execute runs statements on a connection of their own, up to the first that fails.
func execute(ctx context.Context, url string, statements ...string) (err error) {
	ctx, done := context.WithTimeout(ctx, connectBound)
	defer done()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	if _, err = conn.Exec(ctx, strings.Join(statements, ";")); err != nil {
		err = fmt.Errorf("%s: %w", statements[0], err)
	}
	return errors.Join(err, conn.Close(ctx))
}
