package admission

// line is the waiters of one workload for one kind of permit, or one of the lanes. It has a
// rank for each class, with one policy that has an order of its own; the others put everybody
// into the first.
type line struct {
	side   *side
	load   *load  // nil: a lane
	link   int    // which of the waiters' places it uses
	id     uint64 // upper part of its flows' names
	policy Policy

	// share is its part of the side as a fraction, and what follows from it:
	// how many permits are its own, how many it may have at most, how many idle
	// ones it does not lend.
	share           float64
	own, most, keep int

	used    int     // permits out
	ratio   float64 // rated / share: what was used when it was worked out,
	rated   int     // -1 if that is out of date
	borrows bool    // one more would not be its own
	adds    sums    // what it adds to the sums of its side

	n     int    // waiters
	age   uint64 // the order of the oldest of them; a newcomer comes after all
	ranks [Classes]rank
	ready int         // flows that are not parked
	late  heap[*flow] // that were passed over, by when

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

// flow is the waiters of one rank, key and role that want the same and are kept or not. It
// exists while there are any.
type flow struct {
	line  *line
	rank  *rank
	key   Key
	slot  bool // they want a slot without a server
	probe bool // they are probes
	kept  bool // they come first in their tenant's part, and make room for nobody
	name  flowName
	first *Waiter // the oldest
	last  *Waiter
	left  *Waiter // nobody before it waits as if the guard were enforced; see remains
	n     int

	role     *role      // under Guard: whose they are,
	subs     heap[*sub] // and by tenants
	tenantVT int64      // what the first of these had paid when it was last put to its place,
	eldest   *Waiter    // and who was next of it while some are refused

	next, prev         *flow // among the flows of its key; next also in the free list
	nextRank, prevRank *flow // in its rank
	stands             bool  // it is in one of the rank's heaps, or its role's:
	parked             bool  // its key had no server when last looked
	inLine             int32 // place in that of the ready,
	inDry              int32 // or of the parked

	passed   int64 // when somebody first went before it, since it was last served, if inPassed
	starves  bool  // nobody of its key was served for long
	outdone  bool  // somebody of a lower class went before it
	inPassed int32 // place in the line's heap of these

	due    int64 // when its first waiter is too old, on the time of the heap that it is in
	inTime int32 // places in the gate's heap of what is due, and in the line's
	inWarm int32

	shed   int64 // when the first who remains would be too old, if the guard were enforced
	inShed int32 // place in the gate's heap of these

	stood  int64 // how long its clock had stood still
	since  int64 // until then,
	ableAt int64 // and how long its line could have had a permit

	end    int64 // when its first waiter is refused in any case, while its key is warming
	inEnds int32 // place in the gate's heap of these
}

// served reports whether the flow's waiters need a server and are not those of
// a lane, who stand in another flow as well.
func (f *flow) served() bool { return !f.slot && f.line.load != nil }

func newLine(s *side, d *load, link int, id uint64) *line {
	l := new(line)
	l.set(s, d, link, id)
	return l
}

// set makes the line, which stays where it is in memory.
func (l *line) set(s *side, d *load, link int, id uint64) {
	*l = line{
		side: s, load: d, link: link, id: id, policy: FIFOGone, age: nobody,
		late: heap[*flow]{less: (*flow).later, place: func(f *flow) *int32 { return &f.inPassed }},
		warm: heap[*flow]{less: earlier, place: func(f *flow) *int32 { return &f.inWarm }},
	}
	for i := range l.ranks {
		l.ranks[i].set(l, i)
	}
}

// configure sets what a share of limit permits means. A part of a permit is a
// whole one where it is the first, or lets in one more.
func (l *line) configure(limit int, share, lendable, borrow float64, whole bool) {
	const exact = 1e-6 // 0.1 x 30 is 3
	part := share * float64(limit)
	l.share, l.rated = share, -1
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
// who uses least of its share, then whose oldest waiter is oldest.
func (l *line) before(m *line) bool {
	switch {
	case l.borrows != m.borrows:
		return !l.borrows
	case l.ratio != m.ratio:
		return l.ratio < m.ratio
	}
	return l.age < m.age
}

// oldest is the oldest waiter; nil if there is none.
func (l *line) oldest() (w *Waiter) {
	for i := range l.ranks {
		if h := l.ranks[i].head; h != nil && (w == nil || h.seq < w.seq) {
			w = h
		}
	}
	return w
}

// nobody is the age of an empty line.
const nobody = 1<<64 - 1

// insert puts w into the line and its flow, by the order of arrival: at the end
// unless it comes back from a pause.
func (l *line) insert(w *Waiter, f *flow) {
	l.n++
	l.age = min(l.age, w.seq)
	f.rank.insert(w, l.link)
	f.insert(w, l.link)
}

// remove takes w out of the line and its flow.
func (l *line) remove(w *Waiter) {
	f := w.flows[l.link]
	l.n--
	f.rank.remove(w, l.link)
	f.remove(w, l.link)
	w.flows[l.link] = nil
	if l.age == w.seq {
		l.age = nobody
		if w := l.oldest(); w != nil {
			l.age = w.seq
		}
	}
}

// passOver notes that somebody of the line, in flow by, or nil if by no flow of it, is
// served at now: the first of those whose keys have no servers would have been, if it comes
// before.
func (g *Gate) passOver(l *line, by *flow, now int64) {
	if f := l.firstOf(true); f != nil && f.inPassed == 0 && (by == nil || f.before(by)) && g.lacks(f) {
		f.pass(now, by != nil && by.rank.index > f.rank.index)
	}
	if by == nil || by.role == nil {
		return
	}
	// A role that has more than its part is not the first, but has the more servers for one of
	// its databases.
	parked := by.role.parked.items
	for _, f := range parked[:min(len(parked), mostMoved)] {
		if f.inPassed == 0 && f.before(by) {
			f.pass(now, false)
		}
	}
}

// lacks reports whether the flow's role runs less now than its part of what those of its class
// have who wait, and its key runs nothing of a lower class, whose servers are its own soon. What
// it got in the past says who is next, but not who should have more servers: it would get them
// until it had too many.
func (g *Gate) lacks(f *flow) bool {
	if f.role == nil {
		return true
	}
	for _, n := range g.keys[f.key].running[f.rank.index+1:] {
		if n > 0 {
			return false
		}
	}
	return f.role.running*f.rank.active <= f.line.used
}

// pass notes that somebody went before the flow at now, of a lower class or not.
func (f *flow) pass(now int64, lower bool) {
	f.passed, f.starves, f.outdone = now, false, lower
	f.line.late.put(f, true)
}

// later is the order of the flows that were passed over.
func (f *flow) later(o *flow) bool {
	if f.starves != o.starves {
		return f.starves
	}
	if f.outdone != o.outdone {
		return f.outdone
	}
	return f.passed < o.passed
}

// caughtUp forgets that somebody went before the flow, one of which was served, unless it is
// still the first of those whose keys have no servers, or its role has been served for much
// less than another one: then they have less of them than they should.
func (g *Gate) caughtUp(f *flow) {
	if f.inPassed == 0 {
		return
	}
	if p := f.line.firstOf(true); p == f || f.role != nil && f.rank.vtime-f.role.vt > passOver && g.lacks(f) {
		return
	}
	f.line.late.put(f, false)
	f.line.side.settle(f.line)
}

func (f *flow) insert(w *Waiter, lane int) {
	w.flows[lane] = f
	if f.left == nil || w.seq < f.left.seq {
		f.left = w
	}
	insertByAge(&f.first, &f.last, w, ofFlow+lane)
	f.n++
}

// remains is the first waiter of a flow in a workload's line that would still be there if the
// guard were enforced; nil if there is none.
func (f *flow) remains() *Waiter {
	for f.left != nil && f.left.would {
		f.left = f.left.places[ofFlow+mainLine].next
	}
	return f.left
}

func (f *flow) remove(w *Waiter, lane int) {
	if f.left == w {
		f.left = w.places[ofFlow+lane].next
	}
	takeOut(&f.first, &f.last, w, ofFlow+lane)
	f.n--
}
