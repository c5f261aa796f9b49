package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/scenario"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// rateScenarios are about rates and about those who do not listen.
func rateScenarios() []scenario.Scenario {
	return []scenario.Scenario{burstOfOne(), escalation("E19-delay", "delay", 10), escalation("E19-block", "block", 50)}
}

// burstOfOne is a quiet client that suddenly wants a lot.
func burstOfOne() scenario.Scenario {
	return scenario.Scenario{
		Name: "E5", Title: "a quiet client sends 40 statements within a second under a rate of 10/s with a burst of 20",
		Shows: `A bucket lets the burst through that was saved up, and refuses the rest. What a refusal says about the time to come
back is exact: a statement at that time passes, one a little earlier does not.`,
		Against: "pgweir:guard",
		Plan: stage.Plan{Slots: 5, Tables: `[[rate]]
			per   = "tenant"
			rate  = "10/s"
			burst = 20`},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 40, For: time.Second}}, Even: true,
			Streams: []bench.Stream{{
				Name: "client", Share: 1, Tenants: []string{"quiet"}, NameTenants: true, Patience: 5 * time.Second,
				Queries: []bench.Query{{Statements: []string{bench.Nap}}},
			}},
		},
		Columns: []string{"served-count", "refused", "refused by rate", "hint-off-ms", "early-refused"},
		Source:  shedding + ": the bucket lets the burst through, windows do not",
		// 20 of the burst, and 10/s for the 975 ms from the first to the last.
		Checks: []string{"served-count >= 29", "served-count <= 30", "hint-off-ms <= 1ms", "early-refused = 1"},
		After:  tryHints,
	}
}

// tryHints empties the bucket, and then comes back when it was told to, and again a little
// earlier. The measured wait is from the refusal to the last moment that is refused.
func tryHints(ctx context.Context, s *scenario.Scene) error {
	conn, err := s.Connect(ctx, stage.Role, "hints")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // it has done its work
	off, early := math.Inf(1), 0.0
	for range 3 {
		wait, told, err := untilRefused(ctx, conn)
		if errors.Is(err, errNoRefusal) {
			return nil
		}
		if err != nil {
			return err
		}
		// A few ms before: still refused, and told how long the rest is.
		scenario.WaitUntil(ctx, told.Add(wait-5*time.Millisecond))
		again := ask(ctx, conn)
		now := time.Now()
		if scenario.IsRefusal(again) {
			early = 1
			rest, ok := scenario.RetryAfter(again)
			if !ok {
				return fmt.Errorf("a refusal without a hint: %w", again)
			}
			// Both hints name the same moment, to the ms that they are rounded up to.
			off = min(off, math.Abs(scenario.Millis(now.Add(rest).Sub(told.Add(wait)))))
			scenario.WaitUntil(ctx, now.Add(rest))
			again = ask(ctx, conn)
		}
		if again != nil {
			return fmt.Errorf("refused at the time that was told: %w", again)
		}
	}
	s.Outcome.Note("hint-off-ms", off)
	s.Outcome.Note("early-refused", early)
	return nil
}

// ask sends a cheap statement that is no probe.
func ask(ctx context.Context, conn *pgconn.PgConn) error {
	_, err := conn.Exec(ctx, "SELECT pg_sleep(0)").ReadAll()
	return err
}

// errNoRefusal is for a target that has no rates.
var errNoRefusal = errors.New("a thousand statements and no refusal")

// untilRefused sends statements until one is refused, and returns what that was told and
// when.
func untilRefused(ctx context.Context, conn *pgconn.PgConn) (wait time.Duration, told time.Time, err error) {
	for range 1000 {
		err := ask(ctx, conn)
		told = time.Now()
		if err == nil {
			continue
		}
		wait, ok := scenario.RetryAfter(err)
		if !ok {
			return 0, told, fmt.Errorf("no refusal with a hint: %w", err)
		}
		return wait, told, nil
	}
	return 0, told, errNoRefusal
}

// escalation has clients that do not listen.
func escalation(name, how string, relief int) scenario.Scenario {
	plan := func(how string) stage.Plan {
		top := ""
		if how == "block" {
			// A twentieth of the clients may be held back; whoever can't be goes on, and is blocked.
			top = "max_client_conn = 200"
		}
		return stage.Plan{Slots: 10, Top: top, Tables: fmt.Sprintf(`[[rate]]
			per   = "tenant"
			rate  = "5/s"
			burst = 5
			escalation = %q`, how)}
	}
	polite := bench.Stream{
		Name: "polite", Clients: 50, Think: 250 * time.Millisecond, Tenants: names("polite", 50), NameTenants: true, Patience: 10 * time.Second,
		Queries: []bench.Query{{Statements: []string{bench.Nap}}},
	}
	rude := bench.Stream{
		Name: "rude", User: "rude", Clients: 50, Tenants: names("rude", 50), NameTenants: true, Patience: 10 * time.Second,
		Queries: []bench.Query{{Statements: []string{bench.Nap}}},
	}
	return scenario.Scenario{
		Name: name, Group: "E19", Title: "50 clients ignore what they are told, in a tight loop, beside 50 polite ones; escalation = \"" + how + "\"",
		Shows: `Refusing is cheap, but not if it is all that one does. Whoever comes back at once, again and again, gets the answer later;
a conversation costs nothing while it waits. Where that is allowed, they are shut out for a while.`,
		Against: "pgweir:guard",
		Stage:   stage.Options{Roles: []string{"rude"}},
		Plan:    plan(how),
		Load:    bench.Load{Phases: []bench.Phase{{For: 15 * time.Second}}, Streams: []bench.Stream{polite, rude}},
		Columns: []string{"served of polite", "p99 of polite", "relief", "cpu-heeding-share", "cpu-ignored-share", "cpu-escalated-share", "release-ms"},
		Source:  "RFC 6585 and GitHub: refuse, then slow down, then block",
		Checks:  []string{"served >= 99% of polite", fmt.Sprintf("relief >= %d", relief), "release-ms <= 30000ms"},
		Samples: true,
		Before: func(ctx context.Context, s *scenario.Scene) error {
			// What it would cost if the others heeded what they are told (who is blocked has
			// nothing to do at all), and what it costs where they are only ever refused.
			heeding := []bench.Stream{polite}
			if how == "delay" {
				heeding = append(heeding, rude)
				heeding[1].Think = time.Second / 5
			}
			front, err := s.Stage.Rival(ctx, s.Target, plan("none"))
			if err != nil {
				return err
			}
			defer func() { _ = front.End() }() // what it measured counts, not how it ends
			for name, streams := range map[string][]bench.Stream{"cpu-heeding-share": heeding, "cpu-ignored-share": {polite, rude}} {
				if err := noteCPU(ctx, s, front, name, streams); err != nil {
					return err
				}
			}
			return nil
		},
		After: noteRelief,
	}
}

// noteCPU is the CPU that a front uses for some streams, in percent of a core.
func noteCPU(ctx context.Context, s *scenario.Scene, front *stage.Front, name string, streams []bench.Stream) error {
	const length = 4 * time.Second
	alone := *s
	alone.Front, alone.URL = front, front.URL(stage.Role, stage.Database)
	alone.Seen = nil
	before, _, err := front.Usage()
	if err != nil {
		return err
	}
	r, err := alone.Send(ctx, bench.Load{Phases: []bench.Phase{{For: length}}, Streams: streams})
	if err != nil {
		return err
	}
	after, _, err := front.Usage()
	s.Outcome.Note(name, 100*(after-before).Seconds()/r.Took.Seconds())
	return err
}

// noteRelief compares the CPU with and without escalation, and waits for its end.
func noteRelief(ctx context.Context, s *scenario.Scene) error {
	// In the first seconds the levels are reached; the first block takes ten.
	from, to := s.Scaled(3*time.Second), s.Scaled(10*time.Second)
	escalated := 100 * s.Seen.CPUBetween(from, to).Seconds() / (to - from).Seconds()
	heeding, ignored := s.Outcome.Extra["cpu-heeding-share"], s.Outcome.Extra["cpu-ignored-share"]
	s.Outcome.Note("cpu-escalated-share", escalated)
	// What is left of it may well be less than what the same cost in another run.
	s.Outcome.Note("relief", (ignored-heeding)/max(escalated-heeding, 0.1))
	begin := time.Now()
	for end := begin.Add(time.Minute); time.Now().Before(end); {
		if conn, err := s.Connect(ctx, "rude", "rude-0"); err == nil {
			err = ask(ctx, conn)
			_ = conn.Close(ctx) // it has done its work
			if err == nil {
				s.Outcome.Note("release-ms", scenario.Millis(time.Since(begin)))
				return nil
			}
		}
		if !scenario.WaitUntil(ctx, time.Now().Add(time.Second)) {
			return context.Cause(ctx)
		}
	}
	s.Outcome.Note("release-ms", math.NaN())
	return nil
}
