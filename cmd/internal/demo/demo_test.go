package demo

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/integration/pgtest"
)

func TestRunRefusesWrongTimes(t *testing.T) {
	for _, seconds := range []int{-1, 0, MinSeconds - 1, MaxSeconds + 1} {
		if err := Run(t.Context(), Options{Seconds: seconds, Out: io.Discard}); err == nil {
			t.Errorf("%d seconds", seconds)
		}
	}
}

func TestConfigurationIsRight(t *testing.T) {
	p := &pooler{
		Endpoint:   pgtest.Endpoint{Host: "127.0.0.1", Port: 6432},
		configFile: filepath.Join(t.TempDir(), "pgweir.toml"),
	}
	if err := writeConfig(p, &pgtest.Cluster{Endpoint: pgtest.Endpoint{Host: "127.0.0.1", Port: 5432}}); err != nil {
		t.Fatal(err)
	}
	c, problems := config.LoadEnv(p.configFile, func(string) string { return "" })
	for _, one := range problems {
		t.Error(one)
	}
	if len(problems) > 0 {
		return
	}
	b := c.Budget(0, config.Facts{MaxConnections: 100, RoleLimit: -1})
	if b.Connections != budget || b.Slots != slots {
		t.Errorf("%d connections and %d slots, want %d and %d", b.Connections, b.Slots, budget, slots)
	}
	if w := c.Workloads[len(c.Workloads)-1]; w.MaxWait.Std() != maxWait || int(w.MaxWaiting) != waiting {
		t.Errorf("waits of %v, %v clients", w.MaxWait, w.MaxWaiting)
	}
	if len(c.Warnings()) > 0 {
		t.Error(c.Warnings())
	}
}

func TestPhases(t *testing.T) {
	for _, p := range phases() {
		if p.share < 1 || p.rate < 1 || p.work == nil || p.shows == nil || p.name == "" || p.about == "" {
			t.Errorf("%+v is not complete", p)
		}
		// A sentence about nothing must not panic: all may have been refused.
		if p.shows(&result{phase: p, elapsed: time.Second, length: time.Second}) == "" {
			t.Errorf("%s shows nothing", p.name)
		}
	}
}

func TestTimes(t *testing.T) {
	var none times
	if none.at(50) != 0 {
		t.Error("a percentile of nothing")
	}
	hundred := make(times, 0, 100)
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, c := range []struct{ percent, want int }{{0, 1}, {1, 1}, {50, 50}, {99, 99}, {100, 100}} {
		if got := hundred.at(c.percent); got != time.Duration(c.want) {
			t.Errorf("p%d is %d, want %d", c.percent, got, c.want)
		}
	}
	if got := (times{7, 3}).at(99); got != 7 {
		t.Errorf("p99 of two is %d", got)
	}
}

func TestTally(t *testing.T) {
	refusal := &pgconn.PgError{Severity: "ERROR", Code: "53300", Message: "pgweir: no"}
	tally := &tally{}
	tally.add(time.Millisecond, nil)
	tally.add(2*time.Millisecond, refusal)
	w, mark := tally.since(mark{}, time.Second)
	if diff := cmp.Diff(window{times{time.Millisecond}, times{2 * time.Millisecond}, 0, time.Second}, w, cmp.AllowUnexported(window{})); diff != "" {
		t.Error(diff)
	}
	other := errors.New("cut")
	tally.add(3*time.Millisecond, other)
	for _, wrong := range []error{
		&pgconn.PgError{Severity: "FATAL", Code: "53300", Message: "pgweir: no"},       // ends the session
		&pgconn.PgError{Severity: "ERROR", Code: "53300", Message: "too many clients"}, // Postgres itself
		context.DeadlineExceeded,
	} {
		tally.add(0, wrong)
	}
	tally.add(4*time.Millisecond, errors.Join(errors.New("in a transaction"), refusal))
	tally.unsent()
	tally.lost()
	if w, _ = tally.since(mark, 3*time.Second); len(w.served) != 0 || len(w.refused) != 1 || w.from != time.Second {
		t.Errorf("%+v", w)
	}
	r := tally.result(phase{}, 2*time.Second, 4*time.Second)
	if r.asked != 7 || len(r.served) != 1 || len(r.refused) != 2 || r.failed != 4 || r.failure != other ||
		r.refusal != refusal || r.notSent != 1 || r.lost != 1 || states(r.codes) != "53300" {
		t.Errorf("%+v", r)
	}
	if r.servedRate() != 0.25 || r.rate(r.asked) != 3.5 {
		t.Errorf("%f/s served, %f/s asked", r.servedRate(), r.rate(r.asked))
	}
}

func TestPromises(t *testing.T) {
	good := func() *result { return &result{servers: budget, balanced: true} }
	if err := broken([]*result{good(), good()}); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*result){
		"budget":   func(r *result) { r.servers++ },
		"sessions": func(r *result) { r.lost = 1 },
		"errors":   func(r *result) { r.failed = 2 },
		"books":    func(r *result) { r.balanced = false },
	} {
		bad := good()
		bad.phase.name = "Second"
		spoil(bad)
		list := []*result{good(), bad}
		if err := broken(list); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
		said := 0
		for _, p := range promises() {
			if text := p.says(list); strings.Contains(text, "BROKEN in phase Second: ") {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%s: %d sentences say so", name, said)
		}
	}
}

func TestLogbook(t *testing.T) {
	l, err := openLogbook(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range []string{"one\ntime=x level=INFO msg=list", "ening address=127.0.0.1:1\n", "three\n"} {
		if _, err := io.WriteString(l, part); err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.ready:
			if i == 0 {
				t.Error("ready too early")
			}
		default:
			if i > 0 {
				t.Error("not ready")
			}
		}
	}
	if got := l.tail(2); got != "time=x level=INFO msg=listening address=127.0.0.1:1\nthree" {
		t.Errorf("%q", got)
	}
	if !l.has("one") || l.has("four") {
		t.Error("it does not know what it has")
	}
	if err := errors.Join(l.close(), l.close()); err != nil {
		t.Error(err)
	}
	if err := os.Remove(l.path); err != nil {
		t.Fatal(err)
	}
	if got := l.tail(2); !strings.Contains(got, "no such file") {
		t.Errorf("%q", got)
	}
}

func TestProgramThatIsNoPgweir(t *testing.T) {
	c := &pgtest.Cluster{Endpoint: pgtest.Endpoint{Host: "127.0.0.1", Port: 5432}}
	for _, program := range []string{"/bin/false", "/nonexistent"} {
		_, err := startPooler(t.Context(), program, t.TempDir(), c)
		if err == nil || !strings.Contains(err.Error(), "pgweir") {
			t.Errorf("%s: %v", program, err)
		}
	}
	// One that runs and never listens is given up when the caller does.
	dir := t.TempDir()
	sleeper := filepath.Join(dir, "sleeper")
	if err := os.WriteFile(sleeper, []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := startPooler(ctx, sleeper, dir, c); !errors.Is(err, gone) {
		t.Error(err)
	}
}

func TestCleanEnv(t *testing.T) {
	got := cleanEnv([]string{"PATH=/bin", "PGHOST=db", "PGWEIR_X=1", "HOME=/"})
	if diff := cmp.Diff([]string{"PATH=/bin", "PGWEIR_X=1", "HOME=/"}, got); diff != "" {
		t.Error(diff)
	}
}
