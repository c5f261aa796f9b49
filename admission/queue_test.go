package admission

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive is what fifo must be equal to, by walking over a slice.
type naive struct {
	line []*Waiter
	dry  map[Key]bool
}

func (n *naive) next() *Waiter {
	for _, w := range n.line {
		if !n.dry[w.Key] {
			return w
		}
	}
	return nil
}

func (n *naive) first(k Key) *Waiter {
	for _, w := range n.line {
		if w.Key == k {
			return w
		}
	}
	return nil
}

func (n *naive) count(k Key) (c int) {
	for _, w := range n.line {
		if w.Key == k {
			c++
		}
	}
	return c
}

func (n *naive) remove(w *Waiter) {
	n.line = slices.DeleteFunc(n.line, func(x *Waiter) bool { return x == w })
}

// TestFIFOEqualsNaiveLine: order, counts, choice and who is passed over are
// those of a plain list, after any sequence of changes.
func TestFIFOEqualsNaiveLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, n := newFIFO(mainLane), &naive{dry: map[Key]bool{}}
		g := &Gate{}
		passed := map[*Waiter]int64{}
		seq, now := uint64(0), int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				seq++
				w := &Waiter{Key: Key(rapid.IntRange(0, 5).Draw(t, "key")), seq: seq, gate: g}
				q.Push(w)
				n.line = append(n.line, w)
			},
			"remove": func(t *rapid.T) {
				if len(n.line) == 0 {
					t.Skip("empty")
				}
				w := n.line[rapid.IntRange(0, len(n.line)-1).Draw(t, "which")]
				q.Remove(w)
				n.remove(w)
			},
			"take": func(t *rapid.T) {
				now++
				w := q.Next()
				if w == nil {
					w = &Waiter{Key: 9} // a newcomer that never waited
				}
				for _, p := range n.line {
					if p == w {
						break
					}
					if _, ok := passed[p]; !ok {
						passed[p] = now
					}
				}
				q.Take(w, now)
				n.remove(w)
			},
			"ready": func(t *rapid.T) {
				k := Key(rapid.IntRange(0, 5).Draw(t, "key"))
				n.dry[k] = rapid.Bool().Draw(t, "dry")
				q.SetReady(k, !n.dry[k])
			},
			"": func(t *rapid.T) {
				if err := q.check(g); err != nil {
					t.Fatal(err)
				}
				if q.Next() != n.next() || q.Len() != len(n.line) {
					t.Fatalf("next %v of %d, want %v of %d", q.Next(), q.Len(), n.next(), len(n.line))
				}
				var head *Waiter
				if len(n.line) > 0 {
					head = n.line[0]
				}
				if q.Head() != head || q.Oldest() != head {
					t.Fatalf("head %v", q.Head())
				}
				for k := range Key(7) {
					if q.Waiting(k) != n.count(k) || q.First(k) != n.first(k) {
						t.Fatalf("key %d: %d wait, want %d", k, q.Waiting(k), n.count(k))
					}
				}
				for _, w := range n.line {
					if at, ok := passed[w]; ok != w.overtaken || ok && at != w.passed {
						t.Fatalf("waiter %d: passed over %v at %d, want %v at %d", w.seq, w.overtaken, w.passed, ok, at)
					}
				}
			},
		})
	})
}

// TestCheckFindsDamage: a check that accepts everything checks nothing.
func TestCheckFindsDamage(t *testing.T) {
	for name, damage := range map[string]func(*Gate, *fifo){
		"count":      func(_ *Gate, q *fifo) { q.n++ },
		"tail":       func(_ *Gate, q *fifo) { q.tail = q.head },
		"order":      func(_ *Gate, q *fifo) { q.tail.seq = 0 },
		"gate":       func(_ *Gate, q *fifo) { q.tail.gate = nil },
		"link":       func(_ *Gate, q *fifo) { q.tail.links[mainLane].prev = nil },
		"overtaken":  func(_ *Gate, q *fifo) { q.tail.overtaken = true },
		"key count":  func(_ *Gate, q *fifo) { q.keys[0].n++ },
		"key list":   func(_ *Gate, q *fifo) { q.keys[0].first.links[mainLane].keyPrev = q.tail },
		"heap entry": func(_ *Gate, q *fifo) { q.keys[1].dry = true },
		"heap order": func(_ *Gate, q *fifo) { q.swap(0, 1) },
		"running":    func(g *Gate, _ *fifo) { g.running = -1 },
		"lane":       func(g *Gate, _ *fifo) { g.inLane = 1 },
		"probes":     func(_ *Gate, q *fifo) { q.head.Probe = true },
		"draining":   func(g *Gate, _ *fifo) { g.draining = true },
		"unserved":   func(g *Gate, _ *fifo) { g.plan.Slots = 1 },
	} {
		g := New(Plan{}, newShelf(), nil)
		for i := range 4 {
			admit(t, g, 0, Key(i%2), false)
		}
		damage(g, g.queue.(*fifo))
		if g.Check() == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
