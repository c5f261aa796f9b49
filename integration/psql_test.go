package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestPsql(t *testing.T) {
	f := startFront(t, plan{})
	f.psql(t, "create table account(id int primary key, balance int not null check (balance >= 0));\ninsert into account values (1, 100), (2, 0)")
	for _, c := range []struct {
		name string
		test func(*testing.T, *front)
	}{
		{"commit and rollback", psqlCommitAndRollback},
		{"savepoints", psqlSavepoints},
		{"several statements in one query", psqlMultiStatement},
		{"error in a transaction", psqlErrorInTransaction},
		{"errors outside", psqlErrorsOutside},
		{"copy in and out", psqlCopy},
		{"copy that fails", psqlCopyFails},
		{"copy of 10 MB", psqlCopyLarge},
		{"cancel of a running statement", psqlCancelRunning},
		{"prepare and execute in a transaction", psqlPrepare},
		{"describe", psqlDescribe},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}

func psqlCommitAndRollback(t *testing.T, f *front) {
	f.psql(t, `begin;
update account set balance = balance - 30 where id = 1;
update account set balance = balance + 30 where id = 2;
commit;
begin;
update account set balance = 0;
rollback;`)
	if got := f.sql(t, "app", "select balance from account order by id"); got != "70\n30" {
		t.Errorf("balances %q", got)
	}
}

func psqlSavepoints(t *testing.T, f *front) {
	got := f.psql(t, `create table sp(a int);
begin;
insert into sp values (1);
savepoint one;
insert into sp values (2);
rollback to savepoint one;
insert into sp values (3);
release savepoint one;
commit;
select string_agg(a::text, ',' order by a) from sp;`)
	if got != "1,3" {
		t.Errorf("rows %q", got)
	}
}

// One -c is one Query message; psql's own way of sending several at once is \;.
func psqlMultiStatement(t *testing.T, f *front) {
	got := f.psql(t, `select 1 \; select 2 \; select 3;`)
	if got != "1\n2\n3" {
		t.Errorf("answers %q", got)
	}
	if _, err := f.Psql(t.Context(), f.app, `create table ms(a int) \; insert into ms values (1) \; select 1/0;`); err == nil {
		t.Fatal("a division by zero succeeded")
	}
	if got := f.psql(t, "select to_regclass('ms') is null"); got != "t" {
		t.Errorf("an implicit transaction left a table behind: %q", got)
	}
	if got := f.psql(t, `begin \; insert into account values (9, 9) \; rollback \; select count(*) from account where id = 9;`); got != "0" {
		t.Errorf("rolled back row: %q", got)
	}
}

func psqlErrorInTransaction(t *testing.T, f *front) {
	out, messages := f.psqlAll(t, `begin;
insert into account values (3, 1);
insert into account values (3, 1);
select 'never';
commit;
select 'still here';`)
	if out != "still here\n" {
		t.Errorf("output %q", out)
	}
	for _, want := range []string{"23505", "25P02"} {
		if !strings.Contains(messages, want) {
			t.Errorf("no %s in %s", want, messages)
		}
	}
	if got := f.sql(t, "app", "select count(*) from account where id = 3"); got != "0" {
		t.Errorf("the failed transaction left %s rows", got)
	}
}

func psqlErrorsOutside(t *testing.T, f *front) {
	out, messages := f.psqlAll(t, `select 1/0;
selec 1;
select * from no_such_table;
insert into account values (1, 1);
select 'alive';`)
	if out != "alive\n" {
		t.Errorf("output %q", out)
	}
	for _, want := range []string{"22012", "42601", "42P01", "23505", "account_pkey"} {
		if !strings.Contains(messages, want) {
			t.Errorf("no %s in %s", want, messages)
		}
	}
}

func psqlCopy(t *testing.T, f *front) {
	got := f.psql(t, `create table cp(a int, b text);
copy cp from stdin;
1	one
2	\N
3	drei\tthree
\.
copy (select * from cp order by a) to stdout;
select count(*) from cp;`)
	if want := "1\tone\n2\t\\N\n3\tdrei\\tthree\n3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func psqlCopyFails(t *testing.T, f *front) {
	out, messages := f.psqlAll(t, `create table cf(a int);
copy cf from stdin;
1
two
3
\.
select count(*) from cf;
begin;
copy cf from stdin;
x
\.
select 'no';
rollback;
copy (select 1/0) to stdout;
select 'alive';`)
	if out != "0\nalive\n" {
		t.Errorf("output %q", out)
	}
	for _, want := range []string{"22P02", "COPY cf, line 2", "25P02", "22012"} {
		if !strings.Contains(messages, want) {
			t.Errorf("no %q in %s", want, messages)
		}
	}
}

func psqlCopyLarge(t *testing.T, f *front) {
	in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
	var b bytes.Buffer
	for i := 0; b.Len() < 10<<20; i++ {
		b.WriteString(strings.Repeat("pgweir ", 1+i%40))
		b.WriteString("\n")
	}
	if err := os.WriteFile(in, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f.psql(t, "create table large(n serial, line text);\n\\copy large(line) from "+in+"\n\\copy (select line from large order by n) to "+out)
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(got) != sha256.Sum256(b.Bytes()) {
		t.Errorf("%d bytes came back of %d, or others", len(got), b.Len())
	}
}

// psql stops a script that was interrupted: with code 3, after it has the server's answer.
func psqlCancelRunning(t *testing.T, f *front) {
	script := f.startPsql(t, "select pg_sleep(600), 'interrupted';\n")
	f.await(t, running("interrupted", 1))
	if err := script.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	script.wait(t)
	if !strings.Contains(script.messages.String(), "57014") {
		t.Errorf("no 57014 in %s", script.messages.String())
	}
	f.await(t, running("interrupted", 0))
	if got := f.psql(t, "select 'alive'"); got != "alive" {
		t.Errorf("after the cancel: %q", got)
	}
}

// PREPARE and EXECUTE hold together in one transaction, whatever the mode.
func psqlPrepare(t *testing.T, f *front) {
	got := f.psql(t, `begin;
prepare twice(int) as select 2 * $1;
execute twice(21);
deallocate twice;
commit;`)
	if got != "42" {
		t.Errorf("got %q", got)
	}
}

func psqlDescribe(t *testing.T, f *front) {
	if got := f.psql(t, `\t off
\d account`); !strings.Contains(got, "account_pkey") {
		t.Errorf("\\d account: %q", got)
	}
	if got := f.psql(t, "select 1 as a, 'x' as b \\gdesc"); got != "a|integer\nb|text" {
		t.Errorf("\\gdesc: %q", got)
	}
}

// A statement that waits, for a slot of pgweir or, in direct mode, for a lock, is gone after
// a cancel; the one that it waited for goes on. Trap 35.
func TestPsqlCancelOfAWaitingStatement(t *testing.T) {
	f := startFront(t, plan{slots: 1})
	f.psql(t, "create table held(a int);\ninsert into held values (1)")
	holder := f.connect(t)
	if _, err := holder.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "update held set a = a + 1"); err != nil {
		t.Fatal(err)
	}
	waiter := f.startPsql(t, "update held set a = 100;\n")
	// Nothing outside shows when the statement has arrived, and a cancel that comes before
	// it is lost; so, like an impatient user, press again.
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	waiter.interruptUntilDone(t, tick.C, deadline.C)
	if !strings.Contains(waiter.messages.String(), "57014") {
		t.Errorf("no 57014 in %q", waiter.messages.String())
	}
	if _, err := holder.Exec(t.Context(), "commit"); err != nil {
		t.Error(err)
	}
	if got := f.psql(t, "select a from held"); got != "2" {
		t.Errorf("a = %s: the cancelled statement ran", got)
	}
}

// psqlAll runs a script that goes on after errors, and returns all that was printed.
func (f *front) psqlAll(t *testing.T, script string) (out, messages string) {
	t.Helper()
	cmd := f.Command(t.Context(), f.app, "psql", "-XAtq", "-w", "-v", "VERBOSITY=verbose", "-f", "-")
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("psql: %v: %s", err, stderr.String())
	}
	return stdout.String(), stderr.String()
}

// psqlScript is a psql that runs in the background.
type psqlScript struct {
	cmd      *exec.Cmd
	messages bytes.Buffer // read it only after done
	done     chan struct{}
	err      error // of Wait; read it only after done
}

// firstWrite closes ready at the first write.
type firstWrite struct {
	once  sync.Once
	ready chan struct{}
}

func (w *firstWrite) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.ready) })
	return len(b), nil
}

// startPsql returns once psql has logged in: before that, an interrupt would kill it.
func (f *front) startPsql(t *testing.T, script string) *psqlScript {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s := &psqlScript{
		cmd:  f.Command(ctx, f.app, "psql", "-XAtq", "-w", "-v", "VERBOSITY=verbose", "-f", "-"),
		done: make(chan struct{}),
	}
	output := &firstWrite{ready: make(chan struct{})}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = strings.NewReader("\\echo ready\n"+script), output, &s.messages
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	select {
	case <-output.ready:
	case <-s.done:
		t.Fatalf("psql ended with %v: %s", s.err, s.messages.String())
	}
	return s
}

// wait waits for the end of an interrupted psql.
func (s *psqlScript) wait(t *testing.T) {
	t.Helper()
	<-s.done
	if exit, ok := errors.AsType[*exec.ExitError](s.err); !ok || exit.ExitCode() != 3 {
		t.Errorf("psql ended with %v, not with code 3: %s", s.err, s.messages.String())
	}
}

// interruptUntilDone sends SIGINT at every tick until psql has ended.
func (s *psqlScript) interruptUntilDone(t *testing.T, tick, deadline <-chan time.Time) {
	t.Helper()
	for {
		select {
		case <-s.done:
			s.wait(t)
			return
		case <-tick:
			_ = s.cmd.Process.Signal(syscall.SIGINT) // it may just have ended
		case <-deadline:
			t.Fatal("the cancel of a waiting statement has no effect")
		}
	}
}
