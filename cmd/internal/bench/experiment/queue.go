package experiment

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/scenario"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// Sources of published figures.
const (
	shedding = "chapter Overload Protection: a server of 5 connections and 50 ms, and for guard our simulation"
	pressure = "Backpressure-First: a server of 10 connections and 30 ms"
)

// everyPolicy are all of pgweir's, the default last, and the peers by default and tuned.
const everyPolicy = "pgweir:fifo,pgweir:fifo-gone,pgweir:fifo-deadline,pgweir:bounded,pgweir:lifo,pgweir:lifo-deadline," +
	"pgweir:codel,pgweir:priority,pgweir:guard,pgbouncer,pgbouncer:tuned,odyssey:tuned"

// endless are the lines of a queue that takes everybody for as long as it takes.
const endless = `max_wait = "60s"
	max_waiting = 1000000`

// queueScenarios are about who waits, for how long, and who is refused.
func queueScenarios() []scenario.Scenario {
	return []scenario.Scenario{seedLoad(), seedLognormal(), seedComputed(), rush(), codelReference(), tenfold()}
}

// seedPlan has the five slots, and the bounds that each policy is published with.
func seedPlan() stage.Plan {
	return stage.Plan{
		Slots: 5,
		ByPolicy: map[string]string{
			"fifo":          endless + "\non_disconnect = \"finish\"",
			"fifo-gone":     endless + "\non_disconnect = \"finish\"",
			"fifo-deadline": endless + "\ndeadline = \"1s\"\non_disconnect = \"finish\"",
			"bounded":       "max_wait = \"60s\"\nmax_waiting = 20",
			"lifo":          endless + "\non_disconnect = \"finish\"",
			"lifo-deadline": endless + "\ndeadline = \"1s\"\non_disconnect = \"finish\"",
			"codel":         "max_wait = \"500ms\"\nmax_waiting = 1000000",
			"priority":      endless,
			"guard":         "deadline = \"1s\"\nmax_wait = { critical = \"400ms\", sheddable_plus = \"200ms\", sheddable = \"50ms\" }",
		},
		Tuned: map[stage.Kind]map[string]string{
			stage.PgBouncer: {"query_wait_timeout": "0.2"},
			stage.Odyssey:   {"pool_timeout": "200"},
		},
	}
}

// quarterCritical are two streams of naps, a quarter of them critical, whose clients wait
// for a second and close then.
func quarterCritical(w bench.Work, text string) []bench.Stream {
	query := []bench.Query{{Statements: []string{text}, Work: w}}
	return []bench.Stream{
		{Class: "critical", Share: 0.25, Queries: query, Patience: time.Second},
		{Class: "sheddable_plus", Share: 0.75, Queries: query, Patience: time.Second},
	}
}

// phases are 80 % of capacity, twice as much, and 80 % again.
func phases(capacity float64) []bench.Phase {
	return []bench.Phase{
		{Name: "before", Rate: 0.8 * capacity, For: 5 * time.Second},
		{Name: "overload", Rate: 2 * capacity, For: 10 * time.Second},
		{Name: "after", Rate: 0.8 * capacity, For: 10 * time.Second},
	}
}

// seedColumns are the columns of the published table.
func seedColumns() []string {
	return []string{
		"goodput in 10s-15s", "p50 in 10s-15s", "p99 in 10s-15s", "refused in 10s-15s", "refusal-p50 in 10s-15s",
		"timeouts in 10s-15s", "served-count of critical in 10s-15s", "wasted", "goodput in 15s-20s", "reconnects",
	}
}

// publishedRows are the published table: goodput, p50, p99, refused, told after, timeouts,
// critical served, wasted, goodput afterwards.
func publishedRows() map[string][]string {
	return map[string][]string{
		"pgweir:fifo":          {"0", "-", "-", "0", "-", "1000", "0", "1944", "0"},
		"pgweir:fifo-gone":     {"0", "-", "-", "0", "-", "1000", "0", "922", "76"},
		"pgweir:fifo-deadline": {"90", "991", "-", "508", "964", "40", "138", "23", "80"},
		"pgweir:bounded":       {"99", "249", "-", "507", "2", "0", "182", "0", "80"},
		"pgweir:lifo":          {"102", "57", "-", "0", "-", "488", "111", "313", "80"},
		"pgweir:lifo-deadline": {"102", "59", "-", "0", "-", "484", "115", "0", "80"},
		"pgweir:codel":         {"100", "57", "-", "502", "66", "0", "97", "0", "80"},
		"pgweir:priority":      {"99", "99", "-", "506", "2", "0", "250", "0", "80"},
		"pgweir:guard":         {"99.5", "57", "112", "513", "9.5", "0", "250", "0", "80"},
	}
}

func seedLoad() scenario.Scenario {
	return scenario.Scenario{
		Name: "E1", Title: "80/s for 5 s, 200/s for 10 s, 80/s for 10 s on 5 slots of 50 ms; clients leave after 1 s",
		Shows: `Twice what fits, for ten seconds. An unbounded queue serves nobody in time, not even after the overload: it works for
clients that have left. Each of the other policies trades one thing for another; the guard is to have it all: full goodput at
the latency of a good day, every critical request, quick refusals, no client that gives up, no wasted work.`,
		Against: everyPolicy, Plan: seedPlan(),
		Load: bench.Load{
			Phases: phases(100), Even: true, Window: 5 * time.Second,
			Streams: quarterCritical(bench.Work{Mean: 50 * time.Millisecond}, bench.Nap),
		},
		Columns: seedColumns(), Published: publishedRows(),
		Source: shedding + ". Its wasted queries end with the load; ours include what the queue still held then",
		Checks: []string{
			"goodput >= 98/s in 10s-15s", "p50 <= 62ms in 10s-15s", "p99 <= 130ms in 10s-15s", "timeouts = 0",
			"served-count >= 249 of critical in 10s-15s", "refusal-p50 <= 15ms in 10s-15s", "refusal-p99 <= 65ms in 10s-15s",
			"refusal-p99 <= 2ms by queue_wait in 10s-15s", "wasted <= 5", "goodput >= 79/s in 15s-20s", "reconnects = 0",
		},
	}
}

func seedLognormal() scenario.Scenario {
	s := seedLoad()
	s.Name, s.Group = "E1-lognormal", "E1-all"
	s.Title = "E1 with work of the same mean and a log-normal distribution (sigma 1): nothing exact to estimate"
	s.Against = "pgweir:fifo,pgweir:bounded,pgweir:codel,pgweir:guard,pgbouncer,pgbouncer:tuned,odyssey:tuned"
	s.Load.Even = false
	s.Load.Streams = quarterCritical(bench.Work{Mean: 50 * time.Millisecond, Sigma: 1}, bench.Nap)
	s.Published, s.Source = nil, "none; the targets are E1's as far as they do not depend on equal work"
	s.Checks = []string{
		"goodput >= 93/s in 10s-15s", "timeouts-share <= 1% in 10s-15s", "served >= 99% of critical in 10s-15s",
		"refusal-p50 <= 15ms in 10s-15s", "refusal-p99 <= 100ms in 10s-15s", "wasted-share <= 2%", "served >= 95% in 15s-20s",
	}
	return s
}

// seedComputed is E1 with work that costs CPU: how much fits is measured first.
func seedComputed() scenario.Scenario {
	s := seedLognormal()
	s.Name, s.Group = "E1-cpu", "E1-all"
	s.Title = "E1 with log-normal work that keeps a core busy (mean 50 ms), at 0.8x, 2x and 0.8x of what fits, which is measured first"
	s.Against = "pgweir:fifo,pgweir:guard,pgbouncer:tuned"
	s.Columns = append([]string{"capacity"}, s.Columns...)
	s.Load.Streams = quarterCritical(bench.Work{Mean: 50 * time.Millisecond, Sigma: 1}, bench.Burn)
	s.Checks = []string{
		"goodput-share >= 90%", "served >= 98% of critical in 10s-15s", "timeouts-share <= 2% in 10s-15s", "served >= 95% in 15s-20s",
	}
	s.Instead = func(ctx context.Context, sc *scenario.Scene) error {
		capacity, loops, err := measureCapacity(ctx, sc, sc.Load.Streams[0].Queries)
		if err != nil {
			return err
		}
		load := sc.Load
		load.LoopsPerMS = loops
		for i := range load.Phases {
			load.Phases[i].Rate *= capacity / 100
		}
		sc.Outcome.Extra["capacity"] = capacity
		if sc.Outcome.Result, err = sc.Send(ctx, load); err != nil {
			return err
		}
		good, _ := sc.Outcome.Value(scenario.Metric{Name: "goodput", From: 10 * time.Second, To: 15 * time.Second})
		sc.Outcome.Extra["goodput-share"] = 100 * good / capacity
		return nil
	}
	return s
}

// measureCapacity is how many of some requests per second twice as many clients get done as
// there are slots, so that none of these is ever idle. A row of the database's own loop is
// timed before.
func measureCapacity(ctx context.Context, s *scenario.Scene, queries []bench.Query) (perSecond, loopsPerMS float64, err error) {
	direct := bench.Target{Name: "calibration", URL: s.Stage.DirectURL(stage.Role, stage.Database), Apart: true}
	if loopsPerMS, err = bench.Calibrate(ctx, direct); err != nil {
		return 0, 0, err
	}
	const length = 4 * time.Second
	load := bench.Load{
		Phases: []bench.Phase{{For: length}}, Seed: 1, LoopsPerMS: loopsPerMS,
		Streams: []bench.Stream{{Name: "probe", Class: "critical", Clients: 2 * s.Plan.Slots, Queries: queries}},
	}
	r, err := s.Send(ctx, load)
	if err != nil {
		return 0, 0, fmt.Errorf("measuring how much fits: %w", err)
	}
	served := r.Sum(bench.Filter{}).By[bench.Served]
	if served == 0 {
		return 0, 0, fmt.Errorf("measuring how much fits: nothing was served in %v", length)
	}
	return float64(served) / r.Took.Seconds(), loopsPerMS, nil
}

func rush() scenario.Scenario {
	tenants := names("client", 100)
	return scenario.Scenario{
		Name: "E2", Title: "500/s for 5 s from 100 clients on 10 slots of 30 ms, and one request afterwards",
		Shows: `A queue for everybody against a short one: nearly twice as many are served, in an eighth of the time, and whoever comes
after the rush is served at once.`,
		Against: "pgweir:fifo,pgweir:bounded,pgweir:guard,pgbouncer,pgbouncer:tuned,odyssey:tuned",
		Plan: stage.Plan{
			Slots: 10,
			ByPolicy: map[string]string{
				"fifo":    endless + "\non_disconnect = \"finish\"",
				"bounded": "max_waiting = 10",
				"guard":   "max_wait = \"50ms\"",
			},
			Tuned: seedPlan().Tuned,
		},
		Load: bench.Load{
			Phases: []bench.Phase{{Name: "rush", Rate: 500, For: 5 * time.Second}}, Even: true,
			Streams: []bench.Stream{{
				Name: "clients", Share: 1, Tenants: tenants, Patience: time.Second,
				Queries: []bench.Query{{Statements: []string{bench.Nap}, Work: bench.Work{Mean: 30 * time.Millisecond}}},
			}},
		},
		Columns: []string{"served-count", "p50", "p99", "next-ms", "refused", "refusal-p50", "refusal-p99", "timeouts", "wasted"},
		Published: map[string][]string{
			"pgweir:fifo":    {"878", "514", "991", "1792", "0", "-", "-", "1622"},
			"pgweir:bounded": {"1616", "63", "77", "31", "884", "-", "5", "0"},
		},
		Source:  pressure,
		Checks:  []string{"served-count >= 1616", "p99 <= 90ms", "next-ms <= 35ms", "refusal-p99 <= 5ms by queue_wait"},
		Samples: true, // it needs a stage
		Events:  []scenario.Event{{At: 5 * time.Second, Name: "one more request", Do: nextRequest(30 * time.Millisecond)}},
	}
}

// nextRequest measures how long one request takes, over a connection of its own, when those who
// were let in have been served.
func nextRequest(work time.Duration) func(context.Context, *scenario.Scene) error {
	return func(ctx context.Context, s *scenario.Scene) error {
		conn, err := s.Connect(ctx, stage.Role, "next")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }() // it has done its work
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		begin := time.Now()
		_, err = conn.Exec(ctx, fmt.Sprintf("SELECT pg_sleep(%g)", work.Seconds())).ReadAll()
		s.Outcome.Note("next-ms", scenario.Millis(time.Since(begin)))
		if scenario.IsRefusal(err) {
			s.Outcome.Note("next-ms", math.NaN())
			return nil
		}
		return err
	}
}

func codelReference() scenario.Scenario {
	work := bench.Work{Mean: 10 * time.Millisecond}
	return scenario.Scenario{
		Name: "E15", Title: "twice what fits for 10 s on 5 slots of 10 ms: about 1,000/s; how much fits is measured first",
		Shows: `The load of a published comparison of a queue with CoDel: one half has to be dropped by anybody, and the question is how
long the other half waits.`,
		Against: "pgweir:fifo,pgweir:fifo-deadline,pgweir:codel,pgweir:guard,pgbouncer:tuned",
		Plan: stage.Plan{
			Slots: 5,
			ByPolicy: map[string]string{
				"fifo": endless, "fifo-deadline": endless + "\ndeadline = \"1s\"",
				"guard": "max_wait = \"40ms\"", // the longest wait that is asked for below
			},
			Tuned: seedPlan().Tuned,
		},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 1000, For: 10 * time.Second}}, Seed: 15,
			Streams: []bench.Stream{{
				Class: "sheddable_plus", Share: 1, Patience: time.Second,
				Queries: []bench.Query{{Statements: []string{bench.Nap}, Work: work}},
			}},
		},
		Columns: []string{"capacity", "dropped", "wait-p50-ms", "wait-p99-ms", "goodput", "refusal-p50", "timeouts"},
		Published: map[string][]string{
			"pgweir:fifo-deadline": {"0.4334", "998", "-"},
			"pgweir:codel":         {"0.4643", "5.3", "34"},
		},
		Source: "the benchmark of github.com/bohde/codel, whose p50 and p99 are waits without the work",
		Checks: []string{"dropped <= 0.51", "wait-p50-ms <= 10ms", "wait-p99-ms <= 40ms"},
		Instead: func(ctx context.Context, s *scenario.Scene) error {
			capacity, _, err := measureCapacity(ctx, s, s.Load.Streams[0].Queries)
			if err != nil {
				return err
			}
			s.Outcome.Note("capacity", capacity)
			load := s.Load
			load.Phases[0].Rate = 2 * capacity // they are this run's own
			if s.Outcome.Result, err = s.Send(ctx, load); err != nil {
				return err
			}
			sum := s.Outcome.Result.Sum(bench.Filter{})
			s.Outcome.Note("dropped", 1-sum.Share())
			s.Outcome.Note("wait-p50-ms", scenario.Percentile(sum.Took, 50)-scenario.Millis(work.Mean))
			s.Outcome.Note("wait-p99-ms", scenario.Percentile(sum.Took, 99)-scenario.Millis(work.Mean))
			return nil
		},
	}
}

// The times of tenfold.
const (
	calmFor  = 5 * time.Second
	stormFor = 20 * time.Second
)

func tenfold() scenario.Scenario {
	return scenario.Scenario{
		Name: "tenfold", Title: "ten times what fits for 20 s: 1,000/s on 5 slots of 50 ms",
		Shows: `The pool is as good as in E1, every critical request is served, the pooler's memory does not grow, and a refusal costs
the pooler little more than reading a message and writing another.`,
		Against: "pgweir:guard",
		Plan:    seedPlan(),
		Load: bench.Load{
			Phases: []bench.Phase{
				{Name: "calm", Rate: 80, For: calmFor},
				{Name: "tenfold", Rate: 1000, For: stormFor},
			},
			Even: true,
			Streams: []bench.Stream{
				{
					Class: "critical", Share: 0.05, Patience: time.Second,
					Queries: []bench.Query{{Statements: []string{bench.Nap}, Work: bench.Work{Mean: 50 * time.Millisecond}}},
				},
				{
					Class: "sheddable_plus", Share: 0.95, Patience: time.Second,
					Queries: []bench.Query{{Statements: []string{bench.Nap}, Work: bench.Work{Mean: 50 * time.Millisecond}}},
				},
			},
		},
		Columns: []string{
			"goodput in 5s-25s", "p50 in 5s-25s", "refusal-p50 in 5s-25s", "refusal-p99 in 5s-25s", "timeouts",
			"served of critical in 5s-25s", "cpu-served-us", "cpu-refused-us", "cpu-share", "growth-mb", "wasted",
		},
		Source: "none; a refusal is a read and a write, half of what a statement is that is passed on and back",
		Checks: []string{
			"goodput >= 95/s in 6s-25s", "served >= 99.5% of critical in 5s-25s", "cpu-share <= 60%", "growth-mb <= 8", "timeouts = 0",
		},
		Samples: true,
		Before:  serveCheaply, After: compareCosts,
	}
}

// serveCheaply measures the pooler's CPU time for a served statement, at the same rate as
// refusals come later.
func serveCheaply(ctx context.Context, s *scenario.Scene) error {
	const length = 5 * time.Second
	before, _, err := s.Front.Usage()
	if err != nil {
		return err
	}
	load := bench.Load{
		Phases: []bench.Phase{{Rate: 1000, For: length}}, Even: true,
		Streams: []bench.Stream{{
			Class: "critical", Share: 1, Patience: time.Second,
			Queries: []bench.Query{{Statements: []string{bench.Nap}}},
		}},
	}
	r, err := s.Send(ctx, load)
	if err != nil {
		return err
	}
	after, _, err := s.Front.Usage()
	if err != nil {
		return err
	}
	served := r.Counts.By[bench.Served]
	if served < r.Counts.Arrived*9/10 {
		return fmt.Errorf("of %d cheap statements only %d were served: the machine is too busy to measure", r.Counts.Arrived, served)
	}
	s.Outcome.Note("cpu-served-us", scenario.Micros(after-before)/float64(served))
	return nil
}

// compareCosts works out what a refusal cost.
func compareCosts(_ context.Context, s *scenario.Scene) error {
	from, to := s.Scaled(calmFor), s.Scaled(calmFor+stormFor)
	sum := s.Outcome.Result.Sum(bench.Filter{From: from, To: to})
	served := s.Outcome.Extra["cpu-served-us"]
	spent := scenario.Micros(s.Seen.CPUBetween(from, to)) - served*float64(sum.By[bench.Served])
	refused := spent / max(1, float64(len(sum.Told)))
	s.Outcome.Note("cpu-refused-us", refused)
	s.Outcome.Note("cpu-share", 100*refused/served)
	// What grows, grows all the time: the first quarter may fill buffers.
	quarter := s.Seen.UsageAt(from + (to-from)/4).Memory
	s.Outcome.Note("growth-mb", float64(s.Seen.UsageAt(to).Memory-quarter)/(1<<20))
	return nil
}
