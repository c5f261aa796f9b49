package admission

// list is waiters by the order of their arrival. Which of their links it uses is said with
// every call, and always the same.
type list struct {
	head, tail *Waiter
	n          int
}

// insert puts w where it belongs: at the end, unless it comes back from somewhere else.
func (l *list) insert(w *Waiter, which int) {
	k := &w.links[which]
	p := l.tail
	for p != nil && p.seq > w.seq {
		p = p.links[which].prev
	}
	k.prev = p
	if p == nil {
		k.next, l.head = l.head, w
	} else {
		k.next, p.links[which].next = p.links[which].next, w
	}
	if k.next == nil {
		l.tail = w
	} else {
		k.next.links[which].prev = w
	}
	l.n++
}

// remove takes w out.
func (l *list) remove(w *Waiter, which int) {
	k := &w.links[which]
	if k.prev == nil {
		l.head = k.next
	} else {
		k.prev.links[which].next = k.next
	}
	if k.next == nil {
		l.tail = k.prev
	} else {
		k.next.links[which].prev = k.prev
	}
	k.prev, k.next = nil, nil
	l.n--
}
