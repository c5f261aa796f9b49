package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{3}, 0.5, 3},
		{[]float64{4, 1}, 0.5, 2.5},
		{[]float64{9, 1, 5}, 0.5, 5},
		{[]float64{9, 1, 5}, 0, 1},
		{[]float64{9, 1, 5}, 1, 9},
		{[]float64{1, 2, 3, 4, 5}, 0.25, 2},
		{[]float64{0, 10}, 0.25, 2.5},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v", got)
	}
}

func TestRatiosAreByRound(t *testing.T) {
	got := ratios([]float64{1, 6, 5, 7}, []float64{2, 3, 0})
	if diff := cmp.Diff([]float64{0.5, 2}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTable(t *testing.T) {
	e := &experiment{Name: "cpu", Title: "some title"}
	for _, v := range []float64{9, 10, 8} {
		e.add("simple 64", cpuPerTx, "pgweir", v)
		e.add("simple 64", cpuPerTx, "pgbouncer", 10)
		e.add("simple 64", tps, "pgbouncer", 31234.5)
		e.add("simple 16", cpuPerTx, "pgweir", 2*v)
		e.add("simple 16", cpuPerTx, "pgbouncer", 10)
	}
	var b bytes.Buffer
	e.print(&b, []string{"pgweir", "pgbouncer"})
	want := `
cpu: some title
median (least-greatest over the rounds); ratio by round: median (quartiles)
                      pgweir             pgbouncer            pgweir/pgbouncer     goal
simple 64  CPU us/tx  9.00 (8.00-10.00)  10.0 (10.0-10.0)     0.900 (0.850-0.950)  <= 0.92 met
           tx/s       -                  31234 (31234-31234)  -
simple 16  CPU us/tx  18.0 (16.0-20.0)   10.0 (10.0-10.0)     1.800 (1.700-1.900)  <= 1.08 MISSED
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestGoalsAreForPgweirBesidePgBouncer(t *testing.T) {
	pgweirFirst := []string{"pgweir", "pgbouncer"}
	for _, c := range []struct {
		experiment string
		busy       float64 // of the poolers; 0: not measured
		labels     []string
		want       string
	}{
		{"sat", 98, pgweirFirst, ">= 1.1 met"},
		{"sat", 40, pgweirFirst, ">= 1.1 open: not saturated"},
		{"sat", 98, []string{"pgweir", "pgbouncer", "odyssey"}, ">= 1.1 met"},
		{"sat", 98, []string{"pgbouncer", "pgweir"}, ""},
		{"sat", 98, []string{"pgweir", "odyssey"}, ""},
		{"sat", 98, []string{"pgweir"}, ""},
		{"sat", 0, pgweirFirst, ">= 1.1 met"},
		{"cpu", 0, pgweirFirst, ""},
	} {
		e := &experiment{Name: c.experiment}
		for label, value := range map[string]float64{"pgweir": 11, "pgbouncer": 10, "odyssey": 10} {
			e.add("simple 64", tps, label, value)
			if c.busy > 0 {
				e.add("simple 64", poolerBusy, label, c.busy)
			}
		}
		if got := e.verdict(e.find("simple 64", tps), c.labels); got != c.want {
			t.Errorf("%s of %v, %v %% busy: %q, want %q", c.experiment, c.labels, c.busy, got, c.want)
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-clients", "8, 2", "-rounds", "4", "cpu", "idle"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{8, 2}, o.clients); diff != "" {
		t.Error(diff)
	}
	if !o.wants("idle") || o.wants("sat") || o.roundsOr(10) != 4 {
		t.Errorf("%+v", o)
	}
	for _, args := range []string{
		"", "nothing", "-modes=simple,quick cpu", "-clients=0 cpu", "-clients=x cpu", "-statements=-1 idle",
		"-time=1500ms cpu", "-time=0s cpu", "-rounds=-1 cpu", "-copy-mb=0 copy", "-nosuchflag cpu",
	} {
		if _, err := parseOptions(strings.Fields(args), &bytes.Buffer{}); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for args, want := range map[string]int{"-h": 0, "": 2, "-of=nobody cpu": 1} {
		var out, messages bytes.Buffer
		if got := run(t.Context(), strings.Fields(args), &out, &messages); got != want {
			t.Errorf("%q: exit code %d, want %d: %s", args, got, want, &messages)
		}
		if messages.Len() == 0 {
			t.Errorf("%q: nothing is said", args)
		}
	}
}

func TestContendersHaveDifferentLabels(t *testing.T) {
	var all []contender
	for _, text := range []string{"pgweir", "pgweir=/some/pgweir", "postgres", "pgbouncer", "pgweir"} {
		c, err := parseContender(text, "/some/root")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	relabel(all)
	var got []string
	for _, c := range all {
		got = append(got, c.label+" "+c.root+c.binary)
	}
	want := []string{"pgweir ", "pgweir#2 /some/pgweir", "postgres ", "pgbouncer /some/root/usr/sbin/pgbouncer", "pgweir#3 "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// With nothing between, so that neither pgweir nor a peer is needed.
func TestMeasureFromEndToEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "samples.json")
	var out, messages bytes.Buffer
	args := []string{"-of=postgres", "-rounds=2", "-copy-mb=1", "-json=" + file, "copy"}
	if got := run(t.Context(), args, &out, &messages); got != 0 {
		t.Fatalf("exit code %d: %s", got, &messages)
	}
	if !strings.Contains(out.String(), "MB/s") {
		t.Errorf("printed: %s", &out)
	}
	var r report
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Experiments) != 1 || len(r.Experiments[0].Metrics) != 1 || len(r.Experiments[0].Metrics[0].Samples["postgres"]) != 2 {
		t.Errorf("%s", text)
	}
}

func TestParseBench(t *testing.T) {
	const summary = `pgbench (15.20)
transaction type: <builtin: select only>
number of transactions actually processed: 48213
number of failed transactions: 0 (0.000%)
latency average = 1.001 ms
initial connection time = 20.1 ms
tps = 16170.25 (without initial connection time)
`
	got, err := parseBench(summary)
	if want := (benchResult{48213, 16170.25}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for name, broken := range map[string]string{
		"failures": strings.Replace(summary, "transactions: 0", "transactions: 3", 1),
		"nothing":  strings.Replace(summary, "48213", "0", 1),
		"no rate":  strings.Replace(summary, "tps", "tpm", 1),
	} {
		if _, err := parseBench(broken); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReadLatencies(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tx.1":   "0 1 250 0 1700000000 100\n1 1 350 0 1700000000 200\n",
		"tx.1.1": "2 1 9000 0 1700000000 300\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := readLatencies(dir)
	if err != nil {
		t.Fatal(err)
	}
	if h.TotalCount() != 3 || h.ValueAtQuantile(50) != 350 || h.Max() < 9000 {
		t.Errorf("%d values, median %d, greatest %d", h.TotalCount(), h.ValueAtQuantile(50), h.Max())
	}
	if _, err := readLatencies(t.TempDir()); err == nil {
		t.Error("no log, and no error")
	}
}
