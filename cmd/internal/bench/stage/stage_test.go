package stage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/config"
	"github.com/pgweir/pgweir/integration/pgtest"
)

func TestParseTargets(t *testing.T) {
	list, err := ParseTargets("pgweir, pgweir:fifo-gone,pgweir:off,pgbouncer:query_wait_timeout=0.2,reserve_pool_size=1,odyssey:tuned,postgres,postgres://u:pw@h/d")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range list {
		names = append(names, one.String())
	}
	want := []string{
		"pgweir:guard", "pgweir:fifo-gone", "pgweir:off", "pgbouncer:query_wait_timeout=0.2,reserve_pool_size=1",
		"odyssey:tuned", "postgres", "postgres://u:xxxxx@h/d",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for _, one := range list[:len(list)-1] {
		again, err := ParseTarget(one.String())
		if err != nil || again.String() != one.String() {
			t.Errorf("%v is read as %v, %v", one, again, err)
		}
	}
	for _, wrong := range []string{"", "pgwier", "pgweir:", "pgweir:lilo", "pgbouncer:", "odyssey:quick", "postgres:x", "pgweir,,pgbouncer"} {
		if list, err := ParseTargets(wrong); !errors.Is(err, ErrTarget) {
			t.Errorf("%q is read as %v, %v", wrong, list, err)
		}
	}
}

// Whatever the policy and the mode, what is written is a valid file.
func TestPgweirTextIsValid(t *testing.T) {
	plan := Plan{
		Slots: 5,
		Workloads: []Workload{
			{Name: "batch", Match: `role = ["batch"]`, Lines: `max_wait = "1s"`},
			{Name: "default"},
		},
		ByPolicy: map[string]string{"fifo": "max_wait = \"1h\"\n\t\t\tmax_waiting = 1000000"},
		Top:      `max_logins = 64`,
		Upstream: `connect_parallel = 4`,
	}
	for i := range admission.Policies {
		target := Target{Kind: Pgweir, Policy: admission.Policy(i)}
		text := pgweirText(target, plan, place{port: 1, http: 2, url: "postgres://control@127.0.0.1:3/postgres?sslmode=disable"})
		for _, p := range problems(t, text) {
			t.Errorf("%v: %s in\n%s", target, p, text)
		}
	}
}

// problems are what is wrong with a file.
func problems(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pgweir.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, found := config.LoadEnv(path, func(string) string { return "" })
	var list []string
	for _, p := range found {
		list = append(list, p.Error())
	}
	return list
}

func TestPeersSettingsReplaceEachOther(t *testing.T) {
	plan := Plan{
		Slots:     7,
		PgBouncer: map[string]string{"query_wait_timeout": "9", "max_db_connections": "8"},
		Odyssey:   map[string]string{"pool_timeout": "100", "pool_discard": "none"},
		Tuned:     map[Kind]map[string]string{PgBouncer: {"query_wait_timeout": "0.5"}},
	}
	for name, want := range map[string][]string{
		"pgbouncer":       {"query_wait_timeout = 9\n", "max_db_connections = 8\n", "default_pool_size = 7\n"},
		"pgbouncer:tuned": {"query_wait_timeout = 0.5\n"},
		"pgbouncer:query_wait_timeout=3,pool_mode=session": {"query_wait_timeout = 3\n", "pool_mode = session\n"},
		"odyssey":                {"pool_timeout 100\n", "pool_size 7\n"},
		"odyssey:pool_timeout=5": {"pool_timeout 5\n"},
	} {
		target, err := ParseTarget(name)
		if err != nil {
			t.Fatal(err)
		}
		text := pgbouncerText(target, plan, place{port: 1234, host: "127.0.0.1", upstream: 4321})
		if target.Kind == Odyssey {
			text = odysseyText(target, plan, place{port: 1234, host: "127.0.0.1", upstream: 4321})
			if strings.Contains(text, "pool_discard") {
				t.Errorf("%s: what is \"none\" is still there", name)
			}
		}
		for _, line := range append(want, "1234", "4321") {
			if !strings.Contains(text, line) {
				t.Errorf("%s: no %q in\n%s", name, line, text)
			}
		}
	}
}

func TestParseMetrics(t *testing.T) {
	got, err := parseMetrics(strings.NewReader("# HELP a b\n# TYPE a counter\na{reason=\"x y\"} 3\nb 1.5e3\n\n"))
	want := map[string]float64{`a{reason="x y"}`: 3, "b": 1500}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := parseMetrics(strings.NewReader("a x\n")); err == nil {
		t.Error("a word is taken for a number")
	}
}

func TestStage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL")
	}
	program, err := pgtest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{
		Program: program, Roles: []string{"batch"}, Databases: []string{"other"},
		SQL: []string{"create table t (i int)", "grant all on t to app, batch"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, name := range []string{"postgres", "pgweir:fifo"} {
		target, err := ParseTarget(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.Put(t.Context(), target, Plan{Slots: 2})
		if err != nil {
			t.Fatal(err)
		}
		if name == "postgres" {
			continue
		}
		if cpu, memory, err := f.Usage(); err != nil || cpu <= 0 || memory <= 0 {
			t.Errorf("%v, %d, %v", cpu, memory, err)
		}
		if m, err := f.Metrics(t.Context()); err != nil || len(m) == 0 {
			t.Errorf("%v, %v", m, err)
		}
		// It starts again where it was.
		url := f.URL("batch", "other")
		f.Kill()
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f.URL("batch", "other") != url {
			t.Errorf("%s, then %s", url, f.URL("batch", "other"))
		}
	}
}
