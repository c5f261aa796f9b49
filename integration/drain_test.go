package integration

import (
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// SIGTERM: who is idle goes at once, who is in a transaction finishes it, nobody new comes
// in, and the process ends with code 0 (which the end of every test asserts).
func TestDrain(t *testing.T) {
	f := startFront(t, plan{})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	f.psql(t, "create table drained(a int)")
	idle, busy := f.connect(t), f.connect(t, execMode(pgx.QueryExecModeExec))
	if _, err := idle.Exec(t.Context(), "select 1"); err != nil {
		t.Fatal(err)
	}
	tx, err := busy.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "insert into drained values (1)"); err != nil {
		t.Fatal(err)
	}

	f.proc.Signal(syscall.SIGTERM)
	awaitClosed(t, f.Addr())
	// An idle client is told why, or sees the end of its connection.
	if _, err := idle.Exec(t.Context(), "select 1"); err == nil {
		t.Error("an idle client was served after SIGTERM")
	} else if code := sqlstate(err); code != "" && code != "57P01" {
		t.Errorf("an idle client: %v", err)
	}
	if _, err := tx.Exec(t.Context(), "insert into drained values (2)"); err != nil {
		t.Errorf("in the transaction: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Errorf("commit: %v", err)
	}
	<-f.proc.Done()
	if got := f.sql(t, "app", "select count(*) from drained"); got != "2" {
		t.Errorf("%s rows", got)
	}
}
