package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/cmd/internal/bench"
)

// invented is a result as a run might have it: a queue that is full for a while.
func invented(name string, slow time.Duration, guarded bool) *bench.Result {
	r := &bench.Result{
		Target: name, Watched: true, Counted: true, Most: bench.Servers{Open: 6, Busy: 5, Executed: 2600},
		Load: bench.Load{
			Phases: []bench.Phase{{Rate: 80, For: 5 * time.Second}, {Name: "overload", Rate: 200, For: 10 * time.Second}, {Rate: 80, For: 10 * time.Second}},
			Streams: []bench.Stream{
				{Class: "critical", Share: 0.25, Patience: time.Second, Queries: []bench.Query{{Statements: []string{bench.Nap}, Work: bench.Work{Mean: 50 * time.Millisecond}}}},
				{Class: "sheddable_plus", Share: 0.75, Patience: time.Second, Queries: []bench.Query{{Statements: []string{bench.Nap}, Work: bench.Work{Mean: 50 * time.Millisecond}}}},
			},
		},
		Causes: []bench.Cause{{}, {Code: "53300", Reason: "queue_age"}, {Reason: "patience"}},
	}
	random := rand.New(rand.NewPCG(1, uint64(len(name))))
	for a := range r.Load.Arrivals() {
		one := bench.Record{Due: a.Due, Sent: a.Due + time.Millisecond, Stream: int32(a.Stream), Attempt: 1, Last: true, Kept: true}
		one.Took = time.Duration(float64(slow) * (1 + random.ExpFloat64()/3))
		overload := a.Due > 5*time.Second && a.Due < 15*time.Second
		switch {
		case overload && guarded && a.Stream == 1 && random.Float64() < 0.66:
			one.Outcome, one.Cause, one.Took = bench.Refused, 1, time.Duration(random.Float64()*float64(60*time.Millisecond))
		case overload && !guarded && a.Due > 6*time.Second:
			one.Outcome, one.Cause, one.Took, one.Kept = bench.GaveUp, 2, time.Second, false
			r.Counts.Left++
		default:
			one.Done = 1
			r.Counts.Done++
		}
		one.Whole = one.Took
		r.Took = max(r.Took, one.Sent+one.Took)
		r.Records = append(r.Records, one)
	}
	for i := range 26 {
		r.Series = append(r.Series, bench.Look{At: time.Duration(i)*time.Second + 10*time.Millisecond, Servers: bench.Servers{Open: 6, Busy: 4, Executed: int64(i * 100)}})
	}
	if guarded {
		r.Refusal = &pgconn.PgError{Severity: "ERROR", Code: "53300", Message: "pgweir: no <server>", Detail: "reason=queue_age", Hint: "retry_after_ms=412 retry=yes"}
	}
	return r
}

// three are a comparison as a scenario makes it.
func three() Document {
	return NewDocument("E1 <b>", []*bench.Result{
		invented("pgweir:guard", 60*time.Millisecond, true),
		invented("pgweir:fifo", 300*time.Millisecond, false),
		invented("pgbouncer", 100*time.Millisecond, false),
	}, []bench.Check{
		{Target: "pgweir:guard", What: "goodput", Measured: "99.5/s", Promised: ">= 98/s", OK: true},
		{Target: "pgweir:guard", What: "p99", Measured: "151 ms", Promised: "<= 130 ms"},
	})
}

// wellFormed fails the test unless every element ends, and counts them.
func wellFormed(t *testing.T, text string) map[string]int {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	seen := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return seen
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			seen[e.Name.Local]++
		}
	}
}

func TestPage(t *testing.T) {
	var b bytes.Buffer
	if err := three().WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	seen := wellFormed(t, text)
	if seen["svg"] != 6+3*3 || seen["figure"] != seen["svg"] || seen["script"] != 0 || seen["link"] != 0 || seen["img"] != 0 {
		t.Errorf("%v", seen)
	}
	for _, want := range []string{"E1 &lt;b&gt;", "no &lt;server&gt;", `class="good">ok`, `class="bad">missed`, "queue_age", "overload"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
	for _, no := range []string{"NaN", "Inf", "http:", "https:", "%!", "ZgotmplZ"} {
		if strings.Contains(text, no) {
			t.Errorf("there is %q", no)
		}
	}
}

// A page has to come of anything, also of a run in which nothing happened.
func TestPageOfLittle(t *testing.T) {
	empty := &bench.Result{Target: "none", Causes: []bench.Cause{{}}, Load: bench.Load{Streams: []bench.Stream{
		{Clients: 1, Each: 1, Queries: []bench.Query{{Statements: []string{"SELECT 1"}}}},
	}}}
	one := &bench.Result{Target: "one", Load: empty.Load, Causes: empty.Causes, Took: time.Millisecond, Records: []bench.Record{
		{Sent: 1, Took: 1, Whole: 1, Attempt: 1, Last: true},
	}}
	for name, results := range map[string][]*bench.Result{"nothing": nil, "empty": {empty}, "one": {one}, "both": {empty, one}} {
		var b bytes.Buffer
		if err := NewDocument(name, results, nil).WriteHTML(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(b.String(), "NaN") {
			t.Errorf("%s: not a number", name)
		}
		var out strings.Builder
		(&Screen{Out: &out}).Table(results)
		if (out.Len() == 0) != (results == nil) || strings.Contains(out.String(), "NaN") {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := three().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var back Document
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Results) != 3 || len(back.Checks) != 2 || !back.Checks[0].OK {
		t.Fatalf("%+v", back)
	}
	guard := back.Results[0]
	if len(guard.Windows) != 3 || len(guard.Windows[1].Groups) != 3 || guard.Windows[1].Name != "overload" || len(guard.Seconds) < 25 {
		t.Errorf("%d windows, %d seconds", len(guard.Windows), len(guard.Seconds))
	}
	all := guard.Windows[1].Groups[0]
	if all.By != "all" || all.Asked == 0 || all.Served+all.Refused != all.Asked || all.Why[0].Reason != "queue_age" {
		t.Errorf("%+v", all)
	}
	if sum := guard.Windows[1].Groups[1].Asked + guard.Windows[1].Groups[2].Asked; sum != all.Asked {
		t.Errorf("the classes have %d of %d", sum, all.Asked)
	}
}
