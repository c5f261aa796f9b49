package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// ticking is a Guard whose counters grow by the second.
func ticking() *fake {
	first := time.Now()
	return &fake{make: func(int) *state.Snapshot {
		now := time.Now()
		secs := uint64(now.Sub(first) / time.Second)
		s := fixed()
		s.Now, s.Started = now, first
		w := &s.Workloads[0]
		w.Granted, w.Refused, w.GrantWaits = 100*secs, [admission.Reasons]uint64{}, admission.Waits{}
		w.Refused[admission.QueueAge] = 30 * secs
		addWaits(&w.GrantWaits, 3*time.Millisecond, int(100*secs))
		s.Turned = []state.Count{{Label: "max_client_conn", N: 5 * secs}}
		s.Refusals[0].N = 1000 + 30*secs
		s.Traffic.Sent = 5000 * secs
		return s
	}}
}

func TestHistorySamplesWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ticking()
		h := newHistory(g, "v")
		defer h.stop()
		passes(time.Hour)
		if g.count() != 0 {
			t.Fatalf("%d snapshots although nobody looks", g.count())
		}
		v, samples := h.look(0)
		if v.State != stateServing || len(samples) != 0 || g.count() != 1 {
			t.Fatalf("first look: %s, %d samples, %d snapshots", v.State, len(samples), g.count())
		}
		passes(10*time.Second + time.Millisecond)
		for range 50 {
			_, samples = h.look(0)
		}
		if len(samples) != 10 || g.count() != 11 {
			t.Fatalf("%d samples and %d snapshots after 10 s and 50 looks", len(samples), g.count())
		}
		s := samples[9]
		if s.Served != 100 || s.Refused != 35 || s.Reasons["queue_age"] != 30 || s.Reasons["max_client_conn"] != 5 || s.Sent != 5000 || s.Waiting != 5 || s.Running != 9 {
			t.Errorf("%+v", s)
		}
		if s.P50 == nil || *s.P50 < 2.048e-3 || *s.P50 > 4.096e-3 {
			t.Errorf("p50 %v", s.P50)
		}
		if _, later := h.look(samples[6].At); len(later) != 3 || later[0].At != samples[7].At {
			t.Errorf("since the 7th: %d", len(later))
		}
		v, _ = h.look(0)
		if v.Refusals[0].Recent != 9*30 || v.Refusals[0].N != 1000+30*3610 || v.Workloads[0].Served != 100 || v.Workloads[0].Refused != 30 {
			t.Errorf("%+v %+v", v.Refusals[0], v.Workloads[0])
		}
		if len(v.Hints) != 2 || v.Hints[0].Reason != "queue_age" {
			t.Errorf("%+v", v.Hints)
		}

		passes(watchTime - time.Second)
		_, samples = h.look(0)
		if len(samples) != sampleKeep {
			t.Errorf("%d samples", len(samples))
		}
		v, _ = h.look(0)
		if got := v.Refusals[0].Recent; got != (recentSamples-1)*30 {
			t.Errorf("%d recent refusals", got)
		}
		passes(watchTime + 2*time.Second)
		asleep := g.count()
		passes(time.Hour)
		if g.count() != asleep {
			t.Errorf("%d snapshots after everybody has left", g.count()-asleep)
		}
		if _, samples = h.look(0); len(samples) != 0 || g.count() != asleep+1 {
			t.Errorf("after the pause: %d samples", len(samples))
		}
	})
}

// passes lets virtual time pass.
func passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestHistoryOfALoopThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ticking()
		h := newHistory(g, "v")
		h.look(0)
		passes(3*time.Second + time.Millisecond)
		g.set(func(f *fake) { f.err = errStuck })
		passes(5 * time.Second)
		v, samples := h.look(0)
		if v.State != stateStuck || len(samples) != 3 || len(v.Messages) != 1 || !strings.Contains(v.Messages[0], "for 4s: stuck") {
			t.Errorf("%s %v, %d samples", v.State, v.Messages, len(samples))
		}
		if len(v.Upstreams) != 1 {
			t.Error("what was seen before is gone")
		}
		g.set(func(f *fake) { f.err = nil })
		passes(time.Second)
		v, samples = h.look(0)
		if v.State != stateServing || len(samples) != 4 || samples[3].Served != 100 {
			t.Errorf("%s, %+v", v.State, samples)
		}
		h.stop()
		h.stop()
		before := g.count()
		if v, _ := h.look(0); v.State != stateServing || g.count() != before {
			t.Error("a look after stop started it again")
		}
	})
}

func TestHistoryThatNeverHadASnapshot(t *testing.T) {
	h := newHistory(&fake{err: context.DeadlineExceeded}, "v")
	defer h.stop()
	v, samples := h.look(0)
	if v.State != stateStuck || len(samples) != 0 || v.Version != "v" {
		t.Errorf("%+v", v)
	}
}

func TestStatusJSON(t *testing.T) {
	public, _ := start(t, Options{Guard: &fake{make: func(int) *state.Snapshot { return fixed() }}, Version: "1.2.3"})
	for _, query := range []string{"", "?since=0", "?since=x", "?since=-9223372036854775808", "?since=9223372036854775807"} {
		code, header, body := get(t, public+"/status.json"+query)
		var got struct {
			Version string
			State   string
			Clients clientsView
			Samples []sample
			Keep    int
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK || header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d %v %s", query, code, err, body)
		}
		if got.Version != "1.2.3" || got.State != stateServing || got.Keep != sampleKeep || got.Samples == nil ||
			got.Clients != (clientsView{Active: 9, Waiting: 5, Idle: 106, Login: 3, Limit: 10000}) {
			t.Errorf("%s: %+v", query, got)
		}
	}
}

func TestViewIsBounded(t *testing.T) {
	s := large(10, 1000)
	s.Workloads[777].Waiting = 60
	for range 100 {
		s.Refusals = append(s.Refusals, s.Refusals[0])
		s.Upstreams = append(s.Upstreams, s.Upstreams[0])
	}
	v := newView(s, "v", nil, nil, nil)
	if len(v.Workloads) != maxWorkloadRows || v.MoreWorkloads != 1000-maxWorkloadRows || v.Workloads[0].Name != "workload_0777" {
		t.Errorf("%d workloads and %d more, first %s", len(v.Workloads), v.MoreWorkloads, v.Workloads[0].Name)
	}
	if len(v.Refusals) != maxRefusalRows || v.MoreRefusals != 101-maxRefusalRows || len(v.Upstreams) != maxUpstreamRows {
		t.Errorf("%d refusals, %d upstreams", len(v.Refusals), len(v.Upstreams))
	}
}

// A reload takes workloads away and brings new ones, in the middle of a sample.
func TestCompareOverAReload(t *testing.T) {
	before, now := fixed(), fixed()
	now.Now = before.Now.Add(2 * time.Second)
	now.Workloads[0].Granted += 10
	gone, fresh := before.Workloads[0], now.Workloads[0]
	gone.Name, gone.Granted = "gone", 1e6
	fresh.Name, fresh.Granted, fresh.Refused, fresh.GrantWaits = "fresh", 4, [admission.Reasons]uint64{}, admission.Waits{}
	before.Workloads = append(before.Workloads, gone)
	now.Workloads = append(now.Workloads, fresh)
	rates := map[workloadKey]rate{}
	s := compare(before, now, rates)
	if s.Served != 7 || s.Refused != 0 || len(s.Reasons) != 0 || rates[workloadKey{"main", "fresh"}].served != 2 || s.P50 != nil {
		t.Errorf("%+v %v", s, rates)
	}
}

// Classes come one by one, and a workload that a reload has brought starts at 0.
func TestCompareClasses(t *testing.T) {
	before, now := fixed(), fixed()
	now.Now = before.Now.Add(2 * time.Second)
	w := &now.Workloads[0]
	w.Traffic.Goodput += 30
	w.Traffic.WastedTime += 3 * time.Second
	batch := &w.Classes[1]
	batch.Granted += 20
	batch.Goodput += 18
	batch.Refused[admission.Displaced] += 6
	batch.Would[admission.QueueAge] += 4
	w.Classes = append(w.Classes, state.Class{Class: admission.Sheddable, Granted: 2})
	rates := map[workloadKey]rate{}
	s := compare(before, now, rates)
	if s.Useful != 15 || s.Wasted != 1.5 {
		t.Errorf("%v were of use, %v wasted", s.Useful, s.Wasted)
	}
	got := classRows(w, new(rates[workloadKey{"main", "api"}]))
	want := []classView{
		{Name: "critical", Waiting: 1, Oldest: 0.02, MaxWait: 2},
		{Name: "sheddable_plus", Waiting: 4, Oldest: 0.25, MaxWait: 0.5, Standing: true, Served: 10, Refused: 3, Would: 2, Useful: 9},
		{Name: "sheddable", Served: 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestTenantRows(t *testing.T) {
	var m tenants
	now := moment()
	row := func(name string, waiting int, served time.Duration, granted, refused uint64) state.Tenant {
		return state.Tenant{Role: "app", Tenant: name, Waiting: waiting, Served: served, Granted: granted, Refused: refused}
	}
	rows, _ := m.rows([]state.Tenant{row("a", 1, time.Hour, 10, 10), row("b", 0, time.Hour, 10, 10), row("c", 0, time.Hour, 10, 10)}, now)
	if len(rows) != 1 || rows[0].Tenant != "a" || rows[0].Served != 0 || rows[0].Refused != 0 {
		t.Errorf("at first: %+v", rows)
	}
	rows, _ = m.rows([]state.Tenant{row("a", 1, time.Hour+time.Second, 14, 10), row("b", 0, time.Hour, 10, 14), row("c", 0, 0, 1, 0)}, now.Add(2*time.Second))
	if len(rows) != 2 || rows[0].Tenant != "b" || rows[0].Refused != 2 || rows[1].Slots != 0.5 || rows[1].Served != 2 {
		t.Errorf("then: %+v", rows)
	}
	list := make([]state.Tenant, 100)
	for i := range list {
		list[i] = row(fmt.Sprint(i), i+1, 0, 0, 0)
	}
	rows, more := m.rows(list, now.Add(3*time.Second))
	if len(rows) != maxTenantRows || more != 100-maxTenantRows || rows[0].Tenant != "99" {
		t.Errorf("%d rows and %d more, first %+v", len(rows), more, rows[0])
	}
}

func TestQuantiles(t *testing.T) {
	var none spread
	if none.quantile(0.5) != nil {
		t.Error("a quantile of nothing")
	}
	var s spread
	var w admission.Waits
	addWaits(&w, 0, 50)
	addWaits(&w, 100*time.Millisecond, 50)
	s.add(&w, &admission.Waits{}, time.Second)
	for q, want := range map[float64]float64{0.25: 0.5e-6, 0.5: 1e-6, 0.75: 0.098304, 1: 0.131072} {
		if got := *s.quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	// Nobody is served after max_wait, so no quantile lies beyond it; a clock that stood still is another matter.
	var bounded spread
	bounded.add(&w, &admission.Waits{}, 80*time.Millisecond)
	if got := *bounded.quantile(1); got != 0.08 {
		t.Errorf("bounded: %v", got)
	}
	var frozen spread
	frozen.add(&w, &admission.Waits{}, 10*time.Millisecond)
	if got := *frozen.quantile(1); got != 0.131072 {
		t.Errorf("beyond max_wait: %v", got)
	}
}

func TestHintsForAllReasonsOfTheQueue(t *testing.T) {
	for r := admission.None + 1; int(r) < admission.Reasons; r++ {
		if state.Advice(r.String()) == "" {
			t.Error(errors.New(r.String()), "has no hint")
		}
	}
	if state.Advice("none") != "" {
		t.Error("a hint for nothing")
	}
}
