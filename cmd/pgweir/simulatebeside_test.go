package main

import (
	"encoding/json"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/cmd/internal/bench/experiment"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
	"github.com/pgweir/pgweir/cmd/internal/simulate"
	"github.com/pgweir/pgweir/config"
)

// What the simulator plays as E1 is what the bench sends and sets up.
func TestPresetIsTheExperiment(t *testing.T) {
	list, err := experiment.Find("E1")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	e := list[0]
	preset, _ := simulate.FindPreset("E1")
	inputs, err := preset.Inputs(preset.Policies(), nil)
	if err != nil || len(inputs) != 9 {
		t.Fatal(len(inputs), err)
	}
	for _, in := range inputs {
		text := e.Plan.Text(stage.MustTargets("pgweir:" + in.Name)[0])
		c, problems := config.Options{}.Parse("E1", []byte(text))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		want, got := c.Workloads[c.WorkloadOf("postgres", "app", "", netip.Addr{})], in.Config.Workloads[in.Config.WorkloadOf("postgres", "app", "", netip.Addr{})]
		if want.Queue != got.Queue || want.MaxWait != got.MaxWait || want.ClassWait != got.ClassWait || want.MaxWaiting != got.MaxWaiting ||
			want.Deadline != got.Deadline || want.OnDisconnect != got.OnDisconnect || want.Class != got.Class {
			t.Errorf("%s: the bench has\n%+v, the simulator\n%+v", in.Name, want, got)
		}
		s, err := simulate.Build(in.Input)
		if err != nil {
			t.Fatal(err)
		}
		if s.Plan.Slots != e.Plan.Slots || s.Even != e.Load.Even || s.Window != e.Load.Window && s.Window != 0 || len(s.Streams) != len(e.Load.Streams) {
			t.Errorf("%s: %+v", in.Name, s)
		}
		var phases []simulate.Phase
		for _, p := range e.Load.Phases {
			phases = append(phases, simulate.Phase{Rate: p.Rate, Length: p.For})
		}
		if !reflect.DeepEqual(s.Load, phases) {
			t.Errorf("%s: the load is %v, the bench's %v", in.Name, s.Load, phases)
		}
		for i := range s.Streams {
			got, want := &s.Streams[i], &e.Load.Streams[i]
			if got.Share != want.Share || got.Class.String() != want.Class || got.Patience != want.Patience ||
				got.Deadline != 0 || want.Deadline || got.Service[0].Mean != want.Queries[0].Work.Mean {
				t.Errorf("%s: stream %+v, the bench's %+v", in.Name, got, want)
			}
		}
	}
}

// besideFile has a row of guard as the bench writes it.
func besideFile(t *testing.T, goodput float64) string {
	t.Helper()
	group := func(by, name string, served int, rate float64) map[string]any {
		return map[string]any{
			"by": by, "name": name, "served": served, "refused": 508, "gave_up": 0, "goodput_per_s": rate,
			"took_ms": map[string]any{"n": served, "p50": 55.0, "p99": 69.0}, "told_ms": map[string]any{"n": 508, "p50": 9.5},
		}
	}
	d := map[string]any{"results": []any{
		map[string]any{"target": "pgbouncer"},
		map[string]any{"target": "pgweir:guard", "servers": map[string]any{"wasted": 0}, "windows": []any{
			map[string]any{"from_s": 10, "to_s": 15, "groups": []any{group("all", "", 492, goodput), group("class", "critical", 250, 50)}},
			map[string]any{"from_s": 15, "to_s": 20, "groups": []any{group("all", "", 400, 80)}},
		}},
	}}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "e1.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSimulateBesideMeasured(t *testing.T) {
	r := pgweir(t, nil, "simulate", "--preset", "E1", "--policies", "guard,fifo", "--seeds", "2", "--beside", besideFile(t, 98.4))
	if r.code != exitOK || !strings.Contains(r.stdout, "9 of 9 figures are within") || strings.Contains(r.stdout, "fifo") {
		t.Errorf("%+v", r)
	}
	r = pgweir(t, nil, "simulate", "--preset", "E1", "--policies", "guard", "--seeds", "2", "--beside", besideFile(t, 80))
	if r.code != exitOK || !strings.Contains(r.stdout, "8 of 9 figures are within") || !strings.Contains(r.stdout, "+19!") {
		t.Errorf("%+v", r)
	}
	// Half as fast is what the overhead can make of it.
	r = pgweir(t, nil, "simulate", "--preset", "E1", "--policies", "fifo-deadline", "--seeds", "1", "--overhead", "50ms")
	if r.code != exitOK || !strings.Contains(r.stdout, "fifo-deadline") {
		t.Errorf("%+v", r)
	}
	for _, wrong := range [][]string{
		{"--preset", "B", "--beside", besideFile(t, 98)},
		{"--preset", "E1", "--beside", filepath.Join(t.TempDir(), "none")},
		{"--load", "1x1s", "--slots", "1", "--beside", "x"},
		{"--load", "1x1s", "--slots", "1", "--overhead", "-1ms"},
	} {
		if r := pgweir(t, nil, append([]string{"simulate"}, wrong...)...); r.code != exitUsage {
			t.Errorf("%v: %+v", wrong, r)
		}
	}
}

func TestMeasuredRowNeedsEverything(t *testing.T) {
	rows, err := measuredRows(besideFile(t, 98))
	if err != nil || len(rows) != 1 || rows[0].Name != "guard" || rows[0].Critical != 250 || rows[0].After != 80 || rows[0].Told != 9.5 {
		t.Errorf("%+v %v", rows, err)
	}
	file := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(file, []byte(`{"results":[{"target":"pgweir:fifo"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if rows, err := measuredRows(file); err == nil {
		t.Errorf("%+v of nothing", rows)
	}
	if v := orNone(1, 0); !math.IsNaN(v) {
		t.Error(v)
	}
}
