package loop

// Stats counts what a loop has done since New. Reads and Writes also count those
// that found nothing or no room.
type Stats struct {
	Turns       uint64 // turns of the loop
	Yields      uint64 // turns that ended with a pass through Go's scheduler
	Waits       uint64 // calls of epoll_wait
	Sleeps      uint64 // waits that were allowed to block
	Events      uint64 // events returned, also stale ones
	Reads       uint64 // recvfrom
	ReadEAGAIN  uint64 // of these, found nothing
	Writes      uint64 // sends: sendto, sendmsg, and each one of a batch
	Batches     uint64 // io_uring_enter: several sends with one system call
	WriteEAGAIN uint64 // of these, found no room at all
	EpollCtl    uint64 // epoll_ctl: one per adopted connection, see the note on Unix sockets at Adopt
	SockOpts    uint64 // setsockopt: two per time in bulk mode
	Bulks       uint64 // times that a connection entered bulk mode
	BulkPolls   uint64 // reads that the clock asked for in it
	Adopted     uint64 // connections registered
	Closed      uint64 // connections closed
	BytesIn     uint64 // read from descriptors, with TLS the ciphertext
	BytesOut    uint64 // taken by the kernel, with TLS the ciphertext
	Tasks       uint64 // posted tasks run
	PosterWakes uint64 // posts and adoptions that had to wake the loop
}

// publishEvery is the number of turns after which a loop that never sleeps
// publishes its counters.
const publishEvery = 64

// Stats returns the counters. It may be called from any goroutine. The loop
// counts in plain variables and publishes a copy, under a mutex, before it
// sleeps, every 64 turns when it does not, and when Run returns: what Stats
// returns is exact while the loop is idle and else at most 64 turns old.
func (l *Loop) Stats() Stats {
	l.statsMu.Lock()
	s := l.published
	l.statsMu.Unlock()
	s.PosterWakes = l.wakes.Load()
	return s
}

// publish copies the counters to where Stats finds them.
func (l *Loop) publish() {
	l.statsMu.Lock()
	l.published = l.count
	l.statsMu.Unlock()
	l.unpublished = 0
}
