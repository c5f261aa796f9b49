package admission

import "fmt"

// Check verifies the gate's invariants by walking over everything, for tests
// and the simulation; it is not for the hot path. It holds between any two
// calls.
func (g *Gate) Check() error {
	if g.running < 0 || g.inLane < 0 || g.inLane > 1 || g.inLane > g.running {
		return fmt.Errorf("admission: %d running, %d in the lane", g.running, g.inLane)
	}
	if g.draining && g.queue.Len() > 0 {
		return fmt.Errorf("admission: %d wait at a draining gate", g.queue.Len())
	}
	if w := g.queue.Next(); w != nil && g.running < g.plan.Slots {
		return fmt.Errorf("admission: a slot is free and key %d may have a server, but its waiter waits", w.Key)
	}
	q, ok := g.queue.(*fifo)
	if !ok {
		return nil
	}
	if err := q.check(g); err != nil {
		return fmt.Errorf("admission: queue: %w", err)
	}
	if err := g.lane.check(g); err != nil {
		return fmt.Errorf("admission: probe lane: %w", err)
	}
	probes := 0
	for w := q.head; w != nil; w = w.links[mainLane].next {
		if w.Probe {
			probes++
		}
	}
	if probes != g.lane.n {
		return fmt.Errorf("admission: %d probes wait, %d in the lane", probes, g.lane.n)
	}
	return nil
}

// check verifies one line: links, order, counts, per-key lists and the heap.
func (q *fifo) check(g *Gate) error {
	n, last, passing := 0, uint64(0), true
	var prev *Waiter
	for w := q.head; w != nil; w = w.links[q.lane].next {
		switch {
		case w.gate != g:
			return fmt.Errorf("a waiter of key %d is in line but does not wait", w.Key)
		case w.links[q.lane].prev != prev:
			return fmt.Errorf("a waiter of key %d has a wrong predecessor", w.Key)
		case w.seq <= last:
			return fmt.Errorf("order: %d after %d", w.seq, last)
		case w.overtaken && !passing && q.lane == mainLane:
			return fmt.Errorf("waiter %d is passed over behind one that is not", w.seq)
		}
		passing = w.overtaken
		prev, last, n = w, w.seq, n+1
	}
	if n != q.n || q.tail != prev {
		return fmt.Errorf("%d in line, counted %d, tail right: %v", n, q.n, q.tail == prev)
	}
	return q.checkKeys()
}

func (q *fifo) checkKeys() error {
	total, ready := 0, 0
	for k := range q.keys {
		e := &q.keys[k]
		n := 0
		var prev *Waiter
		for w := e.first; w != nil; w = w.links[q.lane].keyNext {
			if int(w.Key) != k || w.links[q.lane].keyPrev != prev {
				return fmt.Errorf("key %d: list broken at waiter %d of key %d", k, w.seq, w.Key)
			}
			prev, n = w, n+1
		}
		if n != e.n || e.last != prev {
			return fmt.Errorf("key %d: %d in its list, counted %d", k, n, e.n)
		}
		in := e.first != nil && !e.dry
		if in != (e.pos != 0) || in && q.heap[e.pos-1] != Key(k) {
			return fmt.Errorf("key %d: ready and waited for: %v, heap position %d", k, in, e.pos)
		}
		if in {
			ready++
		}
		total += n
	}
	if total != q.n || ready != len(q.heap) {
		return fmt.Errorf("%d in key lists of %d, %d ready in a heap of %d", total, q.n, ready, len(q.heap))
	}
	for i := 1; i < len(q.heap); i++ {
		if q.before(i, (i-1)/2) {
			return fmt.Errorf("heap order broken at %d", i)
		}
	}
	return nil
}
