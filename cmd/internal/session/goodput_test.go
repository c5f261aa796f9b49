package session

import (
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
)

// Goodput is what was answered in time to a client that was there; the class is that of the
// request.
func TestGoodput(t *testing.T) {
	ask := wire.AppendQuery(nil, "select 1")
	for name, c := range map[string]struct {
		deadline int64
		begun    bool
		spoil    func(*lab)
		want     uint64
	}{
		"in time":          {deadline: 10, want: 1},
		"no deadline":      {want: 1},
		"just in time":     {deadline: 9, want: 1},
		"too late":         {deadline: 8},
		"a transaction":    {deadline: 8, begun: true, want: 1},
		"left":             {spoil: func(l *lab) { l.client.Lost(5) }},
		"hung up":          {spoil: func(l *lab) { l.client.Hangup(5) }},
		"has no more work": {spoil: func(l *lab) { l.client.EOF(5) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			g := l.client.Group()
			l.client.Data(ask, 2)
			l.client.wait.Class, l.client.wait.Deadline, l.client.wait.Begun = admission.SheddablePlus, c.deadline, c.begun
			if c.spoil != nil {
				c.spoil(l)
			}
			l.server.Data(answer(ask), 9)
			var want [admission.Classes]uint64
			want[classIndex(admission.SheddablePlus)] = c.want
			if g.Traffic.Goodput != want {
				t.Errorf("%v, want %v", g.Traffic.Goodput, want)
			}
			if err := l.core.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestClassIndex(t *testing.T) {
	for i := range admission.Classes {
		if got := classIndex(admission.ClassAt(i)); got != i {
			t.Errorf("class %v has index %d, want %d", admission.ClassAt(i), got, i)
		}
	}
	if got := classIndex(100); got != admission.Classes-1 {
		t.Errorf("what is no class has index %d", got)
	}
}
