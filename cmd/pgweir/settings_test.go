package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/config"
)

// settingsOf are the settings of a configuration with these lines.
func settingsOf(t *testing.T, lines string) *plan.Settings {
	t.Helper()
	c, problems := config.Parse("pgweir.toml", []byte("auth.auth_type = \"trust\"\n"+lines+"[upstream.main]\nurl = \"postgres://pgweir@db/postgres\"\n[database.\"*\"]\n"))
	if problems != nil {
		t.Fatal(problems)
	}
	s, err := settings(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheGuardOfTheConfigurationIsTheProxys(t *testing.T) {
	s := settingsOf(t, `
compat = "pgbouncer"
workload = [
  { name = "a", match = { role = ["a"] }, queue = "codel", class = "sheddable", deadline = "750ms" },
  { name = "b", match = { role = ["b"] }, mode = "dry_run", max_wait = { critical = "1s", sheddable = "50ms" }, deadline = "learn" },
]
rate = [
  { per = "tenant", rate = "10/m", match = { role = ["a"], tenant = ["x*"] }, escalation = "block", mode = "dry_run" },
  { name = "heavy", per = "role", rate = "500ms/s", burst = "2s", escalation = "delay" },
]
[role.a]
max_class = "critical_plus"
promote_share = "5%"
[role.c]
statement_timeout = "1s"
ceiling = true
transaction_timeout = "2s"
idle_in_transaction_session_timeout = "3s"
lock_timeout = "4s"
max_clients = 5
max_server_connections = 6
`)
	if !s.AsPgBouncer {
		t.Error("compat is lost")
	}
	type guard struct {
		Queue     admission.Policy
		Guard     admission.Mode
		Class     admission.Class
		MaxWait   time.Duration
		ClassWait [admission.Classes]time.Duration
		Deadline  time.Duration
		Learn     bool
	}
	var got []guard
	for _, w := range s.Workloads {
		got = append(got, guard{w.Queue, w.Guard, w.Class, w.MaxWait, w.ClassWait, w.Deadline, w.Learn})
	}
	ms := time.Millisecond
	want := []guard{
		{admission.CoDel, admission.Enforce, admission.Sheddable, 2000 * ms, [admission.Classes]time.Duration{}, 750 * ms, false},
		{admission.Guard, admission.DryRun, admission.Critical, 2000 * ms, [admission.Classes]time.Duration{2000 * ms, 1000 * ms, 1000 * ms, 50 * ms}, 0, true},
		{MaxWait: 2000 * ms}, // tools
		{MaxWait: 2000 * ms}, // default
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("workloads: -want +got\n%s", diff)
	}
	rates := []plan.Rate{
		{Name: "1", Per: "tenant", Text: "10/m", PerSecond: 1.0 / 6, Burst: 1, Delay: true, Block: true, Mode: admission.DryRun},
		{Name: "heavy", Per: "role", Text: "500ms/s", PerSecond: 0.5, ServerTime: true, Burst: 2, Delay: true},
	}
	if diff := cmp.Diff(rates, s.Rates); diff != "" {
		t.Errorf("rates: -want +got\n%s", diff)
	}
	if list := s.RatesOf("d", "a", "", netip.Addr{}); !cmp.Equal(list, []int{0, 1}) || !s.RateHasTenant(0, "xy") || s.RateHasTenant(0, "y") {
		t.Error(list)
	}
	if a, b := s.RoleOf("a"), s.RoleOf("b"); a != (plan.Role{MaxClass: admission.CriticalPlus, PromoteShare: 0.05}) || b != (plan.Role{PromoteShare: 0.3}) {
		t.Error(a, b)
	}
	c := plan.Role{
		PromoteShare: 0.3, Ceiling: true, MaxClients: 5, MaxServers: 6,
		Timeouts: [session.Timeouts]time.Duration{
			session.StatementTimeout: time.Second, session.TransactionTimeout: 2 * time.Second,
			session.IdleTimeoutInTx: 3 * time.Second, session.LockTimeout: 4 * time.Second,
		},
	}
	if got := s.RoleOf("c"); got != c {
		t.Errorf("%+v, want %+v", got, c)
	}
	for _, w := range s.Workloads {
		if w.Uncapped != (w.Name == "tools") {
			t.Errorf("workload %s: uncapped %v", w.Name, w.Uncapped)
		}
	}
}

func TestWithoutRatesThereIsNothingToAsk(t *testing.T) {
	if s := settingsOf(t, ""); s.Rates != nil || s.RatesOf != nil || s.RateHasTenant != nil || s.AsPgBouncer {
		t.Errorf("%+v", s)
	}
}
