package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

func TestRateAsSessionsKnowIt(t *testing.T) {
	for _, c := range []struct {
		rate Rate
		per  session.Per
		then quota.Action
	}{
		{Rate{Per: "client"}, session.PerClient, quota.Answer},
		{Rate{Per: "role", Delay: true}, session.PerRole, quota.Delay},
		{Rate{Per: "tenant", Delay: true, Block: true}, session.PerTenant, quota.Block},
	} {
		if got := c.rate.Session(); got.Per != c.per || got.Escalation != c.then {
			t.Errorf("%+v: %+v", c.rate, got)
		}
	}
}

// A name has an entry of its own or the one for all others, and another name on the server if
// the entry has one.
func TestRoute(t *testing.T) {
	s := &Settings{
		Upstreams: []Upstream{{Name: "main"}, {Name: "other"}},
		Databases: []Database{{Name: "shop", Upstream: "other", DBName: "shop_v2"}, {Name: "*", Upstream: "main"}},
		Workloads: []Workload{{Name: "web"}, {Name: "batch"}},
	}
	s.Prepare()
	for name, want := range map[string][2]string{"shop": {"other", "shop_v2"}, "blog": {"main", "blog"}} {
		if d, on := s.Route(name); d == nil || s.Home(d) != want[0] || on != want[1] {
			t.Errorf("%s leads to %+v, %q", name, d, on)
		}
	}
	if i, known := s.Index("batch"); i != 1 || !known {
		t.Errorf("batch is %d, %v", i, known)
	}
	if _, known := s.Index("none"); known {
		t.Error("a workload that there is not")
	}
	s.Databases = s.Databases[:1]
	s.Prepare()
	if d, on := s.Route("blog"); d != nil || on != "" || s.Home(d) != "main" {
		t.Errorf("blog leads to %+v, %q", d, on)
	}
}

// Timeouts are whole milliseconds, and never 0, which Postgres takes for none.
func TestTimeouts(t *testing.T) {
	r := Role{}
	r.Timeouts[0], r.Timeouts[1] = 1500*time.Microsecond, time.Nanosecond
	s := &Settings{RoleOf: func(string) Role { return r }}
	want := []wire.Param{{Name: session.Timeout(0).String(), Value: "2"}, {Name: session.Timeout(1).String(), Value: "1"}}
	if diff := cmp.Diff(want, s.Timeouts("app")); diff != "" {
		t.Errorf("(- wanted, + got):\n%s", diff)
	}
	if got := (&Settings{}).Timeouts("app"); len(got) != 0 {
		t.Errorf("of a role that nothing is known of: %v", got)
	}
}
