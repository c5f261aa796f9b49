package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pgweir/pgweir/admission"
)

func TestWaitsByClass(t *testing.T) {
	for _, c := range []struct{ lines, want string }{
		{`max_wait = "1s"`, "1s [0s 0s 0s 0s]"},
		{`max_wait = { critical = "1s" }`, "2s [2s 1s 1s 1s]"}, // above it the default
		{`max_wait = { critical = "5s" }`, "5s [5s 5s 5s 5s]"}, // or as long as it
		{`max_wait = { critical_plus = "1s", sheddable = "100ms" }`, "1s [1s 1s 1s 100ms]"},
		{`max_wait = { sheddable = "100ms", critical_plus = "1s" }`, "1s [1s 1s 1s 100ms]"},
		{`max_wait = { sheddable_plus = "500ms" }`, "2s [2s 2s 500ms 500ms]"},
		{`max_wait = { critical = "500ms", sheddable = "10s" }`, "10s [2s 500ms 500ms 10s]"}, // patience is not priority
		{"patient = true", "1m [0s 0s 0s 0s]"},
		{"patient = true\nmax_wait = { sheddable = \"1s\" }", "1m [1m 1m 1m 1s]"},
		{"max_wait = { sheddable = \"5m\" }\npatient = true", "5m [5m 5m 5m 5m]"},
		{`max_wait.critical = "3s"`, "3s [3s 3s 3s 3s]"},
		{"[workload.max_wait]\ncritical = \"3s\"\nsheddable = \"1s\"", "3s [3s 3s 3s 1s]"},
	} {
		w := withWorkloads(t, "[[workload]]\n"+c.lines+"\n").Workloads[1]
		if got := fmt.Sprint(w.MaxWait, " ", w.ClassWait); got != c.want {
			t.Errorf("%s: %s, want %s", c.lines, got, c.want)
		}
	}
}

// However a table is written, it is the same configuration.
func TestWaitsAreOneTable(t *testing.T) {
	const one = "[[workload]]\nname = \"a\"\nmatch.role = [\"a\"]\n"
	inline := withWorkloads(t, one+"max_wait = { critical = \"1s\", sheddable = \"20ms\" }\n[[workload]]\nmax_wait = { critical = \"9s\" }\nname=\"default\"\n")
	for _, lines := range []string{
		one + "max_wait.critical = \"1s\"\nmax_wait.sheddable = \"20ms\"\n[[workload]]\nmax_wait.critical = \"9s\"\nname=\"default\"\n",
		one + "[workload.max_wait]\nsheddable = \"20ms\"\ncritical = \"1s\"\n[[workload]]\nname=\"default\"\n[workload.max_wait]\ncritical = \"9s\"\n",
	} {
		if diff := sameConfig(inline, withWorkloads(t, lines)); diff != "" {
			t.Errorf("%s: -inline +other\n%s", lines, diff)
		}
	}
	array := `workload = [
  { name = "a", match = { role = ["a"] }, max_wait = { critical = "1s", sheddable = "20ms" } },
  { name = "default", max_wait = { critical = "9s" } },
]
` + least
	if diff := sameConfig(inline, mustParse(t, array)); diff != "" {
		t.Errorf("an array: -inline +other\n%s", diff)
	}
}

// A class waits what the nearest one named above it waits.
func TestEveryClassHasAWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []string
		named := map[int]time.Duration{}
		for i := range int(admission.Classes) {
			class := admission.ClassAt(i)
			if rapid.Bool().Draw(t, class.String()) {
				named[i] = time.Duration(rapid.IntRange(1, 100_000).Draw(t, "ms")) * time.Millisecond
				list = append(list, fmt.Sprintf("%s = \"%dms\"", class, named[i].Milliseconds()))
			}
		}
		if len(list) == 0 {
			return
		}
		c, problems := Parse("x.toml", []byte(least+"[[workload]]\nmax_wait = { "+strings.Join(list, ", ")+" }\n"))
		if problems != nil {
			t.Fatal(problems)
		}
		w := c.Workloads[1]
		for i, got := range w.ClassWait {
			for above := i; above >= 0; above-- {
				if d, found := named[above]; found && got.Std() != d {
					t.Fatalf("%v: %v of class %d, want %v", list, got, i, d)
				} else if found {
					break
				} else if above == 0 && got.Std() < 2*time.Second {
					t.Fatalf("%v: %v of class %d is less than usual", list, got, i)
				}
			}
			if got > w.MaxWait {
				t.Fatalf("%v is more than the longest, %v", got, w.MaxWait)
			}
		}
		if !slices.Contains(w.ClassWait[:], w.MaxWait) {
			t.Fatalf("nobody waits %v", w.MaxWait)
		}
	})
}

func TestRoleOf(t *testing.T) {
	c := mustParse(t, least+"[role.app]\nmax_class = \"sheddable\"\n[role.web]\npromote_share = \"5%\"\n")
	for name, want := range map[string]string{
		"app": "app sheddable 30%", "web": "web critical 5%", "other": " critical 30%", "*": " critical 30%",
	} {
		r := c.RoleOf(name)
		if got := fmt.Sprint(r.Name, " ", r.MaxClass, " ", r.PromoteShare); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	c = mustParse(t, least+"[role.app]\n[role.\"*\"]\nmax_class = \"sheddable_plus\"\n")
	if a, b := c.RoleOf("app").MaxClass, c.RoleOf("b").MaxClass; a != admission.Critical || b != admission.SheddablePlus {
		t.Error(a, b)
	}
}

func TestPaces(t *testing.T) {
	for _, c := range []struct {
		rate, burst string
		perSecond   float64
		time        bool
		want        float64 // burst
	}{
		{"150/s", "auto", 150, false, 150},
		{"150/s", "15", 150, false, 15},
		{"10/m", "auto", 1.0 / 6, false, 1},
		{"10/min", "3", 1.0 / 6, false, 3},
		{"1/h", "auto", 1.0 / 3600, false, 1},
		{"24/d", "1", 1.0 / 3600, false, 1},
		{"0.5/s", "auto", 0.5, false, 1},
		{"1000000/s", "auto", 1e6, false, 1e6},
		{"500ms/s", "auto", 0.5, true, 0.5},
		{"500ms/s", `"2s"`, 0.5, true, 2},
		{"1m30s/h", "auto", 0.025, true, 0.025},
		{"8s/s", `"1500ms"`, 8, true, 1.5},
	} {
		burst := c.burst
		if burst == "auto" {
			burst = `"auto"`
		}
		r := mustParse(t, least+"[[rate]]\nper = \"role\"\nrate = \""+c.rate+"\"\nburst = "+burst+"\n").Rates[0]
		if math.Abs(r.PerSecond-c.perSecond) > 1e-12 || r.ServerTime != c.time || math.Abs(r.Burst-c.want) > 1e-12 || r.Rate != c.rate || r.Name != "1" {
			t.Errorf("%s, burst %s: %+v", c.rate, c.burst, r)
		}
	}
	for _, text := range []string{"", "/", "/s", "5/", "5s/", "5/0s", "./s", "1.2.3/s", "5/ms", "none/s", "auto/s", "1e3/s", "5/s/s", "0.5/h", "1000001/s", "100d/s"} {
		if _, problems := Parse("x.toml", []byte(least+"[[rate]]\nper = \"role\"\nrate = \""+text+"\"\n")); len(problems) != 1 {
			t.Errorf("%q: %v", text, problems)
		}
	}
}

func TestRatesOf(t *testing.T) {
	c := mustParse(t, least+`
[[rate]]
per = "tenant"
rate = "1/s"
match = { role = ["web*"], tenant = ["free-*", "trial"] }
[[rate]]
per = "tenant"
rate = "2/s"
match = { role = ["web1"], client = ["10.0.0.0/8", "unix"] }
[[rate]]
per = "client"
rate = "3/s"
match = { database = ["shop"], application_name = ["x*"] }
[[rate]]
per = "role"
rate = "4/s"
`)
	ip := netip.MustParseAddr
	for _, q := range []struct {
		database, role, application string
		client                      netip.Addr
		want                        string
	}{
		{"shop", "web1", "xyz", ip("10.1.2.3"), "[0 1 2 3]"},
		{"shop", "web1", "xyz", ip("::ffff:10.1.2.3"), "[0 1 2 3]"},
		{"shop", "web1", "xyz", netip.Addr{}, "[0 1 2 3]"},
		{"other", "web1", "xyz", ip("11.1.2.3"), "[0 3]"},
		{"shop", "cron", "y", ip("10.1.2.3"), "[3]"},
	} {
		if got := fmt.Sprint(c.RatesOf(q.database, q.role, q.application, q.client)); got != q.want {
			t.Errorf("%+v: %s", q, got)
		}
	}
	for tenant, want := range map[string]bool{"free-1": true, "trial": true, "trial2": false, "": false} {
		if got := c.RateHasTenant(0, tenant); got != want || !c.RateHasTenant(1, tenant) {
			t.Errorf("%q: %t", tenant, got)
		}
	}
	if list := mustParse(t, least).RatesOf("a", "b", "c", netip.Addr{}); list != nil {
		t.Error(list)
	}
}

// What people will have to set at a psql prompt.
func TestSETOfTheGuard(t *testing.T) {
	const text = least + `
[[workload]]
name = "api"
match = { role = ["app"] }
max_wait = { critical = "1s", sheddable = "100ms" }
[role.app]
[[rate]]
per = "tenant"
rate = "10/s"
[[rate]]
name = "heavy"
per = "role"
rate = "500ms/s"
`
	for _, c := range []struct{ key, Value, full, want string }{
		{"api.max_wait", "3s", "workload.api.max_wait", `"3s"`},
		{"api.max_wait", `{ sheddable = "20ms", critical = "2s" }`, "workload.api.max_wait", `{ critical = "2s", sheddable = "20ms" }`},
		{"default.max_wait", `{ critical = "5s" }`, "workload.default.max_wait", `{ critical = "5s" }`},
		{"api.queue", "codel", "workload.api.queue", `"codel"`},
		{"workload.api.mode", "dry_run", "workload.api.mode", `"dry_run"`},
		{"api.class", "'sheddable_plus'", "workload.api.class", `"sheddable_plus"`},
		{"api.deadline", "learn", "workload.api.deadline", `"learn"`},
		{"api.deadline", "750ms", "workload.api.deadline", `"750ms"`},
		{"api.deadline", "none", "workload.api.deadline", `"none"`},
		{"max_class", "critical_plus", "role.app.max_class", `"critical_plus"`},
		{"role.app.promote_share", "10%", "role.app.promote_share", `"10%"`},
		{"heavy.rate", "250ms/s", "rate.heavy.rate", `"250ms/s"`},
		{"rate.1.rate", "20/s", "rate.1.rate", `"20/s"`},
		{"1.burst", "50", "rate.1.burst", "50"},
		{"heavy.burst", "2s", "rate.heavy.burst", `"2s"`},
		{"heavy.mode", "off", "rate.heavy.mode", `"off"`},
		{"heavy.escalation", "delay", "rate.heavy.escalation", `"delay"`},
		{"rate.1.match.tenant", `["free-*", 'x']`, "rate.1.match.tenant", `["free-*", "x"]`},
		{"compat", "pgbouncer", "compat", `"pgbouncer"`},
	} {
		config, problems := with(text, map[string]string{c.key: c.Value})
		if problems != nil {
			t.Errorf("SET %s = %s: %v", c.key, c.Value, problems)
			continue
		}
		if got := settingOf(t, config, c.full); got.Value != c.want || got.Source != "SET" {
			t.Errorf("SET %s = %s: %+v, want %s", c.key, c.Value, got, c.want)
		}
	}
	var b strings.Builder
	for _, set := range [][2]string{
		{"api.max_wait", `{ critical = "2", low = "1s" }`},
		{"api.max_wait", "{ critical }"},
		{"api.class", `{ x = 1 }`},
		{"heavy.burst", "5"},
		{"heavy.rate", "5"},
		{"heavy.name", "x"},
		{"mode", "off"},
		{"rate.1.match.role", "[]"},
		{"role.web.max_class", "critical"},
		{"rate.heavy.per", "tenant"},
	} {
		config, problems := with(text, map[string]string{set[0]: set[1]})
		if config != nil {
			t.Errorf("SET %v is accepted", set)
		}
		for _, p := range problems {
			if p.File != "SET" {
				t.Errorf("SET %v: a problem of %s", set, p.File)
			}
			b.WriteString(p.Detail() + "\n\n")
		}
	}
	golden(t, "testdata/set_guard.golden", b.String())
}

func TestDiffOfTheGuard(t *testing.T) {
	const text = least + `
[[workload]]
name = "api"
match = { role = ["app"] }
max_wait = "1s"
[role.app]
max_class = "sheddable"
[[rate]]
name = "a"
per = "tenant"
rate = "10/s"
[[rate]]
name = "b"
per = "role"
rate = "500ms/s"
[[rate]]
name = "c"
per = "client"
rate = "1/s"
`
	edit := strings.NewReplacer(
		`max_wait = "1s"`, `max_wait = { critical = "1s", sheddable = "50ms" }`+"\nqueue = \"fifo\"\ndeadline = \"learn\"\nclass = \"sheddable\"",
		"[role.app]\nmax_class = \"sheddable\"", "[role.app]\npromote_share = \"5%\"\n[role.\"*\"]",
		`rate = "10/s"`, "rate = \"20/s\"\nmatch.tenant = [\"x\"]",
		`[[rate]]
name = "b"
per = "role"
rate = "500ms/s"
[[rate]]
name = "c"
per = "client"
rate = "1/s"
`, `[[rate]]
name = "c"
per = "client"
rate = "1/s"
burst = 9
mode = "dry_run"
[[rate]]
name = "b"
per = "role"
rate = "500ms/s"
[[rate]]
per = "client"
rate = "1/s"
match.role = ["x"]
`)
	// The last one comes behind one for all clients, so that is made narrower.
	after := mustParse(t, "compat = \"pgbouncer\"\n"+strings.Replace(edit.Replace(text), "burst = 9\n", "burst = 9\nmatch.role = [\"y\"]\n", 1))
	var b strings.Builder
	for _, c := range Diff(mustParse(t, text), after) {
		b.WriteString(c.String() + "\n")
	}
	golden(t, "testdata/diff_guard.golden", b.String())
}

func TestWarningsOfTheGuard(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[[workload]]\nmode = \"dry_run\"\n", ""},
		{"[[workload]]\nqueue = \"fifo\"\n", "work is done for nobody"},
		{"[[workload]]\nqueue = \"lifo\"\n", "to be compared"},
		{"[[workload]]\nqueue = \"bounded\"\n", "write a number such as 20"},
		{"[[workload]]\nqueue = \"codel\"\nmode = \"off\"\n", `changes nothing about "codel"`},
		{"[[workload]]\ndeadline = \"1s\"\n", ""},
		{"[[workload]]\ndeadline = \"19ms\"\n", "shorter than many statements take"},
		{"[[workload]]\npatient = true\ndeadline = \"1s\"\n", "it is refused before"},
		{"[[workload]]\npatient = true\ndeadline = \"5m\"\n", ""},
		{"[[workload]]\nclass = \"critical_plus\"\n", "has no effect"},
		{"[[workload]]\nclass = \"critical_plus\"\n[role.x]\nmax_class = \"critical_plus\"\n", "should be named"},
		{"[[workload]]\nname = \"a\"\nmatch.role = [\"x*\"]\nclass = \"critical_plus\"\n[role.xy]\nmax_class = \"critical_plus\"\n", ""},
		{"[[workload]]\nname = \"a\"\nmatch.role = [\"x\"]\nclass = \"critical\"\n[role.x]\nmax_class = \"sheddable\"\n", `no more than "sheddable"`},
		{"[[workload]]\nname = \"a\"\nmatch.role = [\"x\"]\n[role.x]\nmax_class = \"sheddable\"\n", ""},
		{"[role.\"*\"]\nmax_class = \"critical_plus\"\n", "lets every role ask"},
		{"[role.x]\nmax_class = \"critical_plus\"\npromote_share = \"0%\"\n", "lets nothing rise"},
		{"[role.x]\npromote_share = \"0%\"\n", ""},
		{"[role.x]\nceiling = true\n", "has nothing to enforce"},
		{"[role.x]\nceiling = true\nlock_timeout = \"1s\"\n", ""},
		{"[[rate]]\nper = \"role\"\nrate = \"10/s\"\nescalation = \"block\"\nburst = 20\n", ""},
		{"[[rate]]\nper = \"role\"\nrate = \"10/s\"\nescalation = \"block\"\n", "write how many are right"},
		{"[[rate]]\nper = \"tenant\"\nrate = \"10/s\"\nescalation = \"block\"\nburst = 20\n", "one tenant's behaviour"},
		{"[[rate]]\nper = \"role\"\nrate = \"10/s\"\nescalation = \"delay\"\nmode = \"off\"\n", "does nothing while"},
		{"[[rate]]\nper = \"role\"\nrate = \"10/m\"\nburst = 10_000\n", "comes back only after 16h40m of silence"},
		{"[[rate]]\nper = \"role\"\nrate = \"1s/h\"\nburst = \"2s\"\n", "a burst of 2s comes back only after 2h"},
		{"[[rate]]\nper = \"client\"\nrate = \"10/s\"\n", ""},
	} {
		got := mustParse(t, least+c.text).Warnings()
		if text := strings.Join(got, "\n"); (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", c.text, text, c.want)
		}
	}
	for text, want := range map[string]string{
		"compat = \"pgbouncer\"\n" + least:                                                                                 "ends a session",
		"listen = [\"/run\"]\n" + least + "[[rate]]\nper = \"client\"\nrate = \"10/s\"\n":                                  `count as one "client"`,
		"listen = [\"/run\"]\n" + least + "[[rate]]\nper = \"client\"\nrate = \"10/s\"\nmatch.client = [\"unix\"]\n":       `count as one "client"`,
		"listen = [\"/run\"]\n" + least + "[[rate]]\nper = \"client\"\nrate = \"10/s\"\nmatch.client = [\"10.0.0.0/8\"]\n": "",
	} {
		if got := strings.Join(mustParse(t, text).Warnings(), "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
