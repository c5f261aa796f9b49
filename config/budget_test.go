package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// withUpstream is a configuration whose upstream has these lines.
func withUpstream(t *testing.T, lines string) *Config {
	t.Helper()
	c, problems := Parse("x.toml", []byte("[upstream.main]\nurl = \"postgres://pgweir@db/postgres?sslmode=verify-full\"\n"+lines+"\n[database.\"*\"]\n"))
	if problems != nil {
		t.Fatal(problems)
	}
	return c
}

func TestBudget(t *testing.T) {
	usual := Facts{MaxConnections: 100, SuperuserReserved: 3, OtherBackends: 4, RoleLimit: -1}
	change := func(f func(*Facts)) Facts {
		facts := usual
		f(&facts)
		return facts
	}
	for _, c := range []struct {
		name  string
		lines string
		facts Facts
		want  Budget
	}{
		{"auto", "", usual, Budget{65, 3, 0, 62, 65, "0.7 x (100 - 3 - 0 - 4) = 65", nil}},
		{
			"reserved_connections", "", change(func(f *Facts) { f.ReservedConnections = 10 }),
			Budget{58, 3, 0, 55, 58, "0.7 x (100 - 3 - 10 - 4) = 58", nil},
		},
		{
			"role limit", "", change(func(f *Facts) { f.RoleLimit = 20 }),
			Budget{20, 3, 0, 17, 20, "0.7 x (100 - 3 - 0 - 4) = 65, but no more than the role's CONNECTION LIMIT of 20", nil},
		},
		{
			"role limit that does not matter", "", change(func(f *Facts) { f.RoleLimit = 65 }),
			Budget{65, 3, 0, 62, 65, "0.7 x (100 - 3 - 0 - 4) = 65", nil},
		},
		{
			"small", "", change(func(f *Facts) { f.OtherBackends = 91 }),
			Budget{4, 0, 0, 4, 20, "0.7 x (100 - 3 - 0 - 91) = 4", []string{"reserve shrinks from 3 to 0, because the budget is only 4"}},
		},
		{
			"no longer small", "", change(func(f *Facts) { f.OtherBackends = 89 }),
			Budget{5, 3, 0, 2, 20, "0.7 x (100 - 3 - 0 - 89) = 5", nil},
		},
		{
			"nothing left", "", change(func(f *Facts) { f.OtherBackends = 120 }),
			Budget{1, 0, 0, 1, 20, "0.7 x (100 - 3 - 0 - 120) = 0, but at least 1", []string{
				"Postgres has no connection to spare: clients will be refused",
				"reserve shrinks from 3 to 0, because the budget is only 1",
			}},
		},
		{"fixed", "budget = 40\nreserve = 0\nslots = 16\nconnect_rate = 5", usual, Budget{40, 0, 0, 16, 5, "40, as configured", nil}},
		{
			"fixed beyond the room", "budget = 120", change(func(f *Facts) { f.RoleLimit = 50 }),
			Budget{120, 3, 0, 117, 120, "120, as configured", []string{
				"the budget is 120, and Postgres has room for 100 - 3 - 0 - 4 = 93",
				"the budget is 120, and the role's CONNECTION LIMIT is 50",
			}},
		},
		{
			"slots beyond auto", "slots = 80", usual,
			Budget{65, 3, 0, 62, 65, "0.7 x (100 - 3 - 0 - 4) = 65", []string{"slots 80 are more than budget - reserve = 62: it is 62 now"}},
		},
		{
			"reserve beyond auto", "reserve = 10", change(func(f *Facts) { f.RoleLimit = 10 }),
			Budget{10, 9, 0, 1, 20, "0.7 x (100 - 3 - 0 - 4) = 65, but no more than the role's CONNECTION LIMIT of 10", []string{
				"reserve 10 leaves nothing of a budget of 10: it is 9 now",
			}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := withUpstream(t, c.lines).Budget(0, c.facts)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBudgetsAddUp(t *testing.T) {
	configs := []*Config{
		withUpstream(t, ""), withUpstream(t, "reserve = 7"), withUpstream(t, "slots = 9"),
		withUpstream(t, "budget = 30\nslots = 20"), withUpstream(t, "budget = 1"), withUpstream(t, "reserve = 2\nslots = 3"),
	}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(configs).Draw(t, "config")
		number := rapid.IntRange(0, 300)
		f := Facts{number.Draw(t, "max"), number.Draw(t, "superuser"), number.Draw(t, "reserved"), number.Draw(t, "others"), number.Draw(t, "limit") - 1}
		b := c.Budget(0, f)
		if b.Connections < 1 || b.Reserve < 0 || b.Slots < 1 || b.Reserve+b.Slots > b.Connections || b.ConnectRate < 1 || b.Sum == "" {
			t.Fatalf("%+v", b)
		}
		if c.Upstreams[0].Budget.IsAuto() && b.Connections > 1 && 10*b.Connections > 7*f.room() {
			t.Fatalf("%d is more than 0.7 x %d", b.Connections, f.room())
		}
	})
}

func TestCapacity(t *testing.T) {
	if got := Capacity(20, 10*time.Millisecond); got != 2000 {
		t.Error(got)
	}
	if got := Capacity(20, 0); got != 0 {
		t.Error(got)
	}
}

func TestRoute(t *testing.T) {
	c, problems := Parse("x.toml", []byte(`
[upstream.a]
url = "postgres://pgweir@db/postgres?sslmode=verify-full"
[upstream.b]
url = "postgres://pgweir@db/postgres?sslmode=verify-full"
[database."*"]
upstream = "b"
[database.shop]
upstream = "a"
dbname = "shop_v2"
`))
	if problems != nil {
		t.Fatal(problems)
	}
	for _, want := range []struct {
		name     string
		upstream int
		dbname   string
	}{{"shop", 0, "shop_v2"}, {"other", 1, "other"}, {"*", 1, "*"}} {
		i, dbname, ok := c.Route(want.name)
		if i != want.upstream || dbname != want.dbname || !ok {
			t.Errorf("%s: %d %s %t", want.name, i, dbname, ok)
		}
	}
	c.Databases = c.Databases[1:]
	if _, _, ok := c.Route("other"); ok {
		t.Error("a name that nobody configured has a way")
	}
	if c.Upstream("a") != &c.Upstreams[0] || c.Upstream("c") != nil {
		t.Error("Upstream")
	}
}

func TestWarnings(t *testing.T) {
	const rest = "[upstream.main]\nurl = \"postgres://pgweir@db/postgres?sslmode=verify-full\"\n[database.\"*\"]\n"
	for _, c := range []struct{ text, want string }{
		{rest, ""},
		{"http = \"none\"\n" + rest, "nobody sees metrics"},
		{"[auth]\nauth_type = \"trust\"\n" + rest, ""},
		{"listen = [\"localhost:1\", \"[::1]:1\"]\n[auth]\nauth_type = \"trust\"\n" + rest, ""},
		{"listen = [\"127.0.0.1:1\", \":2\"]\n[auth]\nauth_type = \"trust\"\n" + rest, "whoever reaches :2"},
		{"listen = [\"10.0.0.1:1\"]\n[auth]\nauth_type = \"password\"\n" + rest, "in clear to 10.0.0.1:1"},
		{"listen = [\"10.0.0.1:1\"]\n" + rest, "can only be read on this one, at 127.0.0.1:6433"},
		{"listen = [\"10.0.0.1:1\"]\nhttp = \":6433\"\n" + rest, ""},
		{"so_reuseport = true\n" + rest, "takes its connections for somebody else's"},
		{"so_reuseport = true\n" + strings.Replace(rest, "[database", "budget = 20\n[database", 1), ""},
		{rest + "upstream = \"main\"\n[upstream.x]\nurl = \"postgres://pgweir@db/postgres?sslmode=verify-full\"\n", `no database uses upstream "x"`},
	} {
		got, problems := Parse("x.toml", []byte(c.text))
		if problems != nil {
			t.Errorf("%s: %v", c.text, problems)
			continue
		}
		if text := strings.Join(got.Warnings(), "\n"); (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", c.text, text, c.want)
		}
	}
}
