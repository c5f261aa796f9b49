package relay

import (
	"bytes"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// FuzzPeers gives a session arbitrary bytes from both sides, in arbitrary
// pieces. Nothing may panic, use more than it was given, write to a side that
// does not exist, or go back to a boundary with answers outstanding.
func FuzzPeers(f *testing.F) {
	seed := func(client, server []byte) { f.Add(client, server, []byte{3, 1, 200, 7}) }
	b := wiretest.NewBackend(wiretest.BackendOptions{})
	for _, in := range [][]byte{
		bytes.Join([][]byte{q("begin"), q("select 1"), q("commit")}, nil),
		sync(parse("a", "select 1"), bindTo("a"), execute()),
		append(q("copy t from stdin"), wire.AppendMessage(nil, 'd', []byte("x\n"))...),
		sync(parse("", "begin"), bindTo(""), execute()),
		append(sync(parse("", "copy t from stdin"), bindTo(""), execute()), sync(wire.AppendEmpty(nil, 'c'))...),
		wiretest.AppendFunctionCall(nil, 177, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 2}),
		q("deallocate a"), q("discard all"), wire.AppendEmpty(nil, wire.MsgTerminate),
	} {
		b.Feed(in)
		b.Run()
		seed(in, b.Output())
	}
	f.Fuzz(func(t *testing.T, client, server, cuts []byte) {
		shared := &Shared{Statements: NewStatements(4096), MaxPrepared: 2, TextLimit: 64}
		c := NewClient(shared, 1, NewParams([]Param{{Name: "DateStyle", Value: "German"}}))
		defer c.Free()
		s := NewServer(shared, 1, nil)
		defer s.Free()
		fuzzed{t: t, c: c, s: s, cuts: cuts}.play(client, server)
		if shared.Statements.Bytes() > 4096 {
			t.Errorf("%d bytes of statements", shared.Statements.Bytes())
		}
	})
}

// fuzzed is one session under the fuzzer.
type fuzzed struct {
	t    *testing.T
	c    *Client
	s    *Server
	cuts []byte
	at   int
}

// cut returns the next piece's length.
func (f *fuzzed) cut(n int) int {
	if len(f.cuts) == 0 {
		return n
	}
	f.at++
	return min(n, 1+int(f.cuts[f.at%len(f.cuts)]))
}

func (f fuzzed) play(client, server []byte) {
	var p Plan
	given, answered := 0, 0
	for range 4096 {
		given = min(len(client), given+f.cut(len(client)))
		p.Reset()
		n, ev := f.c.Input(client[:given], &p)
		if n > given {
			f.t.Fatalf("used %d of %d", n, given)
		}
		client, given = client[n:], given-n
		switch {
		case ev == Violation:
			if f.c.Fault() == nil {
				f.t.Fatal("a violation without a reason")
			}
			return
		case ev == Terminate:
			f.gone(&p)
			return
		case ev == Acquire && f.s.Outstanding() > 0:
			f.c.Refuse(tooMany)
		case ev == Acquire:
			f.c.Bind(f.s, &p)
		case f.c.Server() == nil && len(p.ToServer) > 0:
			f.t.Fatal("bytes for a server that is not there")
		}
		answered = min(len(server), answered+f.cut(len(server)))
		p.Reset()
		n, ev = f.s.Input(server[:answered], &p)
		if n > answered {
			f.t.Fatalf("used %d of %d", n, answered)
		}
		server, answered = server[n:], answered-n
		switch ev {
		case Broken:
			return
		case Release:
			if f.s.Outstanding() > 0 || f.s.Tx() != wire.Idle {
				f.t.Fatalf("released with %d outstanding in state %c", f.s.Outstanding(), f.s.Tx())
			}
			if f.c.Server() != nil {
				f.c.Unbind()
			}
		}
		if len(client) == 0 && len(server) == 0 {
			break
		}
	}
	f.gone(&p)
}

func (f fuzzed) gone(p *Plan) {
	if f.c.Server() != nil {
		p.Reset()
		f.c.Gone(p)
	}
}
