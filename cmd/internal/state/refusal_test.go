package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The most frequent kinds come first; all others, those without a name among them, are one.
func TestMostFrequent(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	kinds := func() []RefusalCount {
		return []RefusalCount{
			{Reason: "queue_age", N: 1, Last: late}, {Reason: "queue_full", N: 5}, {N: 7, Last: early}, {Reason: "rate", N: 3},
		}
	}
	for most, want := range map[int][]RefusalCount{
		3: {{Reason: "queue_full", N: 5}, {Reason: "rate", N: 3}, {Reason: "queue_age", N: 1, Last: late}, {N: 7, Last: early}},
		2: {{Reason: "queue_full", N: 5}, {Reason: "rate", N: 3}, {N: 8, Last: late}},
		0: {{N: 16, Last: late}},
	} {
		if diff := cmp.Diff(want, MostFrequent(kinds(), most)); diff != "" {
			t.Errorf("%d of them (- wanted, + got):\n%s", most, diff)
		}
	}
	if got := MostFrequent([]RefusalCount{{Reason: "rate", N: 3}}, 1); len(got) != 1 || got[0].Reason != "rate" {
		t.Errorf("one of one: %+v", got)
	}
}
