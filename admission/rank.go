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
	credit float64     // grants that it has to get before those above it
	ready  heap[*flow] // whose keys may have servers, by the policy's order
	parked heap[*flow] // whose keys have none

	// The same under Guard are the roles' that have any, by what they have paid.
	readyRoles, parkedRoles heap[*role]

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
	r.readyRoles = heap[*role]{less: (*role).cheaper, place: func(o *role) *int32 { return &o.inReady }}
	r.parkedRoles = heap[*role]{less: (*role).cheaper, place: func(o *role) *int32 { return &o.inParked }}
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
	h := r.heap(parked)
	if h == nil || len(h.items) == 0 {
		return nil
	}
	for range mostFixed {
		if h.items[0].fresh() {
			break
		}
		h.items[0].place()
	}
	return h.items[0]
}

// heap is where the first flow of the rank is; nil if there is none.
func (r *rank) heap(parked bool) *heap[*flow] {
	switch {
	case r.line.policy != Guard && parked:
		return &r.parked
	case r.line.policy != Guard:
		return &r.ready
	case parked:
		if o, ok := r.parkedRoles.top(); ok {
			return &o.parked
		}
	default:
		if o, ok := r.readyRoles.top(); ok {
			return &o.ready
		}
	}
	return nil
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
		return f.top().head(f.rank.on)
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
	if !f.stands {
		return
	}
	if f.role == nil {
		f.rank.parked.put(f, f.parked)
		f.rank.ready.put(f, !f.parked)
		return
	}
	s := f.top()
	f.tenantVT, f.eldest = s.tenant.vt, s.head(true)
	f.role.parked.put(f, f.parked)
	f.role.ready.put(f, !f.parked)
	f.role.place()
}

// lift takes it out of the heaps until place.
func (f *flow) lift() {
	if f.role == nil {
		f.rank.parked.put(f, false)
		f.rank.ready.put(f, false)
		return
	}
	f.role.parked.put(f, false)
	f.role.ready.put(f, false)
	f.role.place()
}
