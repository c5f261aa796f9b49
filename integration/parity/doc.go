// Package parity holds conversations in frontend messages that are played twice: with
// PostgreSQL itself, and with pgweir before it in each of its pool modes. What comes back must be the same, message
// by message and byte by byte, however the bytes of the client were cut.
//
// The conversations stand in testdata, by theme; testdata/README.md explains their
// language. Where pgweir differs on purpose, the difference and its reason stand beside the
// conversation, and it must differ in exactly that way.
//
// The package has no code outside its tests.
package parity
