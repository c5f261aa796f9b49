package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// ledger is clients that write rows with numbers of their own, and note of each what they
// were told. So it can be seen afterwards whether something that was acknowledged is lost,
// something that was refused was done, or anything was done twice.
type ledger struct {
	url   string
	sleep time.Duration // of each statement

	stop    chan struct{}
	once    sync.Once
	workers sync.WaitGroup

	mu    sync.Mutex
	notes []note
}

// note is what became of one try.
type note struct {
	id           int64 // 0: no row, it was a login
	parts        int   // rows that belong together
	begun, ended time.Time
	outcome      string // "ok", an SQLSTATE, or "lost" without one; for logins "login " and that
	reason       string // pgweir's own for it; empty: Postgres's words, or none
	kept         bool   // the session goes on
}

const ledgerTable = "create table ledger(id bigint not null, part int not null);\nalter table ledger owner to app"

// retryAfter is how long a client pauses that was not served.
const retryAfter = 20 * time.Millisecond

// startLedger starts n clients of f, until the end of the test at the latest.
func startLedger(t *testing.T, f *front, n int, sleep time.Duration) *ledger {
	l := &ledger{url: f.URL(f.app), sleep: sleep, stop: make(chan struct{})}
	t.Cleanup(l.end)
	for i := range n {
		l.workers.Go(func() { l.work(int64(i)) })
	}
	return l
}

// end has the clients finish what they are at. It may be called again.
func (l *ledger) end() {
	l.once.Do(func() { close(l.stop) })
	l.workers.Wait()
}

func (l *ledger) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// pause waits for retryAfter, or for the end.
func (l *ledger) pause() {
	select {
	case <-l.stop:
	case <-time.After(retryAfter):
	}
}

func (l *ledger) note(n note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, n)
}

// work is one client.
func (l *ledger) work(worker int64) {
	ctx := context.Background()
	modes := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement}
	var c *pgx.Conn
	defer func() {
		if c != nil {
			_ = c.Close(ctx)
		}
	}()
	for n := int64(1); !l.stopped(); n++ {
		if c == nil {
			if c = l.login(ctx, modes[worker%int64(len(modes))]); c == nil {
				l.pause()
				continue
			}
		}
		this := note{id: worker<<32 | n, parts: 1, begun: time.Now()}
		var err error
		if n%3 == 0 {
			this.parts = 2
			err = l.transact(ctx, c, this.id)
		} else {
			err = l.insert(ctx, c, this.id, 1)
		}
		this.ended, this.outcome, this.reason, this.kept = time.Now(), outcome(err), reason(err), !c.IsClosed()
		l.note(this)
		if !this.kept {
			_ = c.Close(ctx)
			c = nil
		}
		if err != nil {
			l.pause()
		}
	}
}

// login returns a new session, or nil.
func (l *ledger) login(ctx context.Context, mode pgx.QueryExecMode) *pgx.Conn {
	this := note{begun: time.Now()}
	config, err := pgx.ParseConfig(l.url)
	if err != nil {
		panic(err) // it is our own
	}
	config.DefaultQueryExecMode = mode
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, config)
	if err == nil {
		return c
	}
	this.ended, this.outcome, this.reason = time.Now(), "login "+outcome(err), reason(err)
	l.note(this)
	return nil
}

func (l *ledger) insert(ctx context.Context, c *pgx.Conn, id int64, part int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := c.Exec(ctx, "insert into ledger select $1::bigint, $2::int from pg_sleep($3::float8)", id, part, l.sleep.Seconds())
	return err
}

// transact inserts two rows, or none.
func (l *ledger) transact(ctx context.Context, c *pgx.Conn, id int64) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	for part := range 2 {
		if err := l.insert(ctx, c, id, part+1); err != nil {
			return errors.Join(err, rolledBack(ctx, tx))
		}
	}
	return tx.Commit(ctx)
}

// rolledBack ends a failed transaction. That its connection is lost is no news.
func rolledBack(ctx context.Context, tx pgx.Tx) error {
	if tx.Conn().IsClosed() {
		return nil
	}
	return tx.Rollback(ctx)
}

// outcome names what a client was told.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return "lost"
}

// reason is the one that pgweir gives for an error.
func reason(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return reasonIn(e.Detail)
	}
	return ""
}

// reasonIn is the reason that a detail begins with.
func reasonIn(detail string) string {
	first, _, _ := strings.Cut(detail, " ")
	if r, ok := strings.CutPrefix(first, "reason="); ok {
		return r
	}
	return ""
}

// all is the notes so far.
func (l *ledger) all() []note {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.notes)
}

// count is how many notes with an outcome ended since a time.
func (l *ledger) count(outcome string, since time.Time) (n int) {
	for _, this := range l.all() {
		if this.outcome == outcome && !this.ended.Before(since) {
			n++
		}
	}
	return n
}

// served is how many clients have had something done that they began since a time.
func (l *ledger) served(since time.Time) int {
	clients := map[int64]bool{}
	for _, this := range l.all() {
		if this.outcome == "ok" && !this.begun.Before(since) {
			clients[this.id>>32] = true
		}
	}
	return len(clients)
}

// report tells what clients saw from one time to another: outcomes, how long after from
// the first success came of what was begun after it, the longest time without a success,
// and the longest that a refused one had waited.
func (l *ledger) report(from, to time.Time) string {
	counts := map[string]int{}
	var ends []time.Time
	first, refused := time.Duration(-1), time.Duration(0)
	for _, this := range l.all() {
		if this.ended.Before(from) || this.ended.After(to) {
			continue
		}
		counts[strings.TrimSpace(this.outcome+" "+this.reason)]++
		switch {
		case this.outcome == "ok":
			ends = append(ends, this.ended)
			if after := this.ended.Sub(from); !this.begun.Before(from) && (first < 0 || after < first) {
				first = after
			}
		case strings.HasSuffix(this.outcome, "53300"):
			refused = max(refused, this.ended.Sub(this.begun))
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	gap, last := time.Duration(0), from
	for _, at := range append(ends, to) {
		gap, last = max(gap, at.Sub(last)), at
	}
	var b strings.Builder
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%s: %d, ", outcome, counts[outcome])
	}
	fmt.Fprintf(&b, "first success after %v, longest gap %v", first.Round(time.Millisecond), gap.Round(time.Millisecond))
	if refused > 0 {
		fmt.Fprintf(&b, ", longest wait of a refused one %v", refused.Round(time.Millisecond))
	}
	return b.String()
}

// balance compares what clients were told with what is in the clusters, each row in at
// least one of them. Only clients that lost their session may not know.
func (l *ledger) balance(t *testing.T, clusters ...*pgtest.Cluster) {
	t.Helper()
	there := map[int64]int{} // bits of the parts
	for _, c := range clusters {
		here := map[int64]int{}
		out, err := c.SQL(t.Context(), "app", "select id, part from ledger")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			id, part, _ := strings.Cut(strings.TrimSpace(line), "|")
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			bit := 1 << 1
			if part == "2" {
				bit = 1 << 2
			}
			if here[n]&bit != 0 {
				t.Errorf("row %s of client %d, number %d, is there twice", part, n>>32, n&0xffffffff)
			}
			here[n] |= bit
		}
		for n, bits := range here {
			there[n] |= bits
		}
	}
	unknown := 0
	for _, this := range l.all() {
		if this.id == 0 {
			continue
		}
		want := 1<<(this.parts+1) - 2
		switch got := there[this.id]; {
		case got != 0 && got != want:
			t.Errorf("client %d, number %d: one half is there (%b, told %q)", this.id>>32, this.id&0xffffffff, got, this.outcome)
		case this.outcome == "ok" && got == 0:
			t.Errorf("client %d, number %d was acknowledged and is lost", this.id>>32, this.id&0xffffffff)
		case this.kept && this.outcome != "ok" && got != 0:
			t.Errorf("client %d, number %d was refused with %s and is there", this.id>>32, this.id&0xffffffff, this.outcome)
		case !this.kept:
			unknown++
		}
		delete(there, this.id)
	}
	if len(there) > 0 {
		t.Errorf("%d rows that nobody has written", len(there))
	}
	t.Logf("%d notes, of %d the client does not know", len(l.all()), unknown)
}

// onlyOutcomes fails the test if clients were told anything else.
func (l *ledger) onlyOutcomes(t *testing.T, allowed ...string) {
	t.Helper()
	for _, this := range l.all() {
		if !slices.Contains(allowed, this.outcome) {
			t.Errorf("a client was told %s", this.outcome)
		}
	}
}
