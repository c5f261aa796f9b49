package relay

import (
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// stubborn is a Pinner that refuses, and remembers what it was asked.
type stubborn struct {
	asked Pins
	no    *wire.Error
}

func (s *stubborn) Pin(p Pins) *wire.Error {
	s.asked |= p
	return s.no
}

// pinRig is a client that has a server, and keeps it whatever it leaves.
func pinRig(t *testing.T, q Pinner) (*rig, func(texts ...string) Pins) {
	r := newRig(t, 1)
	r.servers[0].s.SetPinner(q)
	return r, func(texts ...string) Pins {
		t.Helper()
		for _, text := range texts {
			r.send(wire.AppendQuery(nil, text))
		}
		return r.client.Pinned()
	}
}

// TestPins: what is left after each of some conversations, as far as it is known.
func TestPins(t *testing.T) {
	for name, c := range map[string]struct {
		say  []string
		want Pins
	}{
		"nothing":                       {[]string{"select 1", "begin", "insert 1", "commit"}, 0},
		"listen":                        {[]string{"listen a"}, PinListen},
		"listen and unlisten":           {[]string{"listen a", "listen b", "unlisten a", "unlisten b"}, 0},
		"unlisten of another":           {[]string{"listen a", "unlisten b"}, PinListen},
		"unlisten all":                  {[]string{"listen a", "listen b", "unlisten *"}, 0},
		"listen, rolled back":           {[]string{"begin", "listen a", "rollback"}, 0},
		"unlisten, rolled back":         {[]string{"listen a", "begin", "unlisten a", "rollback"}, PinListen},
		"listen that fails with others": {[]string{"listen a; fail 22012"}, 0},
		"listen, committed in a text":   {[]string{"begin; listen a; commit; fail 22012"}, PinListen},
		"prepare":                       {[]string{"prepare q as select 1"}, PinPrepare},
		"prepare, rolled back":          {[]string{"begin", "prepare q as select 1", "rollback"}, PinPrepare},
		"prepare that fails":            {[]string{"prepare q as select 1", "prepare q as select 2", "deallocate q"}, 0},
		"deallocate all":                {[]string{"prepare q as select 1", "prepare r as select 2", "deallocate all"}, 0},
		"a table":                       {[]string{"create temp table x"}, PinTemp},
		"a table on commit drop":        {[]string{"begin", "create temp table x on commit drop", "commit"}, 0},
		"a table that is dropped":       {[]string{"create temp table x", "drop table x"}, 0},
		"a drop that is rolled back":    {[]string{"create temp table x", "begin", "drop table x", "rollback"}, PinTemp},
		"a drop back to a savepoint":    {[]string{"begin", "create temp table x", "savepoint a", "drop table x", "rollback to a", "commit"}, PinTemp},
		"discard temp":                  {[]string{"create temp table x", "discard temp"}, 0},
		"a cursor":                      {[]string{"declare c cursor with hold for select 1"}, PinCursor},
		"a cursor, rolled back":         {[]string{"begin", "declare c cursor with hold for select 1", "rollback"}, 0},
		"a cursor, closed":              {[]string{"declare c cursor with hold for select 1", "close c"}, 0},
		"a cursor, closed at once":      {[]string{"begin", "declare c cursor with hold for select 1", "close c", "commit"}, 0},
		"a lock":                        {[]string{"select pg_advisory_lock(1)"}, PinLock},
		"a lock, rolled back":           {[]string{"begin", "select pg_advisory_lock(1)", "rollback"}, PinLock},
		"a lock, given back":            {[]string{"select pg_advisory_lock(1)", "select pg_advisory_unlock(1)"}, 0},
		"a lock, given back twice":      {[]string{"select pg_advisory_lock(1)", "select pg_advisory_lock(1)", "select pg_advisory_unlock(1)"}, PinLock},
		"a lock of another number":      {[]string{"select pg_advisory_lock(1)", "select pg_advisory_unlock(2)"}, PinLock},
		"a lock that others have":       {[]string{"select pg_try_advisory_lock(5)"}, 0},
		"a lock that was tried":         {[]string{"select pg_try_advisory_lock(1)"}, PinLock},
		"all locks, given back":         {[]string{"select pg_advisory_lock(1)", "select pg_advisory_lock(2)", "select pg_advisory_unlock_all()"}, 0},
		"everything":                    {[]string{"listen a", "create temp table x", "prepare q as select 1", "select pg_advisory_lock(1)"}, PinListen | PinTemp | PinPrepare | PinLock},
		"discard all":                   {[]string{"listen a", "create temp table x", "prepare q as select 1", "select pg_advisory_lock(1)", "discard all"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, say := pinRig(t, nil)
			if got := say(c.say...); got != c.want {
				t.Errorf("pinned for %q, want %q\n%s", got, c.want, wiretest.DumpBackend(r.out))
			}
		})
	}
}

func TestPinsByTheExtendedProtocol(t *testing.T) {
	r, say := pinRig(t, nil)
	batch := func(name, text string) {
		b := wiretest.AppendBind(wiretest.AppendParse(nil, name, text), wiretest.Bind{Statement: name})
		r.send(wire.AppendEmpty(wire.AppendExecute(b), wire.MsgSync))
	}
	batch("l", "listen a")
	if got := say(); got != PinListen {
		t.Fatalf("pinned for %q", got)
	}
	batch("", "unlisten *")
	if got := say(); got != 0 {
		t.Errorf("still pinned for %q", got)
	}
}

// TestRefusedPins: the server is not told what must not pin, and is in the state that the
// client was told.
func TestRefusedPins(t *testing.T) {
	no := &wire.Error{Severity: "ERROR", Code: wire.CodeTooManyConnections, Message: "no", Detail: "reason=pins"}
	q := &stubborn{no: no}
	r, say := pinRig(t, q)
	say("begin", "insert 1", "listen a")
	if got := r.servers[0].b.TxState(); got != wire.InFailed {
		t.Errorf("the server's transaction is %c", got)
	}
	bind := wiretest.AppendBind(wiretest.AppendParse(nil, "", "create temp table x"), wiretest.Bind{})
	say("rollback", "create temp table x; drop table x")
	if q.asked != PinListen {
		t.Errorf("asked for %q", q.asked)
	}
	r.send(wire.AppendEmpty(wire.AppendExecute(bind), wire.MsgSync))
	if q.asked != PinListen|PinTemp || r.client.Pinned() != 0 || r.servers[0].b.Left() != "" {
		t.Errorf("asked for %q, pinned for %q, left %q", q.asked, r.client.Pinned(), r.servers[0].b.Left())
	}
	refused := 0
	msgs, _ := wiretest.Messages(r.out)
	for _, m := range msgs {
		if m.Type == wire.MsgErrorResponse && wire.ErrorFields(m.Body).Message == no.Message {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("told %d times\n%s", refused, wiretest.DumpBackend(r.out))
	}
}

func TestPinsAreBoundedByName(t *testing.T) {
	w := &pinState{}
	for range 2 * maxPinNames {
		w.add(PinListen, string(rune('a'+len(w.names[0])%26))+string(rune('0'+len(w.names[0])/26)))
	}
	if n := len(w.names[0]); n > maxPinNames || w.vague != PinListen && n < maxPinNames {
		t.Errorf("%d names, vague %q", n, w.vague)
	}
}
