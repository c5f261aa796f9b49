package journal

// Kept is how much a [Ring] keeps: so many refusals, and so many clients that were turned away
// at the door.
const Kept = 1000

// Ring keeps the last few of what is added to it. It takes its memory with the first one, and
// no more after it has filled. It is for one goroutine.
type Ring[T any] struct {
	list []T
	next int // where the next one goes, once it is full
}

// Add adds v, in place of the oldest if there are enough.
func (r *Ring[T]) Add(v T) {
	if len(r.list) < Kept {
		if r.list == nil {
			r.list = make([]T, 0, Kept)
		}
		r.list = append(r.list, v)
		return
	}
	r.list[r.next] = v
	r.next = (r.next + 1) % len(r.list)
}

// Newest returns a copy, the newest first.
func (r *Ring[T]) Newest() []T {
	list := make([]T, 0, len(r.list))
	for i := range r.list {
		at := (r.next + len(r.list) - 1 - i) % len(r.list)
		list = append(list, r.list[at])
	}
	return list
}
