package demo

import (
	"context"
	"fmt"
	"time"
)

// The shape of the demonstration. It is small so that a laptop is never the bottleneck.
const (
	slots    = 5                     // transactions at once
	budget   = slots + 1             // server connections; one is reserved for control
	waiting  = 20                    // clients that may wait for a slot
	maxWait  = time.Second           // longest wait for a slot
	clients  = 100                   // sessions, the same ones in all phases
	nap      = 50 * time.Millisecond // how long a statement of the overload binds a server
	capacity = slots * int(time.Second/nap)
)

// phase is one scene: arrivals at a rate, each doing the same work.
type phase struct {
	name  string
	about string // one line, before it starts
	share int    // of the whole load's time
	rate  int    // arrivals per second over all clients
	work  func(context.Context, *client) error
	shows func(*result) string // what a reader should take from it, in one sentence
}

// phases is the demonstration.
func phases() []phase {
	const ordinary = 2 * capacity // as many as in the overload, but short ones
	return []phase{
		{
			name:  "Good day",
			about: fmt.Sprintf("%d transactions per second from %d clients, over %d servers", ordinary, clients, slots),
			share: 1, rate: ordinary, work: transfer, shows: showsSharing,
		},
		{
			name: "Overload",
			about: fmt.Sprintf("%d statements per second of %s each, on %d slots: twice the %d that fit",
				2*capacity, millis(nap), slots, capacity),
			share: 2, rate: 2 * capacity, work: sleep, shows: showsGuarding,
		},
	}
}

// showsSharing is the sentence for a load that fits.
func showsSharing(r *result) string {
	text := fmt.Sprintf("%d clients shared %s, and half of their transactions took less than %s",
		clients, plural(r.servers, "server connection"), millis(r.served.at(50)))
	if n := len(r.refused); n > 0 {
		return text + fmt.Sprintf("; %d of %d were refused, in moments when too many waited.", n, r.asked)
	}
	return text + "; nobody was refused."
}

// showsGuarding is the sentence for a load that does not fit.
func showsGuarding(r *result) string {
	if len(r.refused) == 0 {
		return "Nobody was refused: this machine was too busy to produce an overload."
	}
	return fmt.Sprintf("Postgres did the %.0f/s that fit, and 99 %% of those it served had their answer within %s; "+
		"the rest were told at once (half of them within %s) to come back later, over a connection that they kept.",
		r.servedRate(), millis(r.served.at(99)), millis(r.refused.at(50)))
}
