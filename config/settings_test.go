package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// rewritten is a configuration as a file: every key that is not a default, with secrets.
func rewritten(c *Config) string {
	var b strings.Builder
	for _, s := range schema.Sections(&c.File) {
		written := s.Kind == schema.UpstreamKind || s.Kind == schema.DatabaseKind || s.Kind == schema.RoleKind
		head := s.Header()
		switch s.Kind {
		case schema.UpstreamKind, schema.DatabaseKind, schema.RoleKind:
			head = "[" + s.Label + "]"
		case schema.WorkloadKind, schema.RateKind:
			written = c.origin[s.Label] != ""
		}
		lines := ""
		for _, f := range s.Fields {
			if g := c.setting(s, f); g.Source != defaultSource && g.Value != "" {
				lines += f.Name + " = " + g.secret + "\n"
			}
		}
		if s.Kind == "" {
			b.WriteString(lines)
		} else if written || lines != "" {
			b.WriteString(head + "\n" + lines)
		}
	}
	return b.String()
}

// someValues are values that most keys of a kind accept.
func someValues(key schema.Key) []string {
	switch {
	case key.Name == "url":
		return []string{
			`"postgres://app:hunter2@db/shop"`, `"postgres://a%40b@h1:1,[::1]:2/d?target_session_attrs=primary&keepalives_idle=0"`,
			`"postgres://app:p%2Fw@/d?host=/run,/tmp&port=1,2&sslmode=disable"`,
		}
	case key.Name == "listen":
		return []string{`[":7000"]`, `["127.0.0.1:7001", "/run/x"]`}
	case strings.HasSuffix(key.Name, "http"):
		return []string{`"none"`, `"127.0.0.1:7100"`, `"localhost:7101"`, `"/run/x.sock"`}
	case key.Name == "client":
		return []string{`["10.0.0.0/8", "unix"]`, `["::1"]`}
	case strings.HasPrefix(key.Admits, "a list"):
		return []string{`["a", "b\"c"]`, `["web-*", "é?"]`}
	case strings.Contains(key.Admits, "a duration"):
		return []string{`"1s"`, `"1500ms"`, `"2h"`, `"none"`, `"learn"`, `{ critical = "3s", sheddable = "20ms" }`}
	case strings.Contains(key.Admits, "a share"):
		return []string{`"10%"`, `"12.5%"`, `"auto"`, `"0%"`}
	case strings.Contains(key.Admits, "a size"):
		return []string{`"64KiB"`, `"1MiB"`}
	case strings.Contains(key.Admits, "a number"):
		return []string{"1", "7", "1_000", `"auto"`}
	case strings.Contains(key.Admits, "true"):
		return []string{"true", "false"}
	case strings.Contains(key.Admits, `", "`) || strings.Contains(key.Admits, `" or "`):
		return strings.Split(strings.NewReplacer(" or ", ", ").Replace(key.Admits), ", ")
	default:
		return []string{`"none"`, `"some thing"`, `"/a/b"`, `"ü\"\\"`}
	}
}

// someFile draws a file, most of which are right.
func someFile(t *rapid.T) string {
	var b strings.Builder
	keys := func(s schema.Section, not ...string) {
		for _, f := range s.Fields {
			key := f.Key
			key.Admits = f.Type.Admits
			if slices.Contains(not, f.Name) || rapid.IntRange(0, 5).Draw(t, f.Name+" is there") > 0 {
				continue
			}
			text := rapid.SampledFrom(someValues(key)).Draw(t, f.Name)
			if f.Type.Set(values.Value{Node: document.Literal(text)}) == nil {
				fmt.Fprintf(&b, "%s = %s\n", f.Name, text)
			}
		}
	}
	for _, s := range schema.Kinds() {
		switch s.Kind {
		case "":
			keys(s)
		case schema.UpstreamKind:
			for i := range rapid.IntRange(1, 2).Draw(t, "upstreams") {
				fmt.Fprintf(&b, "[upstream.u%d]\nurl = %s\n", i, rapid.SampledFrom(someValues(s.Fields[0].Key)).Draw(t, "url"))
				keys(s, "url")
			}
		case schema.DatabaseKind:
			b.WriteString("[database.\"*\"]\nupstream = \"u0\"\n")
			b.WriteString("[database.\"a.b\"]\nupstream = \"u0\"\nuser = \"x\"\n")
		case schema.WorkloadKind:
			names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b c", "tools", "d"}), 0, 3, rapid.ID).Draw(t, "names")
			for i, name := range names {
				fmt.Fprintf(&b, "[[workload]]\nname = %q\nmatch.role = [\"r%d\"]\n", name, i)
				keys(s, "name")
			}
		case schema.RoleKind:
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"*", "app", "a.b"}), 0, 2, rapid.ID).Draw(t, "roles") {
				fmt.Fprintf(&b, "[role.%q]\n", name)
				keys(s)
			}
		case schema.RateKind:
			for i := range rapid.IntRange(0, 3).Draw(t, "rates") {
				pace := rapid.SampledFrom([]string{"150/s", "0.5/m", "2/h", "500ms/s", "1m30s/d"}).Draw(t, "rate")
				fmt.Fprintf(&b, "[[rate]]\nper = \"tenant\"\nmatch.tenant = [\"t%d\"]\nrate = %q\n", i, pace)
				if strings.Contains(pace, "s/") {
					keys(s, "name", "per", "rate", "burst")
					b.WriteString(rapid.SampledFrom([]string{"", "burst = \"20ms\"\n", "burst = \"1h\"\n"}).Draw(t, "burst"))
				} else {
					keys(s, "name", "per", "rate", "burst")
					b.WriteString(rapid.SampledFrom([]string{"", "burst = 15\n", "burst = \"auto\"\n"}).Draw(t, "burst"))
				}
			}
		case schema.MatchKind, schema.RateMatchKind:
		default:
			b.WriteString(s.Header() + "\n")
			keys(s)
		}
	}
	return b.String()
}

func TestSettingsAreTheConfiguration(t *testing.T) {
	right := 0
	rapid.Check(t, func(t *rapid.T) {
		text := someFile(t)
		c, problems := Parse("pgweir.toml", []byte(text))
		if problems != nil {
			return
		}
		right++
		checkSettings(t, c)
		again, problems := Parse("pgweir.toml", []byte(rewritten(c)))
		if problems != nil {
			t.Fatalf("%s\n%v", rewritten(c), problems)
		}
		if diff := sameConfig(c, again); diff != "" {
			t.Fatalf("not the same when written as\n%s\n%s", rewritten(c), diff)
		}
		if d := Diff(c, again); len(d) > 0 {
			t.Fatalf("%v", d)
		}
	})
	if right < 10 {
		t.Errorf("only %d files were right", right)
	}
}

// checkSettings checks what settings promise.
func checkSettings(t *rapid.T, c *Config) {
	seen := map[string]bool{}
	for _, s := range c.Settings() {
		if seen[s.Key] || s.Doc == "" || s.Source == "" || s.Reload == "" || strings.Contains(s.Value, "hunter2") {
			t.Fatalf("%+v", s)
		}
		seen[s.Key] = true
		if full, err := c.Resolve(s.Key); err != nil || full != s.Key {
			t.Fatalf("%s is resolved to %s, %v", s.Key, full, err)
		}
	}
}

func TestSettings(t *testing.T) {
	c := mustParse(t, several)
	var b strings.Builder
	for _, s := range c.Settings() {
		fmt.Fprintf(&b, "%-44s %-28s default %-24s %-14s %s\n", s.Key, s.Value, s.Default, s.Source, s.Reload)
	}
	golden(t, "testdata/settings.golden", b.String())
	for _, key := range []string{"listen", "http", "admin_http", "so_reuseport", "io_uring", "max_logins", "query_text_limit", "log.format"} {
		if s := settingOf(t, c, key); s.Reload != Restart {
			t.Errorf("%+v", s)
		}
	}
}

func TestDiff(t *testing.T) {
	before := mustParse(t, several)
	edit := strings.NewReplacer(
		`max_wait = "1s"`, `max_wait = "500ms"`,
		"max_client_conn = 500", "max_client_conn = 500\nmax_logins = 7\nhttp = \"none\"",
		"hunter2@db/", "hunter3@db/",
		"hunter2@db2/", "hunter2@db3/",
		`[database.shop]`, `[database.shop2]`,
		`[[workload]]
name = "api"`, `[[workload]]
name = "new"
match = { role = ["new"] }
[[workload]]
name = "api"`,
		`match = { role = ["cron"] }`, `match = { database = ["cron"] }`,
	)
	after, problems := with(edit.Replace(several), map[string]string{"main.slots": "5"})
	if problems != nil {
		t.Fatal(problems)
	}
	var b strings.Builder
	for _, c := range Diff(before, after) {
		b.WriteString(c.String() + "\n")
	}
	if strings.Contains(b.String(), "hunter") {
		t.Error("a password shows")
	}
	golden(t, "testdata/diff.golden", b.String())
	if d := Diff(before, mustParse(t, several)); len(d) != 0 {
		t.Error(d)
	}
}

func TestDiffSeesTheOrder(t *testing.T) {
	a := withWorkloads(t, "[[workload]]\nname = \"a\"\nmatch.role = [\"a\"]\n[[workload]]\nname = \"b\"\nmatch.role = [\"b\"]\n")
	b := withWorkloads(t, "[[workload]]\nname = \"b\"\nmatch.role = [\"b\"]\n[[workload]]\nname = \"c\"\nmatch.role = [\"c\"]\n[[workload]]\nname = \"a\"\nmatch.role = [\"a\"]\n")
	want := "workload.c: added (pgweir.toml:7)\nthe order of workloads: a, b, tools, default -> b, a, tools, default\n"
	got := ""
	for _, c := range Diff(a, b) {
		got += c.String() + "\n"
	}
	if got != want {
		t.Errorf("%s%s, want", got, want)
	}
}
