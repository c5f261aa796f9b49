package admission

// floor is the part of a line's grants that each class gets which waits, however much work
// there is above it. Without one, low classes starve and their connections pile up.
const floor = 0.05

// rank is the waiters of one class of a line, oldest first.
type rank struct {
	line  *line
	index int // of the class, 0 is the highest

	list
	flows  *flow
	ready  heap[*flow] // whose keys may have servers, by the policy's order
	parked heap[*flow] // whose keys have none
	credit float64     // grants that it has to get before those above it

	work    int64 // ns that its waiters are expected to hold slots
	fresh   int   // how many may be displaced
	active  int   // roles with waiters
	vtime   int64 // the virtual start of the last role served
	asleep  heap[*role]
	fullest heap[*role] // by how many of them may be displaced

	standing
	inStands int32
}

func (r *rank) set(l *line, index int) {
	*r = rank{line: l, index: index}
	r.hurt, r.until = -never, -never
	r.ready = heap[*flow]{less: (*flow).earlier, place: func(f *flow) *int32 { return &f.inLine }}
	r.parked = heap[*flow]{less: (*flow).earlier, place: func(f *flow) *int32 { return &f.inDry }}
	r.asleep = heap[*role]{less: func(a, b *role) bool { return a.vt < b.vt }, place: func(o *role) *int32 { return &o.inAsleep }}
	r.fullest = heap[*role]{less: (*role).fuller, place: func(o *role) *int32 { return &o.inFullest }}
}

// rankOf is where w stands in l.
func (l *line) rankOf(w *Waiter) *rank {
	if l.policy == Guard {
		return &l.ranks[w.class]
	}
	return &l.ranks[0]
}

// turn is the place of the rank among those of its line: by class, but for those who have
// to get their part.
func (r *rank) turn() int {
	if r.credit >= 1 {
		return r.index - Classes
	}
	return r.index
}

// firstOf is the first flow of a line, of the ready or the parked.
func (l *line) firstOf(parked bool) (found *flow) {
	turn := Classes
	for i := range l.ranks {
		r := &l.ranks[i]
		if f := r.firstOf(parked); f != nil && r.turn() < turn {
			found, turn = f, r.turn()
		}
		if l.policy != Guard {
			break
		}
	}
	return found
}

// firstOf is the first flow of the rank.
func (r *rank) firstOf(parked bool) *flow {
	h := &r.ready
	if parked {
		h = &r.parked
	}
	for range mostFixed {
		if f, ok := h.top(); !ok || f.fresh() {
			break
		}
		h.items[0].place()
	}
	f, _ := h.top()
	return f
}

// granted notes whose turn it was: those below who wait come nearer to theirs.
func (r *rank) granted() {
	if r.line.policy != Guard {
		return
	}
	if r.credit >= 1 {
		r.credit--
	}
	for i := r.index + 1; i < Classes; i++ {
		if o := &r.line.ranks[i]; o.n > 0 {
			o.credit = min(o.credit+floor, 2)
		}
	}
}

// earlier is the order of the flows of a rank.
func (f *flow) earlier(o *flow) bool {
	switch f.line.policy {
	case Guard:
		return f.fairer(o)
	case LIFO, LIFODeadline:
		return f.last.seq > o.last.seq
	case CoDel:
		if f.rank.on {
			return f.last.seq > o.last.seq
		}
	}
	return f.first.seq < o.first.seq
}

// before is the order of the flows of a side.
func (f *flow) before(o *flow) bool {
	switch {
	case o == nil:
		return true
	case f.line != o.line:
		return f.line.before(o.line)
	case f.rank != o.rank:
		return f.rank.turn() < o.rank.turn()
	}
	return f.earlier(o)
}

// head is who goes next of the flow.
func (f *flow) head() *Waiter {
	switch f.line.policy {
	case Guard:
		return f.top().head(f.rank.on && !f.kept)
	case LIFO, LIFODeadline:
		return f.last
	case CoDel:
		if f.rank.on {
			return f.last
		}
	}
	return f.first
}

// place brings the flow to where it belongs in its rank.
func (f *flow) place() {
	if f.stands {
		if f.role != nil {
			f.roleVT, f.tenantVT = f.role.vt, f.top().tenant.vt
		}
		f.rank.parked.put(f, f.parked)
		f.rank.ready.put(f, !f.parked)
	}
}

// lift takes it out of its rank's heaps until place.
func (f *flow) lift() {
	f.rank.parked.put(f, false)
	f.rank.ready.put(f, false)
}
