package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// bookSchema is accounts, and an entry for each change of one, under the name of the
// transfer that made it.
const bookSchema = `
create table book(id int primary key, balance int not null, last text);
create table entry(transfer text not null, account int not null, amount int not null);
insert into book select n, 1000 from generate_series(1, 40) n;
create function note_entry() returns trigger language plpgsql security definer as $$ begin
	insert into entry values (new.last, new.id, new.balance - old.balance); return null; end $$;
create trigger note_entry after update on book for each row execute function note_entry();
grant all on book, entry to app;
`

// Transfers of money are run by clients that take no care at all: psql without
// ON_ERROR_STOP, and programs that go on after an error. There is work for many times what
// two slots can do, and 50 ms to wait, so many statements are refused. Whatever is refused
// and wherever, a transfer happens in whole or not at all, and who reads COMMIT has it.
func TestBooksBalance(t *testing.T) {
	const workers, transfers = 16, 15
	f := startFront(t, plan{
		slots: 2,
		more:  "[[workload]]\nname = \"default\"\nmax_wait = \"50ms\"\n",
	})
	f.sql(t, "app", bookSchema)
	f.psql(t, "select 1") // from now on pgweir knows what to tell a psql that logs in
	kinds := []struct {
		name string
		run  func(*books, int) func() error // a worker, ready to start
	}{
		{"psql", (*books).psql},
		{"pgx transactions", (*books).transactions},
		{"pgx, BEGIN and the first command in one batch", (*books).batches},
		{"pgx, strings of statements", (*books).strings},
	}
	all := make(map[string]bool)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			b := &books{t: t, f: f, kind: strings.ReplaceAll(kind.name, " ", "_"), transfers: transfers, committed: all}
			before := len(all)
			work := make([]func() error, workers)
			for i := range work {
				work[i] = kind.run(b, i)
			}
			var g errgroup.Group
			for _, w := range work {
				g.Go(w)
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d transfers committed, %d statements refused", len(all)-before, b.refused)
			if len(all) == before || b.refused == 0 && f.proc != nil {
				t.Error("both must happen")
			}
			checkBooks(t, f, all)
		})
	}
}

// checkBooks compares the books with what was reported as committed.
func checkBooks(t *testing.T, f *front, committed map[string]bool) {
	t.Helper()
	if got := f.sql(t, "app", "select sum(balance) from book"); got != "40000" {
		t.Errorf("the sum of all balances is %s", got)
	}
	if got := f.sql(t, "app", `select count(*) from book where balance <>
		1000 + coalesce((select sum(amount) from entry where account = id), 0)`); got != "0" {
		t.Errorf("%s balances are not what the entries say", got)
	}
	if got := f.sql(t, "app", `select transfer, count(*), sum(amount) from entry group by transfer
		having count(*) <> 2 or sum(amount) <> 0`); got != "" {
		t.Errorf("half transfers:\n%s", got)
	}
	there := strings.Fields(f.sql(t, "app", "select distinct transfer from entry"))
	slices.Sort(there)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(committed)), there); diff != "" {
		t.Errorf("transfers (-reported +there):\n%s", diff)
	}
}

// books runs transfers in one way and notes what comes of them.
type books struct {
	t         *testing.T
	f         *front
	kind      string
	transfers int // of each worker

	mu        sync.Mutex
	committed map[string]bool
	refused   int
}

// report notes a transfer that was reported as committed.
func (b *books) report(transfer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.committed[transfer] = true
}

// failed notes an error: a refusal, or what follows from one. Anything else is returned.
func (b *books) failed(err error) error {
	code := sqlstate(err)
	if code == "53300" {
		b.mu.Lock()
		b.refused++
		b.mu.Unlock()
	}
	if err == nil || code == "53300" || code == "25P02" || errors.Is(err, pgx.ErrTxCommitRollback) {
		return nil
	}
	return err
}

// statements are the two updates of a transfer. The first account is always the lower one,
// so that transfers do not wait for each other in a circle.
func statements(rnd *rand.Rand, transfer string) [2]string {
	from := 1 + rnd.IntN(20)
	update := func(account int, change string) string {
		return fmt.Sprintf("update book set balance = balance %s 1, last = '%s' from pg_sleep(0.005) where id = %d", change, transfer, account)
	}
	return [2]string{update(from, "-"), update(21+rnd.IntN(20), "+")}
}

// each is a worker that calls do for every transfer.
func (b *books) each(worker int, do func(ctx context.Context, c *pgx.Conn, transfer string, sql [2]string) error, options ...func(*pgx.ConnConfig)) func() error {
	c := b.f.connect(b.t, options...)
	rnd := rand.New(rand.NewPCG(24, uint64(worker)))
	return func() error {
		for i := range b.transfers {
			transfer := fmt.Sprintf("%s-%d-%d", b.kind, worker, i)
			if err := do(b.t.Context(), c, transfer, statements(rnd, transfer)); err != nil {
				return fmt.Errorf("%s: %w", transfer, err)
			}
		}
		return nil
	}
}

// transactions use pgx's own: Begin, Exec, Exec, Commit, and Rollback after an error.
func (b *books) transactions(worker int) func() error {
	return b.each(worker, func(ctx context.Context, c *pgx.Conn, transfer string, sql [2]string) error {
		tx, err := c.Begin(ctx)
		if err != nil {
			return err // a BEGIN is never refused
		}
		for _, statement := range sql {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return errors.Join(b.failed(err), tx.Rollback(ctx))
			}
		}
		if err := tx.Commit(ctx); err != nil {
			return b.failed(err)
		}
		b.report(transfer)
		return nil
	})
}

// batches send BEGIN with the first update in one write, and go on whatever comes of it:
// by the extended protocol, or as one string. (With a mode that describes statements first
// pgx would have to be looked at: it does that outside the transaction, and keeps the whole
// batch back if it is refused.)
func (b *books) batches(worker int) func() error {
	mode := []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}[worker%2]
	return b.each(worker, func(ctx context.Context, c *pgx.Conn, transfer string, sql [2]string) error {
		var batch pgx.Batch
		batch.Queue("begin")
		batch.Queue(sql[0])
		if err := b.failed(c.SendBatch(ctx, &batch).Close()); err != nil {
			return err
		}
		return b.carryOn(ctx, c, transfer, sql[1], "commit")
	}, execMode(mode))
}

// strings send two statements in one simple Query.
func (b *books) strings(worker int) func() error {
	return b.each(worker, func(ctx context.Context, c *pgx.Conn, transfer string, sql [2]string) error {
		if worker%2 == 0 {
			return b.carryOn(ctx, c, transfer, "begin", sql[0]+";"+sql[1], "commit")
		}
		return b.carryOn(ctx, c, transfer, "begin;"+sql[0], sql[1], "commit")
	}, execMode(pgx.QueryExecModeSimpleProtocol))
}

// carryOn runs statements one after the other without a look at errors. The transfer is
// reported as committed if the last says so.
func (b *books) carryOn(ctx context.Context, c *pgx.Conn, transfer string, sql ...string) error {
	for i, statement := range sql {
		tag, err := c.Exec(ctx, statement)
		if err := b.failed(err); err != nil {
			return err
		}
		if i == len(sql)-1 && tag.String() == "COMMIT" {
			b.report(transfer)
		}
	}
	return nil
}

// psql runs a script of transfers in one process. It prints the tag of each statement, and
// a line of ours before each transfer.
func (b *books) psql(worker int) func() error {
	rnd := rand.New(rand.NewPCG(42, uint64(worker)))
	var script strings.Builder
	for i := range b.transfers {
		transfer := b.kind + "-" + strconv.Itoa(worker) + "-" + strconv.Itoa(i)
		sql := statements(rnd, transfer)
		fmt.Fprintf(&script, "\\echo transfer %s\nBEGIN;\n%s;\n%s;\nCOMMIT;\n", transfer, sql[0], sql[1])
	}
	cmd := b.f.Command(b.t.Context(), b.f.app, "psql", "-XAt", "-w", "-v", "VERBOSITY=verbose", "-f", "-")
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script.String()), &out, &complaints
	return func() error {
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("psql: %w: %s", err, complaints.String())
		}
		transfer := ""
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSpace(line)
			if name, ok := strings.CutPrefix(line, "transfer "); ok {
				transfer = name
			} else if line == "COMMIT" {
				b.report(transfer)
			}
		}
		return b.complaints(complaints.String())
	}
}

// complaints looks at what psql had to say: refusals, and what follows from them.
func (b *books) complaints(text string) error {
	for line := range strings.Lines(text) {
		_, message, ok := strings.Cut(line, "ERROR:  ")
		switch {
		case !ok, strings.HasPrefix(message, "25P02"):
		case strings.HasPrefix(message, "53300"):
			b.mu.Lock()
			b.refused++
			b.mu.Unlock()
		default:
			return fmt.Errorf("psql says %s", message)
		}
	}
	return nil
}
