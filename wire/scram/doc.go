// Package scram is SCRAM-SHA-256 (RFC 5802, RFC 7677) as Postgres speaks it, in
// both roles: verifiers as Postgres stores them, the conversation of a server
// with a client, and that of a client with a server.
//
// It exists because a pooler needs what libraries do not give: the ClientKey of
// a client that has authenticated, with which the pooler logs in to the server
// as that user without knowing the password; a log-in by keys; conversations
// for users that do not exist; and passwords that SASLprep cannot prepare, which
// Postgres takes as they are.
//
// Every message of a peer is bounded and parsed strictly. Whatever is compared
// with a secret is compared in constant time. A conversation is used by one
// goroutine. Deriving keys from a password ([Derive]) takes about a millisecond
// of CPU at the usual 4096 iterations; nothing else here does, so callers bound
// the CPU by bounding that call.
package scram
