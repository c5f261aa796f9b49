package admission

import (
	"fmt"
	"testing"
)

func TestPinsAreBounded(t *testing.T) {
	for _, c := range []struct {
		connections int
		max, share  float64
		want        int
	}{
		{100, 0.1, 1, 10},
		{100, 0.1, 0.5, 5},
		{30, 0.1, 1, 3},
		{100, 0.1, 0.01, 1}, // at least one
		{100, 0, 1, 0},
		{3, 1, 1, 2}, // one is for all others
		{1, 1, 1, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			g := New(Plan{Slots: 1, Connections: c.connections, Workloads: []Workload{
				{Share: c.share, MaxPinned: c.max, Lendable: 1, Borrow: 1}, {Share: 1 - c.share, Lendable: 1, Borrow: 1},
			}}, newShelf(), nil)
			n := 0
			for g.Pin(0, 0) {
				if n++; n > c.connections {
					t.Fatal("no end of it")
				}
			}
			if n != c.want {
				t.Errorf("%d pinned, want %d", n, c.want)
			}
			if st := g.Workload(0); st.Pinned != n || st.Sessions != n || st.Pins != uint64(n) {
				t.Errorf("the workload says %+v", st)
			}
			for range n {
				g.Unpin(0, 0, nil)
			}
			if st := g.Workload(0); st.Pinned != 0 || st.Sessions != 0 {
				t.Errorf("afterwards the workload says %+v", st)
			}
			if err := g.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSessionsAndPinsLeaveOneTogether(t *testing.T) {
	s := newShelf()
	s.idle[1] = 9
	g := New(Plan{Slots: 1, Connections: 3, Workloads: []Workload{{Share: 1, MaxPinned: 1}}}, s, nil)
	if v := g.Admit(0, &Waiter{Key: 1, Want: Session}); v.Outcome != Granted {
		t.Fatalf("a session is %v", v.Outcome)
	}
	if !g.Pin(0, 0) || g.Pin(0, 0) {
		t.Error("beside one session not one pin of three connections")
	}
}

func TestUnpinWithoutAPin(t *testing.T) {
	g := New(Plan{Slots: 1}, newShelf(), nil)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	g.Unpin(0, 0, nil)
}
