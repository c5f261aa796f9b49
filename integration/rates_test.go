package integration

import (
	"context"
	"errors"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// simple makes each statement one message.
func simple(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol }

// work is a statement that is no driver's probe.
const work = "select count(*) from generate_series(1, 3)"

// field takes a number out of a DETAIL or HINT; -1 if it has none of that name.
func field(text, name string) int {
	m := regexp.MustCompile(`(^|\s)` + name + `=(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[2]) // digits
	return n
}

// overRate runs a statement and returns pgweir's refusal by a rate, or nil if it was served.
func overRate(t *testing.T, c *pgx.Conn, statement string) *pgconn.PgError {
	t.Helper()
	_, err := c.Exec(t.Context(), statement)
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != "53400" || e.Severity != "ERROR" || !strings.Contains(e.Detail, "reason=rate ") || !strings.HasSuffix(e.Hint, " retry=yes") {
		t.Fatalf("%s: %v, %+v", statement, err, e)
	}
	if n := field(e.Hint, "retry_after_ms"); n < 1 && field(e.Detail, "wait_ms") == 0 {
		t.Fatalf("the hint is %q", e.Hint)
	}
	return e
}

// A quiet client fires 40 statements within a second at a rate of 10/s and a burst of 20:
// the burst passes, and what flows back meanwhile; all others are told when exactly to come
// again, and then pass.
func TestRateOfABurst(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{more: `
[[rate]]
per   = "tenant"
match = { application_name = ["quiet"] }
rate  = "10/s"
burst = 20
`})
	c := o.connect(t, simple, named("quiet"))
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	before := time.Now()
	var passed int
	var refusals []*pgconn.PgError
	for range 40 {
		<-tick.C
		if e := overRate(t, c, work); e == nil {
			passed++
		} else {
			refusals = append(refusals, e)
		}
	}
	if most := 20 + int(math.Ceil(10*time.Since(before).Seconds())); passed < 20 || passed > most {
		t.Errorf("%d of 40 passed; at least 20 should, and at most %d", passed, most)
	}
	for _, e := range refusals {
		if !strings.Contains(e.Detail, `per=tenant rate="10/s"`) || field(e.Hint, "retry_after_ms") > 100 {
			t.Errorf("DETAIL %q HINT %q: one flows back each 100 ms", e.Detail, e.Hint)
		}
	}
	for range 200 { // it is refused in the end, however slow this machine is
		e := overRate(t, c, work)
		if e == nil {
			continue
		}
		<-time.After(time.Duration(field(e.Hint, "retry_after_ms")) * time.Millisecond)
		if again := overRate(t, c, work); again != nil {
			t.Errorf("told %q it came after that time and was told %q", e.Hint, again.Hint)
		}
		refusals = append(refusals, e)
		break
	}
	if len(refusals) == 0 {
		t.Fatal("nothing was refused")
	}
	other := o.connect(t, simple, named("other"))
	for range 50 {
		if e := overRate(t, other, work); e != nil {
			t.Fatalf("another tenant, for whom there is no rate: %+v", e)
		}
	}
}

// What a transaction takes is owed afterwards, at most a burst of it; within the transaction
// nothing is refused.
func TestRateOfServerTime(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{more: `
[[rate]]
name  = "time"
per   = "role"
match = { application_name = ["time*"] }
rate  = "1ms/s"
burst = "20ms"

[[rate]]
name  = "statements"
per   = "role"
rate  = "1/m"
burst = 5
`})
	c := o.connect(t, simple, named("time 1"))
	run(t, c, "begin", "select pg_sleep(0.1)", work, work, "commit") // five times what there is
	e := overRate(t, o.connect(t, simple, named("time 2")), work)    // the same role
	if e == nil {
		t.Fatal("a role in debt is served")
	}
	if n := field(e.Hint, "retry_after_ms"); n <= 0 || n > 20_000 || !strings.Contains(e.Detail, `per=role rate="1ms/s"`) {
		t.Errorf("DETAIL %q HINT %q: 20 ms flow back in 20 s", e.Detail, e.Hint)
	}
	c = o.connect(t, simple, named("statements"))
	run(t, c, "begin", work, work, work, work, work, work, "commit") // with the last, seven of five
	if e := overRate(t, c, work); e == nil || field(e.Hint, "retry_after_ms") <= 60_000 || field(e.Hint, "retry_after_ms") > 180_000 {
		t.Errorf("two in debt, at one a minute: %+v", e)
	}
	run(t, c, "begin")
	if e := overRate(t, c, work); e == nil {
		t.Error("the first statement of a transaction is served")
	}
	if _, err := c.Exec(t.Context(), work); sqlstate(err) != "25P02" {
		t.Errorf("after a refusal within the transaction: %v", err)
	}
	run(t, c, "rollback", "select 1") // a probe is never refused
	extended := o.connect(t, named("extended"), execMode(pgx.QueryExecModeExec))
	for range 3 { // a pipeline: one refusal for all of it
		b := &pgx.Batch{}
		b.Queue(work)
		b.Queue(work)
		if err := extended.SendBatch(t.Context(), b).Close(); sqlstate(err) != "53400" {
			t.Errorf("a pipeline: %v", err)
		}
	}
}

// teased runs statements far over the rate until one is not answered by a refusal by the
// rate, and returns what it was answered by.
func teased(ctx context.Context, c *pgx.Conn) (*pgconn.PgError, int) {
	for n := range 5000 {
		_, err := c.Exec(ctx, work)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.Contains(e.Detail, "reason=rate ") || field(e.Detail, "wait_ms") > 0 {
			return e, n
		}
	}
	return nil, 5000
}

// Who never waits is answered later: its connection says nothing more meanwhile.
func TestRateDelaysWhoNeverWaits(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{more: `
[[rate]]
per        = "client"
rate       = "1/m"
burst      = 1
escalation = "delay"
`})
	c := o.connect(t, simple)
	run(t, c, work)
	e, n := teased(t.Context(), c)
	if e == nil || n < 20 || field(e.Detail, "wait_ms") < 1000 || e.Severity != "ERROR" {
		t.Fatalf("after %d refusals at once: %+v", n, e)
	}
	if left := field(e.Hint, "retry_after_ms"); left <= 0 || left > 59_000 {
		t.Errorf("a second later the hint is %q", e.Hint)
	}
	// It may give up while it waits: its session goes on.
	impatient := o.connect(t, simple, cancelRequests)
	eventually(t, "a refusal that is held back is cancelled", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := impatient.Exec(ctx, work)
		e, ok := errors.AsType[*pgconn.PgError](err)
		return ok && e.Code == "57014" && strings.Contains(e.Detail, "stage=waiting")
	})
	run(t, impatient, "select 1")
}

// Who goes on like that on many connections is blocked: its sessions end, it does not get in
// for a while, and then it does again. The same role from elsewhere, and the console, are not
// concerned.
func TestRateBlocksAStorm(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{top: "max_client_conn = 20\nreserved_clients = 5\n", more: `
[[rate]]
per        = "client"
rate       = "1/m"
burst      = 1
escalation = "block"
`})
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// One refusal of 20 clients may be held back at a time: others are answered at once.
	var conns []*pgx.Conn
	for range 3 {
		conns = append(conns, o.connect(t, simple))
	}
	ends := make(chan *pgconn.PgError, len(conns))
	for _, c := range conns {
		wait.Go(func() {
			for ctx.Err() == nil {
				_, err := c.Exec(ctx, work)
				if e, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || e.Severity == "FATAL") {
					ends <- e
					return
				}
			}
		})
	}
	from := func(address string) error {
		config, err := pgx.ParseConfig(o.URL(o.app))
		if err != nil {
			return err
		}
		if address != "" {
			config.DialFunc = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext
		}
		c, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			return err
		}
		return c.Close(t.Context())
	}
	for i := range conns {
		select {
		case e := <-ends:
			if e == nil || e.Code != "53400" || !strings.Contains(e.Detail, "reason=blocked ") || !strings.HasSuffix(e.Hint, "retry=no") {
				t.Fatalf("a session ended with %+v", e)
			}
			if ms := field(e.Detail, "left_ms"); ms <= 0 || ms > 10_000 {
				t.Errorf("the DETAIL is %q", e.Detail)
			}
		case <-time.After(patience):
			t.Fatal("the storm goes on")
		}
		if i > 0 {
			continue
		}
		err := from("")
		e, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || e.Code != "53400" || e.Severity != "FATAL" || !strings.Contains(e.Detail, "reason=blocked ") || field(e.Detail, "left_ms") <= 0 {
			t.Errorf("a login of who is blocked: %v", err)
		}
	}
	if err := from("127.0.0.2"); err != nil {
		t.Errorf("the same role from elsewhere: %v", err)
	}
	o.console(t, "show version")
	o.logged(t, "client blocked", "role=app")
	eventually(t, "the block is over", func() bool { return from("") == nil })
}

// A reload keeps what was taken of rates with the same name, and a rate that is only tried
// refuses nobody. Where nobody is to be blocked any more, nobody is.
func TestRatesAreReloaded(t *testing.T) {
	t.Parallel()
	rate := "[[rate]]\nname = \"r\"\nper = \"role\"\nmode = \"enforce\"\nrate = \"1/m\"\nburst = 2\n"
	o := operate(t, plan{more: rate})
	c := o.connect(t, simple)
	run(t, c, work, work)
	if overRate(t, c, work) == nil {
		t.Fatal("the third of two is served")
	}
	o.rewrite(t, "burst = 2", "burst = 3")
	o.console(t, "reload")
	run(t, c, work) // one more now
	if overRate(t, c, work) == nil {
		t.Error("a reload has filled the bucket")
	}
	o.rewrite(t, "\"enforce\"", "\"dry_run\"")
	o.console(t, "reload")
	run(t, c, work, work, work)
	o.rewrite(t, rate, "")
	o.console(t, "reload")
	run(t, c, work, work, work)
}
