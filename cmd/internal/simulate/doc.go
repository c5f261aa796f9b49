// Package simulate answers what a configuration would do under a load, in virtual time. The
// admission gate and the set of servers are those that serve; clients and database are
// models: arrivals at random times or even ones, patience, retries, pages of several
// statements, service times of several shapes, a database with a number of cores that
// freezes, slows down, restarts or refuses logins.
//
// A Scenario is all that a run depends on, but for the seed; the same seed gives the same
// run. Run plays one seed, Sweep several of them at once. There is one agenda of what happens
// next, nothing is allocated for a request, and a request takes about a microsecond.
//
// The package refuses to be a model of Postgres: it says what a policy does with a load, not
// how fast a database is.
package simulate
