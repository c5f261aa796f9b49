package simulate

import (
	"context"
	"testing"
)

// play runs a preset with a policy, and returns the report of one of its variants.
func play(t *testing.T, preset, name, policy string, seeds int) *Report {
	t.Helper()
	p, ok := FindPreset(preset)
	if !ok {
		t.Fatalf("no preset %s", preset)
	}
	list, err := p.Inputs([]string{policy}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range list {
		if in.Name != policy+name {
			continue
		}
		s, err := Build(in.Input)
		if err != nil {
			t.Fatal(err)
		}
		return Sweep(context.Background(), s, seeds)
	}
	t.Fatalf("no variant %q of %s", name, preset)
	return nil
}

// group is a group of a report.
func (r *Report) group(kind, name string) *Figures {
	for i := range r.Groups {
		if r.Groups[i].Kind == kind && r.Groups[i].Name == name {
			return &r.Groups[i].Mean
		}
	}
	return &Figures{}
}

// bound is what a number has to be between.
type bound struct {
	what        string
	is          float64
	least, most float64
}

func hold(t *testing.T, where string, bounds ...bound) {
	t.Helper()
	for _, b := range bounds {
		if b.is < b.least || b.is > b.most {
			t.Errorf("%s: %s is %.2f, want %v to %v", where, b.what, b.is, b.least, b.most)
		}
	}
}

// The policies of the past behave as they were published.
func TestThePastIsReproduced(t *testing.T) {
	const none = 1e-9
	for policy, w := range map[string]struct{ goodput, p50, p99, refused, told, timedOut, after [2]float64 }{
		"fifo":          {goodput: [2]float64{0, 1}, p50: [2]float64{0, none}, timedOut: [2]float64{900, 1100}, after: [2]float64{0, 1}},
		"fifo-gone":     {goodput: [2]float64{0, 2}, p50: [2]float64{0, 1000}, timedOut: [2]float64{900, 1100}, after: [2]float64{68, 84}},
		"fifo-deadline": {[2]float64{81, 102}, [2]float64{940, 1001}, [2]float64{950, 1001}, [2]float64{450, 560}, [2]float64{900, 1000}, [2]float64{0, 60}, [2]float64{72, 88}},
		"bounded":       {[2]float64{95, 103}, [2]float64{235, 255}, [2]float64{245, 255}, [2]float64{450, 560}, [2]float64{0, 2}, [2]float64{0, none}, [2]float64{72, 88}},
		"lifo":          {[2]float64{97, 107}, [2]float64{50, 62}, [2]float64{200, 800}, [2]float64{0, 10}, [2]float64{0, none}, [2]float64{430, 540}, [2]float64{72, 88}},
		"lifo-deadline": {[2]float64{97, 107}, [2]float64{50, 62}, [2]float64{200, 800}, [2]float64{0, 10}, [2]float64{0, 1000}, [2]float64{430, 540}, [2]float64{72, 88}},
		"codel":         {[2]float64{95, 103}, [2]float64{50, 62}, [2]float64{100, 125}, [2]float64{450, 560}, [2]float64{55, 70}, [2]float64{0, none}, [2]float64{70, 86}},
		"priority":      {[2]float64{95, 103}, [2]float64{85, 110}, [2]float64{115, 145}, [2]float64{450, 560}, [2]float64{0, 2}, [2]float64{0, none}, [2]float64{72, 86}},
	} {
		r := play(t, "A", "", policy, 3)
		m := &r.Windows[2].Mean
		if w.p99 == [2]float64{} {
			w.p99 = [2]float64{0, 1000}
		}
		hold(t, policy,
			bound{"goodput", m.Goodput, w.goodput[0], w.goodput[1]}, bound{"p50", m.P50, w.p50[0], w.p50[1]},
			bound{"p99", m.P99, w.p99[0], w.p99[1]}, bound{"refused", m.Refused, w.refused[0], w.refused[1]},
			bound{"told after", m.Told50, w.told[0], w.told[1]}, bound{"timed out", m.TimedOut, w.timedOut[0], w.timedOut[1]},
			bound{"goodput after", r.Windows[3].Mean.Goodput, w.after[0], w.after[1]})
	}
}

// Too much for ten seconds: the guard wins every column.
func TestGuardStandsAnOverload(t *testing.T) {
	r := play(t, "A", "", "guard", 3)
	m, critical := &r.Windows[2].Mean, r.group("stream", "critical")
	hold(t, "A",
		bound{"goodput", m.Goodput, 98, 105}, bound{"p50", m.P50, 50, 62}, bound{"p99", m.P99, 50, 135},
		bound{"told after", m.Told50, 0, 16}, bound{"told p99", m.Told99, 0, 90}, bound{"timed out", r.All.Mean.TimedOut, 0, 1},
		bound{"in vain", r.All.Mean.InVain, 0, 5}, bound{"critical", critical.Served / critical.Arrived, 0.996, 1},
		bound{"after", r.Windows[3].Mean.Goodput, 72, 90})
	r = play(t, "A-lognormal", "", "guard", 3)
	critical = r.group("stream", "critical")
	hold(t, "A-lognormal", bound{"goodput", r.Windows[2].Mean.Goodput, 92, 110}, bound{"critical", critical.Served / critical.Arrived, 0.99, 1})
	hold(t, "tenfold", bound{"goodput", play(t, "tenfold", "", "guard", 1).Windows[2].Mean.Goodput, 95, 105})
}

func TestGuardIsFair(t *testing.T) {
	for _, preset := range []string{"B", "E3-rate"} {
		others := play(t, preset, "", "guard", 3).group("stream", "others")
		hold(t, preset, bound{"others served", others.Served / others.Arrived, 0.99, 1}, bound{"their p99", others.P99, 30, 60})
	}
}

// A class does not keep its servers while a higher one of another role has none.
func TestGuardMovesServersToTheHigherClass(t *testing.T) {
	r := play(t, "E18", "", "guard", 3)
	honest := r.group("stream", "honest")
	hold(t, "E18", bound{"honest served", honest.Served / honest.Arrived, 0.99, 1}, bound{"goodput", r.All.Mean.Goodput, 94, 105})
}

func TestGuardRecovers(t *testing.T) {
	blind, hint := play(t, "D", "", "guard", 3), play(t, "D", " hint", "guard", 3)
	hold(t, "D",
		bound{"served after", blind.Windows[2].Mean.Goodput, 75, 90}, bound{"later", blind.Windows[3].Mean.Goodput, 75, 90},
		bound{"attempts", blind.All.Mean.Attempts, 1, 1.6}, bound{"served meanwhile with hints", hint.Windows[1].Mean.Goodput, 42, 85})
}

func TestGuardFinishesWhatWasBegun(t *testing.T) {
	m := &play(t, "pages", "", "guard", 2).All.Mean
	hold(t, "pages", bound{"pages", m.Goodput, 47.5, 60}, bound{"wasted", m.WastedPart, 0, 0.05})
	m = &play(t, "pages-40", "", "guard", 6).All.Mean
	hold(t, "pages-40", bound{"pages", m.Goodput, 11.9, 14}, bound{"their p99", m.P99, 1000, 3500})
}

func TestGuardKeepsDeadlines(t *testing.T) {
	r := play(t, "G", " learned cancel", "guard", 2)
	m := &r.All.Mean
	hold(t, "G", bound{"wasted", m.WastedPart, 0.05, 0.12}, bound{"timed out", m.TimedOut / m.Arrived, 0, 0.01}, bound{"goodput", m.Goodput, 230, 400})
}

func TestGuardLeavesGoodDaysAlone(t *testing.T) {
	m := &play(t, "day", "", "guard", 2).All.Mean
	hold(t, "day", bound{"refused", m.Refused / m.Arrived, 0, 0.01}, bound{"timed out", m.TimedOut, 0, 1})
	// Clients that ask again when they were answered are well served in the order of arrival.
	m = &play(t, "crowd", "", "guard", 10).All.Mean
	hold(t, "crowd", bound{"refused", m.Refused, 0, 0}, bound{"goodput", m.Goodput, 990, 1050})
	m = &play(t, "E28", "", "guard", 2).All.Mean
	hold(t, "E28", bound{"refused", m.Refused, 0, 0}, bound{"lost with their connections", m.Lost, 0, 20})
}
