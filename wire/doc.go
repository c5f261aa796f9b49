// Package wire is the Postgres frontend/backend protocol as bytes: message
// types, builders for the messages that pgweir writes itself, the start-up
// exchange, errors with their SQLSTATEs, and cancel keys.
//
// It does no I/O beyond reading an exact number of bytes from a reader, keeps
// no state, and refuses to know pools, sessions or policies.
package wire
