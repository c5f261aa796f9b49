// Package roster keeps what Postgres says of roles: their secrets, whether and until when
// they may log in, and of what groups they are members.
//
// It asks for one role at a time, once for all who want to know, and remembers the answers
// within bounds. An answer counts without another word for a few seconds only, whatever it
// was, so that how long it takes gives away nothing; when Postgres cannot be asked the one
// from before is taken, until it is too old.
package roster
