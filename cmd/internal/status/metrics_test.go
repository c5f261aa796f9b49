package status

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files of testdata")

func get(t *testing.T, url string, header ...string) (int, http.Header, string) {
	t.Helper()
	return do(t, http.MethodGet, url, header...)
}

func do(t *testing.T, method, url string, header ...string) (int, http.Header, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// scrape returns the text exposition of a snapshot.
func scrape(t *testing.T, s *state.Snapshot, o Options) string {
	t.Helper()
	o.Guard = &fake{make: func(int) *state.Snapshot { return s }}
	public, _ := start(t, o)
	code, _, body := get(t, public+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	return body
}

// ours leaves the metrics that this package makes.
func ours(exposition string) string {
	var b strings.Builder
	for line := range strings.Lines(exposition) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if strings.HasPrefix(name, "pgweir_build_info{") {
			continue // has Go's version
		}
		if strings.HasPrefix(name, "pgweir_") || strings.HasPrefix(name, "pgbouncer_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; go test -rewrite if that is meant (- file, + now):\n%s", path, diff)
	}
}

func TestExposition(t *testing.T) {
	body := scrape(t, fixed(), Options{Version: "1.2.3", LastReload: func() (time.Time, bool) { return moment(), false }})
	golden(t, "metrics.txt", ours(body))
	for _, want := range []string{`pgweir_build_info{goversion="go`, "\ngo_goroutines ", "\nprocess_start_time_seconds "} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
}

// What the README says is worth an alert has to be there.
func TestReadmeNamesMetrics(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	body, seen := scrape(t, fixed(), Options{}), 0
	for _, name := range regexp.MustCompile("`(pgweir_[a-z_]+)").FindAllStringSubmatch(string(readme), -1) {
		seen++
		if !strings.Contains(body, "\n# TYPE "+name[1]+" ") {
			t.Errorf("there is no metric %s", name[1])
		}
	}
	if seen < 5 {
		t.Errorf("only %d metrics are named", seen)
	}
}

func TestMetricsAreLinted(t *testing.T) {
	for name, body := range map[string]string{
		"small": scrape(t, fixed(), Options{}),
		"empty": scrape(t, &state.Snapshot{}, Options{}),
		"cut":   scrape(t, large(30, 3), Options{MaxPools: 10}),
	} {
		problems, err := promlint.New(strings.NewReader(body)).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
		}
	}
	if problems, err := promlint.New(strings.NewReader("# TYPE x_total gauge\nx_total 1\n")).Lint(); err != nil || len(problems) == 0 {
		t.Errorf("the linter finds nothing: %v", err)
	}
}

// The names that PgBouncer's dashboards use, from its exporter.
func TestNamesOfPgBouncersExporter(t *testing.T) {
	body := scrape(t, fixed(), Options{})
	names, err := os.ReadFile(filepath.Join("testdata", "pgbouncer_exporter.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(names)) {
		name = strings.TrimSpace(name)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if !strings.Contains(body, "\n"+name+"{") && !strings.Contains(body, "\n"+name+" ") {
			t.Errorf("%s is missing", name)
		}
	}
}

func families(t *testing.T, public, accept string) (map[string]*dto.MetricFamily, http.Header) {
	t.Helper()
	code, header, body := get(t, public+"/metrics", "Accept", accept)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	d := expfmt.NewDecoder(strings.NewReader(body), expfmt.ResponseFormat(header))
	all := make(map[string]*dto.MetricFamily)
	for {
		var f dto.MetricFamily
		if err := d.Decode(&f); err == io.EOF {
			return all, header
		} else if err != nil {
			t.Fatal(err)
		}
		all[f.GetName()] = &f
	}
}

func TestProtobufCarriesNativeHistograms(t *testing.T) {
	snap := fixed()
	public, _ := start(t, Options{Guard: &fake{make: func(int) *state.Snapshot { return snap }}})
	all, header := families(t, public, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	if kind := header.Get("Content-Type"); !strings.Contains(kind, "protobuf") {
		t.Fatalf("Content-Type %s", kind)
	}
	f := all["pgweir_wait_seconds"]
	if f == nil || len(f.Metric) != 2 {
		t.Fatalf("pgweir_wait_seconds: %v", f)
	}
	for _, m := range f.Metric {
		h := m.GetHistogram()
		want := &snap.Workloads[0].GrantWaits
		if slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetValue() == "refused" }) {
			want = &snap.Workloads[0].RefusalWaits
		}
		checkHistogram(t, h, want)
	}
	if got := f.GetUnit(); got != "seconds" {
		t.Errorf("unit %q", got)
	}
}

// checkHistogram compares both kinds of buckets with the distribution.
func checkHistogram(t *testing.T, h *dto.Histogram, want *admission.Waits) {
	t.Helper()
	if h.GetSampleCount() != want.Count() || h.GetSampleSum() != float64(want.Sum)/1e9 {
		t.Errorf("count %d sum %v", h.GetSampleCount(), h.GetSampleSum())
	}
	native := map[int]uint64{}
	at, n, d := int32(0), int64(0), 0
	for _, span := range h.PositiveSpan {
		at += span.GetOffset()
		for range span.GetLength() {
			n += h.PositiveDelta[d]
			d++
			if n != 0 {
				native[int(at)+20] = uint64(n)
			}
			at++
		}
	}
	counted := map[int]uint64{}
	for i, n := range want.Buckets {
		if i > 0 && n > 0 {
			counted[i] = n
		}
	}
	if !maps.Equal(native, counted) || h.GetZeroCount() != want.Buckets[0] || h.GetSchema() != 0 {
		t.Errorf("native %v zero %d, want %v %d", native, h.GetZeroCount(), counted, want.Buckets[0])
	}
	for _, b := range h.Bucket {
		var below uint64
		for i, n := range want.Buckets {
			if math.Ldexp(1e-6, i) <= b.GetUpperBound() {
				below += n
			}
		}
		if b.GetCumulativeCount() != below {
			t.Errorf("le %v: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), below)
		}
	}
}

func TestEmptyHistogramIsANativeOne(t *testing.T) {
	span, delta := nativeBuckets(&admission.Waits{})
	if len(span) != 1 || span[0].GetLength() != 0 || len(delta) != 0 {
		t.Errorf("%v %v", span, delta)
	}
	var all admission.Waits
	for i := range all.Buckets {
		all.Buckets[i] = uint64(i + 1)
	}
	h := &dto.Metric{}
	if err := newWaits(desc("x_seconds", "x"), &all).Write(h); err != nil {
		t.Fatal(err)
	}
	checkHistogram(t, h.Histogram, &all)
}

func TestOpenMetrics(t *testing.T) {
	public, _ := start(t, Options{Guard: &fake{make: func(int) *state.Snapshot { return fixed() }}})
	code, header, body := get(t, public+"/metrics", "Accept", "application/openmetrics-text;version=1.0.0")
	if code != http.StatusOK || !strings.Contains(header.Get("Content-Type"), "openmetrics") || !strings.HasSuffix(body, "# EOF\n") {
		t.Fatalf("%d %v ... %q", code, header, body[max(0, len(body)-80):])
	}
	for _, want := range []string{"# TYPE pgweir_requests counter\n", "pgweir_requests_total{", `pgweir_wait_seconds_bucket{outcome="served"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestSeriesAreBounded(t *testing.T) {
	body := scrape(t, large(5000, 3), Options{MaxPools: 100})
	if n := strings.Count(body, "pgbouncer_pools_server_idle_connections{"); n != 100 {
		t.Errorf("%d pools", n)
	}
	for _, want := range []string{"\npgweir_pools_left_out 4900\n", "\npgweir_pools_limit 100\n", "\npgbouncer_pools 5000\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q", want)
		}
	}
	busy := large(5000, 3).Pools
	slices.SortFunc(busy, func(a, b state.Pool) int { return int(b.Traffic.Transactions) - int(a.Traffic.Transactions) })
	for _, p := range busy[:100] {
		if !strings.Contains(body, fmt.Sprintf("user=%q", p.Role)) {
			t.Errorf("%s with %d transactions was left out", p.Role, p.Traffic.Transactions)
		}
	}
}

// A scrape consists of histograms for the most part: of classes only the busiest workloads have
// them, and only those that have seen several.
func TestHistogramsOfClassesAreBounded(t *testing.T) {
	s := large(1, 3*maxClassWaits)
	for i := range s.Workloads {
		s.Workloads[i].Granted = uint64(i)
	}
	s.Workloads[len(s.Workloads)-1].Classes = s.Workloads[0].Classes[:1]
	body := scrape(t, s, Options{})
	has := func(i int) bool {
		return strings.Contains(body, fmt.Sprintf("pgweir_class_wait_seconds_count{class=\"critical\",outcome=\"served\",upstream=\"main\",workload=\"workload_%04d\"}", i))
	}
	for i := range s.Workloads {
		if want := i >= 2*maxClassWaits-1 && i < 3*maxClassWaits-1; has(i) != want {
			t.Errorf("workload %d: %v, want %v", i, !want, want)
		}
	}
	if n := strings.Count(body, "\npgweir_class_standing{class=\"critical\""); n != len(s.Workloads) {
		t.Errorf("%d workloads have their classes' gauges", n)
	}
}

// Clients choose database and role. No choice may cost the others their metrics.
func TestHostileNames(t *testing.T) {
	s := fixed()
	hostile := []string{"\xff\xfe", "\xff\xfd", "a\"b\\c\nd", strings.Repeat("x", 5000), strings.Repeat("x", 5001), "", "a\x00b", "{}=,", "\u2028"}
	pool := s.Pools[0]
	for _, name := range hostile {
		pool.Role = name
		s.Pools = append(s.Pools, pool)
	}
	var log bytes.Buffer
	body := scrape(t, s, Options{Log: newTextLogger(&log)})
	if n := strings.Count(body, "\npgbouncer_pools_server_idle_connections{"); n != len(hostile)+1 {
		t.Errorf("%d pools, want %d", n, len(hostile)+1)
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", log.String())
	}
	p := expfmt.NewDecoder(strings.NewReader(body), expfmt.NewFormat(expfmt.TypeTextPlain))
	for {
		var f dto.MetricFamily
		if err := p.Decode(&f); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestScrapeWithoutAnAnswerFromTheLoop(t *testing.T) {
	public, _ := start(t, Options{Guard: &fake{err: errStuck}})
	code, _, body := get(t, public+"/metrics")
	if code != http.StatusOK || !strings.Contains(body, "\npgweir_up 0\n") || !strings.Contains(body, "\ngo_goroutines ") {
		t.Errorf("%d %s", code, body)
	}
	if strings.Contains(body, "pgweir_clients") {
		t.Error("metrics of a snapshot that was not taken")
	}
}

func TestScrapesAtOnceAreBounded(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 10)
	g := &fake{make: func(int) *state.Snapshot {
		entered <- struct{}{}
		<-release
		return fixed()
	}}
	public, _ := start(t, Options{Guard: g})
	codes := make(chan int, 10)
	for range 10 {
		go func() {
			resp, err := http.Get(public + "/metrics") //nolint:noctx // ends with the server
			if err != nil {
				codes <- 0
				return
			}
			_ = resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	<-entered
	for range 10 - maxScrapes {
		if code := <-codes; code != http.StatusServiceUnavailable {
			t.Errorf("%d, want 503", code)
		}
	}
	close(release)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("%d, want 200", code)
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	snap := large(5000, 1000)
	s := New(Options{Guard: &fake{make: func(int) *state.Snapshot { return snap }}, Log: newTextLogger(io.Discard)})
	h := s.publicRoutes()
	for name, accept := range map[string]string{
		"text":     "text/plain",
		"protobuf": "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var n countingWriter
			for b.Loop() {
				r, err := http.NewRequest(http.MethodGet, "/metrics", nil)
				if err != nil {
					b.Fatal(err)
				}
				r.Header.Set("Accept", accept)
				n = countingWriter{header: http.Header{}}
				h.ServeHTTP(&n, r)
			}
			b.ReportMetric(float64(n.lines), "lines")
			b.ReportMetric(float64(n.bytes), "bytes")
		})
	}
}

// countingWriter counts what a handler writes.
type countingWriter struct {
	header       http.Header
	bytes, lines int
}

func (w *countingWriter) Header() http.Header { return w.header }
func (w *countingWriter) WriteHeader(int)     {}
func (w *countingWriter) Write(b []byte) (int, error) {
	w.bytes += len(b)
	w.lines += bytes.Count(b, []byte("\n"))
	return len(b), nil
}
