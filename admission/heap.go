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
// order may have changed. Most calls take something out that is not there.
func (h *heap[T]) put(x T, in bool) {
	if in || len(h.items) > 0 {
		h.set(x, in)
	}
}

func (h *heap[T]) set(x T, in bool) {
	p := h.place(x)
	switch i := int(*p) - 1; {
	case !in:
		if i >= 0 {
			h.drop(i, p)
		}
	case i < 0:
		h.items = append(h.items, x)
		h.up(len(h.items) - 1)
	case len(h.items) > 1:
		h.move(i)
	}
}

func (h *heap[T]) drop(i int, p *int32) {
	last := len(h.items) - 1
	moved := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	*p = 0
	if i < last {
		h.items[i] = moved
		h.move(i)
	}
}

// move brings the element at i to where it belongs.
func (h *heap[T]) move(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

// up brings the element at i towards the top, and notes its place.
func (h *heap[T]) up(i int) {
	x := h.items[i]
	for i > 0 {
		above := (i - 1) / 2
		y := h.items[above]
		if !h.less(x, y) {
			break
		}
		h.items[i] = y
		*h.place(y) = int32(i + 1)
		i = above
	}
	h.items[i] = x
	*h.place(x) = int32(i + 1)
}

// down brings the element at i away from the top, and reports whether it has moved: only then
// its place is noted.
func (h *heap[T]) down(i int) (moved bool) {
	x := h.items[i]
	for {
		c := 2*i + 1
		if c >= len(h.items) {
			break
		}
		y := h.items[c]
		if c+1 < len(h.items) {
			if z := h.items[c+1]; h.less(z, y) {
				c, y = c+1, z
			}
		}
		if !h.less(y, x) {
			break
		}
		h.items[i] = y
		*h.place(y) = int32(i + 1)
		i, moved = c, true
	}
	if moved {
		h.items[i] = x
		*h.place(x) = int32(i + 1)
	}
	return moved
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
