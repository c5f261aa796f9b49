package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/scenario"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// clientScenarios are about what clients do and see.
func clientScenarios() []scenario.Scenario {
	return []scenario.Scenario{
		connectionsKept(), deadlines(), burstOfTwo(),
		pages("E23-10", 10, 0), pages("E23-40", 40, 0), pages("E23-lognormal", 10, 1), transfers(), probes(),
	}
}

// connectionsKept has drivers with prepared statements in an overload.
func connectionsKept() scenario.Scenario {
	stream := func(name string, p bench.Protocol) bench.Stream {
		return bench.Stream{Name: name, Share: 1, Protocol: p, Patience: 5 * time.Second, Queries: nap(50 * time.Millisecond)}
	}
	return scenario.Scenario{
		Name: "E16", Title: "twice what fits for 30 s from clients that speak as drivers do; who has to connect again?",
		Shows: `A refusal that ends the session makes every client log in again, which costs more than what was refused. pgweir's
refusals are errors like any other: the session goes on, and DETAIL and HINT can be read by programs.`,
		Against: "pgweir:guard,pgbouncer:tuned,odyssey:tuned",
		Plan: stage.Plan{
			Slots: 5,
			Tuned: seedPlan().Tuned,
		},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 200, For: 30 * time.Second}}, Even: true,
			Streams: []bench.Stream{stream("simple", bench.Simple), stream("extended", bench.Extended), stream("prepared", bench.Prepared)},
		},
		Columns: []string{"goodput", "refused", "reconnects", "readable", "errors", "timeouts"},
		Source:  "PgBouncer ends the session of whoever has waited for too long (FATAL 08P01)",
		Checks:  []string{"reconnects = 0", "refused >= 100", "readable = 1", "errors = 0"},
		Samples: true,
		After: func(_ context.Context, s *scenario.Scene) error {
			readable := 0.0
			if e := s.Outcome.Result.Refusal; e != nil {
				if _, ok := scenario.RetryAfter(e); ok && e.Detail != "" {
					readable = 1
				}
			}
			s.Outcome.Note("readable", readable)
			return nil
		},
	}
}

// deadlines has three kinds of statements of very different length.
func deadlines() scenario.Scenario {
	const patience = 500 * time.Millisecond
	// The mean of a log-normal distribution is its median times exp(sigma^2/2).
	stream := func(name string, median, share float64) bench.Stream {
		mean := time.Duration(median * 1.6487 * float64(time.Millisecond))
		return bench.Stream{
			Name: name, Share: share, Deadline: true, Patience: patience, Leave: bench.Close,
			Queries: []bench.Query{{
				Statements: []string{"SELECT pg_sleep({seconds}) AS " + name + ", {count}"}, Work: bench.Work{Mean: mean, Sigma: 1},
			}},
		}
	}
	return scenario.Scenario{
		Name: "E17", Title: "1.6 times what fits on 10 slots, three kinds of statements (log-normal, medians 10, 40, 150 ms), clients leave after 500 ms",
		Shows: `Clients say how long they will wait. What cannot end in time is refused before it begins, and what does not end in time
is cancelled; no kind of statement is shut out for being long.`,
		Against: "pgweir:fifo,pgweir:fifo-deadline,pgweir:guard",
		Plan: stage.Plan{
			Slots: 10,
			ByPolicy: map[string]string{
				"fifo":          endless + "\non_disconnect = \"finish\"",
				"fifo-deadline": endless,
			},
		},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 396, For: 30 * time.Second}}, Seed: 17,
			Streams: []bench.Stream{stream("short", 10, 0.7), stream("middle", 40, 0.25), stream("long", 150, 0.05)},
		},
		Columns: []string{
			"goodput", "p99", "timeouts-share", "overhead-share", "wasted-time-share", "wasted",
			"refused-share of short", "refused-share of middle", "refused-share of long",
		},
		Published: map[string][]string{
			"pgweir:fifo":          {"0", "-", "99.9", "-", "97.8"},
			"pgweir:fifo-deadline": {"360", "489", "4.7", "-", "38.7"},
			"pgweir:guard":         {"262", "322", "0.5", "-", "10.5"},
		},
		Source: "our simulation, with cancels at the deadline",
		Checks: []string{
			"wasted-time-share <= 12%", "wasted-share <= 12%", "timeouts-share <= 1%", "refused-share <= 99% of short", "refused-share <= 99% of middle", "refused-share <= 99% of long",
		},
		Samples: true,
		After: func(ctx context.Context, s *scenario.Scene) error {
			if err := noteMetric("wasted-seconds", "wasted_seconds_total")(ctx, s); err != nil {
				return err
			}
			return noteWastedTime(s)
		},
	}
}

// noteWastedTime works out which part of the servers' busy time was for nobody, as pgweir
// counts it; and which part was neither that nor work that was served: what a statement costs
// besides. The latter is what can be measured from outside, and should be small.
func noteWastedTime(s *scenario.Scene) error {
	r := s.Outcome.Result
	busy := s.Seen.BusyTime(0, r.Took+time.Minute).Seconds()
	if busy <= 0 {
		return errors.New("no server was seen at work")
	}
	work := map[time.Duration]time.Duration{} // of the arrivals, by their time
	for a := range s.Load.Arrivals() {
		work[a.Due] = a.Work
	}
	useful := time.Duration(0)
	for _, one := range r.Records {
		if one.Outcome == bench.Served {
			useful += work[one.Due]
		}
	}
	wasted := s.Outcome.Extra["wasted-seconds"]
	s.Outcome.Note("wasted-time-share", 100*wasted/busy)
	s.Outcome.Note("overhead-share", 100*(busy-wasted-useful.Seconds())/busy)
	return nil
}

// burstOfTwo is a healthy load with short bursts.
func burstOfTwo() scenario.Scenario {
	var list []bench.Phase
	for range 20 {
		list = append(list, bench.Phase{Rate: 600, For: 950 * time.Millisecond}, bench.Phase{Name: "burst", Rate: 2000, For: 50 * time.Millisecond})
	}
	return scenario.Scenario{
		Name: "E21", Title: "60 % load with bursts of twice what fits for 50 ms in every second: 10 slots of 10 ms",
		Shows: `A burst is no overload: it drains by itself. Every refusal here is a false one, and pgweir counts those by looking at what
happened afterwards.`,
		Against: "pgweir:bounded,pgweir:codel,pgweir:guard",
		Plan:    stage.Plan{Slots: 10, ByPolicy: map[string]string{"bounded": "max_waiting = 20"}},
		Load: bench.Load{
			Phases: list, Seed: 21, Window: 5 * time.Second,
			Streams: []bench.Stream{
				{Class: "critical", Share: 0.25, Deadline: true, Patience: time.Second, Queries: nap(10 * time.Millisecond)},
				{Class: "sheddable_plus", Share: 0.75, Deadline: true, Patience: time.Second, Queries: nap(10 * time.Millisecond)},
			},
		},
		Columns: []string{"arrived", "refused", "refused-share", "false-refusals", "p50", "p99", "timeouts"},
		Source:  "Amazon counts such false positives",
		Checks:  []string{"refused-share <= 0.1%", "false-share <= 0.1%"},
		After: func(ctx context.Context, s *scenario.Scene) error {
			if err := noteMetric("false-refusals", "false_refusals")(ctx, s); err != nil {
				return err
			}
			s.Outcome.Note("false-share", 100*s.Outcome.Extra["false-refusals"]/max(1, float64(s.Outcome.Result.Counts.Arrived)))
			return nil
		},
	}
}

// pages are requests of many statements, which are worth nothing unless all are served.
func pages(name string, statements int, sigma float64) scenario.Scenario {
	// 5 slots of 10 ms are 500 statements per second.
	capacity := 500 / float64(statements)
	s := scenario.Scenario{
		Name: name, Group: "E23", Title: fmt.Sprintf("pages of %d statements of 10 ms each, at twice what fits on 5 slots, which is measured first; a page fails with its first refusal, and after 2 s", statements),
		Shows: `Judged one by one, twice as many statements as fit means that half are refused, and hardly a page gets all of its own.
Whoever has begun goes first, so that the pages which are let in are finished.`,
		Against: "pgweir:fifo,pgweir:bounded,pgweir:codel,pgweir:guard,pgbouncer:tuned",
		Plan: stage.Plan{
			Slots:    5,
			ByPolicy: map[string]string{"fifo": endless, "bounded": "max_waiting = 20"},
			Tuned:    seedPlan().Tuned,
		},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 2 * capacity, For: 15 * time.Second}}, Seed: 23,
			Streams: []bench.Stream{{
				Name: "pages", Share: 1, Deadline: true, Patience: time.Second,
				Queries: []bench.Query{{Statements: []string{bench.Nap}, Repeat: statements, Work: bench.Work{Mean: 10 * time.Millisecond, Sigma: sigma}}},
			}},
		},
		Columns: []string{"pages-per-s", "capacity", "page-share", "broken-share", "p50", "p99", "refused", "timeouts"},
		Source:  "our simulation: 24.7 of 50 pages/s, half of the server time wasted, when each statement is judged alone; 49.9/s when begun pages go first",
		Checks:  []string{"page-share >= 95%", "broken-share <= 5%"},
		Instead: func(ctx context.Context, s *scenario.Scene) error {
			one := s.Load.Streams[0].Queries[0]
			one.Repeat = 1
			perSecond, _, err := measureCapacity(ctx, s, []bench.Query{one})
			if err != nil {
				return err
			}
			capacity := perSecond / float64(statements)
			s.Outcome.Note("capacity", capacity)
			load := s.Load
			load.Phases[0].Rate = 2 * capacity // they are this run's own
			if s.Outcome.Result, err = s.Send(ctx, load); err == nil {
				notePages(s, capacity)
			}
			return err
		},
	}
	if sigma > 0 {
		s.Title += "; log-normal (sigma 1)"
	}
	return s
}

// pagePatience is how long somebody waits for a page.
const pagePatience = 2 * time.Second

// notePages works out how many pages were finished in time, of those that would fit, and how
// much of what the servers did was for the others.
func notePages(s *scenario.Scene, capacity float64) {
	from := s.Scaled(2 * time.Second) // nobody has to wait at first
	pages, useful, all := 0, 0, 0
	for _, r := range s.Outcome.Result.Records {
		if r.Due < from {
			continue
		}
		all += int(r.Done)
		if r.Outcome == bench.Served && r.Whole <= pagePatience {
			pages++
			useful += int(r.Done)
		}
	}
	perSecond := float64(pages) / (s.Load.Length() - from).Seconds()
	s.Outcome.Note("pages-per-s", perSecond)
	s.Outcome.Note("page-share", 100*perSecond/capacity)
	s.Outcome.Note("broken-share", 100*float64(all-useful)/max(1, float64(all)))
}

// Accounts of transfers, and what each has at first.
const (
	accounts = 1000
	deposit  = 1000
)

// transfers move money and must not lose any.
func transfers() scenario.Scenario {
	move := []string{
		"BEGIN", "UPDATE account SET balance = balance - 1 WHERE id = 1 + ({id} + 1) % 1000",
		"SELECT pg_sleep({seconds})", "UPDATE account SET balance = balance + 1 WHERE id = 1 + {id} % 1000", "COMMIT",
	}
	query := func(goOn bool, statements ...string) []bench.Query {
		return []bench.Query{{Statements: statements, GoOn: goOn, IDs: accounts, Work: bench.Work{Mean: 20 * time.Millisecond}}}
	}
	together := move[0] + "; " + move[1] + "; " + move[2] + "; " + move[3] + "; " + move[4]
	return scenario.Scenario{
		Name: "E24", Title: "transfers between accounts at three times what fits; scripts go on after errors",
		Shows: `BEGIN; UPDATE; UPDATE; COMMIT. If the BEGIN is refused and the script goes on, its halves are committed one by one. pgweir
never refuses a BEGIN, and after a refusal the transaction is failed, as it would be with Postgres.`,
		Against: "pgweir:guard,pgweir:codel",
		Stage: stage.Options{SQL: []string{
			fmt.Sprintf("create table account as select id, %d as balance from generate_series(1, %d) id", deposit, accounts),
			"alter table account add primary key (id)",
			"grant all on account to app",
		}},
		Plan: stage.Plan{Slots: 5, ByPolicy: map[string]string{"guard": `max_wait = "200ms"`}},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 640, For: 16 * time.Second}}, Seed: 24,
			Streams: []bench.Stream{
				{Name: "scripts", Share: 0.4, Patience: 5 * time.Second, Queries: query(true, move...)},
				{Name: "drivers", Share: 0.3, Patience: 5 * time.Second, Protocol: bench.Extended, Queries: query(true, move...)},
				{Name: "one-query", Share: 0.3, Patience: 5 * time.Second, Queries: query(true, together)},
			},
		},
		Columns: []string{"arrived", "goodput", "refused", "errors", "timeouts", "reconnects", "books-off", "moved"},
		Source:  "with a pooler that refused BEGIN, a psql script committed one half",
		Checks:  []string{"books-off = 0", "arrived >= 10000", "refused >= 1000", "reconnects = 0"},
		After:   auditBooks,
	}
}

// auditBooks compares what the accounts hold with what they began with.
func auditBooks(ctx context.Context, s *scenario.Scene) error {
	conn, err := s.Stage.Connect(ctx, stage.Database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // it has done its work
	var sum, moved int64
	if err := conn.QueryRow(ctx, "SELECT sum(balance), sum(abs(balance - $1)) FROM account", deposit).Scan(&sum, &moved); err != nil {
		return err
	}
	s.Outcome.Note("books-off", float64(sum-accounts*deposit))
	s.Outcome.Note("moved", float64(moved))
	return nil
}

// probes are what drivers' pools send before they give a connection away.
func probes() scenario.Scenario {
	return scenario.Scenario{
		Name: "E25", Title: "clients test their connection with SELECT 1 before each request, at twice what fits on 5 slots of 50 ms",
		Shows: `Drivers' pools close a connection whose probe was refused, and open another: a refusal would become a login. Probes have a
lane of their own and are neither refused nor invented.`,
		Against: "pgweir:guard,pgbouncer:tuned",
		Plan: stage.Plan{
			Slots:    5,
			ByPolicy: map[string]string{"guard": `deadline = "1s"`},
			Tuned:    seedPlan().Tuned,
		},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 200, For: 15 * time.Second}}, Even: true,
			Streams: []bench.Stream{
				{
					Name: "pinged", Class: "sheddable_plus", Share: 0.9, Patience: 2 * time.Second,
					Queries: []bench.Query{{Statements: []string{"SELECT 1", bench.Nap}, GoOn: true, Work: bench.Work{Mean: 50 * time.Millisecond}}},
				},
				{
					Name: "probes", Share: 0.1, Patience: 2 * time.Second, Tell: bench.Untold,
					Queries: []bench.Query{{Statements: []string{"SELECT 1"}}},
				},
			},
		},
		Columns: []string{"goodput of pinged", "refused of pinged", "refused of probes", "p50 of probes", "p99 of probes", "reconnects"},
		Source:  "Django with persistent connections: 4 new connections in 5 refused requests",
		Checks:  []string{"refused = 0 of probes", "timeouts = 0 of probes", "reconnects = 0", "refused >= 100 of pinged"},
	}
}
