package pool

import "testing"

// A full server stops the dials of all keys, and the clocks go on; when it is over they are
// dialled without a further call but Fire.
func TestHush(t *testing.T) {
	s := New(Options{Budget: 4})
	s.Demand(0, 1, 4, 0)
	if a := s.Actions(nil); len(a) != 1 || !s.Warming(0) {
		t.Fatalf("%v, warming %v", a, s.Warming(0))
	}
	changes := s.Changes()
	s.Hush(1, 500)
	s.Hush(2, 400) // not shorter
	if s.Warming(0) || s.Changes() == changes {
		t.Errorf("warming %v, %d changes", s.Warming(0), s.Changes()-changes)
	}
	s.Demand(1, 1, 4, 3)
	if a := s.Actions(nil); len(a) != 0 {
		t.Errorf("%v", a)
	}
	if next := s.Fire(4); next != 500 {
		t.Errorf("to be fired at %d", next)
	}
	if a := s.Actions(nil); len(a) != 0 {
		t.Errorf("%v", a)
	}
	s.Fire(500)
	if a := s.Actions(nil); len(a) != 1 || a[0].Server.Key != 1 || !s.Warming(1) {
		t.Errorf("%v, warming %v", a, s.Warming(1))
	}
	check(t, s)
}
