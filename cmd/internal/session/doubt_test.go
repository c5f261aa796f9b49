package session

import (
	"strings"
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// A server that nobody uses says that it ends; its process takes a while to do so. Nobody
// may get it meanwhile, and its place is taken until its connection has ended.
func TestServerWithLastWords(t *testing.T) {
	l := newLab(t)
	l.server.Data(wire.AppendError(nil, &wire.Error{Severity: wire.SeverityFatal, Code: "57P01", Message: "terminating connection"}), 2)
	if st := l.core.Set().Stats(); st.Closing != 1 || st.Idle != 0 {
		t.Fatalf("%+v", st)
	}
	writes := l.wire.writes
	ask := wire.AppendQuery(nil, "select 1")
	if n := l.client.Data(ask, 3); n != 0 || len(l.env.dials) != 1 || l.wire.writes != writes {
		t.Fatalf("%d bytes used, %d dials, %d writes to the server", n, len(l.env.dials), l.wire.writes-writes)
	}
	l.server.Gone(2e9)
	if len(l.env.dials) != 2 {
		t.Fatalf("%d dials", len(l.env.dials))
	}
	next := &sink{}
	l.core.Dialed(2e9, l.env.dials[1], next, nil, nil, false)
	if n := l.client.Data(ask, 2e9); n != len(ask) || string(next.last) != string(ask) {
		t.Errorf("%d bytes used, the next server got %q", n, next.last)
	}
	if err := l.core.Check(); err != nil {
		t.Error(err)
	}
}

// The same for a server that was granted to a client which has not been read yet.
func TestGrantedServerWithLastWords(t *testing.T) {
	l := newLab(t)
	user := &sink{}
	other := l.login(user, 2)
	ask := wire.AppendQuery(nil, "select 1")
	l.client.Data(ask, 2)
	other.Data(ask, 2)
	l.server.Data(answer(ask), 3)
	if !other.pending {
		t.Fatal("not granted")
	}
	l.server.Data(wire.AppendError(nil, &wire.Error{Severity: wire.SeverityFatal, Code: "57P01", Message: "terminating connection"}), 3)
	if other.server != nil || other.ended {
		t.Fatalf("%v", other)
	}
	if n := other.Data(ask, 4); n != 0 || l.server.pool.State() != pool.Closing {
		t.Fatalf("%d bytes used, the server is %v", n, l.server.pool.State())
	}
	l.server.Gone(2e9)
	next := &sink{}
	l.core.Dialed(2e9, l.env.dials[1], next, nil, nil, false)
	if n := other.Data(ask, 2e9); n != len(ask) || string(next.last) != string(ask) {
		t.Errorf("%d bytes used, the next server got %q", n, next.last)
	}
}

// A login of which nothing may come does not keep anybody waiting, and who is refused
// hears why; one that works in the end serves as any.
func TestDoubt(t *testing.T) {
	l := newLab(t)
	l.server.Gone(2e9)
	ask := wire.AppendQuery(nil, "select 1")
	if n := l.client.Data(ask, 3e9); n != 0 || len(l.env.dials) != 2 {
		t.Fatalf("%d bytes used, %d dials", n, len(l.env.dials))
	}
	sv := l.env.dials[1]
	l.core.Doubt(4e9, sv, &wire.Error{Severity: wire.SeverityFatal, Code: "57P03"})
	l.core.Fire(60e9)
	if len(l.env.refused) != 1 || l.env.refused[0] != admission.NoServer {
		t.Fatalf("refused: %v", l.env.refused)
	}
	l.client.Data(ask, 60e9)
	msgs, _ := wiretest.Messages(l.user.last)
	if len(msgs) != 2 || !strings.HasSuffix(wire.ErrorFields(msgs[0].Body).Detail, " last_error=57P03") {
		t.Fatalf("told %s", wiretest.DumpBackend(l.user.last))
	}
	next := &sink{}
	l.core.Dialed(61e9, sv, next, nil, nil, false)
	if n := l.client.Data(ask, 62e9); n != len(ask) || string(next.last) != string(ask) {
		t.Errorf("%d bytes used, the server got %q", n, next.last)
	}
	if e, _ := sv.Info().Failure(); e != nil {
		t.Errorf("still failing: %v", e)
	}
	l.core.Doubt(63e9, sv, &wire.Error{Code: "57P03"}) // too late to matter
	if e, _ := sv.Info().Failure(); e != nil {
		t.Errorf("a doubt about a login that is over: %v", e)
	}
}
