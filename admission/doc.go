// Package admission decides who may run a transaction now, who waits and who
// is told no. It is a pure core: callers pass the time, hold the lock, start
// the timers and deliver the verdicts.
//
// A Gate guards one upstream. It hands out slots (permission for one
// transaction to run) and never without a server: a grant reserves an idle
// server of the waiter's key from the Supply, in the same step, under the same
// lock. While there is none the waiter stays in the queue and the supply is
// told how many wait, so that it opens servers for them; a waiter that leaves
// strands no dial, and a server that comes back goes to whoever is next. In
// session mode a login gets a server to keep, and each of its transactions a
// slot without one.
//
// # Workloads
//
// Waiters belong to workloads, which have parts of the slots, and of the servers
// that sessions keep. A workload may use its part, and beyond it, up to its own
// limit, what others have idle and lend. A free slot goes to the workload that
// uses least of its share, in any case to one below its part before one above;
// equal ones by the age of their first waiters. So nothing is idle that somebody
// may use, and a part that is lent out comes back with the next tickets that
// end.
//
// # Order
//
// The waiters of a workload stand in one line over all keys, oldest first. A
// free server goes to the oldest waiter of its own key (moving a server between
// keys costs a login). Once the head of a line has been passed over for 50 ms,
// an idle server of another key is given up for it, at most twice a second, or
// every 50 ms where the workload is below its part while others borrow. Probes,
// the SELECT 1 of drivers' pools, stand in that line too and also in a lane of
// their own, over all workloads, that is served first, by one ticket at a time.
// The reserved have another one, to slots of their own.
//
// # Clocks
//
// A waiter is refused when it has waited for its workload's limit. That clock
// stands still while its key is paused, and while servers are being opened that
// a free slot could use: after a start, a restart of the database or a pause
// nobody is refused for what he is not to blame for. While the database is away
// it stands still as well, and another limit holds, NoServerWait.
//
// # Cost
//
// Tables grow with the workloads, with the keys, and with the combinations of
// them that wait now; not with all that could. A grant touches only those.
//
// # Invariants
//
//   - Running tickets never exceed the slots, except after the slots shrank
//     and until tickets end; the same for each workload and its limit.
//   - While a slot is free, no waiter whose workload may have it has a key that
//     is known to have an idle server.
//   - Every Admit ends in exactly one final verdict or in a Withdraw that
//     returned true.
//   - A waiter is granted only while younger than its limit, and is refused
//     when it reaches it, not when its turn would have come.
//   - The queue is bounded, but for paused keys, whose bound is the number of
//     sessions; nothing on the way from Admit to Done allocates.
//
// The package refuses to know clients, servers, statements and clocks.
package admission
