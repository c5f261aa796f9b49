// Package drivers has real drivers of several languages, and their pools, do work and tell
// what they were told: what a refusal looks like to an application.
//
// [Names] lists them. psql, pgx and lib/pq are run from Go; the others are small programs in
// the folders beside this file, which Start runs. Such a program reads jobs from its standard
// input, one a line: fields "key=value" with tabs between them, those of [Job]. It prints
// events, one JSON object a line, whose fields are those of [Event].
//
// A job has so many workers, and a pool of as many connections with the given
// application_name. When all of them are open the program says "ready" and reads a line "go". Each worker takes a connection from the pool for every attempt, and puts
// it back whatever came of it, so that the pool may decide to throw it away. After a refusal
// it waits for as long as the hint says, at most a tenth of a second. When the time is over
// all of them wait for each other, "calm" is said once, and each tries until it is served.
//
// The modes: in "plain" an attempt is the statement by itself; in "tx" it is the driver's own
// transaction around it, in which one more statement follows a refusal; in "several" three
// statements at once, in the driver's own way; in "mixed" workers take these modes in turn. In
// "transfer" they move money between accounts without a look at errors.
package drivers
