package relay

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

func TestCleanUp(t *testing.T) {
	for text, want := range map[string][]byte{
		"SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;":                {0, 1, 2, 3},
		"select pg_advisory_unlock_all()":                                                      {0},
		"; Close All ; select pg_advisory_unlock_all();":                                       {1, 0},
		"select pg_advisory_unlock_all(); select 1":                                            nil,
		"select pg_advisory_unlock_all() from t":                                               nil,
		"select 'pg_advisory_unlock_all()'":                                                    nil,
		"select 1; -- pg_advisory_unlock_all();":                                               nil,
		"select pg_advisory_unlock_all();" + string(bytes.Repeat([]byte("close all;"), 8)):     nil,
		"select pg_advisory_unlock_all();" + string(bytes.Repeat([]byte{' '}, longestCleanUp)): nil,
		"select pg_advisory_unlock_all(); reset all; drop table t":                             nil,
		"reset all; close all":                                                                 nil,
		";":                                                                                    nil,
		"":                                                                                     nil,
	} {
		list, n, ok := cleanUp([]byte(text))
		if ok != (want != nil) || ok && !slices.Equal(list[:n], want) {
			t.Errorf("%q is %v, %v", text, list[:n], ok)
		}
	}
}

// What drivers send to clean up is answered without a server where none has anything of the
// client's: it can't be refused then.
func TestCleanUpNeedsNoServer(t *testing.T) {
	reset := q("SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;")
	exec := func(text string) []byte {
		return sync(parse("", text), bindTo(""), wire.AppendDescribe(nil, 'P', ""), execute())
	}
	for _, c := range []struct {
		name  string
		mode  Mode
		first [][]byte // before it
		in    []byte
		needs bool // a server
	}{
		{name: "a pool's", in: reset},
		{name: "a pool's in statement mode", mode: Single, in: reset},
		{name: "a pool's in session mode", mode: Session, in: reset, needs: true},
		{name: "a pool's in a transaction", first: [][]byte{q("begin")}, in: reset, needs: true},
		{name: "a pool's with other settings", first: [][]byte{q("set application_name = 'other'")}, in: reset, needs: true},
		{name: "all names", first: [][]byte{sync(parse("a", "select 1"))}, in: exec("deallocate all")},
		{name: "all names in session mode", mode: Session, in: exec("deallocate all"), needs: true},
		{name: "all names in a transaction", first: [][]byte{q("begin")}, in: exec("deallocate all"), needs: true},
		{name: "one name", first: [][]byte{sync(parse("a", "select 1"))}, in: exec("deallocate a")},
		{name: "a name that there is not", first: [][]byte{sync(parse("a", "select 1"))}, in: exec("deallocate b"), needs: true},
		{
			name: "pgJDBC's probe behind a Close", first: [][]byte{sync(parse("a", "select 1"))},
			in: append(sync(wire.AppendClose(nil, 'S', "a"), parse("b", ""), bindTo("b"), wire.AppendDescribe(nil, 'P', ""), execute()),
				sync(wire.AppendClose(nil, 'S', "b"))...),
		},
		{
			name: "an empty statement behind a Close of all", first: [][]byte{sync(parse("a", "select 1")), sync(parse("b", "")), sync(parse("", ""))},
			in: sync(wire.AppendClose(nil, 'S', "a"), wire.AppendClose(nil, 'S', ""), bindTo("b"), execute(), parse("", ""), bindTo(""), execute(),
				wire.AppendClose(nil, 'S', "b")),
		},
		{name: "a name that was closed", first: [][]byte{sync(parse("a", ""))}, in: sync(wire.AppendClose(nil, 'S', "a"), bindTo("a"), execute()), needs: true},
		{name: "no name, closed", first: [][]byte{sync(parse("", ""))}, in: sync(wire.AppendClose(nil, 'S', ""), bindTo(""), execute()), needs: true},
		{name: "a name of the same batch", in: sync(parse("a", "select 1"), parse("", "deallocate a"), bindTo(""), execute()), needs: true},
		{name: "one name, and another statement", first: [][]byte{sync(parse("a", "select 1"))}, in: sync(parse("", "deallocate a"), bindTo(""), execute(), bindTo("a"), execute()), needs: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.client.SetMode(c.mode)
			for _, b := range c.first {
				r.send(b)
			}
			var p Plan
			_, ev := r.client.Input(c.in, &p)
			if (ev == Acquire) != c.needs {
				t.Errorf("%v, it needs a server: %v", ev, c.needs)
			}
			if c.needs {
				return
			}
			r.out = nil
			r.deliver(&p)
			if c.first == nil {
				if want := direct(c.in); !bytes.Equal(r.out, want) {
					t.Errorf("got\n%swant\n%s", wiretest.DumpBackend(r.out), wiretest.DumpBackend(want))
				}
			}
			if r.client.Prepared() != 0 {
				t.Errorf("%d names are left", r.client.Prepared())
			}
		})
	}
}
