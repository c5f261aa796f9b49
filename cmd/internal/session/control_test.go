package session

import "testing"

// Pauses of all and of single databases, in every order, cover what was said last of each.
func TestPausesCoverWhatWasSaidLast(t *testing.T) {
	type step struct {
		database string
		paused   bool
		changed  bool
	}
	for _, c := range []struct {
		steps  []step
		a, b   bool
		others int
	}{
		{steps: nil},
		{steps: []step{{"", false, false}}},
		{steps: []step{{"", true, true}, {"", true, false}}, a: true, b: true},
		{steps: []step{{"", true, true}, {"", false, true}}},
		{steps: []step{{"a", true, true}, {"a", true, false}}, a: true, others: 1},
		{steps: []step{{"a", true, true}, {"b", false, false}, {"a", false, true}, {"a", false, false}}},
		{steps: []step{{"", true, true}, {"a", false, true}}, b: true, others: 1},
		{steps: []step{{"", true, true}, {"a", false, true}, {"a", true, true}}, a: true, b: true},
		{steps: []step{{"a", true, true}, {"", false, true}}},
		{steps: []step{{"a", true, true}, {"", true, true}}, a: true, b: true},
	} {
		var p Pauses
		for _, s := range c.steps {
			if got := p.set(s.database, s.paused); got != s.changed {
				t.Errorf("%+v: changed %v", s, got)
			}
		}
		if p.Covers("a") != c.a || p.Covers("b") != c.b || len(p.Others) != c.others {
			t.Errorf("after %+v: a %v, b %v, %d others", c.steps, p.Covers("a"), p.Covers("b"), len(p.Others))
		}
	}
}
