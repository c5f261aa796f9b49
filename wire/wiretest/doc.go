// Package wiretest holds the peers that tests play against: a fake Postgres
// backend, a generator of client conversations, and the tools to read what
// they said.
//
// Backend models what PostgreSQL 15 does with the frontend protocol after the
// login, byte in, byte out: the states of a transaction block, implicit
// transactions and pipelines, skipping until Sync, portals, COPY, ParameterStatus,
// the output buffer and what is lost with it. It understands a small language in
// the place of SQL (see Backend). It is pure: no goroutine, no clock, no global
// state, so that a simulation can own a thousand of them and every run repeats.
//
// The same machine is used twice. As a server of a pool it decides what depends
// on time (cancelled here, died there) and writes that into Outcomes. As an
// oracle it is fed the bytes of one client, looks the decisions up and must say
// exactly what that client was told.
//
// Script makes conversations, Player plays them, Tracker knows what is still
// unanswered. The fake was compared with a real server: where the two differ,
// the fake is wrong.
package wiretest
