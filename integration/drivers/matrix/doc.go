// Package matrix has every driver do the same things to PostgreSQL directly and through a
// pgweir in transaction mode with fewer servers than clients, and compares what it has seen.
//
// What is done is written once, in Go: the themes. A driver is an agent that carries out
// small commands with its own means, such as "begin", "prepare" or "copyin". Those of other
// languages are programs in the folders beside this file. Such a program reads commands from
// its standard input, one a line: the number of a connection, a verb and arguments, with
// tabs between them. Tab, line feed, carriage return and backslash are written \t, \n, \r
// and \\; NULL is \N. It answers with lines that begin with the same number:
//
//	row CELL...                           a row
//	end TAG                               a result is complete
//	notice TEXT                           a notice that the driver has passed on
//	error SQLSTATE MESSAGE DETAIL HINT    the SQLSTATE is empty if the driver tells none
//	no                                    the driver has no means for this verb
//	done                                  the end of the answer
//
// Commands for several connections are carried out at the same time, one after the other for
// each of them. A program of a language without threads is started once for each connection.
//
// The verbs:
//
//	pool KEY=VALUE...   a new pool for what follows: host, port, user, password, database, size;
//	                    cache=none: nothing is prepared that was not asked for
//	connect KEY=VALUE.. a connection that is not of the pool; tz and enc are set by the driver's own means
//	open, close         takes a connection of the pool, puts it back
//	query SQL ARG...    the usual way to run a statement, with parameters $1 ... in order
//	exec SQL            the way for a text of several statements
//	prepare NAME SQL    the driver's own way to keep a statement prepared on the connection
//	run NAME ARG...     runs it
//	begin [serializable], commit, rollback, savepoint NAME, rollbackto NAME, release NAME
//	copyin SQL TEXT, copyout SQL
//	lowrite TEXT, loread OID    a new large object, and all that is in one
//	pipeline SQL...     several statements before the first answer is read
//	long SQL, cancel N  a statement that is to be cancelled, and how; N is the connection that runs it
//	notices SQL         exec, with the notices it brought
//	types               values of many types, and what came back
//	ping                what the driver or its pool does to see whether the connection lives
package matrix
