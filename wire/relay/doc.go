// Package relay is the message accounting of one client session over leased
// server connections: bytes in, bytes and events out. It has no sockets, no
// goroutines and no clock, so that the simulation, the tests and the event loop
// run the same code.
//
// A [Client] is bound to a [Server] from its first statement that needs one
// until the server has answered everything with ReadyForQuery 'I'. What keeps
// this right is the server's answer queue: one entry for every message that
// will be answered, in order, with its fate. An answer that does not fit the
// entry at the head means that client and server disagree about the
// conversation; then the server is broken and never used again.
//
// While no server is bound the relay owns the transaction state: BEGIN is
// answered without a server and its text goes ahead of the first real
// statement. From then on the server owns it, and nothing is invented.
//
// Named prepared statements are shared: a client's name stands for an interned
// text with parameter types, which each server knows under a name of its own.
package relay
