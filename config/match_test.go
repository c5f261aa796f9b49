package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pgweir/pgweir/config/schema"
)

// naiveGlob is glob by the definition.
func naiveGlob(pattern, text []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(text) == 0
	case pattern[0] == '*':
		return naiveGlob(pattern[1:], text) || len(text) > 0 && naiveGlob(pattern, text[1:])
	case len(text) == 0:
		return false
	default:
		return (pattern[0] == '?' || pattern[0] == text[0]) && naiveGlob(pattern[1:], text[1:])
	}
}

// naiveFind asks every workload in its turn.
func naiveFind(list []Workload, database, role, application string, client netip.Addr) int {
	fits := func(globs []string, text string) bool {
		return len(globs) == 0 || slices.ContainsFunc(globs, func(g string) bool { return naiveGlob([]rune(g), []rune(text)) })
	}
	for i, w := range list {
		m := w.Match
		from := len(m.Client) == 0 && !m.Unix || m.Unix && !client.IsValid() ||
			slices.ContainsFunc(m.Client, func(p netip.Prefix) bool { return client.IsValid() && p.Contains(client.Unmap()) })
		if from && fits(m.Role, role) && fits(m.Database, database) && fits(m.ApplicationName, application) {
			return i
		}
	}
	return len(list) - 1
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true},
		{"?", "", false},
		{"?", "é", true},
		{"??", "é", false},
		{"web-*", "web-1", true},
		{"web-*", "web", false},
		{"*-*-c", "a-b-c-d-c", true},
		{"*a?c*", "xxabxabc", true},
		{"a**b", "ab", true},
		{"*é", "ééé", true},
		{"?\xff", "a\xff", true},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("%q, %q: %t", c.pattern, c.text, got)
		}
	}
	if glob(strings.Repeat("*a", 120)+"b", strings.Repeat("a", 10_000)) {
		t.Error("a pattern that needs a b")
	}
}

func TestGlobIsWhatItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*?é]{0,8}`).Draw(t, "pattern")
		text := rapid.StringMatching(`[abé]{0,10}`).Draw(t, "text")
		if got, want := glob(pattern, text), naiveGlob([]rune(pattern), []rune(text)); got != want {
			t.Fatalf("%t, want %t", got, want)
		}
	})
}

// someMatch draws what a file could say, from few words so that clients do match.
func someMatch(t *rapid.T) Match {
	words := rapid.SampledFrom([]string{"a", "b", "ab", "a*", "?b", "*", "*b*", "é?"})
	list := func(name string) []string {
		if rapid.IntRange(0, 2).Draw(t, "has "+name) == 0 {
			return nil
		}
		return rapid.SliceOfNDistinct(words, 1, 3, rapid.ID).Draw(t, name)
	}
	m := Match{Role: list("role"), Database: list("database"), ApplicationName: list("application")}
	if rapid.IntRange(0, 3).Draw(t, "has client") == 0 {
		for _, text := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"10.0.0.0/8", "10.1.2.3/32", "fd00::/8", "0.0.0.0/0", "::/0"}), 0, 2, rapid.ID).Draw(t, "clients") {
			m.Client = append(m.Client, netip.MustParsePrefix(text))
		}
		m.Unix = rapid.Bool().Draw(t, "unix")
	}
	return m
}

func TestTheFirstWorkloadThatMatchesIsTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Config
		for i := range rapid.IntRange(1, 12).Draw(t, "workloads") {
			c.Workloads = append(c.Workloads, Workload{Name: fmt.Sprint(i), Match: someMatch(t)})
		}
		c.Workloads = append(c.Workloads, Workload{Name: schema.DefaultWorkload})
		c.matcher = newMatcher(c.Workloads)
		text := rapid.SampledFrom([]string{"", "a", "b", "ab", "aab", "éa", "c"})
		addresses := rapid.SampledFrom([]string{"", "10.1.2.3", "::ffff:10.1.2.3", "192.168.0.1", "fd00::1", "fe80::1%eth0"})
		for range 20 {
			database, role, application := text.Draw(t, "database"), text.Draw(t, "role"), text.Draw(t, "application")
			var client netip.Addr
			if a := addresses.Draw(t, "client"); a != "" {
				client = netip.MustParseAddr(a)
			}
			got, want := c.WorkloadOf(database, role, application, client), naiveFind(c.Workloads, database, role, application, client.WithZone(""))
			if got != want {
				t.Fatalf("%d, want %d", got, want)
			}
		}
	})
}

func TestWorkloadOf(t *testing.T) {
	c := withUpstream(t, "") // and the built-in workloads
	for application, want := range map[string]string{
		"pg_dump": "tools", "pg_restore": "tools", "Flyway by Redgate": "tools", "pgroll-state": "tools",
		"psql": "default", "": "default", "pg_dumpling": "default",
	} {
		if got := c.Workloads[c.WorkloadOf("shop", "app", application, netip.Addr{})].Name; got != want {
			t.Errorf("%s: %s, want %s", application, got, want)
		}
	}
	if got := (&Config{File: schema.File{Workloads: make([]Workload, 3)}}).WorkloadOf("a", "b", "c", netip.Addr{}); got != 2 {
		t.Errorf("a configuration made by hand: %d", got)
	}
}

// manyWorkloads is a configuration with as many, each for its own role.
func manyWorkloads(n int) *Config {
	var c Config
	for i := range n {
		c.Workloads = append(c.Workloads, Workload{Match: Match{Role: []string{fmt.Sprintf("role%d", i)}}})
	}
	c.Workloads = append(c.Workloads, Workload{Name: schema.DefaultWorkload})
	c.matcher = newMatcher(c.Workloads)
	return &c
}

func TestFindingAWorkloadAllocatesNothing(t *testing.T) {
	c := manyWorkloads(1000)
	client := netip.MustParseAddr("10.1.2.3")
	if n := testing.AllocsPerRun(100, func() { c.WorkloadOf("shop", "role999", "web", client) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWorkloadOf(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := manyWorkloads(n)
			client := netip.MustParseAddr("10.1.2.3")
			for b.Loop() {
				c.WorkloadOf("shop", "role0", "web", client)
				c.WorkloadOf("shop", "nobody", "web", client)
			}
		})
	}
}
