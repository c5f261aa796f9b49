package report

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

func TestScreen(t *testing.T) {
	for _, c := range []struct {
		name     string
		rewrites bool
		want     string
	}{
		{"terminal", true, "a\n" + rewrite + wrapOff + "l1" + wrapOn + rewrite + wrapOff + "l2" + wrapOn + rewrite + "kept\n" +
			"kept too\n" + rewrite + wrapOff + "l3" + wrapOn + "\nb\n" + rewrite + wrapOff + "l4" + wrapOn + rewrite + "c\n"},
		{"file", false, "a\nkept\nkept too\nb\nc\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			s := &Screen{Out: &b, Rewrites: c.rewrites}
			s.Say("%s", "a")
			s.Live("l1")
			s.Live("l2")
			s.Keep("kept")
			s.Keep("kept too")
			s.Live("l3")
			s.Say("b")
			s.Live("l4")
			s.Erase()
			s.Erase()
			s.Say("c")
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLive(t *testing.T) {
	load := &bench.Load{Phases: []bench.Phase{{Name: "calm", Rate: 80, For: time.Second}, {Rate: 200, For: 2 * time.Second}}}
	var b strings.Builder
	v := NewLive(&Screen{Out: &b}, load)
	m := bench.Mark{}
	for range 16 { // the last second is behind the load's end
		m.At += time.Second / 4
		m.Arrived += 25
		m.By[bench.Served] += 10
		m.By[bench.Refused] += 4
		m.By[bench.Stopped]++
		m.By[bench.GaveUp] += 3
		m.By[bench.Failed]++
		m.By[bench.Unsent]++
		m.Executed += 20
		v.Look(m)
	}
	v.End()
	want := `      s per second  served refused gave up waiting Postgres  each # is 10
      1 calm            40      20      20      20       80  ####..xx
      2 200/s           40      20      20      40       80  ####..xx
      3 200/s           40      20      20      60       80  ####..xx
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestBars(t *testing.T) {
	v := &Live{screen: &Screen{}, load: &bench.Load{}, unit: 10}
	// Half a sign more or less, but never one too many in all.
	var by [bench.Outcomes]int
	by[bench.Served], by[bench.Refused], by[bench.GaveUp] = 5, 5, 5
	if got := v.bar(by); got != "#x" {
		t.Errorf("15 answers are %q", got)
	}
	if got := v.bar([bench.Outcomes]int{}); got != "" {
		t.Errorf("nothing is %q", got)
	}
	by[bench.Served] = 1e6
	if got := v.bar(by); got != strings.Repeat("#", barMost) {
		t.Errorf("very much is %q", got)
	}
	colored := &Live{screen: &Screen{Colors: true}, unit: 10}
	if got := colored.bar([bench.Outcomes]int{10, 10, 0, 10}); got != "\x1b[32m#\x1b[0m\x1b[33m.\x1b[0m\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
	for rate, want := range map[float64]float64{0: 1, 10: 1, 100: 5, 200: 10, 1000: 50, 1e9: 5e7} {
		if got := unit(rate); got != want {
			t.Errorf("%g/s in signs of %g, want %g", rate, got, want)
		}
	}
}

// update rewrites the table that TestTable compares with; the difference is for a reader.
var update = flag.Bool("update", false, "write testdata anew")

func TestTable(t *testing.T) {
	var b strings.Builder
	s := &Screen{Out: &b}
	d := three()
	s.Table([]*bench.Result{invented("pgweir:guard", 60*time.Millisecond, true), invented("pgweir:fifo", 300*time.Millisecond, false)})
	if missed := s.Checks(d.Checks); missed != 1 {
		t.Errorf("%d missed", missed)
	}
	file := filepath.Join("testdata", "table.txt")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestLateGeneratorsAreTold(t *testing.T) {
	for _, late := range []time.Duration{99 * time.Millisecond, 101 * time.Millisecond} {
		r := invented("x", time.Millisecond, true)
		for i := range r.Records {
			r.Records[i].Sent = r.Records[i].Due + late
		}
		var b strings.Builder
		(&Screen{Out: &b}).Table([]*bench.Result{r})
		if got := strings.Contains(b.String(), "x: the generator was late"); got != (late > 100*time.Millisecond) {
			t.Errorf("%v late: %v", late, got)
		}
	}
}

func TestWords(t *testing.T) {
	some := Spread{N: 1, P50: 3.14, P99: 12345}
	for got, want := range map[string]string{
		number(3) + number(2.5) + number(99.6): "32.5100", latency(some, some.P50): "3.1", latency(some, some.P99): "12.3s",
		latency(Spread{}, 0): "-", pair(some): "3.1 / 12.3s", pair(Spread{}): "-", plural(1, "client") + plural(2, "x"): "1 client2 xs",
		(&Screen{}).sparks([]float64{0, 1, 5, 10, 20}, 10): " .=@@", (&Screen{Unicode: true}).sparks([]float64{0, 10}, 10): " █",
		(&Screen{}).sparks([]float64{1}, 0): " ",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	q := []bench.Query{
		{Statements: []string{"SELECT {loops}"}, Repeat: 10, Work: bench.Work{Mean: time.Second, Sigma: 1}},
		{Statements: []string{"SELECT 2"}, Work: bench.Work{Mean: time.Second}},
	}
	l := &bench.Load{Even: true, Phases: []bench.Phase{{Name: "calm", Rate: 5, For: time.Second}}, Streams: []bench.Stream{
		{Name: "a", Share: 1, Tenants: []string{"x", "y"}, Queries: q, Retry: bench.Retry{Most: 3}},
		{Name: "b", Share: 3, Queries: q[1:], Patience: time.Second, Leave: bench.Walk},
		{Name: "c", Clients: 2, Each: 3, Queries: q[1:]},
		{Name: "d", Clients: 1, Queries: q[1:]},
		{Name: "e", Rate: 7, Queries: q[1:]},
	}}
	want := []string{
		"calm: 5/s for 1s; evenly spaced",
		"a: 25 %, 2 tenants, SELECT {loops}, and 1 other query, 10 times, log-normal, sigma 1, work of 1s, up to 3 retries",
		"b: 75 %, SELECT 2, patience 1s, then walk",
		"c: 2 clients with 3 requests each, SELECT 2",
		"d: 1 client, SELECT 2",
		"e: 7/s, SELECT 2",
	}
	if diff := cmp.Diff(want, describe(l)); diff != "" {
		t.Error(diff)
	}
}
