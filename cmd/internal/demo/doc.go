// Package demo shows in less than a minute what pgweir is for. It starts a temporary
// PostgreSQL and sends it the same arrivals twice, at twice its capacity: first through a
// queue without bounds, as poolers have it by default, then through a guarded one. It shows
// both seconds by second and, at the end, side by side.
//
// Both queues are pgweir, with different lines in its file: what differs is the rule, not
// the program. It runs as a child process, as users run it: the demonstration sees only what
// any client and any DBA sees. What is shown is data in phase.go.
//
// The arrivals are an open loop: they come when they are due, whether or not those before
// them were answered. Each waits for its answer as long as its patience lasts, then closes
// its connection and opens another for the next, as applications do after a time-out.
//
// All processes end with the demonstration, however it ends: each is ended in its turn when
// Run returns, and the kernel ends them if this process is killed.
package demo
