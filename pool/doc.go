// Package pool keeps the servers of one upstream: which exist, for which key,
// in which state, and when to open or close one. It is a pure core: it does no
// I/O, and what has to be done (dial, close) comes out as Actions that the
// caller carries out and reports back on.
//
// A Set is one budget over all keys. A place in it is taken when a dial starts
// and is free again only at the end of that socket (Gone): what we stopped
// waiting for still is a backend of the database. So
//
//	idle + busy + dialling + closing <= budget
//
// holds at any time, except that a budget that shrank is reached by servers
// ending. Servers with a cancel on its way (held) are busy until it is over.
//
// Set implements admission.Supply. Servers are opened because waiters exist:
// for a key never more than wait for it without an idle server, in all never
// more than could be used at once. Where the budget is used up, idle servers
// of keys that nobody waits for make room for keys that somebody waits for.
//
// A part of the budget can be reserved: only keys that Options.ReservedKey names
// fill it. A key can have a minimum of servers that stay open; they are opened
// when nobody waits, and make room for those who do like any unused server.
//
// One mutex of the caller guards a Set together with its admission.Gate. After
// calls on either, once all of them agree again, the caller takes Actions: only
// then does the set choose what to open, so that the states in between cause
// no dials.
package pool
