package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"golang.org/x/sync/errgroup"
)

// connect is a pgx connection of role app, closed at the end of the test. options change
// its configuration first.
func (f *front) connect(t *testing.T, options ...func(*pgx.ConnConfig)) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(f.URL(f.app))
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range options {
		option(config)
	}
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // some tests broke it on purpose
	return c
}

// cancelRequests makes a context that ends send a CancelRequest, and keeps the connection.
func cancelRequests(c *pgx.ConnConfig) {
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: patience}
	}
}

// execMode sets the way in which pgx runs statements.
func execMode(mode pgx.QueryExecMode) func(*pgx.ConnConfig) {
	return func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = mode }
}

// sqlstate is the code of a server's error, "" for others.
func sqlstate(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

func TestPgx(t *testing.T) {
	f := startFront(t, plan{})
	f.psql(t, "create table account(id int primary key, balance int not null);\ninsert into account select n, 1000 from generate_series(1, 20) n")
	for _, c := range []struct {
		name string
		test func(*testing.T, *front)
	}{
		{"transfers by many connections", pgxTransfers},
		{"batch", pgxBatch},
		{"batch with an error", pgxBatchError},
		{"pipeline with several syncs", pgxPipeline},
		{"copy in and out", pgxCopy},
		{"copy in that the client gives up", pgxCopyAborted},
		{"prepared statements move between servers", pgxPreparedMoves},
		{"more statements than a server keeps", pgxManyStatements},
		{"deallocate all", pgxDeallocateAll},
		{"every mode of execution", pgxExecModes},
		{"errors", pgxErrors},
		{"error in a transaction", pgxErrorInTransaction},
		{"error after some rows", pgxErrorAfterRows},
		{"large values and results", pgxLarge},
		{"cancel of a running statement", pgxCancelRunning},
		{"a client that hangs up", pgxHangUp},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}

// Sixteen connections share the servers; money is neither made nor lost.
func pgxTransfers(t *testing.T, f *front) {
	g, ctx := errgroup.WithContext(t.Context())
	for worker := range 16 {
		c := f.connect(t)
		g.Go(func() error {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 40 {
				from, to := 1+r.IntN(20), 1+r.IntN(20)
				if err := transfer(ctx, c, min(from, to), max(from, to), r.IntN(3) == 0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := f.sql(t, "app", "select sum(balance) from account"); got != "20000" {
		t.Errorf("the sum of all balances is %s", got)
	}
}

// transfer moves one unit; the caller orders the accounts, so that transfers do not
// deadlock.
func transfer(ctx context.Context, c *pgx.Conn, from, to int, giveUp bool) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	const move = "update account set balance = balance + $1 where id = $2"
	if _, err := tx.Exec(ctx, move, -1, from); err != nil {
		return err
	}
	if giveUp {
		return tx.Rollback(ctx)
	}
	if _, err := tx.Exec(ctx, move, 1, to); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func pgxBatch(t *testing.T, f *front) {
	c := f.connect(t)
	var b pgx.Batch
	for i := range 50 {
		b.Queue("select $1::int + $2::int", i, 1000)
		b.Queue(fmt.Sprintf("select 'text %d'", i))
	}
	results := c.SendBatch(t.Context(), &b)
	for i := range 50 {
		var n int
		var text string
		if err := results.QueryRow().Scan(&n); err != nil || n != i+1000 {
			t.Fatalf("sum %d: %d, %v", i, n, err)
		}
		if err := results.QueryRow().Scan(&text); err != nil || text != fmt.Sprintf("text %d", i) {
			t.Fatalf("text %d: %q, %v", i, text, err)
		}
	}
	if err := results.Close(); err != nil {
		t.Error(err)
	}
}

// A batch is one implicit transaction: an error undoes what came before it.
func pgxBatchError(t *testing.T, f *front) {
	c := f.connect(t)
	var b pgx.Batch
	b.Queue("insert into account values (100, 1)")
	b.Queue("select 1 / (balance - 1) from account where id = 100")
	b.Queue("insert into account values (101, 1)")
	if err := c.SendBatch(t.Context(), &b).Close(); sqlstate(err) != "22012" {
		t.Fatalf("error %v", err)
	}
	var n int
	if err := c.QueryRow(t.Context(), "select count(*) from account where id >= 100").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows left, %v", n, err)
	}
}

// Three batches under way at once: the error of the second is its own.
func pgxPipeline(t *testing.T, f *front) {
	c := f.connect(t).PgConn()
	p := c.StartPipeline(t.Context())
	for _, statement := range []string{"select 'first'", "select 1/0", "select 'third'"} {
		p.SendQueryParams(statement, nil, nil, nil, nil)
		if err := p.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for {
		result, err := p.GetResults()
		switch r := result.(type) {
		case *pgconn.ResultReader:
			rows := r.Read()
			if rows.Err != nil {
				got = append(got, sqlstate(rows.Err))
			} else {
				got = append(got, string(rows.Rows[0][0]))
			}
		case *pgconn.PipelineSync:
			got = append(got, "sync")
		}
		if err != nil {
			got = append(got, sqlstate(err))
		}
		if result == nil && err == nil {
			break
		}
	}
	if want := "first sync 22012 sync third sync"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func pgxCopy(t *testing.T, f *front) {
	c := f.connect(t)
	ctx := t.Context()
	if _, err := c.Exec(ctx, "create table pgx_copy(id int, note text, data bytea)"); err != nil {
		t.Fatal(err)
	}
	const rows = 20000
	n, err := c.CopyFrom(ctx, pgx.Identifier{"pgx_copy"}, []string{"id", "note", "data"},
		pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
			return []any{i, fmt.Sprintf("note %d", i), bytes.Repeat([]byte{byte(i)}, i%100)}, nil
		}))
	if err != nil || n != rows {
		t.Fatalf("%d rows, %v", n, err)
	}
	var out bytes.Buffer
	tag, err := c.PgConn().CopyTo(ctx, &out, "copy (select id from pgx_copy order by id) to stdout")
	if err != nil || tag.RowsAffected() != rows {
		t.Fatalf("%v, %v", tag, err)
	}
	var want bytes.Buffer
	for i := range rows {
		fmt.Fprintln(&want, i)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes came out, %d expected, or others", out.Len(), want.Len())
	}
}

// A source that fails makes pgx send CopyFail; nothing is left, and the session goes on.
func pgxCopyAborted(t *testing.T, f *front) {
	c := f.connect(t)
	ctx := t.Context()
	if _, err := c.Exec(ctx, "create table pgx_aborted(id int)"); err != nil {
		t.Fatal(err)
	}
	_, err := c.CopyFrom(ctx, pgx.Identifier{"pgx_aborted"}, []string{"id"},
		pgx.CopyFromSlice(100000, func(i int) ([]any, error) {
			if i == 50000 {
				return nil, errors.New("the source is dry")
			}
			return []any{i}, nil
		}))
	if err == nil || !strings.Contains(err.Error(), "the source is dry") {
		t.Fatalf("error %v", err)
	}
	var n int
	if err := c.QueryRow(ctx, "select count(*) from pgx_aborted").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// Every connection prepares statements under names that others use too, and runs them in
// an order of its own, so that in transaction mode they meet servers that have never seen
// them or know the name for something else.
func pgxPreparedMoves(t *testing.T, f *front) {
	g, ctx := errgroup.WithContext(t.Context())
	for worker := range 12 {
		c := f.connect(t)
		g.Go(func() error {
			for name := range 4 {
				text := fmt.Sprintf("select %d * $1::int + %d", worker, name)
				if _, err := c.Prepare(ctx, fmt.Sprintf("s%d", name), text); err != nil {
					return err
				}
			}
			for i := range 100 {
				name := (i*7 + worker) % 4
				var got int
				if err := c.QueryRow(ctx, fmt.Sprintf("s%d", name), i).Scan(&got); err != nil {
					return err
				}
				if want := worker*i + name; got != want {
					return fmt.Errorf("worker %d, statement %d: %d, want %d", worker, name, got, want)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// 300 names are more than the 200 that a server connection keeps by default.
func pgxManyStatements(t *testing.T, f *front) {
	c := f.connect(t)
	ctx := t.Context()
	const names = 300
	for i := range names {
		if _, err := c.Prepare(ctx, fmt.Sprintf("many%d", i), fmt.Sprintf("select %d + $1::int", i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for i := range names {
			var got int
			if err := c.QueryRow(ctx, fmt.Sprintf("many%d", i), 1000).Scan(&got); err != nil || got != i+1000 {
				t.Fatalf("many%d: %d, %v", i, got, err)
			}
		}
	}
	if err := c.Deallocate(ctx, "many7"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PgConn().ExecPrepared(ctx, "many7", [][]byte{[]byte("1")}, nil, nil).Close(); sqlstate(err) != "26000" {
		t.Errorf("a closed statement: %v", err)
	}
}

func pgxDeallocateAll(t *testing.T, f *front) {
	for _, command := range []string{"deallocate all", "discard all"} {
		c, other := f.connect(t), f.connect(t)
		ctx := t.Context()
		for _, conn := range []*pgx.Conn{c, other} {
			if _, err := conn.Prepare(ctx, "mine", "select 1 + $1::int"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.PgConn().Exec(ctx, command).ReadAll(); err != nil {
			t.Fatal(err)
		}
		one := [][]byte{[]byte("1")}
		if _, err := c.PgConn().ExecPrepared(ctx, "mine", one, nil, nil).Close(); sqlstate(err) != "26000" {
			t.Errorf("after %s: %v", command, err)
		}
		if r := other.PgConn().ExecPrepared(ctx, "mine", one, nil, nil).Read(); r.Err != nil {
			t.Errorf("%s of one client took another's statement: %v", command, r.Err)
		}
	}
}

func pgxExecModes(t *testing.T, f *front) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			c := f.connect(t, execMode(mode))
			for i := range 5 {
				var n int
				var text string
				err := c.QueryRow(t.Context(), "select $1::int, $2::text", i, "it's").Scan(&n, &text)
				if err != nil || n != i || text != "it's" {
					t.Errorf("%d, %q, %v", n, text, err)
				}
			}
		})
	}
}

func pgxErrors(t *testing.T, f *front) {
	c := f.connect(t)
	ctx := t.Context()
	for _, e := range []struct{ statement, code string }{
		{"selec 1", "42601"},
		{"select * from no_such_table", "42P01"},
		{"select 1/0", "22012"},
		{"insert into account values (1, 1)", "23505"},
		{"select 'x'::int", "22P02"},
	} {
		if _, err := c.Exec(ctx, e.statement); sqlstate(err) != e.code {
			t.Errorf("%s: %v, want code %s", e.statement, err, e.code)
		}
		var one int
		if err := c.QueryRow(ctx, "select 1").Scan(&one); err != nil {
			t.Fatalf("after %s: %v", e.statement, err)
		}
	}
	_, err := c.Exec(ctx, "insert into account values (1, 1)")
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.ConstraintName != "account_pkey" || e.TableName != "account" {
		t.Errorf("fields of the error are missing: %+v", err)
	}
}

func pgxErrorInTransaction(t *testing.T, f *front) {
	c := f.connect(t)
	ctx := t.Context()
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "insert into account values (200, 1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "select 1/0"); sqlstate(err) != "22012" {
		t.Errorf("error %v", err)
	}
	if _, err := tx.Exec(ctx, "select 1"); sqlstate(err) != "25P02" {
		t.Errorf("in the failed transaction: %v", err)
	}
	if err := tx.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("commit of the failed transaction: %v", err)
	}
	var n int
	if err := c.QueryRow(ctx, "select count(*) from account where id = 200").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func pgxErrorAfterRows(t *testing.T, f *front) {
	c := f.connect(t)
	rows, err := c.Query(t.Context(), "select 10 / (n - 5000) from generate_series(1, 10000) n")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for rows.Next() {
		seen++
	}
	if sqlstate(rows.Err()) != "22012" || seen != 4999 {
		t.Errorf("%d rows, then %v", seen, rows.Err())
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func pgxLarge(t *testing.T, f *front) {
	c := f.connect(t)
	ctx := t.Context()
	in := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	var out []byte
	if err := c.QueryRow(ctx, "select $1::bytea", in).Scan(&out); err != nil || !bytes.Equal(in, out) {
		t.Errorf("%d bytes came back of %d, %v", len(out), len(in), err)
	}
	rows, err := c.Query(ctx, "select n, repeat('x', n % 100) from generate_series(1, 100000) n")
	if err != nil {
		t.Fatal(err)
	}
	next := 1
	for rows.Next() {
		var n int
		var text string
		if err := rows.Scan(&n, &text); err != nil || n != next || len(text) != n%100 {
			t.Fatalf("row %d: %d, %q, %v", next, n, text, err)
		}
		next++
	}
	if rows.Err() != nil || next != 100001 {
		t.Errorf("%d rows, %v", next-1, rows.Err())
	}
}

func pgxCancelRunning(t *testing.T, f *front) {
	c, bystander := f.connect(t, cancelRequests), f.connect(t)
	done := make(chan error, 1)
	go func() {
		_, err := bystander.Exec(context.Background(), "select pg_sleep(1), 'bystander'")
		done <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, "select pg_sleep(600), 'pgx_cancelled'")
		failed <- err
	}()
	f.await(t, running("pgx_cancelled", 1))
	cancel()
	if err := <-failed; sqlstate(err) != "57014" {
		t.Errorf("error %v", err)
	}
	for range 20 { // a late cancel would hit one of these
		if _, err := c.Exec(t.Context(), "select 1"); err != nil {
			t.Fatalf("after the cancel: %v", err)
		}
	}
	if err := <-done; err != nil {
		t.Errorf("the cancel hit a bystander: %v", err)
	}
}

// Without the handler pgx closes the connection when its context ends, and sends a
// CancelRequest besides. Neither a statement nor a transaction may be left.
func pgxHangUp(t *testing.T, f *front) {
	c := f.connect(t)
	if _, err := c.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "insert into account values (300, 1)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, "select pg_sleep(600), 'hung_up'")
		failed <- err
	}()
	f.await(t, running("hung_up", 1))
	cancel()
	if err := <-failed; err == nil {
		t.Error("the statement succeeded")
	}
	f.await(t, running("hung_up", 0))
	f.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app' and state like 'idle in transaction%'")
	if got := f.sql(t, "app", "select count(*) from account where id = 300"); got != "0" {
		t.Errorf("%s rows of the abandoned transaction", got)
	}
}

// As in psql's test: the waiter waits for a slot or, in direct mode, for a lock. Trap 35.
func TestPgxCancelOfAWaitingStatement(t *testing.T) {
	f := startFront(t, plan{slots: 1})
	f.psql(t, "create table held(a int);\ninsert into held values (1)")
	holder, waiter := f.connect(t), f.connect(t)
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "update held set a = a + 1"); err != nil {
		t.Fatal(err)
	}
	if err := cancelUntilDone(t, waiter, "update held set a = 100"); sqlstate(err) != "57014" {
		t.Errorf("the cancelled statement ended with %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	var a int
	if err := waiter.QueryRow(t.Context(), "select a from held").Scan(&a); err != nil || a != 2 {
		t.Errorf("a = %d, %v", a, err)
	}
}

// cancelUntilDone runs a statement that has to wait and cancels it, again and again because
// nothing shows outside when it has arrived. It returns the statement's error.
func cancelUntilDone(t *testing.T, c *pgx.Conn, statement string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, statement)
		done <- err
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if err := c.PgConn().CancelRequest(ctx); err != nil {
				t.Errorf("cancel request: %v", err)
			}
		}
	}
}
