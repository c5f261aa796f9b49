package demo

import (
	"fmt"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// The shape of the demonstration. It is small so that a laptop is never the bottleneck: a
// statement sleeps, which binds a server for the same time on any machine and costs no CPU.
const (
	slots    = 5                     // transactions at once
	budget   = slots + 1             // server connections; one is reserved for control
	nap      = 50 * time.Millisecond // how long a statement binds a server
	capacity = slots * int(time.Second/nap)
	patience = time.Second // how long a client waits for an answer
	sessions = 300         // of clients: enough for all whose patience lasts, at twice capacity
)

// The least and the most that a load may be, as a multiple of capacity. More than the most
// would be more sessions, and a demonstration of the machine's CPU.
const (
	minLoad = 0.1
	maxLoad = 2.5
)

// phase is one stretch of a run.
type phase struct {
	name  string
	share int     // of the run's time
	load  float64 // of capacity
}

// phases are what each of the two runs is made of.
func phases() []phase {
	return []phase{
		{name: "good day", share: 3, load: 0.6},
		{name: "overload", share: 8, load: 2},
		{name: "after", share: 4, load: 0.6},
	}
}

// What the phases are for the report.
const (
	goodDay = iota
	overload
	after
)

// rate is the arrivals per second of a load.
func rate(load float64) float64 { return load * float64(capacity) }

// stretch is a phase with its time.
type stretch struct {
	phase
	length time.Duration
}

// schedule divides a run's time among the phases.
func schedule(total time.Duration) []stretch {
	shares := 0
	for _, p := range phases() {
		shares += p.share
	}
	var list []stretch
	for _, p := range phases() {
		list = append(list, stretch{p, total * time.Duration(p.share) / time.Duration(shares)})
	}
	return list
}

// multipleName is what a load is called that is no phase.
func multipleName(load float64) string { return fmt.Sprintf("%gx", load) }

// policy is what decides who waits and for how long.
type policy struct {
	name  string
	about string
	queue admission.Policy
	lines string // of the configuration, in its [[workload]]
}

// The two, in the order in which they play.
const (
	unbounded = iota
	guarded
)

func policies() []policy {
	return []policy{
		{
			name:  "unbounded FIFO",
			about: "everybody waits for as long as it takes; nobody is refused",
			queue: admission.FIFO,
			lines: `max_wait      = "1h"      # for ever
max_waiting   = 1000000   # everybody
on_disconnect = "finish"  # also the work of clients that have left
`,
		},
		{
			name:  "guarded",
			about: "who can't be served in time is told so, and keeps the session",
			queue: admission.Guard,
			lines: fmt.Sprintf(`max_wait      = %q   # longest wait for a slot
on_disconnect = "cancel"  # reads of clients that have left
`, maxWait),
		},
	}
}

// maxWait is the guarded policy's longest wait. With the nap it is well below the patience.
const maxWait = 200 * time.Millisecond

// target is pgweir with the policy.
func (p policy) target() stage.Target { return stage.Target{Kind: stage.Pgweir, Policy: p.queue} }

// plan is the rest of its configuration.
func (p policy) plan() stage.Plan {
	return stage.Plan{
		About: "Written by pgweir demo. " + p.name + ": " + p.about + ".",
		Slots: slots, Workloads: []stage.Workload{{Name: "default", Lines: p.lines}},
		Tables: "[console]\nadmin_users = [\"" + stage.Role + "\"]  # psql -d pgweir",
	}
}
