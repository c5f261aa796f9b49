// Package admission decides who may run a transaction now, who waits and who
// is told no. It is a pure core: callers pass the time, hold the lock, start
// the timers and deliver the verdicts.
//
// A Gate guards one upstream. It hands out slots (permission for one
// transaction to run) and never without a server: a grant reserves an idle
// server of the waiter's key from the Supply, in the same step, under the same
// lock. While there is none the waiter stays in the queue and the supply is
// told how many wait, so that it opens servers for them; a waiter that leaves
// strands no dial, and a server that comes back goes to whoever is next.
//
// # Order
//
// Waiters stand in one line over all keys, oldest first. A free server goes to
// the oldest waiter of its own key (moving a server between keys costs a
// login). Once the head of the line has been passed over for 50 ms, an idle
// server of another key is given up for it, at most twice a second. Probes,
// the SELECT 1 of drivers' pools, stand in that line too and also in a lane of
// their own that is served first, by one ticket at a time.
//
// # Invariants
//
//   - Running tickets never exceed the slots, except after the slots shrank
//     and until tickets end.
//   - While a slot is free, no waiter's key is known to have an idle server.
//   - Every Admit ends in exactly one final verdict or in a Withdraw that
//     returned true.
//   - A waiter is granted only while younger than the maximum wait, and is
//     refused when it reaches it, not when its turn would have come.
//   - The queue is bounded; nothing on the way from Admit to Done allocates.
//
// The package refuses to know clients, servers, statements and clocks.
package admission
