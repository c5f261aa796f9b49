package loop

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// The heap's top is the least due, and every member knows its place.
func TestDueHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h dueHeap
		conns := make([]*Conn, 20)
		for i := range conns {
			conns[i] = &Conn{}
		}
		in := map[*Conn]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c := rapid.SampledFrom(conns).Draw(t, "conn")
			if rapid.Bool().Draw(t, "set") {
				at := rapid.Int64Range(0, 50).Draw(t, "at")
				h.set(c, at)
				in[c] = at
			} else {
				h.remove(c)
				delete(in, c)
			}
			if len(h) != len(in) {
				t.Fatalf("%d members, want %d", len(h), len(in))
			}
			for i, c := range h {
				if int(c.heap) != i+1 || c.due != in[c] {
					t.Fatalf("member %d: place %d, due %d, want %d", i, c.heap-1, c.due, in[c])
				}
				if h[0].due > c.due {
					t.Fatalf("top %d, but there is %d", h[0].due, c.due)
				}
			}
			for _, c := range conns {
				if _, ok := in[c]; !ok && c.heap != 0 {
					t.Fatal("not a member, but has a place")
				}
			}
		}
	})
}

// A slot's occupant is found by its own ID and by no earlier one.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s slots
		live := map[ID]*Conn{}
		var dead []ID
		most := 0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(live) == 0 || rapid.Bool().Draw(t, "put") {
				c := &Conn{}
				s.put(c)
				if c.id == 0 || live[c.id] != nil {
					t.Fatalf("ID %x given twice, or zero", c.id)
				}
				live[c.id] = c
			} else {
				for id := range live {
					s.drop(id)
					delete(live, id)
					dead = append(dead, id)
					break
				}
			}
			most = max(most, len(live))
			for id, c := range live {
				if s.get(id) != c {
					t.Fatalf("ID %x lost", id)
				}
			}
			for _, id := range dead {
				if s.get(id) != nil {
					t.Fatalf("ID %x outlives its connection", id)
				}
			}
			if len(s.table) > most {
				t.Fatalf("%d slots for at most %d connections", len(s.table), most)
			}
		}
		if s.get(0) != nil || s.get(ID(1<<40)) != nil || s.get(^ID(0)) != nil {
			t.Fatal("an ID that was never given finds something")
		}
	})
}

// A buffer behaves like a queue of bytes, and all of them come back.
func TestBuffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b buffers
		var p []byte
		var off int
		var want []byte
		next := byte(0)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			n := rapid.SampledFrom([]int{1, 100, 512, 513, 4000, 70_000, 200_000}).Draw(t, "n")
			if rapid.Bool().Draw(t, "extend") {
				data := bytes.Repeat([]byte{next}, n)
				next++
				p, off = b.extend(p, off, data)
				want = append(want, data...)
			} else {
				n = min(n, len(want))
				off += n
				want = want[n:]
			}
			if !bytes.Equal(p[off:], want) {
				t.Fatal("not the bytes that were put in")
			}
			if len(want) == 0 {
				b.put(p)
				p, off = nil, 0
			}
		}
		b.put(p)
		idle := 0
		for k, f := range b.free {
			for _, q := range f {
				idle += cap(q)
				if cap(q) != minBuffer<<k || len(q) != 0 {
					t.Fatalf("class %d holds a buffer of %d/%d", k, len(q), cap(q))
				}
			}
		}
		if b.lent != 0 || idle != b.idle || idle > maxIdle {
			t.Fatalf("lent %d, idle %d, counted %d", b.lent, idle, b.idle)
		}
	})
}

func TestEndWords(t *testing.T) {
	seen := map[string]bool{}
	for e := Reset; e <= Unwatched; e++ {
		if s := e.String(); s == "unknown" || seen[s] {
			t.Errorf("%d is %q", e, s)
		} else {
			seen[s] = true
		}
	}
	if End(0).String() != "unknown" || (Unwatched+1).String() != "unknown" {
		t.Error("a word for what does not exist")
	}
}
