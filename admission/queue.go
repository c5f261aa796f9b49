package admission

// Queue is the seam of the policies: in which order those who wait are served.
// The gate bounds it, expires it and asks it; it holds the waiters and nothing
// else. It is told per key whether an idle server may exist (at first: yes),
// so that choosing does not walk over waiters that could not be served.
type Queue interface {
	// Push appends a newcomer.
	Push(w *Waiter)
	// Remove takes out w, which leaves without having been served in its turn:
	// withdrawn, expired, or served by the probe lane.
	Remove(w *Waiter)
	// Take notes that w is served in this queue's order at now and takes it
	// out if it is inside. Those who would have been served before it, had
	// their keys had servers, are passed over from now on.
	Take(w *Waiter, now int64)
	// Len is how many wait, Waiting how many of them for key k.
	Len() int
	Waiting(k Key) int
	// SetReady says whether key k may have an idle server.
	SetReady(k Key, ready bool)
	// Next is who goes next among the keys that are ready; nil if nobody.
	Next() *Waiter
	// Head is who would go next if every key had a server; nil if nobody waits.
	Head() *Waiter
	// Oldest has waited longest and expires first; nil if nobody waits.
	Oldest() *Waiter
	// Younger is who came next after w, which waits; nil if nobody.
	Younger(w *Waiter) *Waiter
	// First is the waiter of k that has waited longest; nil if nobody.
	First(k Key) *Waiter
}

// The two lines in which a waiter can stand, as indices of its links.
const (
	mainLane = iota
	probeLane
	lanes
)

// link is a waiter's place in one line: among all, and among those of its key.
type link struct{ prev, next, keyPrev, keyNext *Waiter }

// fifo serves oldest first. Waiters stand in one list over all keys and in one
// per key; the keys that are ready and waited for are in a heap by the age of
// their first waiter, so a choice costs O(log keys) and removal O(1), or
// O(log keys) for the first waiter of a ready key.
type fifo struct {
	lane       int // which of the waiters' links it uses
	head, tail *Waiter
	n          int
	keys       []fifoKey // by Key
	heap       []Key
}

// fifoKey is what fifo knows of a key.
type fifoKey struct {
	first, last *Waiter
	n           int
	dry         bool // known to have no idle server
	pos         int  // index in the heap + 1; 0 = not in it
}

func newFIFO(lane int) *fifo { return &fifo{lane: lane} }

// key returns k's entry. The table grows with the number of keys ever seen and
// stays.
func (q *fifo) key(k Key) *fifoKey {
	for int(k) >= len(q.keys) {
		q.keys = append(q.keys, fifoKey{})
	}
	return &q.keys[k]
}

// Len implements Queue.
func (q *fifo) Len() int { return q.n }

// Waiting implements Queue.
func (q *fifo) Waiting(k Key) int {
	if int(k) >= len(q.keys) {
		return 0
	}
	return q.keys[k].n
}

// Head implements Queue.
func (q *fifo) Head() *Waiter { return q.head }

// Oldest implements Queue.
func (q *fifo) Oldest() *Waiter { return q.head }

// Younger implements Queue.
func (q *fifo) Younger(w *Waiter) *Waiter { return w.links[q.lane].next }

// First implements Queue.
func (q *fifo) First(k Key) *Waiter {
	if int(k) >= len(q.keys) {
		return nil
	}
	return q.keys[k].first
}

// Next implements Queue.
func (q *fifo) Next() *Waiter {
	if len(q.heap) == 0 {
		return nil
	}
	return q.keys[q.heap[0]].first
}

// SetReady implements Queue.
func (q *fifo) SetReady(k Key, ready bool) {
	e := q.key(k)
	e.dry = !ready
	q.settle(k, e)
}

// Push implements Queue.
func (q *fifo) Push(w *Waiter) {
	l := &w.links[q.lane]
	l.prev = q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.links[q.lane].next = w
	}
	q.tail = w
	q.n++

	e := q.key(w.Key)
	l.keyPrev = e.last
	if e.last == nil {
		e.first = w
	} else {
		e.last.links[q.lane].keyNext = w
	}
	e.last = w
	e.n++
	q.settle(w.Key, e)
}

// Remove implements Queue.
func (q *fifo) Remove(w *Waiter) {
	l := &w.links[q.lane]
	if l.prev == nil {
		q.head = l.next
	} else {
		l.prev.links[q.lane].next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		l.next.links[q.lane].prev = l.prev
	}
	q.n--

	e := q.key(w.Key)
	wasFirst := l.keyPrev == nil
	if wasFirst {
		e.first = l.keyNext
	} else {
		l.keyPrev.links[q.lane].keyNext = l.keyNext
	}
	if l.keyNext == nil {
		e.last = l.keyPrev
	} else {
		l.keyNext.links[q.lane].keyPrev = l.keyPrev
	}
	e.n--
	*l = link{}
	if wasFirst {
		q.settle(w.Key, e)
	}
}

// Take implements Queue. The overtaken are always a prefix of the line, so
// each waiter is marked once in its life.
func (q *fifo) Take(w *Waiter, now int64) {
	inside := w.Waiting()
	p := q.tail
	if inside {
		p = w.links[q.lane].prev
	}
	for p != nil && !p.overtaken {
		p.overtaken, p.passed = true, now
		p = p.links[q.lane].prev
	}
	if inside {
		q.Remove(w)
	}
}

// settle puts key k where it belongs in the heap after its first waiter or its
// readiness changed.
func (q *fifo) settle(k Key, e *fifoKey) {
	in := !e.dry && e.first != nil
	switch {
	case in && e.pos == 0:
		q.heap = append(q.heap, k)
		e.pos = len(q.heap)
		q.up(e.pos - 1)
	case in:
		q.down(e.pos - 1)
		q.up(e.pos - 1)
	case e.pos != 0:
		q.drop(e)
	}
}

// drop takes e's key out of the heap.
func (q *fifo) drop(e *fifoKey) {
	i, last := e.pos-1, len(q.heap)-1
	q.swap(i, last)
	q.heap = q.heap[:last]
	e.pos = 0
	if i < last {
		q.down(i)
		q.up(i)
	}
}

// before reports whether the key at heap index i goes before the one at j.
func (q *fifo) before(i, j int) bool {
	return q.keys[q.heap[i]].first.seq < q.keys[q.heap[j]].first.seq
}

func (q *fifo) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.keys[q.heap[i]].pos, q.keys[q.heap[j]].pos = i+1, j+1
}

func (q *fifo) up(i int) {
	for i > 0 && q.before(i, (i-1)/2) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (q *fifo) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(q.heap) {
			return
		}
		if c+1 < len(q.heap) && q.before(c+1, c) {
			c++
		}
		if !q.before(c, i) {
			return
		}
		q.swap(i, c)
		i = c
	}
}
