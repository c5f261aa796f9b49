package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/report"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// loadOf reads arguments of a bench as the command does.
func loadOf(t *testing.T, args ...string) (*benchOptions, error) {
	t.Helper()
	e := &env{stdout: &strings.Builder{}, stderr: &strings.Builder{}, getenv: func(string) string { return "" }}
	c := benchCommand()
	e.cmd = &c
	o, f := &benchOptions{}, e.flags()
	o.benchFlags(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return o, o.complete(func(name string) string { return map[string]string{"DATABASE_URL": "postgres://u:p@db:6432/x"}[name] })
}

func TestBenchArguments(t *testing.T) {
	o, err := loadOf(t, "--load", "80x5s,200x10s", "--class", "critical=25%", "--class", "sheddable=0.5", "--patience", "1s", "--leave", "walk",
		"--deadline", "--tenants", "2", "--work", "lognormal:9ms:1", "--page", "3", "--retry", "2@5ms+hint", "--cpu", "--even", "--seed", "7")
	if err != nil {
		t.Fatal(err)
	}
	stream := func(class, name string, share float64) bench.Stream {
		return bench.Stream{
			Name: name, Class: class, Share: share, Patience: time.Second, Leave: bench.Walk, Deadline: true, Tenants: []string{"t1", "t2"},
			Retry:   bench.Retry{Most: 2, Delay: 5 * time.Millisecond, Honour: true},
			Queries: []bench.Query{{Statements: []string{bench.Burn}, Weight: 1, Repeat: 3, Work: bench.Work{Mean: 9 * time.Millisecond, Sigma: 1}}},
		}
	}
	want := bench.Load{
		Phases: []bench.Phase{{Rate: 80, For: 5 * time.Second}, {Rate: 200, For: 10 * time.Second}}, Even: true, Seed: 7,
		Streams: []bench.Stream{stream("critical", "", 0.25), stream("sheddable", "", 0.5), stream("", "others", 0.25)},
	}
	if diff := cmp.Diff(want, o.load); diff != "" {
		t.Error(diff)
	}
	if o.target.Name != "db:6432" || o.target.Counter != "" {
		t.Errorf("%+v", o.target)
	}
	o, err = loadOf(t, "--direct", "postgres://x", "--count", "--query", "SELECT 1", "--query", "2x SELECT 2", "--stream", "clients=2 each=3",
		"--stream", "name=b clients=1 each=1 query='SELECT 3'", "--name", "here")
	if err != nil {
		t.Fatal(err)
	}
	a, b := o.load.Streams[0], o.load.Streams[1]
	if a.Name != "stream1" || len(a.Queries) != 2 || b.Queries[0].Statements[0] != "SELECT 3" || o.target.Counter == "" || o.target.Name != "here" {
		t.Errorf("%+v", o)
	}
}

func TestBenchMisuse(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "--load has to say"},
		{"--load 5", "phase"},
		{"--load 5x1s x", "unexpected argument"},
		{"--load 5x1s --count", "--count needs --direct"},
		{"--load 5x1s --cpu --query SELECT", "exclude each other"},
		{"--load 5x1s --class critical=25% --stream share=1", "exclude each other"},
		{"--load 5x1s --class critical", "a class and its share"},
		{"--load 5x1s --class vip=10%", "no class"},
		{"--load 5x1s --class critical=60% --class sheddable=60%", "more than 100 %"},
		{"--load 5x1s --stream share", "key=value"},
		{"--load 5x1s --leave home", "leave"},
		{"--load 5x1s --tenants none", "tenants"},
	} {
		r := pgweir(t, map[string]string{"DATABASE_URL": "postgres://db/x"}, append([]string{"bench"}, strings.Fields(c.args)...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: %d, %s", c.args, r.code, r.stderr)
		}
	}
	if r := pgweir(t, nil, "bench", "--load", "5x1s"); r.code != exitUsage || !strings.Contains(r.stderr, "DATABASE_URL") {
		t.Errorf("%+v", r)
	}
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	url := pgtest.Endpoint{Host: "127.0.0.1", Port: port}.DSN("nobody", "none")
	if r := pgweir(t, nil, "bench", "--load", "5x1s", "--dsn", url); r.code != exitError || !strings.Contains(r.stderr, "connection refused") {
		t.Errorf("%+v", r)
	}
}

func TestBenchAgainstPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL")
	}
	c, err := pgtest.Start(t.Context(), pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	url, dir := c.DSN(pgtest.Superuser, "postgres"), t.TempDir()
	jsonFile, htmlFile := filepath.Join(dir, "a.json"), filepath.Join(dir, "a.html")
	r := pgweir(t, map[string]string{"DATABASE_URL": url}, "bench", "--direct", url, "--count", "--even", "--load", "40x500ms,80x500ms",
		"--work", "1ms", "--class", "critical=25%", "--sessions", "8", "--name", "plain", "--json", jsonFile, "--html", htmlFile)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	for _, want := range []string{"80/s, 0.5-1 s", "plain", "critical", "The whole run"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	b, err := os.ReadFile(jsonFile)
	if err != nil {
		t.Fatal(err)
	}
	var d report.Document
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	got := d.Results[0]
	if f := got.Whole[0]; f.Asked != 60 || f.Served != 60 || got.Whole[1].Asked != 15 || *got.Servers.Executed != 60 || *got.Servers.Wasted != 0 {
		t.Errorf("%+v", got)
	}
	if page, err := os.ReadFile(htmlFile); err != nil || !strings.Contains(string(page), "<svg") {
		t.Errorf("%v, %d bytes of a page", err, len(page))
	}
	if out, err := c.SQL(t.Context(), "postgres", "SELECT count(*) FROM pg_class WHERE relname LIKE 'pgweir%'"); err != nil || strings.TrimSpace(out) != "0" {
		t.Errorf("%s things are left behind, %v", out, err)
	}
	bad := filepath.Join(dir, "none", "a.json")
	r = pgweir(t, map[string]string{"DATABASE_URL": url}, "bench", "--load", "10x100ms", "--work", "0s", "--json", bad)
	if r.code != exitError || !strings.Contains(r.stderr, "no such file") {
		t.Errorf("%+v", r)
	}
}
