package integration

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const modulePath = "github.com/pgweir/pgweir"

// layer is a package's place in the order of imports.
type layer struct {
	level int
	may   []string // packages of ours that its code may import
	test  bool     // serves tests: other code outside tests may not import it
}

// layers is the architecture's table. A package that is not in it fails the test: it has
// to be given a place first.
func layers() map[string]layer {
	core := []string{"wire", "wire/scram", "wire/sqltext", "wire/relay", "admission", "admission/quota", "costlimit", "pool", "config", "config/schema", "config/values"}
	front := append(slices.Clone(core), "admission/fleet", "admission/fleet/pgstore", "config/pgbouncer",
		"cmd/internal/loop", "cmd/internal/session", "cmd/internal/login", "cmd/internal/login/hba", "cmd/internal/login/roster", "cmd/internal/upstream")
	shown := []string{"wire", "admission", "config/values", "cmd/internal/session", "cmd/internal/control", "cmd/internal/state"}
	parts := append(slices.Clone(front), "cmd/internal/control", "cmd/internal/state", "cmd/internal/plan", "cmd/internal/journal", "cmd/internal/door", "cmd/internal/pump")
	over := append(slices.Clone(parts), "cmd/internal/proxy")
	top := append(slices.Clone(over), "cmd/internal/console", "cmd/internal/status",
		"cmd/internal/bench", "cmd/internal/bench/report", "cmd/internal/bench/stage", "cmd/internal/bench/scenario", "cmd/internal/bench/experiment",
		"cmd/internal/sim", "cmd/internal/simulate", "cmd/internal/demo", "cmd/internal/sibling")
	return map[string]layer{
		"wire/scram":           {level: 0},
		"wire/sqltext":         {level: 0},
		"admission":            {level: 0},
		"admission/quota":      {level: 0},
		"costlimit":            {level: 0},
		"cmd/internal/loop":    {level: 0},
		"cmd/internal/control": {level: 0},
		"config/document":      {level: 0},

		"cmd/internal/login/hba": {level: 0},

		"config/values":   {level: 1, may: []string{"config/document"}},
		"wire":            {level: 1, may: []string{"wire/scram"}},
		"admission/fleet": {level: 1, may: []string{"admission"}},

		"wire/relay":              {level: 2, may: []string{"wire", "wire/sqltext"}},
		"admission/fleet/pgstore": {level: 2, may: []string{"admission", "admission/fleet"}},

		"config/endpoint": {level: 2, may: []string{"config/document", "config/values"}},

		"pool":             {level: 3, may: []string{"wire", "wire/relay", "admission"}},
		"config/schema":    {level: 3, may: []string{"admission", "config/document", "config/values", "config/endpoint"}},
		"config/decode":    {level: 3, may: []string{"config/document", "config/values", "config/endpoint", "config/schema"}},
		"config":           {level: 3, may: []string{"admission", "admission/fleet", "admission/quota", "costlimit", "pool", "wire", "config/document", "config/values", "config/endpoint", "config/schema", "config/decode"}},
		"config/pgbouncer": {level: 3, may: []string{"config"}},

		"cmd/internal/session":      {level: 4, may: core},
		"cmd/internal/login":        {level: 4, may: append(slices.Clone(core), "cmd/internal/login/hba")},
		"cmd/internal/upstream":     {level: 4, may: append(slices.Clone(core), "cmd/internal/login")},
		"cmd/internal/login/roster": {level: 4, may: []string{"cmd/internal/login"}},

		"cmd/internal/state": {level: 4, may: []string{"admission", "cmd/internal/loop", "cmd/internal/session", "cmd/internal/login/roster"}},

		"cmd/internal/journal": {level: 4, may: []string{"admission", "wire", "cmd/internal/session", "cmd/internal/state"}},

		"cmd/internal/door": {level: 4, may: []string{"admission/quota", "wire", "cmd/internal/login", "cmd/internal/session", "cmd/internal/state"}},
		"cmd/internal/pump": {level: 4, may: []string{"wire", "cmd/internal/session"}},

		"cmd/internal/plan": {level: 4, may: []string{"admission", "admission/quota", "wire", "wire/relay", "cmd/internal/login", "cmd/internal/login/hba", "cmd/internal/session", "cmd/internal/upstream"}},

		"cmd/internal/sibling": {level: 4, may: []string{"wire"}},
		"cmd/internal/sim":     {level: 4, may: append(slices.Clone(core), "cmd/internal/session", "wire/wiretest"), test: true},

		"cmd/internal/proxy":    {level: 5, may: parts},
		"cmd/internal/console":  {level: 5, may: shown},
		"cmd/internal/status":   {level: 5, may: shown},
		"cmd/internal/simulate": {level: 5, may: core},
		"cmd/internal/bench":    {level: 5, may: core},

		"cmd/internal/bench/report":     {level: 5, may: append(slices.Clone(core), "cmd/internal/bench")},
		"cmd/internal/bench/stage":      {level: 5, may: append(slices.Clone(core), "cmd/internal/bench", "integration/child", "integration/pgtest")},
		"cmd/internal/bench/scenario":   {level: 5, may: append(slices.Clone(core), "cmd/internal/bench", "cmd/internal/bench/report", "cmd/internal/bench/stage", "integration/child", "integration/pgtest")},
		"cmd/internal/bench/experiment": {level: 5, may: append(slices.Clone(core), "cmd/internal/bench", "cmd/internal/bench/scenario", "cmd/internal/bench/stage", "integration/child", "integration/pgtest")},
		"cmd/internal/demo":             {level: 5, may: append(slices.Clone(over), "cmd/internal/bench", "cmd/internal/bench/report", "cmd/internal/bench/stage", "integration/pgtest")},

		"cmd/pgweir": {level: 6, may: append(slices.Clone(top), "integration/pgtest")},

		"wire/wiretest":      {level: 2, may: []string{"wire"}, test: true},
		"integration/child":  {level: 0},
		"integration/pgtest": {level: 0, may: []string{"integration/child"}},
		"integration/certs":  {level: 0},
	}
}

// place finds a package in the table. All below integration are tests and measurements of
// the whole, which nobody imports, so they need no line each.
func place(table map[string]layer, name string) (layer, bool) {
	p, known := table[name]
	if !known && (name == "integration" || strings.HasPrefix(name, "integration/")) {
		return layer{level: 7, may: sorted(table), test: true}, true
	}
	return p, known
}

// sorted lists the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// goPackage is what we use of `go list -json`.
type goPackage struct {
	ImportPath   string
	Name         string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Module       *struct{ Path string }
}

// goList runs go list for the whole module from its root.
func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Name,Imports,TestImports,XTestImports,Module"}, args...)...)
	cmd.Dir = root(t)
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v: %s", strings.Join(args, " "), err, messages.String())
	}
	var list []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// root is the directory of the module: tests run in the directory of their package.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ours reduces import paths to those of this module, without its prefix.
func ours(imports []string) []string {
	var list []string
	for _, path := range imports {
		if short, ok := strings.CutPrefix(path, modulePath+"/"); ok {
			list = append(list, short)
		}
	}
	return list
}

func TestImportsGoOneWay(t *testing.T) {
	table := layers()
	for _, p := range goList(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, modulePath+"/")
		here, known := place(table, name)
		if !known {
			t.Errorf("package %s has no place in the order of imports", name)
			continue
		}
		for _, other := range ours(p.Imports) {
			if !slices.Contains(here.may, other) {
				t.Errorf("%s (level %d) imports %s, which it may not", name, here.level, other)
			}
			if table[other].test && !here.test {
				t.Errorf("%s imports %s outside its tests", name, other)
			}
		}
		for _, other := range ours(slices.Concat(p.TestImports, p.XTestImports)) {
			if there, _ := place(table, other); there.level > here.level && !there.test {
				t.Errorf("the tests of %s (level %d) import %s (level %d)", name, here.level, other, there.level)
			}
		}
	}
}

// The table itself must be one that a package could live by.
func TestTheOrderOfImportsIsAnOrder(t *testing.T) {
	table := layers()
	for name, place := range table {
		for _, other := range place.may {
			below, known := table[other]
			switch {
			case !known:
				t.Errorf("%s may import %s, which is not in the table", name, other)
			case below.level > place.level:
				t.Errorf("%s (level %d) may import %s (level %d)", name, place.level, other, below.level)
			case slices.Contains(below.may, name):
				t.Errorf("%s and %s may import each other", name, other)
			}
		}
	}
}

func TestOnlyStatusKnowsPrometheus(t *testing.T) {
	for _, p := range goList(t, "./...") {
		for _, path := range p.Imports {
			if strings.HasPrefix(path, "github.com/prometheus/") && p.ImportPath != modulePath+"/cmd/internal/status" {
				t.Errorf("%s imports %s", p.ImportPath, path)
			}
		}
	}
}

// linked lists the modules of others in what a build of the patterns links.
func linked(t *testing.T, patterns ...string) []string {
	t.Helper()
	var modules []string
	for _, p := range goList(t, append([]string{"-deps"}, patterns...)...) {
		if p.Module != nil && p.Module.Path != modulePath {
			modules = append(modules, p.Module.Path)
		}
	}
	slices.Sort(modules)
	return slices.Compact(modules)
}

// A new module in the binary needs a line, and thereby a reason, in the list; one that has
// gone leaves it.
func TestLinkedModulesAreTheAllowedOnes(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "modules.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		module, reason, _ := strings.Cut(line, " ")
		if len(strings.TrimSpace(reason)) < 10 {
			t.Errorf("modules.txt: %s has no reason", module)
		}
		allowed = append(allowed, module)
	}
	slices.Sort(allowed)
	if diff := cmp.Diff(allowed, linked(t, "./cmd/pgweir")); diff != "" {
		t.Errorf("modules linked into pgweir (- allowed, + linked):\n%s", diff)
	}
}

// pgproto3/v2 is archived and has a panic that nobody will mend. It decodes in differential
// tests; no program may carry it.
func TestArchivedCodecIsInNoProgram(t *testing.T) {
	for _, p := range goList(t, "./...") {
		if p.Name != "main" {
			continue
		}
		if slices.Contains(linked(t, p.ImportPath), "github.com/jackc/pgproto3/v2") {
			t.Errorf("%s links github.com/jackc/pgproto3/v2", p.ImportPath)
		}
	}
}

func TestGoModReplacesNothing(t *testing.T) {
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct{ Replace, Exclude []json.RawMessage }
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		t.Errorf("go.mod has replace or exclude lines: %s %s", mod.Replace, mod.Exclude)
	}
}
