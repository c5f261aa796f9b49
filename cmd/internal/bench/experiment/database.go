package experiment

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/scenario"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// databaseScenarios are about what the database does, and what is done to it.
func databaseScenarios() []scenario.Scenario {
	return []scenario.Scenario{
		timeoutTrap("E4-close", bench.Close, "close their connections"),
		timeoutTrap("E4-cancel", bench.Cancel, "send a cancel request"),
		timeoutTrap("E4-walk", bench.Walk, "just do not listen any more; pgweir knows their deadline"),
		frozen(), retryStorm("E11", false), retryStorm("E11-hints", true), standbyStopped(), poolerRestarted(), postgresRestarted(),
	}
}

// timeoutTrap has clients that leave long before their work is done.
func timeoutTrap(name string, leave bench.Leave, how string) scenario.Scenario {
	return scenario.Scenario{
		Name: name, Group: "E4", Title: "40 clients ask at once for 500 ms of work each on 4 slots, and after 100 ms they " + how,
		Shows: `A slot that is given on when the client leaves, while the database works on, is no bound: it has been seen to run 20
statements under a limit of 4. pgweir cancels for whoever has left, and the slot is free when the server says so.`,
		Against: "pgweir:guard,pgbouncer",
		Plan: stage.Plan{
			Slots:     4,
			PgBouncer: map[string]string{"query_wait_timeout": "1"},
		},
		Load: bench.Load{Streams: []bench.Stream{{
			Name: "clients", Clients: 40, Each: 1, Patience: 100 * time.Millisecond, Leave: leave, Deadline: true,
			Queries: nap(500 * time.Millisecond),
		}}},
		Columns: []string{"busy", "left-ms", "timeouts", "refused", "wasted", "backends"},
		Source:  "a race of timers: 20 running at most and 16 left; with a signal that is passed on: 4 and 0",
		Checks:  []string{"busy <= 4", "left-ms <= 50ms", "wasted = 0"},
		Samples: true,
		After: func(_ context.Context, s *scenario.Scene) error {
			s.Outcome.Note("busy", float64(s.Seen.MostBusy(0, time.Minute)))
			last := time.Duration(0)
			for _, r := range s.Outcome.Result.Records {
				last = max(last, r.Sent+r.Took)
			}
			s.Outcome.Note("left-ms", scenario.Millis(s.Seen.RestAfter(last)))
			return nil
		},
	}
}

// freeze stops the database for a while.
func freeze(length time.Duration) func(context.Context, *scenario.Scene) error {
	return func(ctx context.Context, s *scenario.Scene) error {
		thaw, err := s.Stage.Cluster.Freeze()
		if err != nil {
			return err
		}
		scenario.WaitUntil(ctx, time.Now().Add(s.Scaled(length)))
		return thaw()
	}
}

// The times of frozen.
const (
	frozenAt  = 5 * time.Second
	frozenFor = 30 * time.Second
)

func frozen() scenario.Scenario {
	const most = time.Second // max_wait
	return scenario.Scenario{
		Name: "E10", Title: "2,000 clients on 90 slots while the database stands still for 30 s; nobody may wait for a slot for more than 1 s",
		Shows: `A pool that gives a slot to a waiter whose time was over makes the next one late as well: it has been seen to stay slow
for minutes, with nearly all slots idle, after the database was back.`,
		Against: "pgweir:guard",
		Plan: stage.Plan{
			Slots:     90,
			Workloads: []stage.Workload{{Name: "default", Lines: `max_wait = "1s"`}},
			ByPolicy:  map[string]string{"fifo": "max_waiting = 1000000"},
			PgBouncer: map[string]string{"query_wait_timeout": "1"},
		},
		Load: bench.Load{
			Phases: []bench.Phase{{For: frozenAt + frozenFor + 10*time.Second}}, MaxSessions: 2100, Window: 5 * time.Second,
			Streams: []bench.Stream{{Name: "clients", Clients: 2000, Think: 500 * time.Millisecond, Queries: nap(50 * time.Millisecond)}},
		},
		Events:  []scenario.Event{{At: frozenAt, Name: "the database freezes", Do: freeze(frozenFor)}},
		Columns: []string{"goodput in 0s-5s", "goodput in 36s-45s", "busy-after", "late", "p99 in 36s-45s", "refused", "errors"},
		Source:  "vitess#20310: successful waits of 1,147 to 1,207 ms for 13.6 minutes, 900 slots in use down to 10.75",
		Checks:  []string{"late = 0", "busy-after >= 81", "p99 <= 1100ms in 36s-45s", "errors = 0"},
		Samples: true,
		After: func(_ context.Context, s *scenario.Scene) error {
			thawed := s.Scaled(frozenAt + frozenFor)
			s.Outcome.Note("busy-after", float64(s.Seen.MostBusy(thawed, thawed+time.Second)))
			late := 0
			for _, r := range s.Outcome.Result.Records {
				// Those who ran when the database froze, and those who came while it stood and got
				// a slot, are as late as the database was.
				running := r.Sent < thawed && r.Sent+r.Took > thawed-time.Second
				if r.Outcome == bench.Served && !running && r.Took > most+200*time.Millisecond {
					late++
				}
			}
			s.Outcome.Note("late", float64(late))
			return nil
		},
	}
}

// retryStorm has clients that ask again, and a database that stands still for three seconds.
func retryStorm(name string, honour bool) scenario.Scenario {
	s := scenario.Scenario{
		Name: name, Title: "80/s on 5 slots of 50 ms; 3 s without the database; clients try up to 4 times within 100 ms",
		Shows: `Retries keep an overload alive that has no other cause any more: with an unbounded queue nothing is ever served again.
Refusing early, and telling when to come back, ends it at once.`,
		Against: "pgweir:fifo,pgweir:bounded,pgweir:guard,pgbouncer,pgbouncer:tuned",
		Plan:    seedPlan(),
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 80, For: 20 * time.Second}}, Even: true, Window: 5 * time.Second,
			Streams: []bench.Stream{{
				Class: "critical", Share: 1, Patience: time.Second, Queries: nap(50 * time.Millisecond),
				Retry: bench.Retry{Most: 3, Delay: 100 * time.Millisecond, Honour: honour},
			}},
		},
		Events:  []scenario.Event{{At: 5 * time.Second, Name: "the database freezes", Do: freeze(3 * time.Second)}},
		Columns: []string{"goodput in 0s-5s", "goodput in 5s-10s", "goodput in 10s-15s", "goodput in 15s-20s", "attempts", "timeouts", "wasted"},
		Published: map[string][]string{
			"pgweir:fifo":    {"80", "0", "0", "0", "3.39"},
			"pgweir:bounded": {"80", "32.4", "79", "79", "1.37"},
			"pgweir:guard":   {"80", "34.7", "79", "78.9", "1.39"},
		},
		Source: "our simulation",
		Checks: []string{"goodput >= 79/s in 10s-20s", "attempts <= 1.5"},
	}
	if honour {
		s.Title += ", or when they are told to"
		s.Group = "E11-all"
		s.Against = "pgweir:guard"
		s.Published = map[string][]string{"pgweir:guard": {"80", "59.2", "78.8", "79", "1.5"}}
		s.Checks = append(s.Checks, "goodput >= 59/s in 5s-10s")
	}
	return s
}

// standbyStopped has a standby that writes wait for, and that does not answer.
func standbyStopped() scenario.Scenario {
	return scenario.Scenario{
		Name: "E26", Title: "a synchronous standby stops; clients give up their writes and their reads after 300 ms",
		Shows: `Postgres answers "success" to a write whose wait for the standby is cancelled, although it may be lost. So pgweir never
cancels a write for a client that has left while there is a synchronous standby; reads it cancels as ever. (A cancel request
that a client sends is its own decision, and passed on.)`,
		Against: "pgweir:guard", OwnPostgres: true,
		Stage: stage.Options{
			Replicas: true,
			Postgres: map[string]string{"synchronous_commit": "on"},
			SQL:      []string{"create table book (id bigserial primary key, note text)", "grant all on all tables in schema public to app", "grant all on all sequences in schema public to app"},
		},
		Plan: stage.Plan{Slots: 8},
		Load: bench.Load{
			Phases: []bench.Phase{{For: 6 * time.Second}},
			Streams: []bench.Stream{
				{
					Name: "writes", Clients: 4, Each: 1, Patience: 300 * time.Millisecond, Leave: bench.Close,
					Queries: []bench.Query{{Statements: []string{"INSERT INTO book (note) VALUES ('closed {id}')"}}},
				},
				{
					Name: "reads", Clients: 2, Each: 3, Patience: 300 * time.Millisecond, Leave: bench.Close,
					Queries: []bench.Query{{Statements: []string{"SELECT pg_sleep(600)"}}},
				},
			},
		},
		Columns: []string{"writes-cancelled", "reads-cancelled", "timeouts of writes", "timeouts of reads"},
		Source:  "PostgreSQL's manual and our own runs: a cancelled INSERT answered success",
		Checks:  []string{"writes-cancelled = 0", "reads-cancelled >= 6"},
		Instead: stopStandby,
	}
}

// stopStandby makes a standby, freezes it, sends the load and counts in the server's log what
// was cancelled.
func stopStandby(ctx context.Context, s *scenario.Scene) (err error) {
	standby, err := s.Stage.Cluster.Standby(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, standby.Stop()) }()
	if err := s.Stage.Execute(ctx, stage.Database,
		"alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"); err != nil {
		return err
	}
	// pgweir has to hear of it, as it would long before a standby stops.
	scenario.WaitUntil(ctx, time.Now().Add(6*time.Second))
	thaw, err := standby.Freeze()
	if err != nil {
		return err
	}
	s.Outcome.Result, err = s.Send(ctx, s.Load)
	if err == nil {
		scenario.WaitUntil(ctx, time.Now().Add(3*time.Second)) // cancels that come late count as well
		err = countCancelled(s)
	}
	return errors.Join(err, thaw())
}

// countCancelled reads the database's log.
func countCancelled(s *scenario.Scene) error {
	log, err := s.Stage.Cluster.Log()
	if err != nil {
		return err
	}
	s.Outcome.Note("writes-cancelled", float64(strings.Count(log, "canceling wait for synchronous replication")))
	s.Outcome.Note("reads-cancelled", float64(strings.Count(log, "canceling statement due to user request")))
	return nil
}

// restartLoad is 80 % of what fits; its clients try again when they can't connect.
func restartLoad() bench.Load {
	return bench.Load{
		Phases: []bench.Phase{{Rate: 400, For: 15 * time.Second}}, Seed: 28, Window: time.Second,
		Streams: []bench.Stream{{
			Class: "critical", Share: 1, Patience: 5 * time.Second, Queries: nap(20 * time.Millisecond),
			Retry: bench.Retry{Most: 20, Delay: 400 * time.Millisecond},
		}},
	}
}

func poolerRestarted() scenario.Scenario {
	return scenario.Scenario{
		Name: "E28-pooler", Group: "E28", Title: "the pooler is restarted under 80 % load: 400/s on 10 slots of 20 ms",
		Shows: `A pooler that has just started has no server connections. Whoever comes meanwhile waits for those: the clock of max_wait
runs only when every connection is open that may be.`,
		Against: "pgweir:guard,pgbouncer",
		Plan:    stage.Plan{Slots: 10},
		Load:    restartLoad(),
		Events: []scenario.Event{{At: 5 * time.Second, Name: "the pooler restarts", Do: func(ctx context.Context, s *scenario.Scene) error {
			if s.Front.Process() == nil {
				return errors.New("there is no pooler")
			}
			return errors.Join(s.Front.Stop(), s.Front.Start(ctx))
		}}},
		Columns: []string{"goodput in 0s-5s", "goodput in 7s-15s", "refusals", "served", "attempts", "p99 in 7s-15s"},
		Source:  "our simulation of a pool that is warming up: 266 of 800 refused by a healthy database in 2 s",
		Checks:  []string{"refusals = 0", "served >= 99.9%"},
		Samples: true,
		After:   noteRefusals,
	}
}

// noteRefusals counts refused attempts, also of requests that were served in the end.
func noteRefusals(_ context.Context, s *scenario.Scene) error {
	refusals := 0
	for _, r := range s.Outcome.Result.Records {
		// A pooler that is going away, or a server that is, is no queue.
		if c := s.Outcome.Result.Causes[r.Cause]; r.Outcome == bench.Refused && !c.Fatal {
			refusals++
		}
	}
	s.Outcome.Note("refusals", float64(refusals))
	return nil
}

func postgresRestarted() scenario.Scenario {
	s := poolerRestarted()
	s.Name = "E28-postgres"
	s.Title = "PostgreSQL is restarted under 80 % load: 400/s on 10 slots of 20 ms"
	s.OwnPostgres = true
	s.Samples = false
	s.Events = []scenario.Event{{At: 5 * time.Second, Name: "PostgreSQL restarts", Do: func(ctx context.Context, s *scenario.Scene) error {
		begin := time.Now()
		err := s.Stage.Cluster.Restart(ctx)
		s.Outcome.Note("away-ms", scenario.Millis(time.Since(begin)))
		return err
	}}}
	s.Columns = append(s.Columns, "away-ms")
	return s
}

// sumOf adds up the metrics whose name has a word in it.
func sumOf(metrics map[string]float64, word string) float64 {
	sum := 0.0
	for name, value := range metrics {
		name, _, _ = strings.Cut(name, "{")
		if strings.Contains(name, word) {
			sum += value
		}
	}
	return sum
}
