package console

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/pgweir/pgweir/cmd/internal/control"
)

// TestGolden asks what testdata says and compares every message of the answers. Options of
// a query: database=NAME, stats (the user is no administrator).
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			g, who := sampleGuard(), dba()
			for _, a := range d.CmdArgs {
				switch a.Key {
				case "database":
					who.Database = a.Vals[0]
				case "stats":
					who.User, who.Admin = "monitor", false
				case "nosuch":
					g.err = map[string]error{"database": control.ErrNoDatabase, "client": control.ErrNoClient, "room": control.ErrTooManyNames}[a.Vals[0]]
				case "ended":
					g.err = control.ErrEnded
				case "unpaused":
					g.paused = false
				case "changes":
					g.changes = []control.Change{
						{Key: "workload.api.max_wait", Old: "2s", New: "500ms"},
						{Key: "listen", Old: `["a:1"]`, New: `["a:2"]`, Restart: true},
						{Key: "database.shop.user", New: "app"},
					}
				case "warnings":
					g.warnings = []string{`console.admin_users has "dba", who can't log in`, "the key may be read by everybody"}
				case "problems":
					g.problems = []control.Problem{
						{Text: `pgweir.toml:7:9: workload.api.max_wait: "2" has no unit`, Hint: `Write max_wait = "2s".`, Where: "    7 | max_wait = \"2\"\n      |            ^^^"},
						{Text: "pgweir.toml:9:1: shots: is not a key", Hint: "Did you mean slots?"},
					}[:len(a.Vals[0])]
				default:
					d.Fatalf(t, "unknown option %s", a.Key)
				}
			}
			p := dial(t, New(g, Options{Version: "1.2.3"}), who)
			g.shutdown = make(chan struct{})
			out := p.query(d.Input)
			if strings.Contains(out, "done SHUTDOWN") {
				<-g.shutdown // it is called when the answer is out
			}
			if calls := g.noted(); calls != "" {
				out += "calls " + strings.ReplaceAll(calls, "\n", " ") + "\n"
			}
			return out
		})
	})
}

// TestEveryViewHasAGoldenAnswer: a table that nobody looked at is no table.
func TestEveryViewHasAGoldenAnswer(t *testing.T) {
	golden, err := os.ReadFile("testdata/golden/show")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range allViews() {
		if !strings.Contains(string(golden), "\nSHOW "+v.name+"\n") {
			t.Errorf("testdata/golden/show does not ask SHOW %s", v.name)
		}
	}
}

// TestReadmeNamesTables: whoever reads the README at night must not look for a table in vain.
func TestReadmeNamesTables(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	c, seen := New(sampleGuard(), Options{}), 0
	for _, m := range regexp.MustCompile("`SHOW ([A-Z_]+)").FindAllStringSubmatch(string(readme), -1) {
		seen++
		if name := m[1]; c.views[name] == nil {
			t.Errorf("there is no SHOW %s", name)
		}
	}
	if seen < 10 {
		t.Errorf("only %d tables are named", seen)
	}
}

// TestTenantsAreBounded: whoever asks wants to know whom to look at.
func TestTenantsAreBounded(t *testing.T) {
	g := sampleGuard()
	for len(g.tenants) < 10*mostTenants {
		g.tenants = append(g.tenants, g.tenants...)
	}
	if n := strings.Count(dial(t, New(g, Options{}), dba()).query("SHOW TENANTS"), "\nrow "); n != mostTenants {
		t.Errorf("%d rows, want %d", n, mostTenants)
	}
}

// TestPgBouncerColumns compares with what PgBouncer has, name by name.
func TestPgBouncerColumns(t *testing.T) {
	table, err := os.ReadFile("testdata/pgbouncer-columns.txt")
	if err != nil {
		t.Fatal(err)
	}
	c := New(sampleGuard(), Options{})
	seen := 0
	for line := range strings.Lines(string(table)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		seen++
		for _, database := range []string{"pgweir", "pgbouncer"} {
			who := dba()
			who.Database = database
			answer := dial(t, c, who).query("SHOW " + name)
			header, _, _ := strings.Cut(answer, "\n")
			var got []string
			for _, f := range strings.Fields(strings.TrimPrefix(header, "columns ")) {
				got = append(got, f[:strings.IndexByte(f, ':')])
			}
			want := strings.Fields(rest)
			if database == "pgweir" && len(got) > len(want) {
				got = got[:len(want)] // ours may follow
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("SHOW %s in %s\n got %v\nwant %v", name, database, got, want)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d tables compared", seen)
	}
}
