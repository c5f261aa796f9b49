// Package quota limits what one caller may ask for, and answers those who do not listen.
//
// A Limiter holds buckets: one for each rule and key, of statements or of server-time. A
// bucket of statements is emptied before a statement runs, one of server-time after it has
// run, by what it took; so it can be in debt, by no more than it holds when it is full. Who
// is refused learns how long exactly it takes until the same request would pass.
//
// An Escalation remembers who comes back before that, again and again. Their refusals are
// held back for a while, which costs nobody anything: a connection to Postgres is a
// conversation, and nothing more comes from it meanwhile. Where that is allowed, and does not
// help, they are blocked for a while.
//
// Everything takes the time as an argument, in nanoseconds of a clock that does not run
// backwards; nothing here has locks, timers or goroutines. Memory is bounded: by the number
// of keys and of those who are remembered.
package quota
