package demo

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
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

// arrival is when somebody wants something, since the run began.
type arrival struct {
	due   time.Duration
	phase int // index in the schedule
}

// arrivals come at random times of a fixed mean, as they do from many users. They are the
// same in every run.
func arrivals(list []stretch) iter.Seq[arrival] {
	return func(yield func(arrival) bool) {
		random := rand.New(rand.NewPCG(1, 1))
		var begin time.Duration
		for i, s := range list {
			due := begin
			end := begin + s.length
			for {
				due += time.Duration(random.ExpFloat64() / rate(s.load) * float64(time.Second))
				if due >= end {
					break
				}
				if !yield(arrival{due, i}) {
					return
				}
			}
			begin = end
		}
	}
}

// policy is what decides who waits and for how long.
type policy struct {
	name  string
	about string
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
			lines: `max_wait      = "1h"      # for ever
max_waiting   = 1000000   # everybody
on_disconnect = "finish"  # also the work of clients that have left
`,
		},
		{
			name:  "guarded",
			about: "who can't be served in time is told so, and keeps the session",
			lines: fmt.Sprintf(`max_wait      = %q   # longest wait for a slot
on_disconnect = "cancel"  # reads of clients that have left
`, maxWait),
		},
	}
}

// maxWait is the guarded policy's longest wait. With the nap it is well below the patience.
const maxWait = 200 * time.Millisecond
