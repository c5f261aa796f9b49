package proxy

// lastRefusals is how many refusals are kept for SHOW REFUSALS, and how many clients that
// were turned away at the door.
const lastRefusals = 1000

// ring keeps the last few of what is added to it. It takes its memory with the first one, and
// no more after it has filled.
type ring[T any] struct {
	list []T
	next int // where the next one goes, once it is full
}

// add adds v, in place of the oldest if there are enough.
func (r *ring[T]) add(v T) {
	if len(r.list) < lastRefusals {
		if r.list == nil {
			r.list = make([]T, 0, lastRefusals)
		}
		r.list = append(r.list, v)
		return
	}
	r.list[r.next] = v
	r.next = (r.next + 1) % len(r.list)
}

// newest returns a copy, the newest first.
func (r *ring[T]) newest() []T {
	list := make([]T, 0, len(r.list))
	for i := range r.list {
		at := (r.next + len(r.list) - 1 - i) % len(r.list)
		list = append(list, r.list[at])
	}
	return list
}
