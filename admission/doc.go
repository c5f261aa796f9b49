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
// Inside a workload under Guard the order is: class, role, tenant, age.
//
//   - The highest class first. But while lower ones wait, each gets one grant in
//     twenty, so that none starves.
//   - Roles, and the tenants of each, are served fairly in time of slots
//     (start-time fair queuing): who is served is charged with the time that he
//     is expected to need, and with the difference when he has ended; who has
//     paid least is next. Who comes back starts where those are who are served
//     now: he has saved nothing. Two who always wait are never further apart than
//     what one of them is expected to need, and what those who run need beside it.
//   - Of one tenant's, the oldest first. While the queue stands (see below), work
//     that continues what was begun first, and of the rest the newest. What was
//     begun before the queue stood goes by when it began, for two seconds, so that
//     the pages that were let in come to their ends one after the other.
//
// The other policies, there to be compared with it, put everybody into one line
// by age, the oldest or the newest first.
//
// A free server goes to the first waiter of its own key, for to move a server
// between keys costs a login. Once a waiter that would have been first has been
// passed over for 50 ms, or nobody of his key was served for 200 ms, an idle
// server of another key is given up for it, a few times a second. Probes, the
// SELECT 1 of drivers' pools, stand in that order too and also in a lane of
// their own, over all workloads, that is served first, by one ticket at a time.
// The reserved have another one, to slots of their own.
//
// # Bursts and standing queues
//
// A queue whose oldest waiter has been old (older than twice the gap between two slots that
// come free) for an interval is no burst any more. Pools that are larger than the slots always
// have such a queue, and are well served in the order of arrival. It counts as standing if it
// also grows for several steps running, if clients give up, or after a stall that lasted
// longer than they may wait. Pages of many statements make it grow by little: by one for each
// page, so that it counts how many of those stay who begin something; but not for three
// seconds after a standstill, when everybody comes back at once. Nor does any growth count in
// the first three seconds of a gate that takes over from another one: there only those who
// give up do. Then the newest of each tenant go first, for whoever is served after a long wait
// is served in vain; and who comes takes the place of the oldest of the tenant that has most
// in the queue, of the role that has most, until no more wait than are served in 20 ms (100 in
// the first second): so they hear soon. Classes below Critical have a short longest wait as
// well. It ends when the oldest waiter is young again.
//
// Never displaced are continuing work, probes, the reserved, patient workloads
// and CriticalPlus. A class that the queue's bound keeps out takes the place of a
// lower one.
//
// # Refusals
//
// Who cannot be served at once is told at the door if the queue is full, or if
// the work that would be served before him takes longer than he may wait or than
// his deadline allows; in the queue when he has waited for as long as he may,
// when it becomes too late for his deadline, when he is displaced, when no server
// of his key can be opened, and when the gate drains. A free slot is refused to
// nobody whose deadline is not over. Every refusal says when to come back.
//
// Mode says whether Guard refuses by its own rules. Without Enforce only the
// bounds that the plan names refuse; DryRun counts what would have been refused,
// and judges those who come as if it had been.
//
// # Clocks
//
// A waiter is refused when it has waited for its workload's limit. That clock
// stands still while its key is paused, and while servers are being opened that
// a free slot could use: after a start, a restart of the database or a pause
// nobody is refused for what he is not to blame for. Probes wait for 2 s at least. While the database is away
// it stands still as well, and another limit holds, NoServerWait. Deadlines do
// not stand still.
//
// Nobody waits for longer than both limits together, whatever the mode and the policy: where
// servers die as soon as they are open the clock would stand still for ever. Time under a pause
// does not count, which an operator ends, or else clients leave; nor does a wait for a slot alone
// need that bound, as its clock does not stand still. Whoever was granted a server that ended before
// it served, and comes Again, goes on with the same wait. The refusal that the bound makes is
// NoServer if the clock stood still for at least half of the wait: it is servers that were lacking,
// and what is wrong with them is in the log. If the wait was for a slot for most of the time it is
// QueueAge, as it would have been soon. QueueAge for both would send the engineer who is woken to
// the slots, of which some were idle.
//
// # Cost
//
// Tables grow with the workloads, with the keys, with the combinations of them
// that wait now, and with the roles and tenants that wait, run or have lately
// paid more than others, up to a bound; not with all that could. A grant touches
// only those: it costs the logarithm of how many there are. Removing a waiter
// and refusing one cost no more.
//
// # Invariants
//
//   - Running tickets never exceed the slots, except after the slots shrank
//     and until tickets end; the same for each workload and its limit.
//   - While a slot is free, no waiter whose workload may have it has a key that
//     is known to have an idle server, unless hundreds are to be refused first.
//   - Every Admit ends in exactly one final verdict or in a Withdraw that
//     returned true.
//   - A waiter is granted only while younger than its limit and in time for its
//     deadline, and is refused when it reaches them, not when its turn would have
//     come; and in any case when it has waited for its limit and NoServerWait, pauses aside.
//   - Of the grants that it could have had, a class that waits gets at least one
//     of every 24.
//   - The queue is bounded, but for paused keys, whose bound is the number of
//     sessions; nothing on the way from Admit to Done allocates.
//
// The package refuses to know clients, servers, statements and clocks.
package admission
