// Package integration holds the tests that see pgweir from outside: black-box tests by
// theme, over real sockets and against a real PostgreSQL, and the tests of the
// architecture, which read the source instead of running it.
//
// With PGWEIR_TEST_DIRECT=1 the black-box tests talk to PostgreSQL itself. What they then
// assert is what clients are used to; a failure there is a mistake in the test.
package integration
