package loop

import (
	"slices"
	"testing"
)

// Where many have something to do at once, whoever becomes ready meanwhile has its step in its
// turn, and they have theirs in the order in which it came to them.
func TestManyAtOnceDoNotHoldUpTheOthers(t *testing.T) {
	const many = 5 * backlogSteps
	l := handLoop(t, Options{})
	var order []int
	list := make([]*probe, many)
	for i := range list {
		p := &probe{t: t, onOpen: (*Conn).Pause}
		p.onData = func(_ *Conn, b []byte) int {
			order = append(order, i)
			return len(b)
		}
		list[i] = p
		write(t, adopt(t, l, p), "x")
	}
	other := &probe{t: t}
	peer := adopt(t, l, other)
	settle(t, l)
	if len(order) > 0 {
		t.Fatalf("%d are read while paused", len(order))
	}
	for _, p := range list {
		p.c.Resume()
	}
	for turns := 1; len(order) < many; turns++ {
		before := len(order)
		write(t, peer, "y")
		turn(t, l)
		if other.saw("data 1") != turns {
			t.Fatalf("turn %d: one that has become ready has had %d steps", turns, other.saw("data 1"))
		}
		if n := len(order) - before; n == 0 || n > backlogSteps+1 {
			t.Fatalf("turn %d: %d of the many have had a step", turns, n)
		}
	}
	if !slices.IsSorted(order) {
		t.Error("some were before those that came first")
	}
}
