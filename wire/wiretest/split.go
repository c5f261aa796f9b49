package wiretest

import "math/rand/v2"

// Split cuts b into random chunks that follow each other, none empty: whole,
// in a few pieces, around message headers, or byte by byte. The chunks alias b.
func Split(rnd *rand.Rand, b []byte) [][]byte {
	var out [][]byte
	style := rnd.IntN(8)
	for len(b) > 0 {
		n := chunk(rnd, style, len(b))
		out = append(out, b[:n:n])
		b = b[n:]
	}
	return out
}

// chunk picks the length of the next piece of left bytes.
func chunk(rnd *rand.Rand, style, left int) int {
	n := left
	switch style {
	case 0, 1, 2: // whole
	case 3: // single bytes, but not for megabytes
		n = 1
		if left > 4096 {
			n = left - 4096
		}
	case 4: // about a header
		n = 1 + rnd.IntN(8)
		if left > 4096 {
			n = left - 4096
		}
	case 5: // like a small socket buffer
		n = 1 + rnd.IntN(1500)
	default:
		n = 1 + rnd.IntN(left)
	}
	return min(n, left)
}
