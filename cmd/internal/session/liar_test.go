package session

import (
	"testing"

	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
)

// What a server says behind its last word is for nobody: it is given up when that is told,
// and not when its connection ends, which a server that lies may put off. Trap 16.
func TestNothingFollowsTheLastWord(t *testing.T) {
	l := newLab(t)
	ask := wire.AppendQuery(nil, "select 1")
	l.client.Data(ask, 2)
	last := wire.AppendError(nil, &wire.Error{Severity: wire.SeverityFatal, Code: "57P01", Message: "go"})
	says := append(last[:len(last):len(last)], answer(ask)...)
	if n := l.server.Data(says, 3); n != len(says) {
		t.Errorf("%d bytes of %d used", n, len(says))
	}
	if string(l.user.last) != string(last) || !l.client.ended || l.env.ended[0] != ServerLost {
		t.Errorf("told %q, ended %v", l.user.last, l.env.ended)
	}
	if st := l.core.Set().Stats(); st.Closing != 1 {
		t.Errorf("%+v", st)
	}
}

// A server that was given up keeps its place until its connection ends; but one that goes on
// talking instead is not listened to for ever.
func TestServersThatDoNotStopTalking(t *testing.T) {
	l := newLab(t)
	l.client.Data(wire.AppendQuery(nil, "select 1"), 2)
	l.server.Data([]byte("nonsense"), 3)
	if l.env.ended[0] != ServerDesync {
		t.Fatal(l.env.ended)
	}
	much := make([]byte, 1<<20)
	n := 0
	for ; n < 1000 && !l.wire.closed; n++ {
		if st := l.core.Set().Stats(); st.Closing != 1 {
			t.Fatalf("after %d MB: %+v", n, st)
		}
		l.server.Data(much, 4)
	}
	if st := l.core.Set().Stats(); n < 10 || n > 100 || st.Closing != 0 || l.server.pool.State() == pool.Closing {
		t.Errorf("after %d MB: %+v", n, st)
	}
	l.server.Gone(5) // the loop says so too
	if err := l.core.Check(); err != nil {
		t.Error(err)
	}
}
