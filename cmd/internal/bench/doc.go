// Package bench sends a load to any Postgres endpoint and measures what comes of it.
//
// The load is open: requests are sent when they are due, whatever became of those before,
// as the users of an application do. A generator that waits for answers would slow down
// together with what it measures, and hide the overload. How late the generator itself was
// is part of the result. Streams of a fixed number of clients that wait for their answers
// are there too, for what is about clients rather than users.
//
// [Run] makes a [Result]: a record of every attempt, from which sums over any time, class,
// tenant or stream are taken afterwards, with exact percentiles. Package report shows
// results; package stage puts endpoints up.
package bench
