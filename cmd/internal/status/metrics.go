package status

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

const (
	maxScrapes = 2                // at once; more get 503
	scrapeTime = 20 * time.Second // of one answer
	// snapshotTime is how long the event loop may take to answer a scrape.
	snapshotTime = 5 * time.Second
)

// metricsHandler answers a scrape: as text, OpenMetrics or protobuf, whatever the scraper
// prefers. Only protobuf carries native histograms.
func (s *Server) metricsHandler() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		s.newCollector(),
	)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes, CoalesceGather: true, Timeout: scrapeTime,
		// One bad metric, or a loop that does not answer, must not hide all others.
		ErrorHandling: promhttp.ContinueOnError,
		ErrorLog:      slog.NewLogLogger(s.o.Log.Handler(), slog.LevelError),
	})
}

// collector turns one snapshot per scrape into metrics. It keeps nothing between scrapes.
type collector struct {
	guard      Guard
	maxPools   int
	version    string
	lastReload func() (time.Time, bool)
	log        *slog.Logger

	process   group[state.Snapshot]
	counts    countMetrics
	memory    group[state.Memory]
	upstreams group[state.Upstream]
	workloads group[state.Workload]
	classes   classMetrics
	rates     rateMetrics
	tls       tlsMetrics
	waits     *prometheus.Desc
	bouncer   bouncer

	up, build, bouncerVersion             *prometheus.Desc
	reloadOK, reloadAt                    *prometheus.Desc
	poolsLeftOut, databasesLeftOut, limit *prometheus.Desc
}

// newCollector makes the collector with all descriptions.
func (s *Server) newCollector() *collector {
	c := &collector{
		guard: s.o.Guard, maxPools: s.o.MaxPools, version: s.o.Version, lastReload: s.lastReload, log: s.o.Log,
		process: processMetrics(), counts: newCountMetrics(), memory: memoryMetrics(),
		upstreams: upstreamMetrics(), workloads: workloadMetrics(), classes: newClassMetrics(), rates: newRateMetrics(), tls: newTLSMetrics(), bouncer: newBouncer(),
		waits: desc("pgweir_wait_seconds", "Waits for a slot, by what became of them. Native buckets are 4.6 % lower than the counted ones, the others exact.", "upstream", "workload", "outcome"),

		up:               desc("pgweir_up", "1 if the event loop has answered this scrape, else 0 and its metrics are missing."),
		build:            desc("pgweir_build_info", "Always 1; the labels say what was built.", "version", "goversion"),
		bouncerVersion:   desc("pgbouncer_version_info", "Always 1; the label says which version of pgweir answers in place of PgBouncer.", "version"),
		reloadOK:         desc("pgweir_config_last_reload_success", "1 if the last reading of the configuration was accepted, else 0 and the one before is in force."),
		reloadAt:         desc("pgweir_config_last_reload_timestamp_seconds", "When the configuration was last read while running; 0 if never."),
		poolsLeftOut:     desc("pgweir_pools_left_out", "Pools without series of their own because only the busiest have them."),
		databasesLeftOut: desc("pgweir_databases_left_out", "Databases without series of their own because only the busiest have them."),
		limit:            desc("pgweir_pools_limit", "How many pools, and how many databases, may have series of their own."),
	}
	return c
}

// Describe sends every description.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.waits, c.up, c.build, c.bouncerVersion, c.reloadOK, c.reloadAt, c.poolsLeftOut, c.databasesLeftOut, c.limit} {
		ch <- d
	}
	c.process.describe(ch)
	c.counts.describe(ch)
	c.memory.describe(ch)
	c.upstreams.describe(ch)
	c.workloads.describe(ch)
	c.classes.describe(ch)
	c.rates.describe(ch)
	c.tls.describe(ch)
	c.bouncer.describe(ch)
}

// Collect takes a snapshot and sends all metrics.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge(ch, c.build, 1, c.version, runtime.Version())
	gauge(ch, c.bouncerVersion, 1, c.version)
	at, ok := c.lastReload()
	gauge(ch, c.reloadOK, truth(ok))
	gauge(ch, c.reloadAt, unixSeconds(at))

	ctx, cancel := context.WithTimeout(context.Background(), snapshotTime)
	defer cancel()
	snap, err := c.guard.Snapshot(ctx)
	gauge(ch, c.up, truth(err == nil))
	if err != nil {
		c.log.Error("no snapshot for the metrics", "error", err)
		return
	}
	c.process.collect(ch, snap)
	c.counts.collect(ch, snap)
	c.rates.collect(ch, snap)
	c.tls.collect(ch, &snap.TLS)
	for i := range snap.Memory {
		c.memory.collect(ch, &snap.Memory[i])
	}
	for i := range snap.Upstreams {
		c.upstreams.collect(ch, &snap.Upstreams[i])
	}
	for i := range snap.Workloads {
		w := &snap.Workloads[i]
		c.workloads.collect(ch, w)
		ch <- newWaits(c.waits, &w.GrantWaits, label(w.Upstream), label(w.Name), "served")
		ch <- newWaits(c.waits, &w.RefusalWaits, label(w.Upstream), label(w.Name), "refused")
	}
	c.classes.collect(ch, snap.Workloads)
	pools, poolsLeft := busiest(snap.Pools, c.maxPools, poolWork)
	databases, databasesLeft := busiest(snap.Databases, c.maxPools, databaseWork)
	gauge(ch, c.poolsLeftOut, float64(poolsLeft))
	gauge(ch, c.databasesLeftOut, float64(databasesLeft))
	gauge(ch, c.limit, float64(c.maxPools))
	c.bouncer.collect(ch, snap, pools, databases)
}
