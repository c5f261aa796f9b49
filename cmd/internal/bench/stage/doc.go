// Package stage sets up what an experiment needs: a temporary PostgreSQL, and in front of it
// one pooler at a time as a child process, pgweir with any policy, PgBouncer or Odyssey, all
// with the same number of server connections. Everything listens on loopback, and everything
// ends with this process.
//
// A [Stage] is the database, a [Target] what may be put in front of it, a [Plan] how it is
// set up there, and a [Front] the target that runs.
package stage
