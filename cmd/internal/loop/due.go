package loop

// dueHeap holds the connections that must be looked at by some time: those with
// unsent bytes and a stall time, and those that linger. A connection's due is a
// lower bound: progress does not move it, the look that finds progress does.
// Connections leave the heap as soon as the reason is gone, so that none of
// them wakes an idle loop.
type dueHeap []*Conn

// set puts c into the heap, or moves it, to be looked at by the time at.
func (h *dueHeap) set(c *Conn, at int64) {
	c.due = at
	if c.heap == 0 {
		*h = append(*h, c)
		c.heap = int32(len(*h))
	}
	h.down(h.up(int(c.heap) - 1))
}

// remove takes c out of the heap if it is there.
func (h *dueHeap) remove(c *Conn) {
	if c.heap == 0 {
		return
	}
	i, last := int(c.heap)-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	c.heap = 0
	if i < last {
		h.down(h.up(i))
	}
}

// up moves the entry at i towards the top and returns where it came to stand.
func (h *dueHeap) up(i int) int {
	for i > 0 {
		p := (i - 1) / 2
		if (*h)[p].due <= (*h)[i].due {
			break
		}
		h.swap(i, p)
		i = p
	}
	return i
}

func (h *dueHeap) down(i int) {
	for {
		k := 2*i + 1
		if k >= len(*h) {
			return
		}
		if k+1 < len(*h) && (*h)[k+1].due < (*h)[k].due {
			k++
		}
		if (*h)[i].due <= (*h)[k].due {
			return
		}
		h.swap(i, k)
		i = k
	}
}

func (h *dueHeap) swap(i, j int) {
	a := *h
	a[i], a[j] = a[j], a[i]
	a[i].heap, a[j].heap = int32(i)+1, int32(j)+1
}

// lookAtDue ends the connections whose time is up.
func (l *Loop) lookAtDue() {
	for len(l.due) > 0 && l.due[0].due <= l.now {
		c := l.due[0]
		switch {
		case c.flags&fFinish != 0:
			l.due.remove(c)
			c.Close()
		case c.progress+c.stall > l.now:
			l.due.set(c, c.progress+c.stall)
		default:
			l.due.remove(c)
			l.end(c, Stalled)
		}
	}
}
