package admission

// The kinds of permits. The last two are lanes: of one line each, in which some
// of those who wait for a slot stand a second time.
const (
	slots    = iota // one for each transaction
	sessions        // one for each server that a session keeps
	probes          // the first slot, for the probes
	extras          // Plan.Extra
	sides
)

// side is the permits of one kind and the lines of those who wait for them.
type side struct {
	limit int
	used  int
	leave int // permits that must stay free
	sums

	open heap[*line] // may have one more, and has flows that may have a server
	dry  heap[*line] // may have one more, has none, and was not passed over yet
	late heap[*line] // its first waiter was passed over; by when

	now     int64                // the latest time
	isFree  lasting              // a permit is free,
	isSpare lasting              // and one that nobody keeps back
	warm    [classes]heap[*line] // have flows that wait for a server that is being opened; by when the first is too old
}

func newSide() *side {
	s := &side{
		open: heap[*line]{less: (*line).before, place: func(l *line) *int32 { return &l.inOpen }},
		dry:  heap[*line]{less: (*line).before, place: func(l *line) *int32 { return &l.inDry }},
		late: heap[*line]{
			less:  func(a, b *line) bool { return a.late.items[0].passed < b.late.items[0].passed },
			place: func(l *line) *int32 { return &l.inLate },
		},
	}
	for c := range s.warm {
		s.warm[c] = heap[*line]{
			less:  func(a, b *line) bool { return a.due < b.due },
			place: func(l *line) *int32 { return &l.inWarm },
		}
	}
	return s
}

// free is how many permits are left.
func (s *side) free() int { return max(s.limit-s.leave-s.used, 0) }

// may reports whether l may have one more permit: one of its own, or one that
// nobody keeps back.
func (s *side) may(l *line) bool {
	free := s.free()
	return free > 0 && (l.used < l.own || l.used < l.most && free > s.kept)
}

// allows is how many more permits l may have.
func (s *side) allows(l *line) int {
	free, own := s.free(), max(l.own-l.used, 0)
	return min(free, max(own, min(l.most-l.used, free-s.kept)))
}

// usable is how many more permits those who wait could have.
func (s *side) usable() int {
	free := s.free()
	return min(free, s.useful+min(max(free-s.kept, 0), s.more))
}

// use counts n permits more for l.
func (s *side) use(l *line, n int) {
	s.used += n
	l.used += n
	s.settle(l)
}

// settle brings up to date what depends on l's numbers and waiters.
func (s *side) settle(l *line) {
	l.borrows = l.used >= l.own
	if l.used != l.rated {
		l.ratio, l.rated = float64(l.used)/max(l.share, 1e-9), l.used
	}

	own := min(l.n, max(l.own-l.used, 0))
	now := sums{
		kept: max(l.keep-l.used, 0), borrowed: max(l.used-l.own, 0),
		useful: own, more: min(l.n, max(l.most-l.used, 0)) - own,
	}
	s.kept += now.kept - l.adds.kept
	s.borrowed += now.borrowed - l.adds.borrowed
	s.useful += now.useful - l.adds.useful
	s.more += now.more - l.adds.more
	l.adds = now

	waits := l.n > 0
	runs := waits && l.used < l.most
	ready := l.ready > 0
	late := len(l.late.items) > 0
	s.open.put(l, runs && ready)
	s.dry.put(l, runs && !ready && !late)
	s.late.put(l, late)
	s.see()
	if l.load != nil {
		s.sort(l)
	}
}

// passOver marks the first waiters of the lines that would have been served
// before l, had their keys had servers.
func (s *side) passOver(l *line, now int64) {
	for d, ok := s.dry.top(); ok && d != l && d.before(l); d, ok = s.dry.top() {
		d.firstOf(true).pass(now, false)
		s.settle(d)
	}
}

// passOlder marks the first waiters of lines that are older than a waiter of
// another side, which got a server.
func (s *side) passOlder(than uint64, now int64) {
	for d, ok := s.dry.top(); ok && d.age < than; d, ok = s.dry.top() {
		d.firstOf(true).pass(now, false)
		s.settle(d)
	}
}
