// Package login is everything that happens on a connection before it belongs to
// the event loop: a client's start-up and authentication ([Accept],
// [Authenticate]), the log-in to a server ([Dial]), and a CancelRequest on its
// way to a server ([Cancel]).
//
// It blocks, on goroutines of the caller. The client's side is bounded by the
// deadline that the caller has set on the connection, the server's side by a
// context. Nothing is read ahead: when a log-in is done, what the peer sends next
// is still in the socket. Every message of a peer is bounded in size and number,
// because none of them is trusted yet.
//
// Errors that a client or server should be told or has told are *wire.Error;
// sending them is left to the caller, who knows what else there is to say.
package login
