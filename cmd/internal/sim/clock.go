package sim

import "container/heap"

// event is something that happens at a virtual time.
type event struct {
	at  int64
	seq uint64
	do  func()
}

// clock runs events in the order of their time.
type clock struct {
	now  int64 // ns
	seq  uint64
	heap events
}

// after plans do for d ns from now.
func (c *clock) after(d int64, do func()) {
	c.seq++
	heap.Push(&c.heap, event{c.now + d, c.seq, do})
}

// step runs the next event. It reports false when there is none before the
// limit.
func (c *clock) step(limit int64) bool {
	if len(c.heap) == 0 || c.heap[0].at > limit {
		return false
	}
	e := heap.Pop(&c.heap).(event)
	c.now = max(c.now, e.at)
	e.do()
	return true
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || (h[i].at == h[j].at && h[i].seq < h[j].seq)
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
