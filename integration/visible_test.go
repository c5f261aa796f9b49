package integration

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// What a client was told is what the console and the log say of it; who was turned away at
// the door is there too.
func TestRefusalsAreShownAsTold(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{slots: 4, more: "[[workload]]\nname = \"default\"\nmax_wait = \"1m\"\nmax_waiting = 3\n"})
	c := gather(t, o)
	_, err := c.idle[1].Exec(t.Context(), "select 'one too many'")
	told, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		t.Fatalf("the fourth that waits: %v", err)
	}
	begin := time.Now().Add(-time.Minute)
	o.console(t, "DISABLE app")
	if _, err := pgconn.Connect(t.Context(), o.URL(pgtest.Login{User: "app", Password: o.app.Password, Database: "app"})); sqlstate(err) != "57P03" {
		t.Errorf("a login to a database that is disabled: %v", err)
	}
	o.console(t, "ENABLE app")
	list := o.show(t, "pgweir", "REFUSALS")
	row := list.find(t, "reason=queue_full")
	wantRow(t, "REFUSALS", row, "sqlstate="+told.Code, "detail="+told.Detail, "hint="+told.Hint, "user=app", "database=app",
		"application_name=idle", "workload=default", "upstream=main", "class=critical", "wait_ms=0", "login=0", "client_id>0")
	if at, err := time.Parse("2006-01-02 15:04:05.000 MST", row["time"]); err != nil || at.Before(begin) || at.After(time.Now().Add(time.Minute)) {
		t.Errorf("time %q, %v", row["time"], err)
	}
	if o.show(t, "pgweir", "CLIENTS").count("id="+row["client_id"], "application_name=idle") != 1 {
		t.Errorf("client %s is not in SHOW CLIENTS", row["client_id"])
	}
	wantRow(t, "REFUSALS", list.find(t, "reason=disabled"), "login=1", "workload=", "client_id=", "sqlstate=57P03")
	if len(list.rows) != 2 || list.rows[0]["reason"] != "disabled" {
		t.Errorf("not the newest first: %v", list.rows)
	}
	o.logged(t, "msg=refusing", "reason=queue_full", "class=critical", "client="+row["client"])
	c.disperse(t)
}

// Goodput is what was answered to those who were there for it.
func TestGoodputIsWhatClientsGot(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{slots: 2})
	of := func(series string) float64 {
		t.Helper()
		v, err := strconv.ParseFloat(o.metric(t, series), 64)
		if err != nil {
			t.Errorf("%s: %v", series, err)
		}
		return v
	}
	const (
		goodput = `pgweir_goodput_total{class="critical",upstream="main",workload="default"}`
		wasted  = `pgweir_wasted_requests_total{upstream="main",workload="default"}`
		time    = `pgweir_wasted_seconds_total{upstream="main",workload="default"}`
	)
	conn := o.connect(t)
	if _, err := conn.Exec(t.Context(), "select 1"); err != nil {
		t.Fatal(err)
	}
	before := of(goodput)
	for range 5 {
		if _, err := conn.Exec(t.Context(), "select 1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := of(goodput) - before; n < 5 {
		t.Errorf("%v of 5 answers were of use", n)
	}
	before = of(goodput)
	gone := o.connect(t)
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = gone.Exec(ctx, "select pg_sleep(600)") // ends with the client
	}()
	o.await(t, running("pg_sleep", 1))
	_ = gone.PgConn().Conn().Close() // without a word
	leave()
	<-done
	eventually(t, "the work for nobody is counted", func() bool { return of(wasted) == 1 && of(time) > 0 })
	if n := of(goodput) - before; n != 0 {
		t.Errorf("%v answers to one who has left", n)
	}
}

// What a request says of itself is shown with its refusal, and what could not be had of it is
// counted.
func TestTagsAreShown(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{slots: 4, more: "[[workload]]\nname = \"default\"\nmax_wait = \"1m\"\nmax_waiting = 3\n"})
	c := gather(t, o)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	const tags = " /*pgweir.class='sheddable',pgweir.tenant='acme',traceparent='" + parent + "'*/"
	if _, err := c.idle[0].Exec(t.Context(), "select 'one too many'"+tags); sqlstate(err) != "53300" {
		t.Errorf("the fourth that waits: %v", err)
	}
	wantRow(t, "REFUSALS", o.show(t, "pgweir", "REFUSALS").find(t, "application_name=idle"), "class=sheddable", "tenant=acme", "traceparent="+parent)
	o.logged(t, "msg=refusing", "class=sheddable", "tenant=acme", "traceparent="+parent)
	for _, tag := range []string{"pgweir.class='critical_plus'", "pgweir.class='urgent'"} {
		if _, err := c.idle[1].Exec(t.Context(), "select 'one too many' /*"+tag+"*/"); sqlstate(err) != "53300" {
			t.Errorf("%s: %v", tag, err)
		}
	}
	wantRow(t, "ROLES", o.show(t, "pgweir", "ROLES").find(t, "user=app"), "max_class=critical", "promote_share=0.3", "capped=1", "demoted=0", "clients=9")
	for series, want := range map[string]string{
		`pgweir_unknown_tags_total{key="pgweir.class",upstream="main"}`: "1",
		`pgweir_class_capped_total{upstream="main"}`:                    "1",
		`pgweir_class_demoted_total{upstream="main"}`:                   "0",
	} {
		if got := o.metric(t, series); got != want {
			t.Errorf("%s %q, want %s", series, got, want)
		}
	}
	if n := o.metric(t, `pgweir_tenants{upstream="main"}`); number(n) < 4 {
		t.Errorf("%s tenants, want those of three applications and one by its tag", n)
	}
	c.disperse(t)
}

// Whose work it is and of which class is shown by the gate's own books, and so is what a dry
// run would have refused.
func TestGuardIsShown(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{slots: 4, more: "[[workload]]\nname = \"default\"\nmode = \"dry_run\"\nmax_wait = \"1m\"\n"})
	warm := o.connect(t)
	for range 50 { // so that it is known how long a slot is held
		if _, err := warm.Exec(t.Context(), "select pg_sleep(0.01)"); err != nil {
			t.Fatal(err)
		}
	}
	_ = warm.Close(t.Context())
	c := gather(t, o)
	const tags = " /*pgweir.class='sheddable',pgweir.tenant='acme',pgweir.deadline_ms='1'*/"
	late := make(chan error, 1)
	go func() {
		_, err := c.idle[0].Exec(t.Context(), "select 'too late'"+tags)
		late <- err
	}()
	eventually(t, "a fourth waits", func() bool {
		return o.show(t, "pgweir", "QUEUES").find(t, "workload=default")["waiting"] == "4"
	})
	list := o.show(t, "pgweir", "GUARD")
	wantRow(t, "GUARD", list.find(t, "workload=default", "class=critical"), "mode=dry_run", "waiting=3", "refused=0", "would_refuse=0")
	wantRow(t, "GUARD", list.find(t, "workload=default", "class=sheddable"), "mode=dry_run", "waiting=1", "refused=0",
		"would_refuse=1", "would_by=deadline=1", "granted=0")
	tenants := o.show(t, "pgweir", "TENANTS")
	wantRow(t, "TENANTS", tenants.find(t, "tenant=waiting"), "waiting=3", "running=0", "user=app", "workload=default", "class=critical")
	wantRow(t, "TENANTS", tenants.find(t, "tenant=acme"), "waiting=1", "running=0", "class=sheddable", "refused=0")
	for series, want := range map[string]string{
		`pgweir_class_waiting_clients{class="critical",upstream="main",workload="default"}`:                      "3",
		`pgweir_class_waiting_clients{class="sheddable",upstream="main",workload="default"}`:                     "1",
		`pgweir_would_refuse_total{class="sheddable",reason="deadline",upstream="main",workload="default"}`:      "1",
		`pgweir_class_wait_seconds_count{class="sheddable",outcome="served",upstream="main",workload="default"}`: "0",
	} {
		if got := o.metric(t, series); got != want {
			t.Errorf("%s %q, want %s", series, got, want)
		}
	}
	promtool(t, o)
	c.disperse(t)
	if err := <-late; err != nil && sqlstate(err) != "57014" { // its deadline may stop it while it runs
		t.Errorf("who came too late: %v", err)
	}
	wantRow(t, "GUARD", o.show(t, "pgweir", "GUARD").find(t, "workload=default", "class=sheddable"), "granted=1", "waiting=0", "refused=0", "goodput=0")
}
