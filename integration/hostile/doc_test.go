// Package hostile tries to bring a running pgweir down, from both sides: clients that keep
// to no rule, and servers that lie. It is black-box: real sockets, the real binary.
//
// After each case the books are compared with those before it: goroutines, descriptors,
// slots and connections must be what they were. Meanwhile a well-behaved client works
// beside it and must not notice. pgtest looks for crashes and data races in the log.
package hostile
