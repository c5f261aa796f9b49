package config

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pelletier/go-toml/v2"

	"github.com/pgweir/pgweir/config/schema"
)

// updating reports whether the golden files are to be written: go test ./config -args update
func updating() bool { return flag.Arg(0) == "update" }

// testEnv is the environment of the files in testdata.
func testEnv(name string) string {
	return map[string]string{
		"REPORTS_URL":    "postgres://reporter:hunter2@10.0.0.6/reports",
		"REPORTS_BUDGET": "12",
		"WORD":           "seven-hunter2",
		"SECRET_URL":     "postgres://pgweir:hunter2@db/x?sslmode=hunter2",
	}[name]
}

// files are the files of testdata with the suffix.
func files(t testing.TB, suffix string) []string {
	t.Helper()
	list, err := filepath.Glob("testdata/*" + suffix)
	if err != nil || len(list) == 0 {
		t.Fatalf("no files *%s: %v", suffix, err)
	}
	return list
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if updating() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in %s (-want +got):\n%s", path, diff)
	}
}

func read1(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestBadFiles(t *testing.T) {
	for _, file := range files(t, ".bad.toml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, problems := ParseEnv(filepath.Base(file), read1(t, file), testEnv)
			if c != nil || len(problems) == 0 {
				t.Fatalf("accepted: %v", c)
			}
			var b strings.Builder
			for _, p := range problems {
				b.WriteString(p.Detail() + "\n\n")
			}
			if strings.Contains(b.String(), "hunter2") {
				t.Errorf("a password shows:\n%s", b.String())
			}
			golden(t, strings.TrimSuffix(file, ".bad.toml")+".problems", b.String())
		})
	}
}

func TestGoodFiles(t *testing.T) {
	for _, file := range files(t, ".good.toml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, problems := ParseEnv(file, read1(t, file), testEnv)
			if len(problems) > 0 {
				t.Fatalf("refused: %v", problems)
			}
			golden(t, strings.TrimSuffix(file, ".good.toml")+".config", dump(c))
		})
	}
}

// dump writes a configuration for a golden file: every key that is not a default, and what
// follows from all.
func dump(c *Config) string {
	var b strings.Builder
	line := func(name string, v any) { fmt.Fprintf(&b, "%-36s %v\n", name, v) }
	for _, s := range c.Settings() {
		if s.Source != defaultSource || s.Value != s.Default {
			line(s.Key, s.Value+"    # "+s.Source)
		}
	}
	line("listeners", c.Listen)
	for _, u := range c.Upstreams {
		line("hosts of "+u.Name, u.URL.Hosts)
		line("password of "+u.Name, u.URL.Password.IsSet())
		line("reserve of "+u.Name+" is given", u.ReserveGiven)
	}
	for _, d := range c.Databases {
		line("database "+d.Name, fmt.Sprintf("%+v", d))
	}
	for _, w := range c.Workloads {
		line("workload "+w.Name, fmt.Sprintf("part %v, built in %t, %+v", w.Part, w.BuiltIn, w.Match))
	}
	for _, w := range c.Warnings() {
		line("warning", w)
	}
	return b.String()
}

// sameConfig compares two configurations, wherever their values come from.
func sameConfig(a, b *Config) string {
	return cmp.Diff(a, b, cmp.AllowUnexported(Upstream{}, Workload{}, Rate{}), cmpopts.IgnoreUnexported(Config{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })) +
		cmp.Diff(a.warnings, b.warnings)
}

func TestInlineTablesMeanTheSame(t *testing.T) {
	inline, problems := ParseEnv("x.toml", read1(t, "testdata/inline.good.toml"), testEnv)
	if problems != nil {
		t.Fatal(problems)
	}
	headers, problems := Parse("x.toml", []byte(`
listen = ["127.0.0.1:6432", "/run/pgweir"]
[log]
level = "warn"
[upstream.main]
url = "postgres://pgweir@db/postgres"
budget = 3
[database.shop]
dbname = "shop"
[[workload]]
max_wait = "1s"
`))
	if problems != nil {
		t.Fatal(problems)
	}
	if diff := sameConfig(headers, inline); diff != "" {
		t.Error(diff)
	}
}

func TestProblemsAreInTheOrderOfTheFile(t *testing.T) {
	for _, file := range files(t, ".bad.toml") {
		_, problems := ParseEnv(file, read1(t, file), testEnv)
		for i := 1; i < len(problems); i++ {
			a, b := problems[i-1], problems[i]
			if b.Line > 0 && (a.Line == 0 || a.Line > b.Line || a.Line == b.Line && a.Column > b.Column) {
				t.Errorf("%s: %v comes before %v", file, a, b)
			}
		}
	}
}

func TestDefaultsAreAFileThatSaysNothing(t *testing.T) {
	text := schema.Defaults()
	c, problems := Parse("pgweir.toml", []byte(text))
	if problems != nil {
		t.Fatal(problems)
	}
	least, problems := Parse("pgweir.toml", []byte(`
[upstream.main]
url = "postgres://pgweir:secret@10.0.0.5:5432/postgres?sslmode=verify-full"
[database."*"]
`))
	if problems != nil {
		t.Fatal(problems)
	}
	c.Upstreams[0].ReserveGiven = false // its presence means something, and
	c.Workloads[1].BuiltIn = true       // so does that of a workload
	if diff := sameConfig(least, c); diff != "" {
		t.Errorf("a file of defaults differs from one without (-without +with):\n%s", diff)
	}
	for _, k := range schema.Keys() {
		if !strings.Contains(text, k.Name+" = ") {
			t.Errorf("%s is missing", k.Name)
		}
	}
}

func TestAFileThatIsTooLarge(t *testing.T) {
	_, problems := Parse("x.toml", bytes.Repeat([]byte("#"), maxFile+1))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "more than") {
		t.Error(problems)
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range append(files(f, ".bad.toml"), files(f, ".good.toml")...) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, problems := ParseEnv("x.toml", data, testEnv)
		if (c == nil) != (len(problems) > 0) {
			t.Fatalf("config %v with problems %v", c, problems)
		}
		for _, p := range problems {
			if p.Message == "" || p.File != "x.toml" || p.Line < 0 || (p.Line > 0) != (p.Column > 0) {
				t.Fatalf("problem %+v", p)
			}
			if strings.ContainsFunc(p.Excerpt, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
				t.Fatalf("excerpt %q", p.Excerpt)
			}
			if n := strings.Count(p.Excerpt, "\n"); n > 1 {
				t.Fatalf("excerpt of %d lines: %q", n+1, p.Excerpt)
			}
		}
		if c == nil {
			return
		}
		var oracle map[string]any
		if err := toml.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &oracle); err != nil {
			t.Fatalf("accepted what is not TOML: %v", err)
		}
		sound(t, c)
	})
}

// sound checks what every accepted configuration promises.
func sound(t *testing.T, c *Config) {
	t.Helper()
	if len(c.Listen) == 0 || len(c.Upstreams) == 0 || len(c.Databases) == 0 {
		t.Fatalf("nothing to do: %+v", c)
	}
	for _, d := range c.Databases {
		if c.Upstream(d.Upstream) == nil {
			t.Fatalf("database %q goes nowhere", d.Name)
		}
		if i, name, ok := c.Route(d.Name); !ok || name == "" || c.Upstreams[i].Name != d.Upstream {
			t.Fatalf("database %q is routed to %d %q %t", d.Name, i, name, ok)
		}
	}
	for i, u := range c.Upstreams {
		if u.URL.User == "" || len(u.URL.Hosts) == 0 || u.URL.Database == "" {
			t.Fatalf("incomplete URL %+v", u.URL)
		}
		for _, h := range u.URL.Hosts {
			host, port := filepath.Split(h.Address)
			if h.Network == "tcp" {
				host, port, _ = net.SplitHostPort(h.Address)
			}
			if host == "" || port == "" || h.Network == "" {
				t.Fatalf("host %+v", h)
			}
		}
		b := c.Budget(i, Facts{MaxConnections: 100, SuperuserReserved: 3, RoleLimit: -1})
		if b.Slots < 1 || b.Reserve < 0 || b.Slots+b.Reserve > b.Connections || b.ConnectRate < 1 {
			t.Fatalf("budget %+v", b)
		}
	}
}
