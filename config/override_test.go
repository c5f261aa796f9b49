package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// several has more than one of everything.
const several = `
max_client_conn = 500
[upstream.main]
url = "postgres://pgweir:hunter2@db/postgres"
budget = 20
[upstream.spare]
url = "postgres://pgweir:hunter2@db2/postgres"
[database.shop]
upstream = "main"
[database."*"]
upstream = "spare"
[[workload]]
name = "api"
match = { role = ["app"] }
max_wait = "1s"
[[workload]]
name = "batch \"x\""
match = { role = ["cron"] }
[role.app]
max_class = "critical_plus"
[role."*"]
[[rate]]
per = "tenant"
rate = "150/s"
[[rate]]
name = "heavy"
per = "role"
rate = "500ms/s"
burst = "2s"
match = { role = ["cron"] }
`

// with parses a text with what was typed at the console.
func with(text string, set map[string]string) (*Config, []Problem) {
	return Options{Getenv: testEnv, Set: set}.Parse("pgweir.toml", []byte(text))
}

// settingOf is the setting of a key.
func settingOf(t *testing.T, c *Config, key string) Setting {
	t.Helper()
	list := c.Settings()
	i := slices.IndexFunc(list, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		t.Fatalf("there is no key %s", key)
	}
	return list[i]
}

func TestSET(t *testing.T) {
	for _, c := range []struct{ text, key, Value, full, want string }{
		{least, "max_wait", "500ms", "workload.default.max_wait", `"500ms"`},
		{least, "max_wait", "'500ms'", "workload.default.max_wait", `"500ms"`},
		{least, "max_wait", `"500ms"`, "workload.default.max_wait", `"500ms"`},
		{least, " max_wait ", " 500ms ", "workload.default.max_wait", `"500ms"`},
		{least, "tools.max_wait", "1s", "workload.tools.max_wait", `"1s"`},
		{least, "slots", "7", "upstream.main.slots", "7"},
		{least, "slots", "auto", "upstream.main.slots", `"auto"`},
		{least, "level", "debug", "log.level", `"debug"`},
		{least, "so_reuseport", "true", "so_reuseport", "true"},
		{least, "admin_users", `["a", 'b']`, "console.admin_users", `["a", "b"]`},
		{least, "password_command", "'echo ''x'''", `database."*".password_command`, `"echo 'x'"`},
		{least, "budget", "${REPORTS_BUDGET}", "upstream.main.budget", "12"},
		{several, "max_client_conn", "100", "max_client_conn", "100"},
		{several, "api.max_wait", "3s", "workload.api.max_wait", `"3s"`},
		{several, `"batch \"x\"".max_wait`, "3s", `workload."batch \"x\"".max_wait`, `"3s"`},
		{several, "workload.tools.share", "20%", "workload.tools.share", `"20%"`},
		{several, "spare.slots", "5", "upstream.spare.slots", "5"},
		{several, "api.match.role", `["app", "app2"]`, "workload.api.match.role", `["app", "app2"]`},
		{several, "api.role", `["app2"]`, "workload.api.match.role", `["app2"]`},
		{several, `database."*".dbname`, "x", `database."*".dbname`, `"x"`},
	} {
		set := map[string]string{c.key: c.Value}
		if c.key == "password_command" {
			set["database.user"] = "x" // whose password it is
		}
		config, problems := with(c.text, set)
		if problems != nil {
			t.Errorf("SET %s = %s: %v", c.key, c.Value, problems)
			continue
		}
		if got := settingOf(t, config, c.full); got.Value != c.want || got.Source != "SET" {
			t.Errorf("SET %s = %s: %+v, want %s", c.key, c.Value, got, c.want)
		}
		if full, err := config.Resolve(c.key); err != nil || full != c.full {
			t.Errorf("%s is resolved to %q, %v; want %s", c.key, full, err, c.full)
		}
	}
}

func TestSETIsRefused(t *testing.T) {
	var b strings.Builder
	for _, set := range []map[string]string{
		{"max_wait": "500"},
		{"max_wait": "500 ms"},
		{"api.max_wait": ""},
		{"spare.max_wait": "1s"},
		{"slots": "5"},
		{"maxwait": "5s"},
		{"": "x"},
		{"a = 1\nb": "x"},
		{"max_client_conn": "1\nmax_logins = 2"},
		{"default_pool_size": "20"},
		{"api.name": "web"},
		{"api.max_wait": "1s", "workload.api.max_wait": "2s"},
		{"main.slots": "50"},
		{"main.budget": "5", "main.slots": "3"},
		{"drain_delay": "30s"},
		{"reserved_clients": "500"},
		{"main.url": "postgres://pgweir:hunter2@db:x/postgres"},
		{"main.url": "'postgres://pgweir:hunter2@db/postgres?sslmode=no'"},
		{"database.shop.upstream": "mian"},
		{"api.share": "95%", "workload.default.share": "10%"},
		{"workload.default.match.role": `["x"]`},
		{"tools.application_name": `["*"]`},
		{"api.match.role": `["*"]`},
		{"listen": "127.0.0.1:6432"},
		{"listen": `["127.0.0.1:6432", "x"]`},
		{"admin_users": "[dba]"},
		{"max_logins": "${WORD}"},
		{"max_logins": "${UNSET}"},
		{"workload.gone.max_wait": "1s"},
		{"max_wait": strings.Repeat("x", (64 << 10))},
	} {
		c, problems := with(several, set)
		if c != nil || len(problems) == 0 {
			t.Errorf("SET %v is accepted", set)
			continue
		}
		for _, p := range problems {
			if p.File != "SET" {
				t.Errorf("SET %v: a problem of %s", set, p.File)
			}
			b.WriteString(p.Detail() + "\n\n")
		}
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Errorf("a password shows:\n%s", b.String())
	}
	golden(t, "testdata/set.golden", b.String())
}

func TestProblemsOfTheFileStayThoseOfTheFile(t *testing.T) {
	_, problems := with("max_logins = 0\n"+several, map[string]string{"max_logins": "5", "api.max_wait": "x"})
	var files []string
	for _, p := range problems {
		files = append(files, p.File)
	}
	slices.Sort(files)
	if diff := cmp.Diff([]string{"SET", "pgweir.toml"}, files); diff != "" {
		t.Error(diff)
	}
}

func TestSETWithoutAFile(t *testing.T) {
	o := Options{Set: map[string]string{"max_wait": "500ms", "budget": "10"}}
	c, problems := o.FromURL("postgres://app:hunter2@db/shop")
	if problems != nil {
		t.Fatal(problems)
	}
	for key, want := range map[string]string{
		"workload.default.max_wait": `"500ms" SET`, "upstream.main.budget": "10 SET",
		"upstream.main.url": `"postgres://app:****@db:5432/shop?sslmode=prefer" url`, "auth.auth_type": `"scram-sha-256" url`,
	} {
		if s := settingOf(t, c, key); s.Value+" "+s.Source != want {
			t.Errorf("%+v, want %s", s, want)
		}
	}
	o.Set["slots"] = "20"
	if _, problems = o.FromURL("postgres://app:hunter2@db/shop"); len(problems) != 1 || problems[0].File != "SET" {
		t.Error(problems)
	}
}

func FuzzSET(f *testing.F) {
	for _, seed := range [][2]string{
		{"max_wait", "500ms"},
		{"main.url", "postgres://u:hunter2@h/d"},
		{`workload."batch \"x\"".share`, "'50%'"},
		{"admin_users", `["a"]`},
		{"a.b.c", "{ x = 1 }"},
		{"x\n", "\n"},
		{"listen", `[":1", "/a"]`},
		{"api.max_wait", `{ critical = "1s", sheddable = "20ms" }`},
		{"heavy.rate", "10/m"},
		{"heavy.burst", "auto"},
		{"tenant", `["free-*"]`},
		{"''.''", "'''"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		c, problems := with(several, map[string]string{key: value})
		if (c == nil) != (len(problems) > 0) {
			t.Fatalf("config %v with problems %v", c, problems)
		}
		for _, p := range problems {
			if p.File != "SET" || p.Message == "" || (p.Line > 0) != (p.Column > 0) {
				t.Fatalf("problem %+v", p)
			}
		}
		if c == nil {
			return
		}
		sound(t, c)
		full, err := c.Resolve(key)
		if err != nil {
			t.Fatalf("%q was set, and is not found: %v", key, err)
		}
		for _, s := range c.Settings() {
			if (s.Source == "SET") != (s.Key == full) {
				t.Fatalf("%q is %q, and %q has source %s", key, full, s.Key, s.Source)
			}
		}
		for _, change := range Diff(mustParse(t, several), c) {
			follows := strings.HasSuffix(change.Key, ".max_wait") || change.Key == "reserved_clients" || change.Key == "auth.auth_file"
			if change.Key != full && !(follows && change.Source == defaultSource) {
				t.Fatalf("SET %q changes %v", key, change)
			}
		}
	})
}

// mustParse is a configuration without problems.
func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, problems := with(text, nil)
	if problems != nil {
		t.Fatal(problems)
	}
	return c
}
