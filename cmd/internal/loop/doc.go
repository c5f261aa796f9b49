// Package loop is an event loop over stream sockets: Linux epoll, edge
// triggered, one registration per descriptor for the descriptor's whole life
// ([Loop.Adopt] has the one exception). It knows descriptors and buffers and
// nothing of Postgres.
//
// # Threads
//
// The goroutine that calls [Loop.Run] is the loop thread. Handlers, tasks, the
// timer and every method of [Conn] belong to it. Other goroutines have exactly
// [Loop.Adopt], [Loop.Post], [Loop.Stop], [Loop.Stats] and [Loop.Now].
//
// # A turn
//
// A turn is: wait; take the time once; note every event that the wait
// returned; run at most 256 posted tasks; give each connection on the run list
// one step; send what was held back of what they sent, which is all that is
// small, up to 32 connections' together and, where there is io_uring, with one
// system call; look at the connections whose stall or linger time is up; call
// the timer if it is due; call EndOfTurn; close what was to be closed. A step
// reads at most one buffer. A connection that has more to read takes its next
// step in the next turn, behind those that have only just become ready, so
// that a bulk transfer does not hold up its neighbours. The loop waits only
// when there is nothing left to do, and then until the time that the timer
// named: with nothing to do and nothing named it is not woken at all. At most
// every 5 ms a turn ends with a pass through Go's scheduler, so that the
// runtime's monitor does not take the loop for stuck.
//
// # Promises to a handler
//
// No callback runs while another one is active: [Conn.Send], [Conn.Resume],
// [Conn.Close] and the rest only note what is to happen. Bytes given to Data
// are valid until it returns. End is the last callback of a connection, comes at
// most once and after the last Data. A connection stays usable as a value until
// the end of the turn in which it was closed; later its methods do nothing.
//
// # Readiness
//
// Whether a descriptor may have something to read is a remembered bit. An edge
// or the adoption sets it; only EAGAIN or a short read clears it, and a short
// read only as long as the peer has not hung up: the end of a stream may arrive
// together with its last bytes, and no second edge would announce it.
//
// # Bulk mode
//
// A TCP peer that streams in pieces smaller than the buffer, 256 KiB in a row
// without a pause of about a millisecond and with nothing sent to it meanwhile,
// is read in large pieces: SO_RCVLOWAT has the kernel keep quiet below 128 KiB,
// and the loop itself looks every 0.3 ms, so that the tail of the stream is late
// by no more. The mode ends when such a look finds less than 16 KiB, and when
// something is sent to the peer: an answer to come may be small. Exchanges of
// small messages never enter it, nor do Unix sockets and TLS connections; a
// paused connection and one outside the mode cause no looks. With smaller
// buffers the thresholds are smaller. It needs epoll_pwait2.
//
// # Memory
//
// An idle connection is one small struct. Bytes are read into one buffer that
// all connections share; a connection gets a buffer of its own only for bytes
// that its handler left or that the kernel did not take, and gives it back when
// they are gone.
package loop
