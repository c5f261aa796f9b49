package upstream

import (
	"errors"
	"testing"
	"time"
)

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	now := time.Unix(1000, 0)
	h := &health{}
	for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000, 5000, 5000} {
		h.fail(errors.New("x"), now)
		want *= time.Millisecond
		if got := h.until.Sub(now); got != want {
			t.Errorf("after failure %d: %v, expected %v", i+1, got, want)
		}
		if h.rank(Any, h.until.Add(-1)) != bad || h.rank(Any, h.until) != promising {
			t.Errorf("after failure %d it is not bad until then", i+1)
		}
	}
	h.probed = true
	if h.rank(Any, h.until) != bad {
		t.Error("somebody is trying it")
	}
	h.answer(false, false, now)
	if h.rank(Any, now) != promising || h.failures != 0 {
		t.Errorf("after an answer %+v", *h)
	}
}

func TestRankOfARole(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		attrs             Attrs
		primary, standby_ rank
	}{
		{Any, promising, promising},
		{ReadWrite, promising, excluded},
		{ReadOnly, promising, promising},
		{Primary, promising, excluded},
		{Standby, excluded, promising},
		{PreferStandby, passable, promising},
	} {
		for _, standby := range []bool{false, true} {
			want := tc.primary
			if standby {
				want = tc.standby_
			}
			h := &health{}
			h.answer(true, standby, now)
			if got := h.rank(tc.attrs, now.Add(roleAge-1)); got != want {
				t.Errorf("%v, standby %v: %d, expected %d", tc.attrs, standby, got, want)
			}
			if got := h.rank(tc.attrs, now.Add(roleAge)); got != promising {
				t.Errorf("%v, standby %v: %d when it is no longer believed", tc.attrs, standby, got)
			}
			h.fail(errors.New("x"), now)
			if got := h.rank(tc.attrs, now); got != bad {
				t.Errorf("%v, standby %v: %d after a failure", tc.attrs, standby, got)
			}
		}
	}
}
