package admission

// heap is a binary heap of things that know their place in it: the index + 1,
// 0 when they are not inside. So changing or removing one costs O(log n).
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(T) *int32
}

// top returns the first by order; ok is false if there is none.
func (h *heap[T]) top() (first T, ok bool) {
	if len(h.items) == 0 {
		return first, false
	}
	return h.items[0], true
}

// put makes x an element or none, and brings it to where it belongs after its
// order may have changed.
func (h *heap[T]) put(x T, in bool) {
	p := h.place(x)
	switch {
	case !in && *p == 0:
	case !in:
		h.drop(int(*p)-1, p)
	default:
		if *p == 0 {
			h.items = append(h.items, x)
			*p = int32(len(h.items))
		}
		h.up(h.down(int(*p) - 1))
	}
}

func (h *heap[T]) drop(i int, p *int32) {
	last := len(h.items) - 1
	h.swap(i, last)
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	*p = 0
	if i < last {
		h.up(h.down(i))
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.place(h.items[i]), *h.place(h.items[j]) = int32(i+1), int32(j+1)
}

func (h *heap[T]) up(i int) {
	for i > 0 && h.less(h.items[i], h.items[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

// down returns where it has brought the element at i.
func (h *heap[T]) down(i int) int {
	for {
		c := 2*i + 1
		if c >= len(h.items) {
			return i
		}
		if c+1 < len(h.items) && h.less(h.items[c+1], h.items[c]) {
			c++
		}
		if !h.less(h.items[c], h.items[i]) {
			return i
		}
		h.swap(i, c)
		i = c
	}
}

// check reports the index of an element that is out of order or does not know
// its place; -1 if there is none.
func (h *heap[T]) check() int {
	for i, x := range h.items {
		if int(*h.place(x)) != i+1 || i > 0 && h.less(x, h.items[(i-1)/2]) {
			return i
		}
	}
	return -1
}
