package status

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// overload is a pgweir whose load doubles after a minute and a half and that loses its
// database for ten seconds later on. It is played in whole seconds.
type overload struct {
	rand  *rand.Rand
	state state.Snapshot
	who   []state.RefusalCount
}

func newOverload(start time.Time) *overload {
	o := &overload{rand: rand.New(rand.NewPCG(3, 7))}
	o.state = state.Snapshot{Now: start, Started: start.Add(-51 * time.Hour), MaxClients: 10000, MaxLogins: 256}
	o.state.Upstreams = []state.Upstream{
		{Name: "main", Host: "10.0.0.5:5432", Budget: 40, BudgetSum: "as configured", Reserve: 3, Slots: 24, MaxWait: 200 * time.Millisecond},
		{Name: "reporting", Host: "/var/run/postgresql", Budget: 12, Reserve: 3, Slots: 8, MaxWait: 2 * time.Second, Running: 2, Active: 2, Idle: 1},
	}
	o.state.Workloads = []state.Workload{
		{Name: "checkout", Upstream: "main", Mode: "transaction", Policy: "guard", Guard: "enforce", Clients: 180, Part: 12, MaxWaiting: 96, MaxWait: 500 * time.Millisecond},
		{Name: "web", Upstream: "main", Mode: "transaction", Policy: "guard", Guard: "enforce", Clients: 820, Part: 9.6, MaxWaiting: 120, MaxWait: 200 * time.Millisecond},
		{Name: "default", Upstream: "main", Mode: "transaction", Policy: "guard", Guard: "dry_run", Clients: 36, Part: 2.4, MaxWaiting: 16, MaxWait: 200 * time.Millisecond},
		{Name: "default", Upstream: "reporting", Mode: "session", Policy: "fifo", Guard: "enforce", Clients: 14, Part: 8, MaxWaiting: 32, MaxWait: 2 * time.Second},
	}
	o.who = []state.RefusalCount{
		{Reason: "queue_age", Workload: "web", Database: "shop", Role: "app", Application: "web-crawler", Tenant: "acme"},
		{Reason: "queue_full", Workload: "web", Database: "shop", Role: "app", Application: "web-crawler"},
		{Reason: "queue_age", Workload: "web", Database: "shop", Role: "app", Application: "web-frontend"},
		{Reason: "queue_age", Workload: "default", Database: "shop", Role: "cron", Application: "nightly-sync"},
		{Reason: "no_server", Workload: "checkout", Database: "shop", Role: "checkout", Application: "checkout-api"},
		{Reason: "displaced", Workload: "web", Database: "shop", Role: "app", Application: "web-frontend", Tenant: "globex"},
		{Reason: "queue_wait", Workload: "web", Database: "shop", Role: "app", Application: "web-frontend"},
		{Reason: "queue_full"},
	}
	return o
}

func (o *overload) near(n float64) float64 { return n * (0.94 + 0.12*o.rand.Float64()) }

// second plays the k-th second and returns the state after it.
func (o *overload) second(k int) *state.Snapshot {
	s := &o.state
	s.Now = s.Now.Add(time.Second)
	busy, away := k >= 90, k >= 200 && k < 210
	main := &s.Upstreams[0]
	main.Running, main.Active, main.Idle, main.Dialling, main.Closing = 14+o.rand.IntN(4), 17, 17, 0, 0
	main.Waiting = 0
	if busy {
		main.Running, main.Active, main.Idle, main.Dialling, main.Closing, main.Cancelling = 24, 24, 8, 2, 2, 1
	}
	main.Down, main.LastError = away, ""
	if away {
		main.Running, main.Active, main.Idle, main.Dialling, main.Closing, main.Cancelling = 0, 0, 0, 1, 0, 0
		main.LastError = "57P03: the database system is starting up"
	}
	for i := range s.Workloads {
		before := s.Workloads[i]
		o.play(i, busy, away)
		o.classify(&s.Workloads[i], &before)
		if s.Workloads[i].Upstream == "main" {
			main.Waiting += s.Workloads[i].Waiting
		}
	}
	s.Clients = 1050
	s.LoggingIn = 2
	s.Traffic.Sent += uint64(o.near(9.4e6))
	s.Traffic.Received += uint64(o.near(1.1e6))
	if busy && k%3 == 0 {
		s.Turned = []state.Count{{Label: "max_client_conn", N: uint64(k * 12)}}
	}
	copied := *s
	copied.Upstreams = append([]state.Upstream(nil), s.Upstreams...)
	copied.Workloads = append([]state.Workload(nil), s.Workloads...)
	for i := range copied.Workloads {
		copied.Workloads[i].Classes = slices.Clone(s.Workloads[i].Classes)
	}
	copied.Refusals = append([]state.RefusalCount(nil), o.who...)
	return &copied
}

// play is one second of a workload.
func (o *overload) play(i int, busy, away bool) {
	w := &o.state.Workloads[i]
	served := []float64{640, 1150, 70, 4}[i]
	wait := 80 * time.Microsecond
	w.Waiting, w.Oldest, w.Running, w.Borrowed, w.Lent = 0, 0, []int{7, 6, 1, 2}[i], 0, 0
	if w.Upstream != "main" {
		w.Granted += uint64(served)
		addWaits(&w.GrantWaits, wait, int(served))
		return
	}
	if away {
		w.Running, w.Waiting, w.Oldest = 0, w.MaxWaiting, 900*time.Millisecond
		o.refuse(i, admission.NoServer, o.near(served*0.8))
		return
	}
	if !busy {
		n := int(o.near(served))
		w.Granted += uint64(n)
		addWaits(&w.GrantWaits, wait, n*9/10)
		addWaits(&w.GrantWaits, 3*time.Millisecond, n/10)
		return
	}
	n := int(o.near([]float64{900, 1120, 90}[i]))
	w.Granted += uint64(n)
	w.Running = []int{10, 12, 2}[i]
	w.Waiting = []int{6, 118, 9}[i] - o.rand.IntN(4)
	w.Oldest = []time.Duration{22, 188, 143}[i] * time.Millisecond
	switch i {
	case 0:
		w.Lent = 2
		addWaits(&w.GrantWaits, 4*time.Millisecond, n)
	case 1:
		w.Borrowed = 2.4
		addWaits(&w.GrantWaits, 90*time.Millisecond, n*3/4)
		addWaits(&w.GrantWaits, 180*time.Millisecond, n/4)
		o.refuse(i, admission.QueueAge, o.near(960))
		o.refuse(i, admission.QueueFull, o.near(420))
		o.refuse(i, admission.Displaced, o.near(210))
		o.refuse(i, admission.QueueWait, o.near(90))
	case 2:
		addWaits(&w.GrantWaits, 120*time.Millisecond, n)
		o.refuse(i, admission.QueueAge, o.near(64))
	}
}

// classify spreads what a workload did in a second over its classes: of web the more important
// third is served in full, of all others everything is critical.
func (o *overload) classify(w, before *state.Workload) {
	if w.Classes == nil {
		w.Classes = []state.Class{{Class: admission.Critical, MaxWait: w.MaxWait}}
		if w.Name == "web" {
			w.Classes = append(w.Classes, state.Class{Class: admission.SheddablePlus, MaxWait: w.MaxWait / 2})
		}
	}
	served := w.Granted - before.Granted
	useful := served - served/50
	w.Traffic.Goodput += useful
	if w.Waiting > 100 {
		w.Traffic.Wasted += 40
		w.Traffic.WastedTime += 1300 * time.Millisecond
	}
	last := &w.Classes[len(w.Classes)-1]
	if first := &w.Classes[0]; first != last {
		first.Granted += served / 3
		first.Goodput += served / 3
		first.Waiting, first.Oldest = w.Waiting/20, w.Oldest/9
		served, useful = served-served/3, useful-served/3
	}
	last.Granted += served
	last.Goodput += useful
	last.Waiting, last.Oldest, last.Standing = w.Waiting-(w.Waiting/20)*(len(w.Classes)-1), w.Oldest, w.Waiting > 100
	for r := range w.Refused {
		last.Refused[r] += w.Refused[r] - before.Refused[r]
	}
	if w.Guard == "dry_run" {
		last.Would[admission.Displaced] += uint64(w.Waiting)
	}
	w.FalseRefusals += (allReasons(&w.Refused) - allReasons(&before.Refused)) / 300
}

// tenants are those of web: one sends most of what is refused.
func (o *overload) tenants() []state.Tenant {
	w := &o.state.Workloads[1]
	low := &w.Classes[len(w.Classes)-1]
	list := make([]state.Tenant, 0, 4)
	for i, name := range []string{"acme", "globex", "initech", "umbrella"} {
		t := state.Tenant{Upstream: "main", Workload: "web", Class: low.Class, Role: "app", Tenant: name}
		t.Waiting, t.Running = low.Waiting>>(i+1), w.Running>>(i+1)
		t.Granted, t.Served = low.Granted/4, time.Duration(low.Granted/4)*5*time.Millisecond
		t.Refused = allReasons(&low.Refused) >> (2*i + 1)
		list = append(list, t)
	}
	return list
}

// refuse counts refusals of a workload, and of whom.
func (o *overload) refuse(i int, r admission.Reason, n float64) {
	w := &o.state.Workloads[i]
	w.Refused[r] += uint64(n)
	addWaits(&w.RefusalWaits, w.MaxWait, int(n))
	left := uint64(n)
	for j := range o.who {
		who := &o.who[j]
		if who.Reason == r.String() && (who.Workload == w.Name || who.Workload == "") {
			part := left * 2 / 3
			if who.Application == "web-frontend" || who.Workload == "" {
				part = left
			}
			who.N += part
			who.Last = o.state.Now
			left -= part
		}
	}
}
