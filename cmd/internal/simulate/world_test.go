package simulate

import (
	"context"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
)

const ms = time.Millisecond

// plain is a scenario of one workload and one stream on so many slots.
func plain(slots int, policy admission.Policy, load []Phase, st Stream) *Scenario {
	if st.Share == 0 && st.Rate == 0 && st.Clients == 0 {
		st.Share = 1
	}
	st.Name = "all"
	st.Tenants = max(st.Tenants, 1)
	st.Statements = max(st.Statements, 1)
	return &Scenario{
		Plan: admission.Plan{Slots: slots, Workloads: []admission.Workload{{
			MaxWait: int64(time.Hour), MaxWaiting: 1 << 20, Policy: policy, Share: 1,
		}}},
		Workloads: []Workload{{Name: "default"}},
		Pool:      pool.Options{Budget: slots},
		Load:      load,
		Streams:   []Stream{st},
	}
}

// erlang is the probability to have to wait in M/M/c with so many erlangs.
func erlang(c int, a float64) float64 {
	term, sum := 1.0, 1.0
	for k := 1; k < c; k++ {
		term *= a / float64(k)
		sum += term
	}
	term *= a / float64(c) * float64(c) / (float64(c) - a)
	return term / (sum + term)
}

// With arrivals and service times that have no memory the mean wait is known.
func TestWaitsAreThoseOfErlang(t *testing.T) {
	for _, tc := range []struct {
		slots int
		load  float64 // of capacity
	}{{1, 0.5}, {5, 0.8}, {10, 0.9}} {
		const service = 20 * ms
		capacity := float64(tc.slots) / service.Seconds()
		s := plain(tc.slots, admission.FIFO, []Phase{{capacity * tc.load, 80 * time.Second}}, Stream{
			Service: []Service{{Weight: 1, Mean: service, Shape: Exponential}},
		})
		got, n := 0.0, 0.0
		for seed := range uint64(4) {
			c := Run(t.Context(), s, seed).sum(0, 16, nil)
			if c.served != c.arrived {
				t.Fatalf("%d of %d served", c.served, c.arrived)
			}
			got += c.latency.sum
			n += float64(c.latency.n)
		}
		a := tc.load * float64(tc.slots)
		want := float64(service) * (1 + erlang(tc.slots, a)/(float64(tc.slots)-a))
		if got /= n; math.Abs(got/want-1) > 0.06 {
			t.Errorf("%d slots at %.0f %%: %.3f ms, want %.3f", tc.slots, 100*tc.load, got/1e6, want/1e6)
		}
	}
}

func BenchmarkOverload(b *testing.B) {
	s := plain(50, admission.Guard, []Phase{{1000, 20 * time.Second}}, Stream{
		Service: []Service{{Weight: 1, Mean: 100 * ms, Shape: LogNormal, Sigma: 1}}, Patience: time.Second, Tenants: 20,
	})
	s.Plan.Workloads[0].MaxWaiting = 100
	requests := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		requests += Run(b.Context(), s, 1).sum(0, 4, nil).arrived
	}
	b.ReportMetric(float64(requests)/float64(b.Elapsed().Milliseconds()), "requests/ms")
}

func BenchmarkGoodDay(b *testing.B) {
	s := plain(50, admission.Guard, []Phase{{10000, 20 * time.Second}}, Stream{
		Service: []Service{{Weight: 1, Mean: 3 * ms, Shape: LogNormal, Sigma: 1}}, Patience: time.Second, Tenants: 20,
	})
	s.Plan.Workloads[0].MaxWaiting = 100
	requests := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		requests += Run(b.Context(), s, 1).sum(0, 4, nil).arrived
	}
	b.ReportMetric(float64(requests)/float64(b.Elapsed().Milliseconds()), "requests/ms")
}

// anything is a scenario with a bit of everything.
func anything(t *rapid.T) *Scenario {
	in := func(least, most int, name string) int { return rapid.IntRange(least, most).Draw(t, name) }
	slots := in(1, 8, "slots")
	s := &Scenario{Window: time.Second, Even: rapid.Bool().Draw(t, "even"), Oracle: rapid.Bool().Draw(t, "oracle")}
	s.Plan.Slots = slots
	for range in(1, 2, "workloads") {
		s.Plan.Workloads = append(s.Plan.Workloads, admission.Workload{
			MaxWait: int64(in(1, 500, "max_wait")) * 1e6, MaxWaiting: in(0, 30, "max_waiting"), Lendable: 1, Borrow: 1,
			Policy: admission.Policy(in(0, admission.Policies-1, "policy")), Mode: admission.Mode(in(0, 2, "mode")),
		})
		s.Workloads = append(s.Workloads, Workload{CancelAbandoned: rapid.Bool().Draw(t, "cancel"), Deadline: time.Duration(in(0, 300, "deadline")) * ms})
	}
	for range in(1, 3, "phases") {
		s.Load = append(s.Load, Phase{float64(in(0, 300, "rate")), time.Duration(in(1, 800, "length")) * ms})
	}
	keys := in(1, 3, "keys")
	for i := range in(1, 4, "streams") {
		st := Stream{
			Workload: uint16(in(0, len(s.Plan.Workloads)-1, "workload")), Key: admission.Key(in(0, keys-1, "key")),
			Class: admission.ClassAt(in(0, admission.Classes-1, "class")), Tenants: in(1, 3, "tenants"), FirstTenant: uint32(10 * i),
			Patience: time.Duration(in(0, 300, "patience")) * ms, Leave: Leave(in(0, 2, "leave")), Expected: Estimate(in(0, 5, "expected")),
			Statements: in(1, 4, "statements"), Gap: time.Duration(in(0, 2, "gap")) * ms,
			Retries: in(0, 3, "retries"), RetryWithin: 50 * ms, RetryHint: rapid.Bool().Draw(t, "hint"), TellAttempt: rapid.Bool().Draw(t, "tell"),
			Sessions: Sessions(in(0, 2, "sessions")),
			Service: []Service{
				{Weight: 1, Mean: time.Duration(in(1, 40, "mean")) * ms, Shape: Shape(in(0, 2, "shape")), Sigma: 1},
				{Weight: 0.2, Mean: 60 * ms},
			},
		}
		st.Deadline, st.Role = st.Patience, uint32(st.Key)
		if in(0, 3, "closed") == 0 {
			st.Clients, st.Queries, st.Think = in(1, 9, "clients"), in(1, 20, "queries"), time.Duration(in(0, 5, "think"))*ms
		} else {
			st.Share = 0.5
		}
		s.Streams = append(s.Streams, st)
	}
	s.Pool = pool.Options{Budget: slots + in(0, 2, "budget"), ConnectParallel: in(0, 2, "parallel")}
	s.Database = Database{
		Cores: in(0, 4, "cores"), Connect: time.Duration(in(0, 20, "connect")) * ms, Close: time.Duration(in(0, 3, "close")) * ms, Cancel: ms,
	}
	for range in(0, 3, "events") {
		begin := time.Duration(in(0, 500, "begin")) * ms
		s.Database.Events = append(s.Database.Events, Event{
			Begin: begin, End: begin + time.Duration(in(1, 300, "span"))*ms, Kind: EventKind(in(0, 3, "event")), Speed: 0.5,
		})
	}
	return s
}

// Each page that is wanted ends once, no more run than there are slots, and nothing is left.
func TestEverythingEndsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anything(t)
		x := newWorld(s, rapid.Uint64().Draw(t, "seed"))
		for steps := 0; ; steps++ {
			if steps > 1_000_000 {
				t.Fatal("it does not end")
			}
			if !x.next() {
				break
			}
			if err := x.gate.Check(); err != nil {
				t.Fatal(err)
			}
			if err := x.set.Check(); err != nil {
				t.Fatal(err)
			}
		}
		x.finish()
		if x.live != 0 || x.running != 0 || x.gate.Waiting() != 0 {
			t.Fatalf("%d want something, %d run and %d wait at the end", x.live, x.running, x.gate.Waiting())
		}
		r := x.result
		if r.MostRunning > s.Plan.Slots {
			t.Fatalf("%d on %d slots", r.MostRunning, s.Plan.Slots)
		}
		c := r.sum(0, len(r.cells), nil)
		var refused uint64
		for _, n := range c.refused {
			refused += n
		}
		if c.arrived != c.served+c.timedOut+c.lost+refused {
			t.Fatalf("%d arrived, %d served, %d gave up, %d lost, %d refused", c.arrived, c.served, c.timedOut, c.lost, refused)
		}
		if c.served != c.latency.n || c.wasted+c.broken > c.busy || c.attempts < c.arrived {
			t.Fatalf("%+v", c)
		}
		var tenants tenant
		for _, list := range r.tenants {
			for _, one := range list {
				tenants.arrived += one.arrived
				tenants.served += one.served
				tenants.busy += one.busy
			}
		}
		if tenants.arrived != c.arrived || tenants.served != c.served || tenants.busy != c.busy {
			t.Fatalf("tenants %+v, all %d %d %d", tenants, c.arrived, c.served, c.busy)
		}
	})
}

func TestTheSeedDecides(t *testing.T) {
	p, _ := FindPreset("D")
	list, err := p.Inputs([]string{"guard"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Build(list[0].Input)
	if err != nil {
		t.Fatal(err)
	}
	a, b, other := Run(t.Context(), s, 7), Run(t.Context(), s, 7), Run(t.Context(), s, 8)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed made two different runs")
	}
	if reflect.DeepEqual(a.cells, other.cells) {
		t.Error("another seed made no difference")
	}
}

// A frozen database does nothing, a slow one half, cores share.
func TestTheDatabaseKeepsItsPace(t *testing.T) {
	one := func(change func(*Scenario)) float64 {
		s := plain(4, admission.FIFO, []Phase{{0, 10 * time.Second}}, Stream{
			Clients: 4, Queries: 10, Service: []Service{{Weight: 1, Mean: 100 * ms}},
		})
		change(s)
		return float64(Run(t.Context(), s, 1).finished[0]) / 1e9
	}
	for name, tc := range map[string]struct {
		change func(*Scenario)
		want   float64
	}{
		"as it is": {func(*Scenario) {}, 1},
		"frozen": {func(s *Scenario) {
			s.Database.Events = []Event{{Begin: 250 * ms, End: 750 * ms, Kind: Freeze}}
		}, 1.5},
		"slow": {func(s *Scenario) {
			s.Database.Events = []Event{{Begin: 0, End: 1000 * ms, Kind: Slow, Speed: 0.5}}
		}, 1.5},
		"two cores":           {func(s *Scenario) { s.Database.Cores = 2 }, 2},
		"two cores, half CPU": {func(s *Scenario) { s.Database.Cores, s.Database.CPU = 2, 0.5 }, 1.5},
		"logins":              {func(s *Scenario) { s.Database.Connect = 300 * ms }, 1.3},
	} {
		if got := one(tc.change); math.Abs(got-tc.want) > 0.001 {
			t.Errorf("%s: %v s, want %v", name, got, tc.want)
		}
	}
}

// Clients who ask again without a thought after each refusal come to an end, and whoever has seen
// enough can stop.
func TestRefusedClientsWhoDoNotThink(t *testing.T) {
	s := plain(1, admission.Bounded, []Phase{{0, 100 * ms}}, Stream{Clients: 20, Service: []Service{{Weight: 1, Mean: 10 * ms}}})
	s.Plan.Workloads[0].MaxWaiting = 1
	if c := Run(t.Context(), s, 1).sum(0, 1, nil); c.served < 10 || c.arrived < 10_000 {
		t.Errorf("%d of %d served", c.served, c.arrived)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if r := Run(ctx, s, 1); r != nil {
		t.Error("it goes on after its end")
	}
}

// Those who have left a FIFO are served all the same, and those of other policies are not.
func TestTheSlotsOfThoseWhoLeft(t *testing.T) {
	for policy, want := range map[admission.Policy]uint64{admission.FIFO: 3, admission.FIFOGone: 1} {
		s := plain(1, policy, []Phase{{0, time.Second}}, Stream{
			Clients: 4, Queries: 1, Service: []Service{{Weight: 1, Mean: 100 * ms}}, Patience: 150 * ms,
		})
		c := Run(t.Context(), s, 1).sum(0, 1, nil)
		if c.served != 1 || c.timedOut != 3 || c.inVain != want || c.wasted != int64(want)*100e6 {
			t.Errorf("%v: %d served, %d timed out, %d in vain, %d wasted", policy, c.served, c.timedOut, c.inVain, c.wasted)
		}
	}
}

// A refusal is in vain if a slot that was left over could have served it.
func TestTheOracle(t *testing.T) {
	o := newOracle(2)
	refused := func(now int64, takes, until float64) {
		o.refused(now, &request{finish: takes}, int64(until))
	}
	o.change(0, 2)
	refused(0, 10, 100) // is served from 20 to 30
	refused(0, 10, 10)  // could not wait that long
	refused(0, 50, 100) // begins at 25, is interrupted at 40
	refused(0, 5, 100)  // from 30 to 35
	o.change(20, 1)
	o.change(25, 0)
	o.change(40, 2)
	o.change(never, 2)
	if o.found != 2 {
		t.Errorf("found %d", o.found)
	}
}
