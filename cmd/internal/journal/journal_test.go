package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
)

func TestRingKeepsTheLast(t *testing.T) {
	var r Ring[int]
	if n := len(r.Newest()); n != 0 {
		t.Fatalf("%d in an empty ring", n)
	}
	for i := range 2*Kept + 7 {
		r.Add(i)
		list := r.Newest()
		if want := min(i+1, Kept); len(list) != want || list[0] != i || list[len(list)-1] != i+1-want {
			t.Fatalf("after %d: %d from %d to %d", i, len(list), list[0], list[len(list)-1])
		}
	}
}

// Groups that differ in nothing that is shown are one row, and kinds beyond the bound are counted together.
func TestKindsOfRefusals(t *testing.T) {
	g := &session.Group{Key: &session.KeyInfo{}, Workload: &session.Workload{Name: "api"}, Database: "db", Role: "app"}
	twin := *g
	var r Refusals
	r.count(refusalKind{g, "web", "", admission.QueueAge}, 5)
	r.count(refusalKind{&twin, "web", "", admission.QueueAge}, 9)
	r.count(refusalKind{g, "web", "", admission.QueueFull}, 9)
	if list := r.Kinds(10, time.Now()); len(list) != 2 || list[0].N+list[1].N != 3 {
		t.Fatalf("%+v", list)
	}
	for i := range 2 * maxKinds {
		r.count(refusalKind{g, "web", fmt.Sprint("tenant-", i), admission.QueueAge}, 11)
	}
	list := r.Kinds(12, time.Now())
	if last := list[len(list)-1]; len(list) != maxKinds || last.Reason != "" || last.N != maxKinds+3 {
		t.Errorf("%d kinds, the last %+v", len(list), last)
	}
}
