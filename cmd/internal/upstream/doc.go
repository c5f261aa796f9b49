// Package upstream is how pgweir reaches one Postgres cluster: which of its hosts
// to dial, in what order and for how long, whether the one that answers has the
// role that is asked for (target_session_attrs), with which password, and with
// which options on the socket.
//
// A [Cluster] remembers which hosts failed and which have the wrong role, so that
// a dial does not find out again what another has just learned. It blocks, on
// goroutines of the caller; nothing of it runs between calls.
package upstream
