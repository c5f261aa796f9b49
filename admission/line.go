package admission

// line is the waiters of one workload for one kind of permit, oldest first, or
// one of the lanes. Who is served next is the oldest one whose key may have a
// server: the flows that may have one are in a heap by their first waiter.
type line struct {
	side *side
	load *load  // nil: a lane
	link int    // which of the waiters' links it uses
	id   uint64 // upper half of its flows' names

	// share is its part of the side as a fraction, and what follows from it:
	// how many permits are its own, how many it may have at most, how many idle
	// ones it does not lend.
	share           float64
	own, most, keep int

	used    int     // permits out
	ratio   float64 // used / share
	borrows bool    // one more would not be its own
	adds    sums    // what it adds to the sums of its side

	list
	flows heap[*flow]

	inOpen, inDry, inLate, inWarm int32 // places in the side's heaps

	class             class
	ableSum, ableFrom int64       // how long it could have had a permit, before its class and on its class's time
	warm              heap[*flow] // whose keys are warming, by when they are due on the line's time
	due               int64       // when the first of them is, on the class's time
}

// sums are kept by a side over its lines.
type sums struct {
	kept     int // idle permits that are not lent
	borrowed int // permits out beyond the lines' own
	useful   int // of the lines' own idle permits, how many waiters they have for them
	more     int // how many waiters could borrow
}

// flow is the waiters of one line and key that want the same. It exists while
// there are any.
type flow struct {
	line  *line
	key   Key
	slot  bool // they want a slot without a server
	name  uint64
	first *Waiter
	last  *Waiter
	n     int

	next, prev *flow // among the flows of its key; next also in the free list
	inLine     int32 // place in the line's heap; 0 = parked: no server when last looked

	due    int64 // when its first waiter is too old, on the time of the heap that it is in
	inTime int32 // places in the gate's heap of what is due, and in the line's
	inWarm int32

	stood  int64 // how long its clock had stood still
	since  int64 // until then,
	ableAt int64 // and how long its line could have had a permit
}

// served reports whether the flow's waiters need a server and are not those of
// a lane, who stand in another flow as well.
func (f *flow) served() bool { return !f.slot && f.line.load != nil }

func newLine(s *side, l *load, link int, id uint64) *line {
	return &line{
		side: s, load: l, link: link, id: id,
		flows: heap[*flow]{
			less:  func(a, b *flow) bool { return a.first.seq < b.first.seq },
			place: func(f *flow) *int32 { return &f.inLine },
		},
		warm: heap[*flow]{less: earlier, place: func(f *flow) *int32 { return &f.inWarm }},
	}
}

// configure sets what a share of limit permits means. A part of a permit is a
// whole one where it is the first, or lets in one more.
func (l *line) configure(limit int, share, lendable, borrow float64, whole bool) {
	const exact = 1e-6 // 0.1 x 30 is 3
	part := share * float64(limit)
	l.share = share
	l.own = int(ceil(part - exact))
	if whole { // no part of a connection is of use
		l.own = int(part + exact)
		if share > 0 && limit > 0 {
			l.own = max(l.own, 1)
		}
	}
	l.most = max(l.own, int(ceil(part+borrow*float64(limit)-exact)))
	l.keep = int((1-lendable)*part + exact)
}

func ceil(x float64) float64 {
	if n := float64(int(x)); n >= x {
		return n
	}
	return float64(int(x)) + 1
}

// before is the order of the lines of a side: first who uses its own part, then
// who uses least of its share, then whose first waiter is oldest.
func (l *line) before(m *line) bool {
	switch {
	case l.borrows != m.borrows:
		return !l.borrows
	case l.ratio != m.ratio:
		return l.ratio < m.ratio
	}
	return l.age() < m.age()
}

// age is the order of the first waiter; a newcomer comes after all.
func (l *line) age() uint64 {
	if l.head == nil {
		return 1<<64 - 1
	}
	return l.head.seq
}

// insert puts w into the line and its flow, by the order of arrival: at the end
// unless it comes back from a pause.
func (l *line) insert(w *Waiter, f *flow) {
	l.list.insert(w, l.link)
	if next := w.links[l.link].next; l.link == mainLine && next != nil && next.overtaken { // so was w, before its pause or by it
		w.overtaken, w.passed = true, next.passed
	}
	f.insert(w, l.link)
}

// remove takes w out of the line and its flow.
func (l *line) remove(w *Waiter) {
	f := w.links[l.link].flow
	l.list.remove(w, l.link)
	f.remove(w, l.link)
	w.links[l.link] = link{}
}

// passOver notes that somebody of the line is served at now: those before w, or
// all if w does not stand in it, would have been, had their keys had servers.
// The overtaken are always the first ones of the line, so each waiter is marked
// once in its life.
func (l *line) passOver(w *Waiter, now int64) {
	p := l.tail
	if w.links[l.link].flow != nil {
		p = w.links[l.link].prev
	}
	for p != nil && !p.overtaken {
		p.overtaken, p.passed = true, now
		p = p.links[l.link].prev
	}
}

func (f *flow) insert(w *Waiter, lane int) {
	k := &w.links[lane]
	k.flow = f
	p := f.last
	for p != nil && p.seq > w.seq {
		p = p.links[lane].flowPrev
	}
	k.flowPrev = p
	if p == nil {
		k.flowNext, f.first = f.first, w
	} else {
		k.flowNext, p.links[lane].flowNext = p.links[lane].flowNext, w
	}
	if k.flowNext == nil {
		f.last = w
	} else {
		k.flowNext.links[lane].flowPrev = w
	}
	f.n++
}

func (f *flow) remove(w *Waiter, lane int) {
	k := &w.links[lane]
	if k.flowPrev == nil {
		f.first = k.flowNext
	} else {
		k.flowPrev.links[lane].flowNext = k.flowNext
	}
	if k.flowNext == nil {
		f.last = k.flowPrev
	} else {
		k.flowNext.links[lane].flowPrev = k.flowPrev
	}
	f.n--
}

// parked reports whether its key had no server when it was last looked at.
func (f *flow) parked() bool { return f.inLine == 0 }
