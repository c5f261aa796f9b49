package config

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

func TestToolsTakeWhatIsLeft(t *testing.T) {
	for share, want := range map[string]values.Share{"50%": 1000, "90%": 1000, "95%": 500, "100%": 0} {
		c := withWorkloads(t, "[[workload]]\nshare = \""+share+"\"\n")
		if tools := c.Workloads[slices.IndexFunc(c.Workloads, func(w Workload) bool { return w.Name == schema.ToolsWorkload })]; tools.Part != want || tools.Share != 1000 {
			t.Errorf("%s for default: %v for tools", share, tools.Part)
		}
	}
}

// withWorkloads is a configuration with these lines at its end.
func withWorkloads(t *testing.T, lines string) *Config {
	t.Helper()
	c, problems := Parse("pgweir.toml", []byte(least+lines))
	if problems != nil {
		t.Fatal(problems)
	}
	return c
}

func TestPatience(t *testing.T) {
	for lines, want := range map[string]string{
		"":                                    "2s",
		"patient = true\n":                    "1m",
		"patient = false\n":                   "2s",
		"patient = true\nmax_wait = \"5s\"\n": "5s",
	} {
		c := withWorkloads(t, "[[workload]]\n"+lines)
		if w := c.Workloads[len(c.Workloads)-1]; w.MaxWait.String() != want {
			t.Errorf("%q waits %v, want %s", lines, w.MaxWait, want)
		}
	}
}

func TestBudgetOfOneOfSeveralInstances(t *testing.T) {
	facts := Facts{MaxConnections: 100, SuperuserReserved: 3, RoleLimit: -1}
	for lines, want := range map[string]string{
		"instances = 2": "33 1 0 32 33 0.7 x (100 - 3 - 0 - 0) = 67; / 2 instances = 33 []",
		"instances = 4\nbudget = 60\nslots = 50\nconnect_rate = 10":          "15 1 0 12 2 60, as configured; / 4 instances = 15 []",
		"instances = 2\nbudget = 60\nreserve = 8\nreserve_users = [\"dba\"]": "30 4 3 26 30 60, as configured; / 2 instances = 30 []",
		"reserve_users = [\"dba\"]\nbudget = 60":                             "60 3 2 57 60 60, as configured []",
		"reserve_users = [\"dba\"]\nbudget = 4":                              "4 0 0 4 20 4, as configured [reserve shrinks from 3 to 0, because the budget is only 4]",
		"instances = 100":                                                    "1 0 0 1 1 0.7 x (100 - 3 - 0 - 0) = 67; / 100 instances = 0, but at least 1 [67 connections are fewer than 100 instances: together they open more reserve shrinks from 3 to 0, because the budget is only 1]",
		"instances = 10\nslots = 5":                                          "6 1 0 1 6 0.7 x (100 - 3 - 0 - 0) = 67; / 10 instances = 6 [slots 5 are fewer than 10 instances: together they let in more]",
	} {
		b := withUpstream(t, lines).Budget(0, facts)
		got := fmt.Sprint(b.Connections, b.Reserve, b.Users, b.Slots, b.ConnectRate, " ", b.Sum, " ", b.Notes)
		if got != want {
			t.Errorf("%s:\n%s\n%s, want", lines, got, want)
		}
	}
}
