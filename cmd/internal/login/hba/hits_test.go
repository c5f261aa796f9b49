package hba

import (
	"slices"
	"testing"
)

// A rule counts in the file that is in force; what was counted before of another is gone.
func TestHits(t *testing.T) {
	old := &File{Rules: []Rule{{Number: 1}, {Number: 2}}}
	now := &File{Rules: []Rule{{Number: 1}}}
	var h Hits
	if h.Of(old) != nil {
		t.Error("counts before the first login")
	}
	h.Add(old, &old.Rules[1])
	h.Add(old, &old.Rules[1])
	if got := h.Of(old); !slices.Equal(got, []uint64{0, 0, 2}) || h.Of(now) != nil {
		t.Errorf("%v, and %v of another file", got, h.Of(now))
	}
	h.Add(now, &now.Rules[0])
	if got := h.Of(now); !slices.Equal(got, []uint64{0, 1}) || h.Of(old) != nil {
		t.Errorf("after a reload %v, and %v of the file before", got, h.Of(old))
	}
}
