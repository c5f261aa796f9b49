package integration

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// With thousands of roles and workloads a scrape costs what it costs, but the clients do not
// wait for it. The figures are logged.
func TestScrapesOfMany(t *testing.T) {
	roles, workloads := 100, 50
	if long() {
		roles, workloads = 5000, 1000
	} else {
		t.Parallel() // the figures are of no interest then
	}
	var more strings.Builder
	for i := range workloads {
		fmt.Fprintf(&more, "[[workload]]\nname = \"w%d\"\nmatch = { application_name = [\"app-%d\"] }\n", i, i)
	}
	more.WriteString("[[workload]]\nname = \"default\"\nmax_wait = \"1m\"\n")
	o := operate(t, plan{slots: 8, top: "max_client_conn = 20000\n", more: more.String()})
	o.rewrite(t, "[database.", "connect_parallel = 8\nconnect_rate = 5000\n[database.")
	o.console(t, "reload")
	o.sql(t, "postgres", fmt.Sprintf("do $$ begin for i in 0..%d loop execute 'create role role_' || i || ' login'; end loop; end $$", roles-1))

	start := time.Now()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(16)
	for i := range roles {
		g.Go(func() error { return logIn(ctx, t, o, fmt.Sprintf("role_%d", i), fmt.Sprintf("app-%d", i%workloads)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d logins of as many roles into %d workloads: %v", roles, workloads, time.Since(start).Round(time.Millisecond))
	if got := o.metric(t, "pgbouncer_users"); got != fmt.Sprint(roles) && got != fmt.Sprint(roles+1) {
		t.Errorf("%s roles", got)
	}

	c := o.connect(t)
	wantOne(t, c, "select 'warm'", "warm")
	rounds := 3
	if long() {
		rounds = 20
	}
	quiet := turnaround(t, c, func() { <-time.After(2 * time.Second / 3) })
	var scrapes []time.Duration
	size := 0
	busy := turnaround(t, c, func() {
		for range rounds {
			start := time.Now()
			code, text, err := httpGet(o.http, "/metrics")
			if err != nil || code != 200 {
				t.Errorf("%d, %v", code, err)
			}
			scrapes, size = append(scrapes, time.Since(start)), len(text)
		}
	})
	slices.Sort(scrapes)
	t.Logf("a scrape: median %v, most %v, %d kB", scrapes[len(scrapes)/2], scrapes[len(scrapes)-1], size>>10)
	t.Logf("a statement without scrapes: %v", quiet)
	t.Logf("a statement during scrapes:  %v", busy)
	if rss, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.proc.Pid())); err == nil {
		for line := range strings.Lines(string(rss)) {
			if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "VmHWM") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

// logIn has a role log in and stay.
func logIn(ctx context.Context, t *testing.T, o *operated, role, application string) error {
	config, err := pgx.ParseConfig(o.URL(pgtest.Login{User: role, Database: "app"}))
	if err != nil {
		return err
	}
	config.RuntimeParams["application_name"] = application
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	_, err = c.Exec(ctx, "select 1", pgx.QueryExecModeSimpleProtocol)
	return err
}

// spread is a distribution of times.
type spread struct {
	n                   int
	p50, p99, p999, top time.Duration
}

func (s spread) String() string {
	return fmt.Sprintf("n=%d p50=%v p99=%v p99.9=%v max=%v", s.n, s.p50, s.p99, s.p999, s.top)
}

// turnaround measures the statements of a connection while f runs.
func turnaround(t *testing.T, c *pgx.Conn, f func()) spread {
	t.Helper()
	var list []time.Duration
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			start := time.Now()
			if _, err := c.Exec(context.WithoutCancel(t.Context()), "select 1", pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Error(err)
				return
			}
			list = append(list, time.Since(start))
		}
	})
	f()
	close(stop)
	work.Wait()
	slices.Sort(list)
	at := func(q float64) time.Duration {
		if len(list) == 0 {
			return 0
		}
		return list[min(len(list)-1, int(math.Ceil(q*float64(len(list)))))]
	}
	return spread{len(list), at(0.5), at(0.99), at(0.999), at(1)}
}
