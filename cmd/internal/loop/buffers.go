package loop

import "math/bits"

// Sizes of the pooled buffers: powers of two from minBuffer up. Larger buffers
// are made when needed and left to the garbage collector.
const (
	minBuffer     = 512
	bufferClasses = 9       // 512 B ... 128 KiB
	maxIdle       = 2 << 20 // most bytes that all free lists may hold
)

// buffers lends byte slices to connections that have bytes left over. It is
// owned by the loop thread.
type buffers struct {
	free [bufferClasses][][]byte
	idle int // bytes in free
	lent int // buffers out, pooled or not: tests compare it with 0
}

// class returns the index of the smallest class that holds n bytes; it is not
// less than bufferClasses if none does.
func class(n int) int {
	if n <= minBuffer {
		return 0
	}
	return bits.Len(uint(n-1)) - bits.Len(uint(minBuffer-1))
}

// get returns an empty slice with room for n bytes.
func (b *buffers) get(n int) []byte {
	b.lent++
	k := class(n)
	if k >= bufferClasses {
		return make([]byte, 0, n)
	}
	if f := b.free[k]; len(f) > 0 {
		p := f[len(f)-1]
		f[len(f)-1] = nil
		b.free[k] = f[:len(f)-1]
		b.idle -= cap(p)
		return p
	}
	return make([]byte, 0, minBuffer<<k)
}

// put takes back a buffer that get returned. p must start where it started.
func (b *buffers) put(p []byte) {
	if cap(p) == 0 {
		return
	}
	b.lent--
	k := class(cap(p))
	if k >= bufferClasses || cap(p) != minBuffer<<k || b.idle+cap(p) > maxIdle {
		return
	}
	b.idle += cap(p)
	b.free[k] = append(b.free[k], p[:0])
}

// reserve makes room for n more bytes behind p, whose first off bytes are
// spent, and returns the buffer and its new offset. It moves bytes only when
// at least as many have been spent, and grows by doubling, so that the cost
// per byte stays constant. A nil p is allowed.
func (b *buffers) reserve(p []byte, off, n int) ([]byte, int) {
	if cap(p)-len(p) >= n {
		return p, off
	}
	live := len(p) - off
	if off >= live && live+n <= cap(p) {
		copy(p, p[off:])
		return p[:live], 0
	}
	q := b.get(max(live+n, 2*live))
	q = append(q, p[off:]...)
	b.put(p)
	return q, 0
}

// extend is reserve, followed by appending data.
func (b *buffers) extend(p []byte, off int, data []byte) ([]byte, int) {
	p, off = b.reserve(p, off, len(data))
	return append(p, data...), off
}
