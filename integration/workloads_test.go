package integration

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// holders are clients that each run a statement that does not end by itself.
type holders struct {
	f    *front
	wait sync.WaitGroup
	errs chan error
}

// hold starts n clients of an application, each with one statement that is ended by release.
func (h *holders) hold(t *testing.T, application string, n int) {
	t.Helper()
	for range n {
		c := h.f.connect(t, named(application), execMode(pgx.QueryExecModeSimpleProtocol))
		h.wait.Go(func() {
			if _, err := c.Exec(context.Background(), "select pg_sleep(600)"); sqlstate(err) != "57014" {
				h.errs <- fmt.Errorf("%s: %w", application, err)
			}
		})
	}
}

// active is an SQL condition: so many statements of an application run.
func active(application string, n int) string {
	return fmt.Sprintf("count(*) = %d from pg_stat_activity where application_name = '%s' and state = 'active'", n, application)
}

// release ends n statements of an application, or with 0 all, also those that come now.
func (h *holders) release(t *testing.T, application string, n int) {
	t.Helper()
	cancel := "select count(pg_cancel_backend(pid)) from (select pid from pg_stat_activity where application_name = '" + application + "' and state = 'active'"
	if n > 0 {
		h.f.sql(t, "app", cancel+fmt.Sprintf(" limit %d) s", n))
		return
	}
	done := make(chan struct{})
	go func() { h.wait.Wait(); close(done) }()
	eventually(t, "all have ended", func() bool {
		h.f.sql(t, "app", cancel+") s")
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	for range len(h.errs) {
		t.Error(<-h.errs)
	}
}

// Two workloads have half of eight slots each. The busy one gets of the other's half what
// that lends, as far as it may borrow, and no more however many clients it has; the other
// gets what it has kept at once, and the rest when it comes back.
func TestSharesAndLoans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, lendable, borrow string
		most                   int // that the busy one gets
	}{
		{"half is lent", "50%", "100%", 6},
		{"nothing is lent", "0%", "100%", 4},
		{"all is lent", "100%", "100%", 8},
		{"little may be borrowed", "100%", "12%", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := startFront(t, plan{slots: 8, more: fmt.Sprintf(`
[[workload]]
name     = "quiet"
match    = { application_name = ["quiet"] }
share    = "50%%"
lendable = %q
max_wait = "60s"

[[workload]]
name     = "default"
share    = "50%%"
borrow   = %q
max_wait = "60s"
`, c.lendable, c.borrow)})
			if f.proc == nil {
				t.Skip("needs pgweir")
			}
			h := &holders{f: f, errs: make(chan error, 100)}
			h.hold(t, "busy", 12)
			f.await(t, active("busy", c.most))
			h.hold(t, "quiet", 4)
			kept := min(8-c.most, 4) // free, and nobody else's
			f.await(t, active("quiet", kept))
			if got := f.sql(t, "app", "select "+active("busy", c.most)); got != "t" {
				t.Errorf("not %d of the busy ones run now", c.most)
			}
			if back := 4 - kept; back > 0 { // as what was lent becomes free it is the owner's again
				h.release(t, "busy", back)
			}
			f.await(t, active("quiet", 4))
			f.await(t, active("busy", 4))
			h.release(t, "quiet", 4)
			f.await(t, active("busy", min(c.most, 12-max(c.most-4, 0))))
			h.release(t, "busy", 0)
		})
	}
}

// Under load from both sides, with more clients than slots, work is done in the proportion of
// the shares, and nobody is refused for it.
func TestSharesUnderLoad(t *testing.T) {
	f := startFront(t, plan{slots: 4, more: `
[[workload]]
name     = "large"
match    = { application_name = ["large"] }
share    = "75%"
lendable = "100%"
max_wait = "60s"

[[workload]]
name     = "default"
share    = "25%"
lendable = "100%"
max_wait = "60s"
`})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	processed := regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	script := t.TempDir() + "/sleep.sql"
	writeFile(t, script, "select pg_sleep(0.01);\n")
	count := make(map[string]int)
	var mu sync.Mutex
	var g errgroup.Group
	for _, name := range []string{"large", "small"} {
		g.Go(func() error {
			cmd := f.Command(t.Context(), f.app, "pgbench", "-n", "-f", script, "-c", "8", "-T", "3")
			cmd.Env = append(cmd.Env, "PGAPPNAME="+name)
			out, err := cmd.CombinedOutput()
			m := processed.FindSubmatch(out)
			if err != nil || m == nil {
				return fmt.Errorf("%s: %w: %s", name, err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			count[name], err = strconv.Atoi(string(m[1]))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("75 %%: %d, 25 %%: %d transactions", count["large"], count["small"])
	if count["small"] == 0 || count["large"] <= count["small"] {
		t.Errorf("the shares do not show: %v", count)
	}
}

// min_pool_size servers are opened as soon as somebody has asked for the database, kept over
// server_idle_timeout, and opened again when they are lost.
func TestMinPoolSize(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 5, upstream: "server_idle_timeout = \"1s\"", more: "[[workload]]\nname = \"default\"\nmin_pool_size = 3\n"})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	c := f.connect(t, named("few"))
	run(t, c, "select 1")
	const open = "from pg_stat_activity where usename = 'app' and datname = 'app' and backend_type = 'client backend'"
	f.await(t, "count(*) >= 3 "+open)
	h := &holders{f: f, errs: make(chan error, 10)}
	h.hold(t, "five", 5)
	f.await(t, "count(*) >= 5 "+open)
	h.release(t, "five", 0)
	f.await(t, "count(*) = 3 "+open) // those beyond are closed
	pids := f.sql(t, "app", "select string_agg(pid::text, ',') "+open)
	f.sql(t, "app", "select count(pg_terminate_backend(pid)) "+open)
	f.await(t, "count(*) = 3 "+open+" and pid not in ("+pids+")")
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	f.sql(t, "app", "select count(pg_terminate_backend(pid)) "+open)
	f.await(t, "count(*) = 3 "+open) // also with no client left
}

// When every slot is taken a role of reserve_users still gets in, and nobody else does.
func TestReserveUsers(t *testing.T) {
	t.Parallel()
	f := startBehind(t, plan{})
	f.sql(t, "postgres", "create role dba login;\ngrant connect on database app to dba")
	p := plan{slots: 2, reserve: 3, upstream: `reserve_users = ["dba"]`, more: "[[workload]]\nname = \"default\"\nmax_wait = \"100ms\"\n"}
	f = f.before(t, p)
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	h := &holders{f: f, errs: make(chan error, 10)}
	h.hold(t, "all", 2)
	f.await(t, active("all", 2))
	other := f.connect(t, execMode(pgx.QueryExecModeSimpleProtocol))
	_, err := other.Exec(t.Context(), "select 1 as one")
	wantRefusal(t, err, "53300", "queue_age")
	dba := f.app
	dba.User = "dba"
	for i := range 2 {
		config, err := pgx.ParseConfig(f.URL(dba))
		if err != nil {
			t.Fatal(err)
		}
		c, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatalf("dba %d: %v", i, err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		run(t, c, "begin", "select 1 as one") // each holds one of the two
	}
	if out, err := f.Psql(t.Context(), dba, "begin; select 1"); err == nil || !strings.Contains(err.Error(), "53300") {
		t.Errorf("a third one of the reserve: %q, %v", out, err)
	}
	_, err = other.Exec(t.Context(), "select 1 as one")
	wantRefusal(t, err, "53300", "queue_age")
	h.release(t, "all", 0)
	wantOne(t, other, "select 'free'", "free")
}

// A patient workload waits where others are refused, and each has its own bound of how many
// may wait: one more is refused at once.
func TestPatienceAndBounds(t *testing.T) {
	t.Parallel()
	f := startFront(t, plan{slots: 1, more: `
[console]
stats_users = ["app"]

[[workload]]
name    = "batch"
match   = { application_name = ["batch"] }
share   = "50%"
patient = true

[[workload]]
name        = "hasty"
match       = { application_name = ["hasty"] }
share       = "25%"
max_wait    = "60s"
max_waiting = 2

[[workload]]
name     = "default"
share    = "25%"
max_wait = "100ms"
`})
	if f.proc == nil {
		t.Skip("needs pgweir")
	}
	h := &holders{f: f, errs: make(chan error, 20)}
	f.psql(t, "select 1") // now pgweir can welcome others without a server
	web, extra := f.connect(t), f.connect(t, named("hasty"))
	h.hold(t, "holder", 1)
	f.await(t, active("holder", 1))
	h.hold(t, "batch", 2)
	h.hold(t, "hasty", 2)
	eventually(t, "two of the hasty wait", func() bool { return f.waiting(t, "hasty") == "2" })
	eventually(t, "two of the batch wait", func() bool { return f.waiting(t, "batch") == "2" })
	_, err := extra.Exec(t.Context(), "select 1 as one", pgx.QueryExecModeSimpleProtocol)
	wantRefusal(t, err, "53300", "queue_full")
	for range 3 {
		_, err := web.Exec(t.Context(), "select 1 as one", pgx.QueryExecModeSimpleProtocol)
		wantRefusal(t, err, "53300", "queue_age")
	}
	if got := f.waiting(t, "batch"); got != "2" {
		t.Errorf("%s of the patient ones wait", got)
	}
	for range 5 { // one after the other gets the slot
		f.await(t, "count(*) = 1 from pg_stat_activity where usename = 'app' and state = 'active' and query like 'select pg_sleep%'")
		f.sql(t, "app", "select count(pg_cancel_backend(pid)) from pg_stat_activity where usename = 'app' and state = 'active' and query like 'select pg_sleep%'")
	}
	h.wait.Wait()
	if len(h.errs) > 0 {
		t.Error(<-h.errs)
	}
}

// waiting is how many clients of a workload wait.
func (f *front) waiting(t *testing.T, workload string) string {
	t.Helper()
	return f.workload(t, workload, "waiting")
}

// workload is a column of SHOW WORKLOADS.
func (f *front) workload(t *testing.T, workload, column string) string {
	t.Helper()
	console := f.app
	console.Database = "pgweir"
	out, err := f.Psql(t.Context(), console, "\\pset format unaligned\n\\pset tuples_only off\nshow workloads;")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	columns := strings.Split(lines[0], "|")
	for _, line := range lines[1:] {
		values := strings.Split(line, "|")
		row := make(map[string]string)
		for i, v := range values {
			if i < len(columns) {
				row[columns[i]] = v
			}
		}
		if row["workload"] == workload {
			return row[column]
		}
	}
	t.Fatalf("no workload %s in\n%s", workload, out)
	return ""
}
