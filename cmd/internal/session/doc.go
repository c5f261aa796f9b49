// Package session runs clients' transactions: it takes what the relay says of a
// client's and a server's bytes, asks the gate for a slot and the pool for a
// connection, and returns both when the server stands at a boundary.
//
// It is a state machine over an [Env] and [Conn]s: no sockets, goroutines,
// timers or locks. The event loop is one Env, the simulation another; both call
// it from one thread.
//
// Invariants: a client has at most one server and one ticket; a server has at
// most one client; a ticket ends exactly once, when its server stands at a
// boundary or is given up; a server that is in doubt is closed and counted
// until its socket has ended.
package session
