package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lib/pq"
	"golang.org/x/sync/errgroup"
)

// openPq is a database/sql pool of lib/pq connections.
func (f *front) openPq(t *testing.T, conns int) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", f.URL(f.app))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// pqCode is the SQLSTATE of a server's error, "" for others.
func pqCode(err error) string {
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return string(e.Code)
	}
	return ""
}

func TestLibPq(t *testing.T) {
	f := startFront(t, plan{})
	f.psql(t, "create table account(id int primary key, balance int not null);\ninsert into account select n, 1000 from generate_series(1, 20) n")
	for _, c := range []struct {
		name string
		test func(*testing.T, *front)
	}{
		{"transactions", pqTransactions},
		{"isolation and read only", pqTransactionOptions},
		{"copy in", pqCopyIn},
		{"copy in with a bad row", pqCopyInFails},
		{"prepared", pqPrepared},
		{"prepared by many", pqPreparedByMany},
		{"errors", pqErrors},
		{"cancel of a running statement", pqCancel},
		{"cancel of a transaction", pqCancelTransaction},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}

func pqTransactions(t *testing.T, f *front) {
	db := f.openPq(t, 12)
	g, ctx := errgroup.WithContext(t.Context())
	for worker := range 12 {
		g.Go(func() error {
			for i := range 30 {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				from, to := 1+(worker+i)%10, 11+(worker*i)%10
				if _, err := tx.ExecContext(ctx, "update account set balance = balance - 1 where id = $1", from); err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "update account set balance = balance + 1 where id = $1", to); err != nil {
					return err
				}
				end := tx.Commit
				if i%5 == 0 {
					end = tx.Rollback
				}
				if err := end(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	got := f.sql(t, "app", "select sum(balance), sum(balance) filter (where id > 10) from account")
	if want := fmt.Sprintf("20000|%d", 10000+12*24); got != want {
		t.Errorf("sums %s, want %s", got, want)
	}
}

func pqTransactionOptions(t *testing.T, f *front) {
	db := f.openPq(t, 1)
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var level, readOnly string
	err = tx.QueryRow("select current_setting('transaction_isolation'), current_setting('transaction_read_only')").Scan(&level, &readOnly)
	if err != nil || level != "serializable" || readOnly != "on" {
		t.Errorf("level %q, read only %q, %v", level, readOnly, err)
	}
	if _, err := tx.Exec("update account set balance = 0"); pqCode(err) != "25006" {
		t.Errorf("a write: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	if err := db.QueryRow("select current_setting('transaction_read_only')").Scan(&readOnly); err != nil || readOnly != "off" {
		t.Errorf("afterwards read only is %q, %v", readOnly, err)
	}
}

// copyIn sends rows of (int, text) by COPY in a transaction, and commits it.
func copyIn(db *sql.DB, table string, rows [][2]any) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it only says so
	stmt, err := tx.Prepare("copy " + pq.QuoteIdentifier(table) + " (id, note) from stdin")
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := stmt.Exec(row[0], row[1]); err != nil {
			return err
		}
	}
	if _, err := stmt.Exec(); err != nil {
		return err
	}
	if err := stmt.Close(); err != nil {
		return err
	}
	return tx.Commit()
}

func pqCopyIn(t *testing.T, f *front) {
	db := f.openPq(t, 2)
	if _, err := db.Exec("create table pq_copy(id int, note text)"); err != nil {
		t.Fatal(err)
	}
	var rows [][2]any
	for i := range 10000 {
		rows = append(rows, [2]any{i, fmt.Sprintf("note\t%d\n", i)})
	}
	if err := copyIn(db, "pq_copy", rows); err != nil {
		t.Fatal(err)
	}
	var n, sum int
	err := db.QueryRow("select count(*), sum(length(note)) from pq_copy where note = E'note\\t' || id || E'\\n'").Scan(&n, &sum)
	if err != nil || n != 10000 || sum != 10000*6+38890 {
		t.Errorf("%d rows, %d characters, %v", n, sum, err)
	}
}

func pqCopyInFails(t *testing.T, f *front) {
	db := f.openPq(t, 1)
	if _, err := db.Exec("create table pq_fails(id int, note text)"); err != nil {
		t.Fatal(err)
	}
	if err := copyIn(db, "pq_fails", [][2]any{{1, "a"}, {"two", "b"}}); pqCode(err) != "22P02" {
		t.Errorf("error %v", err)
	}
	var n int
	if err := db.QueryRow("select count(*) from pq_fails").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func pqPrepared(t *testing.T, f *front) {
	db := f.openPq(t, 4)
	stmt, err := db.Prepare("select $1::int * 2, $2::text")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stmt.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range 100 {
		var n int
		var text string
		if err := stmt.QueryRow(i, "x").Scan(&n, &text); err != nil || n != 2*i || text != "x" {
			t.Fatalf("%d, %q, %v", n, text, err)
		}
	}
}

// lib/pq numbers its statements per connection, so all connections use the same names for
// different texts.
func pqPreparedByMany(t *testing.T, f *front) {
	db := f.openPq(t, 12)
	g, ctx := errgroup.WithContext(t.Context())
	for worker := range 12 {
		g.Go(func() error {
			conn, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			stmt, err := conn.PrepareContext(ctx, fmt.Sprintf("select $1::int + %d", 1000*worker))
			if err != nil {
				return err
			}
			defer func() { _ = stmt.Close() }()
			for i := range 100 {
				var got int
				if err := stmt.QueryRowContext(ctx, i).Scan(&got); err != nil {
					return err
				}
				if got != i+1000*worker {
					return fmt.Errorf("worker %d: %d for %d", worker, got, i)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func pqErrors(t *testing.T, f *front) {
	db := f.openPq(t, 1)
	for statement, code := range map[string]string{
		"selec 1":                           "42601",
		"select 1/0":                        "22012",
		"insert into account values (1, 1)": "23505",
	} {
		if _, err := db.Exec(statement); pqCode(err) != code {
			t.Errorf("%s: %v, want %s", statement, err, code)
		}
		if err := db.Ping(); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("select 1/0"); pqCode(err) != "22012" {
		t.Error(err)
	}
	if _, err := tx.Exec("select 1"); pqCode(err) != "25P02" {
		t.Error(err)
	}
	if err := tx.Commit(); err == nil || !strings.Contains(err.Error(), "ROLLBACK") && !strings.Contains(err.Error(), "failed transaction") {
		t.Errorf("commit of a failed transaction: %v", err)
	}
}

func pqCancel(t *testing.T, f *front) {
	db := f.openPq(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(ctx, "select pg_sleep(600), 'pq_cancelled'")
		failed <- err
	}()
	f.await(t, running("pq_cancelled", 1))
	cancel()
	if err := <-failed; err == nil {
		t.Error("the statement succeeded")
	}
	f.await(t, running("pq_cancelled", 0))
	if err := db.Ping(); err != nil {
		t.Error(err)
	}
}

// database/sql rolls back by itself when the context of a transaction ends.
func pqCancelTransaction(t *testing.T, f *front) {
	db := f.openPq(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("insert into account values (400, 1)"); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := tx.Exec("select pg_sleep(600), 'pq_tx_cancelled'")
		failed <- err
	}()
	f.await(t, running("pq_tx_cancelled", 1))
	cancel()
	if err := <-failed; err == nil {
		t.Error("the statement succeeded")
	}
	f.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app' and state <> 'idle'")
	if got := f.sql(t, "app", "select count(*) from account where id = 400"); got != "0" {
		t.Errorf("%s rows of the cancelled transaction", got)
	}
}
