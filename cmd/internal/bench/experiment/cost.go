package experiment

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench/scenario"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
	"github.com/pgweir/pgweir/integration/child"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// costScenarios are about what the pooler itself costs.
func costScenarios() []scenario.Scenario { return []scenario.Scenario{goodDay()} }

// The pairs of goodDay: how many, how long each run, and with how many clients.
const (
	pairs       = 20
	pairFor     = 2 * time.Second
	pairClients = 16
)

// goodDay has no overload at all.
func goodDay() scenario.Scenario {
	return scenario.Scenario{
		Name: "E14", Title: "CPU time per transaction on a good day: the guard against none and against PgBouncer, pgbench -S in alternating pairs",
		Shows: `Protection that is never needed should cost next to nothing. What is compared is the CPU time of the poolers' processes,
run by run in turns, so that what else the machine does cancels out.`,
		Against: "pgweir:guard",
		Plan:    stage.Plan{Slots: 16},
		Stage:   stage.Options{Postgres: map[string]string{"shared_buffers": "'256MB'"}},
		Columns: []string{"cpu-us", "cpu-off-us", "to-off", "to-off-upper", "pgbouncer-cpu-us", "to-pgbouncer", "to-pgbouncer-upper", "pairs"},
		Source:  "Cinnamon, CoDel: about 1 us or less for each request; TiDB: below 5 %",
		Checks:  []string{"to-off-upper <= 1.03", "to-pgbouncer-upper <= 1.03", "pairs >= 20"},
		Before: func(ctx context.Context, s *scenario.Scene) error {
			_, err := s.Stage.Cluster.SocketEndpoint().Pgbench(ctx, pgtest.Login{User: stage.Outsider, Database: stage.Database}, "-i", "-q", "-s", "5")
			if err == nil {
				err = s.Stage.Execute(ctx, stage.Database, "grant select on all tables in schema public to "+stage.Role)
			}
			return err
		},
		Instead: comparePairs,
	}
}

// rival is one that takes part.
type rival struct {
	front *stage.Front
	costs []float64 // us of CPU per transaction, run by run
}

// comparePairs runs all rivals in turns, each round in the other order.
func comparePairs(ctx context.Context, s *scenario.Scene) error {
	rivals := []*rival{{front: s.Front}}
	for _, name := range []string{"pgweir:off", "pgbouncer"} {
		front, err := s.Stage.Rival(ctx, stage.MustTargets(name)[0], s.Plan)
		if err != nil {
			if name == "pgbouncer" { // it need not be there
				fmt.Fprintf(s.Options.Out, "  without PgBouncer: %v\n", err)
				continue
			}
			return err
		}
		defer func() { _ = front.End() }() // what it measured counts, not how it ends
		rivals = append(rivals, &rival{front: front})
	}
	for _, r := range rivals { // servers are opened and caches filled
		if _, err := r.run(ctx, time.Second); err != nil {
			return err
		}
	}
	rounds := max(2, int(math.Round(pairs*min(1, s.Options.Scale))))
	for round := range rounds {
		order := slices.Clone(rivals)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, r := range order {
			cost, err := r.run(ctx, pairFor)
			if err != nil {
				return fmt.Errorf("%v: %w", r.front.Target, err)
			}
			r.costs = append(r.costs, cost)
		}
	}
	notePairs(s, rivals, rounds)
	return nil
}

// notePairs compares the first rival with the others.
func notePairs(s *scenario.Scene, rivals []*rival, rounds int) {
	own := rivals[0].costs
	s.Outcome.Note("pairs", float64(rounds))
	s.Outcome.Note("cpu-us", mean(own))
	for i, name := range []string{"cpu-off-us", "pgbouncer-cpu-us"} {
		if i+1 < len(rivals) {
			s.Outcome.Note(name, mean(rivals[i+1].costs))
		}
	}
	for i, name := range []string{"to-off", "to-pgbouncer"} {
		if i+1 < len(rivals) {
			middle, upper := ratio(own, rivals[i+1].costs)
			s.Outcome.Note(name, middle)
			s.Outcome.Note(name+"-upper", upper)
		}
	}
}

// run is one run of pgbench, and what the pooler's process used for each transaction.
func (r *rival) run(ctx context.Context, length time.Duration) (float64, error) {
	before, _, err := r.front.Usage()
	if err != nil {
		return 0, err
	}
	n, err := r.pgbench(ctx, length)
	if err != nil {
		return 0, err
	}
	after, _, err := r.front.Usage()
	return scenario.Micros(after-before) / float64(n), err
}

// pgbench sends select-only transactions and counts them.
func (r *rival) pgbench(ctx context.Context, length time.Duration) (int64, error) {
	ctx, done := context.WithTimeout(ctx, length+time.Minute)
	defer done()
	cmd := r.front.Command(ctx, "pgbench", "-n", "-S", "-M", "prepared", "-c", strconv.Itoa(pairClients), "-j", "1",
		"-T", strconv.Itoa(max(1, int(length/time.Second))))
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := runChild(cmd); err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, messages.String())
	}
	found := regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`).FindStringSubmatch(out.String())
	if found == nil {
		return 0, fmt.Errorf("pgbench's summary is not as known: %s", out.String())
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	if err == nil && n == 0 {
		err = fmt.Errorf("pgbench did not finish a transaction: %s", messages.String())
	}
	return n, err
}

// runChild runs a program that ends with us.
func runChild(cmd *exec.Cmd) error {
	p, err := child.Start(cmd, child.Where{})
	if err != nil {
		return err
	}
	return p.Err()
}

// mean is the arithmetic mean; NaN of nothing.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// ratio is the geometric mean of a[i]/b[i], and the upper end of its 95 % interval (by
// Student's distribution).
func ratio(a, b []float64) (middle, upper float64) {
	n := min(len(a), len(b))
	logs := make([]float64, n)
	for i := range n {
		logs[i] = math.Log(a[i] / b[i])
	}
	m, squares := mean(logs), 0.0
	for _, l := range logs {
		squares += (l - m) * (l - m)
	}
	deviation := math.Sqrt(squares / float64(max(1, n-1)) / float64(n))
	return math.Exp(m), math.Exp(m + student(n-1)*deviation)
}

// student is the 0.975 quantile of Student's distribution, from above where it is between
// two entries.
func student(freedom int) float64 {
	table := []struct {
		freedom int
		t       float64
	}{{60, 2.0}, {40, 2.021}, {30, 2.042}, {19, 2.093}, {15, 2.131}, {10, 2.228}, {7, 2.365}, {5, 2.571}, {3, 3.182}, {2, 4.303}}
	for _, row := range table {
		if freedom >= row.freedom {
			return row.t
		}
	}
	return 12.706
}
