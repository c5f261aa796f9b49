package admission

// place is a waiter's place in one list.
type place struct{ prev, next *Waiter }

// The indices of a waiter's places: among all of the rank of its line, and of the lane, if any,
// in which it stands as well; in its flow in each of these; and among its tenant's.
const (
	mainLine = iota
	laneLine
	ofFlow        // + mainLine or laneLine
	ofSub     = 4 // its flow in the lane has 3
	allPlaces = 5
)

// insertByAge puts w, by the order of arrival, into the list from *first to *last that uses
// those places: at the end, unless it comes back from somewhere else.
func insertByAge(first, last **Waiter, w *Waiter, places int) {
	k, p := &w.places[places], *last
	for p != nil && p.seq > w.seq {
		p = p.places[places].prev
	}
	k.prev = p
	if p == nil {
		k.next, *first = *first, w
	} else {
		k.next, p.places[places].next = p.places[places].next, w
	}
	if k.next == nil {
		*last = w
	} else {
		k.next.places[places].prev = w
	}
}

// takeOut takes w out of the list from *first to *last that uses those places.
func takeOut(first, last **Waiter, w *Waiter, places int) {
	k := &w.places[places]
	if k.prev == nil {
		*first = k.next
	} else {
		k.prev.places[places].next = k.next
	}
	if k.next == nil {
		*last = k.prev
	} else {
		k.next.places[places].prev = k.prev
	}
	*k = place{}
}

// list is waiters by the order of their arrival. Which of their places it uses is said with
// every call, and always the same.
type list struct {
	head, tail *Waiter
	n          int
}

// insert puts w where it belongs.
func (l *list) insert(w *Waiter, which int) {
	insertByAge(&l.head, &l.tail, w, which)
	l.n++
}

// remove takes w out.
func (l *list) remove(w *Waiter, which int) {
	takeOut(&l.head, &l.tail, w, which)
	l.n--
}
