package experiment

import (
	"context"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/scenario"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// fairScenarios are about who gets how much.
func fairScenarios() []scenario.Scenario {
	return []scenario.Scenario{greedyLimited(), greedyAlone(), threeUsers(), inflation(), manyKeys()}
}

// nap is a query that binds a server for a time.
func nap(d time.Duration) []bench.Query {
	return []bench.Query{{Statements: []string{bench.Nap}, Work: bench.Work{Mean: d}}}
}

// greedyLimited is the greedy client under a rate of its own.
func greedyLimited() scenario.Scenario {
	s := greedyAlone()
	s.Name = "E3i"
	s.Title = "E3 with a rate for each client: 150/s, burst 15"
	s.Shows = "The greedy client gets its rate, exactly, and is told when to come back; the others notice nothing."
	s.Against = "pgweir:guard"
	s.Plan.Tables = `[[rate]]
		per   = "tenant"
		rate  = "150/s"
		burst = 15`
	s.Published = map[string][]string{"pgweir:guard": {"499", "48", "-", "758", "1242"}}
	s.Source = pressure + ", with a bucket of 150/s for each client"
	s.Checks = []string{"served-count >= 499 of others", "served-count >= 750 of greedy", "served-count <= 766 of greedy"}
	return s
}

// greedyAlone is the greedy client with nothing but the queue between it and the others.
func greedyAlone() scenario.Scenario {
	return scenario.Scenario{
		Name: "E3ii", Group: "E3", Title: "one client sends 400/s beside a hundred that send 1/s each, on 10 slots of 30 ms",
		Shows: `Nobody has a limit. In a common queue the greedy client crowds out a third of the others' requests; served fairly by
tenant, it gets what the others leave.`,
		Against: "pgweir:fifo,pgweir:bounded,pgweir:codel,pgweir:guard,pgbouncer:tuned",
		Plan: stage.Plan{
			Slots: 10,
			ByPolicy: map[string]string{
				"fifo":    endless + "\non_disconnect = \"finish\"",
				"bounded": "max_wait = \"60s\"\nmax_waiting = 20",
				"guard":   "deadline = \"1s\"",
			},
			Tuned: seedPlan().Tuned,
		},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 500, For: 5 * time.Second}}, Even: true,
			Streams: []bench.Stream{
				{Name: "greedy", Share: 0.8, Tenants: []string{"greedy"}, NameTenants: true, Patience: time.Second, Queries: nap(30 * time.Millisecond)},
				{Name: "others", Share: 0.2, Tenants: names("client", 100), NameTenants: true, Patience: time.Second, Queries: nap(30 * time.Millisecond)},
			},
		},
		Columns: []string{"served-count of others", "p99 of others", "goodput of greedy", "served-count of greedy", "refused of greedy", "timeouts of others"},
		Published: map[string][]string{
			"pgweir:fifo":    {"192", "984", "155"},
			"pgweir:bounded": {"327", "90", "272"},
			"pgweir:codel":   {"332", "68", "269"},
			"pgweir:guard":   {"494", "47", "237"},
		},
		Source:  "our simulation with Poisson arrivals: 494 of the others' requests",
		Checks:  []string{"served-count >= 495 of others", "p99 <= 60ms of others"},
		Samples: true,
	}
}

// threeUsers is PgBouncer's issue 131.
func threeUsers() scenario.Scenario {
	const clients, each = 15, 333
	stream := func(role string) bench.Stream {
		return bench.Stream{Name: role, User: role, Clients: clients, Each: each, Patience: 30 * time.Second, Queries: nap(10 * time.Millisecond)}
	}
	return scenario.Scenario{
		Name: "E9", Title: "three users with 15 clients each share 10 server connections; 5,000 queries each",
		Shows: `Poolers that keep a connection for a user as long as it has work let the first user finish first, and the last one wait
until it times out. Served fairly by role, all three finish together.`,
		Against: "pgweir:fifo,pgweir:guard,pgbouncer",
		Stage:   stage.Options{Roles: []string{"usera", "userb", "userc"}},
		Plan: stage.Plan{
			Slots:     10,
			ByPolicy:  map[string]string{"fifo": endless, "guard": "max_wait = \"30s\"\npatient = true"},
			PgBouncer: map[string]string{"max_db_connections": "10"},
		},
		Load: bench.Load{Streams: []bench.Stream{stream("usera"), stream("userb"), stream("userc")}},
		Columns: []string{
			"served-count", "spread", "jain-seconds", "timeouts", "refused",
			"max of usera", "max of userb", "max of userc",
		},
		Source: "pgbouncer#131: the first user first, the third times out after 30 s",
		Checks: []string{"spread <= 10%", "jain-seconds >= 0.98", "timeouts = 0", "refused = 0"},
	}
}

// inflation is a batch that calls all of its work critical.
func inflation() scenario.Scenario {
	return scenario.Scenario{
		Name: "E18", Title: "a batch tags everything critical: 150/s beside 50/s of honest critical work, on 5 slots of 50 ms",
		Shows: `A class is only a claim. The role of the batch may have three tenths of its work above its class; the rest is
demoted, and the honest work is served as if it were alone.`,
		Against: "pgweir:priority,pgweir:guard",
		Stage:   stage.Options{Roles: []string{"batch"}},
		Plan: stage.Plan{
			Slots:     5,
			Workloads: []stage.Workload{{Name: "default", Lines: `class = "sheddable_plus"`}},
			ByPolicy:  map[string]string{"priority": endless, "guard": `deadline = "1s"`},
			Tables: `[role.app]
				promote_share = "100%"
				[role.batch]
				promote_share = "30%"`,
		},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 200, For: 15 * time.Second}}, Even: true,
			Streams: []bench.Stream{
				{Name: "honest", Class: "critical", Share: 0.25, Patience: time.Second, Queries: nap(50 * time.Millisecond)},
				{Name: "batch", Class: "critical", User: "batch", Share: 0.75, Patience: time.Second, Queries: nap(50 * time.Millisecond)},
			},
		},
		Columns: []string{"served of honest", "p99 of honest", "served of batch", "goodput", "demoted"},
		Source:  "quotas by criticality are practice at Google (SRE book, Handling Overload)",
		Checks:  []string{"served >= 99% of honest", "demoted >= 1", "goodput >= 95/s in 1s-15s"},
		After:   noteMetric("demoted", "demoted_total"),
	}
}

// noteMetric takes over the sum of pgweir's metrics whose name has a word in it.
func noteMetric(name, word string) func(context.Context, *scenario.Scene) error {
	return func(ctx context.Context, s *scenario.Scene) error {
		all, err := s.Front.Metrics(ctx)
		if err != nil || all == nil {
			return err
		}
		s.Outcome.Note(name, sumOf(all, word))
		return nil
	}
}

// manyKeys has more pairs of role and database than half of the servers.
func manyKeys() scenario.Scenario {
	var streams []bench.Stream
	roles := []string{"usera", "userb", "userc"}
	databases := []string{"shopa", "shopb", "shopc"}
	for _, role := range roles {
		for _, db := range databases {
			streams = append(streams, bench.Stream{
				Name: role + "/" + db, User: role, Database: db, Clients: 6, Patience: 10 * time.Second,
				Queries: []bench.Query{{Statements: []string{"SELECT pg_sleep({seconds})"}, Work: bench.Work{Mean: 10 * time.Millisecond}}},
			})
		}
	}
	return scenario.Scenario{
		Name: "E27", Title: "3 roles in 3 databases on 10 server connections, 10 ms of work, all busy",
		Shows: `A server connection belongs to one role and database. If the next in line always gets the next place, nearly every
transaction closes a connection and opens another; with affinity they stay, and all nine are served alike.`,
		Against: "pgweir:fifo,pgweir:guard,pgbouncer",
		Stage:   stage.Options{Roles: roles, Databases: databases},
		Plan: stage.Plan{
			Slots: 10, Upstream: `connect_rate = 1000`,
			ByPolicy:  map[string]string{"fifo": endless},
			PgBouncer: map[string]string{"default_pool_size": "1"},
		},
		Load:    bench.Load{Phases: []bench.Phase{{For: 10 * time.Second}}, Streams: streams},
		Columns: []string{"goodput in 1s-10s", "jain-seconds", "p50", "p99", "timeouts", "refused", "backends"},
		Source:  "our simulation: 27/s without affinity, 1,000/s at best",
		Checks:  []string{"goodput >= 900/s in 1s-10s", "jain-seconds >= 0.95", "timeouts = 0", "refused = 0"},
	}
}
