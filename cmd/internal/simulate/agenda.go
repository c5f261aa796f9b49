package simulate

import "math"

// never is the time that does not come.
const never = math.MaxInt64

// agenda says which of a fixed number of sources has something next. What a source has after
// that is its own business: most have theirs in order anyway, so this stays small. Of those
// at the same time the first goes first.
type agenda struct {
	due []int64 // a tree: the root at 1, the sources from size on
	of  int     // a power of two
}

func newAgenda(sources int) *agenda {
	a := &agenda{of: 1}
	for a.of < sources {
		a.of *= 2
	}
	a.due = make([]int64, 2*a.of)
	for i := range a.due {
		a.due[i] = never
	}
	return a
}

// set says when a source has something next.
func (a *agenda) set(source int, at int64) {
	i := source + a.of
	if a.due[i] == at {
		return
	}
	a.due[i] = at
	for i > 1 {
		i /= 2
		first := min(a.due[2*i], a.due[2*i+1])
		if a.due[i] == first {
			return
		}
		a.due[i] = first
	}
}

// next is the source that has something first, and when.
func (a *agenda) next() (source int, at int64) {
	at, i := a.due[1], 1
	for i < a.of {
		i *= 2
		if a.due[i] != at {
			i++
		}
	}
	return i - a.of, at
}

// later is a heap of what happens at some time, equal ones in the order in which they came.
type later struct {
	items []item
	n     uint64
}

// item is one of them.
type item struct {
	at  int64
	seq uint64
	act int32
	r   *request // or nil
	id  int      // for those without
}

func (h *later) first() int64 {
	if len(h.items) == 0 {
		return never
	}
	return h.items[0].at
}

func before(a, b *item) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (h *later) put(it item) {
	h.n++
	it.seq = h.n
	h.items = append(h.items, it)
	for i := len(h.items) - 1; i > 0 && before(&h.items[i], &h.items[(i-1)/2]); i = (i - 1) / 2 {
		h.items[i], h.items[(i-1)/2] = h.items[(i-1)/2], h.items[i]
	}
}

func (h *later) take() item {
	first, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	h.items[last] = item{}
	h.items = h.items[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return first
		}
		if c+1 < last && before(&h.items[c+1], &h.items[c]) {
			c++
		}
		if !before(&h.items[c], &h.items[i]) {
			return first
		}
		h.items[i], h.items[c] = h.items[c], h.items[i]
		i = c
	}
}
