package experiment

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/scenario"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
	"github.com/pgweir/pgweir/config"
)

// Each scenario says what it is, has a load that can be sent, targets that exist and
// sentences that are understood.
func TestScenariosAreConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		if s.Name == "" || s.Title == "" || s.Shows == "" || s.Source == "" {
			t.Errorf("%s does not say what it is", s.Name)
		}
		if seen[s.Name] {
			t.Errorf("two scenarios are called %s", s.Name)
		}
		seen[s.Name] = true
		targets, err := stage.ParseTargets(s.Against)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if !slices.ContainsFunc(targets, func(o stage.Target) bool { return o.String() == scenario.Subject }) {
			t.Errorf("%s is not about %s", s.Name, scenario.Subject)
		}
	}
	for _, wanted := range []string{
		"E1", "E2", "E3", "E3i", "E3ii", "E4", "E5", "E9", "E10", "E11", "E14", "E15", "E16", "E17", "E18", "E19",
		"E21", "E23", "E24", "E25", "E26", "E27", "E28", "tenfold", "e1-lognormal",
	} {
		if list, err := Find(wanted); err != nil || len(list) == 0 {
			t.Errorf("%s: %v", wanted, err)
		}
	}
	if _, err := Find("E99"); err == nil {
		t.Error("E99 is found")
	}
}

func TestSentencesOfScenarios(t *testing.T) {
	for _, s := range All() {
		checks, err := s.ParsedChecks()
		if err != nil {
			t.Error(err)
		}
		if len(checks) == 0 {
			t.Errorf("%s demands nothing", s.Name)
		}
		columns, err := s.ParsedColumns()
		if err != nil {
			t.Error(err)
		}
		metrics := columns
		for _, c := range checks {
			metrics = append(metrics, c.Metric)
			again, err := scenario.ParseCheck(c.String())
			if err != nil || again != c {
				t.Errorf("%s: %v is read as %v, %v", s.Name, c, again, err)
			}
		}
		for _, m := range metrics {
			again, err := scenario.ParseMetric(m.String())
			if err != nil || again != m {
				t.Errorf("%s: %v is read as %v, %v", s.Name, m, again, err)
			}
			if m.Of != "" && !slices.ContainsFunc(s.Load.Streams, func(o bench.Stream) bool { return o.Title() == m.Of }) {
				t.Errorf("%s: %v: no such stream", s.Name, m)
			}
			if length := s.Load.Length(); m.To > length && length > 0 {
				t.Errorf("%s: %v: the load ends at %v", s.Name, m, length)
			}
			if _, known := scenario.Units()[m.Name]; !known && s.After == nil && s.Instead == nil && s.Events == nil {
				t.Errorf("%s: nobody measures %v", s.Name, m)
			}
		}
		for target, row := range s.Published {
			if len(row) > len(columns) {
				t.Errorf("%s: %s has %d values for %d columns", s.Name, target, len(row), len(columns))
			}
			if o, err := stage.ParseTarget(target); err != nil || o.String() != target {
				t.Errorf("%s: %q is published, which is %v, %v", s.Name, target, o, err)
			}
		}
	}
}

func TestLoadsCanBeSent(t *testing.T) {
	for _, s := range All() {
		if s.Name == "E14" {
			continue // pgbench's
		}
		if err := s.Load.Check(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		short := s.Stretched(0.5)
		if err := short.Load.Check(); err != nil {
			t.Errorf("%s, shortened: %v", s.Name, err)
		}
		if want := s.Load.Length() / 2; short.Load.Length() != want && s.Load.Length() != 2*short.Load.Length() {
			t.Errorf("%s of %v is shortened to %v", s.Name, s.Load.Length(), short.Load.Length())
		}
		for i, e := range s.Events {
			if e.At > s.Load.Length() {
				t.Errorf("%s: %s happens after the end", s.Name, e.Name)
			}
			if short.Events[i].At != e.At/2 || s.Events[i].At != e.At {
				t.Errorf("%s: %s", s.Name, e.Name)
			}
		}
		for _, one := range s.Load.Streams {
			roles := append([]string{"", stage.Role}, s.Stage.Roles...)
			databases := append([]string{"", stage.Database}, s.Stage.Databases...)
			if !slices.Contains(roles, one.User) || !slices.Contains(databases, one.Database) {
				t.Errorf("%s: %s is nobody on the stage", s.Name, one.Title())
			}
		}
	}
}

// Whatever policy it is run with, the files that a scenario writes for pgweir are valid.
func TestPlansAreValidFiles(t *testing.T) {
	for _, s := range All() {
		for i := range admission.Policies {
			text := s.Plan.Text(stage.Target{Kind: stage.Pgweir, Policy: admission.Policy(i)})
			path := filepath.Join(t.TempDir(), "pgweir.toml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, problems := config.LoadEnv(path, func(string) string { return "" }); len(problems) > 0 {
				t.Errorf("%s with %v: %v in\n%s", s.Name, admission.Policy(i), problems, text)
			}
		}
	}
}

func TestRatio(t *testing.T) {
	middle, upper := ratio([]float64{2, 4, 8}, []float64{1, 2, 4})
	if middle < 1.999 || middle > 2.001 || upper < middle-1e-9 || upper > 2.001 {
		t.Error(middle, upper)
	}
	middle, upper = ratio([]float64{2, 4, 8, 4}, []float64{1, 2.2, 4, 2})
	if !(upper > middle) {
		t.Error(middle, upper)
	}
}
