package proxy

import (
	"testing"
	"time"

	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/cmd/internal/plan"
)

// A reload puts rates into force, leaves no session with rates where there are none, and
// lets in whoever is blocked when nobody is to be blocked any more.
func TestRatesOfSettings(t *testing.T) {
	px, _ := start(t, func(o *Options) {
		o.Settings.MaxClients = 400
		o.Settings.Rates = []plan.Rate{
			{Name: "a", Per: "role", Text: "10/s", PerSecond: 10, Burst: 10, Delay: true, Block: true},
			{Name: "b", Per: "tenant", Text: "1s/s", PerSecond: 1, Burst: 1, ServerTime: true, Delay: true},
		}
	})
	who := quota.Party{Role: "app"}
	px.blocked.Add(who, time.Now().Add(time.Hour))
	s, err := px.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rates) != 2 || s.Rates[0].Escalation != "block" || s.Rates[1].Escalation != "delay" || s.Rates[1].Per != "tenant" ||
		s.Rates[0].Rate != "10/s" || s.Escalation.MostParked != 20 || len(s.Blocks) != 0 {
		t.Errorf("%+v %+v", s.Rates, s.Escalation)
	}
	for _, c := range []struct {
		rates   []plan.Rate
		blocked bool
	}{{px.settings.Load().Rates[:1], true}, {px.settings.Load().Rates[1:], false}, {nil, false}} {
		next := *px.settings.Load()
		next.Rates = c.rates
		if err := px.Apply(t.Context(), &next); err != nil {
			t.Fatal(err)
		}
		if s, err = px.Snapshot(t.Context()); err != nil || len(s.Rates) != len(c.rates) {
			t.Errorf("%d rates, want %d: %v", len(s.Rates), len(c.rates), err)
		}
		if left, _ := px.blocked.Left(who.Address, who.Role); left > 0 != c.blocked {
			t.Errorf("with %v: blocked for %v", c.rates, left)
		}
	}
}
