package relay

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// rig plays one client against fake servers, taking a fresh or a used server
// for every transaction.
type rig struct {
	t       *testing.T
	shared  *Shared
	client  *Client
	servers []*rigServer
	next    int
	out     []byte // what the client was told
	bound   *rigServer
	kept    *rigServer // what the client has left something on
	grants  int
	watch   func(toServer []byte)
}

type rigServer struct {
	s *Server
	b *wiretest.Backend
}

func newRig(t *testing.T, servers int, want ...Param) *rig {
	r := &rig{t: t, shared: &Shared{Statements: NewStatements(1 << 20), MaxPrepared: 3, TextLimit: 1 << 20}}
	for range servers {
		r.servers = append(r.servers, &rigServer{
			s: NewServer(r.shared, 0, []Param{{Name: "DateStyle", Value: "ISO, MDY"}, {Name: "application_name", Value: ""}}),
			b: wiretest.NewBackend(wiretest.BackendOptions{}),
		})
	}
	r.client = NewClient(r.shared, 0, NewParams(want))
	return r
}

// send gives the client's bytes to the relay and runs everything to its end.
func (r *rig) send(in []byte) {
	r.t.Helper()
	var p Plan
	for rounds := 0; ; rounds++ {
		if rounds > 10000 {
			r.t.Fatal("no end in sight")
		}
		p.Reset()
		n, ev := r.client.Input(in, &p)
		in = in[n:]
		r.deliver(&p)
		switch ev {
		case Acquire:
			r.grants++
			r.next++
			if r.bound = r.kept; r.kept == nil {
				r.bound = r.servers[r.next%len(r.servers)]
			}
			p.Reset()
			r.client.Bind(r.bound.s, &p)
			r.deliver(&p)
			r.serve()
			continue
		case Violation:
			r.t.Fatalf("violation: %v", r.client.Fault())
		case Terminate:
			return
		}
		if r.bound != nil {
			r.serve()
		}
		if len(in) == 0 || n == 0 && r.bound == nil {
			return
		}
	}
}

func (r *rig) deliver(p *Plan) {
	for _, s := range p.ToClient {
		r.out = append(r.out, s...)
	}
	for _, s := range p.ToServer {
		if r.watch != nil {
			r.watch(s)
		}
		r.bound.b.Feed(s)
	}
}

// serve lets the bound server answer.
func (r *rig) serve() {
	r.t.Helper()
	for r.bound != nil {
		r.bound.b.Run()
		out := r.bound.b.Output()
		if len(out) == 0 {
			return
		}
		for len(out) > 0 && r.bound != nil {
			var p Plan
			n, ev := r.bound.s.Input(out, &p)
			out = out[n:]
			r.deliver(&p)
			switch ev {
			case Release:
				if s := r.client.Server(); s != nil {
					r.client.Unbind()
				}
				if r.client.Pinned() != 0 {
					r.client.Keep(r.bound.s)
					r.kept, r.bound = r.bound, nil
					continue
				}
				r.client.Keep(nil)
				r.kept = nil
				if r.bound.s.Dirty() {
					var p Plan
					r.bound.s.Clean(&p)
					r.deliver(&p)
					continue
				}
				if !r.bound.b.Idle() {
					r.t.Fatalf("released while the backend is in state %c", r.bound.b.TxState())
				}
				r.bound = nil
			case Settled:
				if r.client.Refused() {
					r.client.Unbind()
					r.bound = nil
				}
			case Broken:
				r.t.Fatal("broken")
			}
		}
	}
}

// direct is what a server would have said to the same bytes.
func direct(in []byte) []byte {
	b := wiretest.NewBackend(wiretest.BackendOptions{})
	b.Feed(in)
	b.Run()
	return b.Output()
}

func q(text string) []byte { return wire.AppendQuery(nil, text) }

func sync(parts ...[]byte) []byte {
	return wire.AppendEmpty(bytes.Join(parts, nil), wire.MsgSync)
}

func parse(name, text string) []byte { return wiretest.AppendParse(nil, name, text) }

func bindTo(name string) []byte {
	return wiretest.AppendBind(nil, wiretest.Bind{Statement: name})
}

func execute() []byte { return wire.AppendExecute(nil) }

// A Flush with a body makes Postgres skip to the next Sync, unasked: a Query behind it would never
// be answered, and its slot be taken for ever. So nothing of it gets there.
func TestFlushWithABody(t *testing.T) {
	bad := append([]byte{wire.MsgFlush, 0, 0, 0, 5, 'x'}, q("select 2")...)
	r := newRig(t, 1)
	var p Plan
	if _, ev := r.client.Input(bad, &p); ev != Violation {
		t.Errorf("without a server: %v", ev)
	}
	r = newRig(t, 1)
	if _, ev := r.client.Input(q("select 1"), &p); ev != Acquire {
		t.Fatal(ev)
	}
	r.client.Bind(r.servers[0].s, &p)
	r.client.Input(q("select 1"), &p)
	p.Reset()
	if n, ev := r.client.Input(bad, &p); n != 0 || ev != Violation || len(p.ToServer) > 0 {
		t.Errorf("%d bytes used, %v, %q to the server", n, ev, p.ToServer)
	}
}

// A server complains of something without an answer, such as a Flush, before the Sync has come:
// it skips to that, and is not about to end.
func TestAnErrorBeforeTheSync(t *testing.T) {
	r := newRig(t, 1)
	s := r.servers[0].s
	var p Plan
	batch := append(parse("a", "select 1"), wire.AppendEmpty(nil, wire.MsgFlush)...)
	for {
		n, ev := r.client.Input(batch, &p)
		if batch = batch[n:]; ev == Acquire {
			r.client.Bind(s, &p)
		} else {
			break
		}
	}
	s.Input(wire.AppendEmpty(nil, wire.MsgParseComplete), &p)
	told := wire.AppendError(nil, &wire.Error{Severity: "ERROR", Code: "08P01", Message: "invalid message format"})
	if _, ev := s.Input(told, &p); ev != None || s.Told() {
		t.Fatalf("%v, taken for a last word: %v", ev, s.Told())
	}
	p.Reset()
	if n, _ := r.client.Input(sync(), &p); n == 0 || len(p.ToServer) == 0 {
		t.Fatal("the Sync is not passed on")
	}
	p.Reset()
	if _, ev := s.Input(wire.AppendReadyForQuery(nil, wire.Idle), &p); ev != Release || len(p.ToClient) == 0 {
		t.Errorf("%v, %d spans for the client", ev, len(p.ToClient))
	}
}

// A client leaves whose BEGIN has just failed; the next one has nothing to do with that.
func TestAFailedBeginIsNotTheNextClients(t *testing.T) {
	r := newRig(t, 1)
	s := r.servers[0]
	var p Plan
	r.client.Input(q("begin"), &p)
	if _, ev := r.client.Input(q("select 1"), &p); ev != Acquire {
		t.Fatal(ev)
	}
	p.Reset()
	r.client.Bind(s.s, &p)
	r.client.Input(q("select 1"), &p)
	p.Reset()
	failed := wire.AppendError(nil, &wire.Error{Severity: "ERROR", Code: "25006", Message: "no"})
	s.s.Input(failed, &p)
	p.Reset()
	r.client.Gone(&p)
	p.Reset()
	s.s.Input(wire.AppendReadyForQuery(nil, wire.Idle), &p)
	next := NewClient(r.shared, 0, NewParams(nil))
	p.Reset()
	next.Bind(s.s, &p)
	for range 2 {
		next.Input(q("select 2"), &p)
	}
	if next.Settling() {
		t.Error("the next client waits for a BEGIN of another one")
	}
}

func TestAnswersEqualADirectConnection(t *testing.T) {
	cases := map[string][][]byte{
		"simple":             {q("select 1"), q("rows 3 10"), q("fail 22012"), q("")},
		"transaction":        {q("begin"), q("select 1"), q("insert 1"), q("commit")},
		"begin commit":       {q("begin"), q("commit")},
		"commit outside":     {q("commit"), q("rollback")},
		"failed transaction": {q("begin"), q("fail 22012"), q("select 1"), q("rollback"), q("select 1")},
		"multi":              {q("select 1; select 2; fail 22012; select 3"), q("begin; select 1"), q("commit; select 1")},
		"extended":           {sync(parse("", "select 7"), bindTo(""), wire.AppendDescribe(nil, 'P', ""), execute())},
		"begin extended": {
			sync(parse("", "begin"), bindTo(""), execute()),
			sync(parse("", "select 1"), bindTo(""), execute()),
			sync(parse("", "commit"), bindTo(""), execute()),
		},
		"deallocate behind a Close that an error has skipped": {
			sync(parse("a", "fail 23505")),
			bytes.Join([][]byte{
				sync(bindTo("a"), execute(), wire.AppendClose(nil, 'S', "a")),
				sync(parse("", "deallocate a"), bindTo(""), execute()),
			}, nil),
			sync(bindTo("a"), execute()),
		},
		"named over transactions": {
			sync(parse("a", "select 1")), sync(bindTo("a"), execute()), sync(bindTo("a"), execute()),
			sync(parse("b", "select 2"), wire.AppendDescribe(nil, 'S', "b")), sync(bindTo("b"), execute(), bindTo("a"), execute()),
			sync(wire.AppendClose(nil, 'S', "a")), sync(bindTo("a"), execute()),
		},
		"many names": {
			sync(parse("a", "select 1"), parse("b", "select 2"), parse("c", "select 3"), parse("d", "select 4"), parse("e", "select 5")),
			sync(bindTo("a"), execute()), sync(bindTo("b"), execute(), bindTo("e"), execute()), sync(bindTo("c"), execute(), bindTo("a"), execute()),
			q("deallocate b"), sync(bindTo("b"), execute()), q("deallocate all"), sync(bindTo("a"), execute()),
		},
		"duplicate name": {sync(parse("a", "select 1")), sync(parse("a", "select 2")), sync(bindTo("a"), execute())},
		"used behind a Close": {
			sync(parse("a", "")), sync(wire.AppendClose(nil, 'S', "a"), bindTo("a"), execute()), sync(bindTo("a"), execute()),
			sync(parse("b", "")), sync(wire.AppendClose(nil, 'S', "a"), parse("a", ""), bindTo("a"), execute(), bindTo("b"), execute()),
			sync(wire.AppendClose(nil, 'S', "b"), parse("b", ""), bindTo("b"), execute()), sync(bindTo("b"), execute(), bindTo("a"), execute()),
			sync(parse("", "")), sync(wire.AppendClose(nil, 'S', ""), parse("", ""), bindTo(""), execute()),
			sync(wire.AppendClose(nil, 'S', ""), bindTo(""), execute()), sync(bindTo(""), execute()),
		},
		"failed parse": {sync(parse("a", "nonsense")), sync(bindTo("a"), execute()), sync(parse("a", "select 1")), sync(bindTo("a"), execute())},
		"unnamed over transactions": {
			sync(parse("", "select 5")), sync(bindTo(""), execute()), sync(bindTo(""), execute()), q("select 1"), sync(bindTo(""), execute()),
		},
		"skip until sync": {sync(parse("", "fail 22012"), bindTo(""), execute(), q("select 1"), parse("x", "select 1")), sync(bindTo("x"), execute())},
		"several syncs":   {bytes.Join([][]byte{sync(parse("", "select 1"), bindTo(""), execute()), sync(bindTo("nope")), sync(bindTo(""), execute())}, nil)},
		"pipelined queries": {bytes.Join([][]byte{
			q("begin"), q("insert 1"), q("commit"), q("select 1"), q("begin"), q("fail 22012"), q("commit"), q("select 2"),
		}, nil)},
		"copy in":      {q("copy t from stdin"), wire.AppendMessage(nil, 'd', []byte("1\n")), wire.AppendEmpty(nil, 'c'), q("select 1")},
		"copy in fail": {q("copy t from stdin"), wire.AppendCopyFail(nil, "no"), q("select 1")},
		"copy out":     {q("copy t to stdout 5 20")},
		"copy in libpq": {
			sync(parse("", "copy t from stdin"), bindTo(""), execute()), wire.AppendMessage(nil, 'd', []byte("1\n")),
			sync(wire.AppendEmpty(nil, 'c')), q("select 1"),
		},
		"copy in libpq fails": {
			sync(parse("", "copyfail 1 from stdin"), bindTo(""), execute()), wire.AppendMessage(nil, 'd', []byte("1\n")),
			wire.AppendMessage(nil, 'd', []byte("2\n")), sync(wire.AppendEmpty(nil, 'c')), q("select 1"),
		},
		"copy in libpq fails before it reads": {
			sync(parse("", "copybs from stdin"), bindTo(""), execute()), wire.AppendMessage(nil, 'd', []byte("1\n")),
			sync(wire.AppendEmpty(nil, 'c')), q("select 1"),
		},
		"set":         {q("set datestyle = 'German'"), q("show datestyle"), q("begin"), q("set local datestyle = 'ISO'"), q("commit"), q("show datestyle")},
		"discard all": {sync(parse("a", "select 1")), q("discard all"), sync(bindTo("a"), execute())},
		"flush": {
			append(bytes.Join([][]byte{parse("", "select 1"), bindTo(""), execute()}, nil), wire.AppendEmpty(nil, wire.MsgFlush)...),
			sync(),
		},
		"function call": {wiretest.AppendFunctionCall(nil, 177, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 2}), q("select 1")},
		"row limit":     {sync(parse("", "rows 5 3"), bindTo(""), wiretest.AppendExecute(nil, "", 2), wiretest.AppendExecute(nil, "", 9))},
	}
	for name, parts := range cases {
		for _, servers := range []int{1, 2, 3} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, servers)
				for _, part := range parts {
					r.send(part)
				}
				want := direct(bytes.Join(parts, nil))
				if !bytes.Equal(r.out, want) {
					t.Errorf("with %d servers:\ngot\n%s\nwant\n%s", servers, dump(r.out), dump(want))
				}
			})
		}
	}
}

// dump makes a transcript readable.
func dump(b []byte) string {
	var out bytes.Buffer
	msgs, rest := wiretest.Messages(b)
	for _, m := range msgs {
		out.WriteString(string(m.Type) + " " + string(bytes.ReplaceAll(m.Body, []byte{0}, []byte{'.'})) + "\n")
	}
	if len(rest) > 0 {
		out.WriteString("rest: " + string(rest))
	}
	return out.String()
}

// An error longer than what is only looked at complete streams like any other
// message, also when its first bytes come alone.
func TestLongErrorInPieces(t *testing.T) {
	r := newRig(t, 1)
	s := r.servers[0].s
	var p Plan
	if _, ev := r.client.Input(q("select 1"), &p); ev != Acquire {
		t.Fatalf("event %v", ev)
	}
	r.client.Bind(s, &p)
	r.client.Input(q("select 1"), &p)
	long := wire.AppendError(nil, &wire.Error{
		Severity: "ERROR", Code: "22000", Message: "long", Detail: string(bytes.Repeat([]byte{'x'}, 2*maxWhole)),
	})
	p.Reset()
	used, ev := s.Input(long[:20], &p)
	if used != 0 || ev != None {
		t.Fatalf("used %d, event %v", used, ev)
	}
	if used, ev = s.Input(long, &p); used != len(long) || ev != None {
		t.Fatalf("used %d of %d, event %v", used, len(long), ev)
	}
	if got := bytes.Join(p.ToClient, nil); !bytes.Equal(got, long) {
		t.Errorf("the client got %d of %d bytes", len(got), len(long))
	}
}

// A notification that comes in pieces is passed on as one: what pgweir answers itself
// between two of its pieces must not end up inside of it.
func TestNotificationInPieces(t *testing.T) {
	r := newRig(t, 1)
	s := r.servers[0].s
	r.client.SetMode(Session)
	r.client.Keep(s)
	note := wire.AppendMessage(nil, wire.MsgNotificationResponse, append([]byte{0, 0, 0, 1}, "news\x00and more\x00"...))
	var p Plan
	if used, ev := s.Input(note[:12], &p); used != 0 || ev != None || len(p.ToClient) != 0 {
		t.Fatalf("used %d, event %v, %q", used, ev, p.ToClient)
	}
	if _, ev := r.client.Input(q("begin"), &p); ev != None {
		t.Fatalf("event %v", ev)
	}
	if used, ev := s.Input(note, &p); used != len(note) || ev != None {
		t.Fatalf("used %d, event %v", used, ev)
	}
	want := append(wire.AppendReadyForQuery(wire.AppendCommandComplete(nil, "BEGIN"), wire.InTransaction), note...)
	if got := bytes.Join(p.ToClient, nil); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A client that asks for very much before its first Sync gets on: the server sends what it
// keeps back.
func TestFullWithoutSync(t *testing.T) {
	r := newRig(t, 1)
	r.shared.MaxOutstanding = 4
	s := r.servers[0].s
	var in []byte
	for i := range 10 { // one Parse for the server, the others are answered here in their turn
		in = append(in, wiretest.AppendParse(nil, fmt.Sprint("s", i), "select 1")...)
	}
	var p Plan
	r.client.Bind(s, &p)
	used, ev := r.client.Input(in, &p)
	if used == len(in) || ev != None || !r.client.Full() {
		t.Fatalf("used %d of %d, event %v", used, len(in), ev)
	}
	sent := bytes.Join(p.ToServer, nil)
	if !bytes.HasSuffix(sent, wire.AppendEmpty(nil, wire.MsgFlush)) {
		t.Fatalf("sent %q", sent)
	}
	p.Reset()
	if again, _ := r.client.Input(in[used:], &p); again != 0 || len(p.ToServer) != 0 {
		t.Fatalf("used %d, sent %q", again, p.ToServer)
	}
	if _, ev = s.Input(wire.AppendEmpty(nil, wire.MsgParseComplete), &p); ev != None || r.client.Full() {
		t.Fatalf("event %v, full %v", ev, r.client.Full())
	}
	if got, want := bytes.Join(p.ToClient, nil), bytes.Repeat(wire.AppendEmpty(nil, wire.MsgParseComplete), 4); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a client may keep by giving it names is bounded, also where all are for one text.
func TestNamesAreBounded(t *testing.T) {
	r := newRig(t, 1)
	c, table := r.client, r.shared.Statements
	table.limit = 200_000
	n := 0
	for ; n < 100_000 && !bytes.Contains(r.out, []byte("53400")); n++ {
		r.out = nil
		r.send(sync(parse(fmt.Sprintf("name number %d", n), "select 1")))
	}
	if n < 1000 || n > 5000 || table.Bytes() > table.limit {
		t.Fatalf("refused after %d names, %d bytes: %q", n, table.Bytes(), r.out)
	}
	for i := range n {
		r.send(sync(wire.AppendClose(nil, 'S', fmt.Sprintf("name number %d", i))))
	}
	if c.names.bytes != 0 || c.names.charged != 0 || table.Bytes() > 1000 {
		t.Errorf("%d bytes of no names, %d charged, %d in the table", c.names.bytes, c.names.charged, table.Bytes())
	}
	r.send(sync(parse("again", "select 2")))
	if c.Prepared() != 1 {
		t.Error("there is no room for another")
	}
}

// In statement mode nothing follows several statements in one Query before it is known what
// they have done; that they were skipped, because a batch before them has failed, is that.
func TestSkippedStatementsOpenNothing(t *testing.T) {
	r := newRig(t, 1)
	r.client.SetMode(Single)
	in := bytes.Join([][]byte{
		parse("", "utter nonsense"), bindTo(""), wire.AppendExecute(nil), q("select 1; select 2"), sync(parse("", "select 3")), sync(),
	}, nil)
	r.send(in)
	if want := direct(in); !bytes.Equal(r.out, want) {
		t.Errorf("got\n%swant\n%s", wiretest.DumpBackend(r.out), wiretest.DumpBackend(want))
	}
}

// A DEALLOCATE pipelined behind one of all names does not find the name any more: it waits
// for the answer, also when a part of that has come.
func TestDeallocateBehindDeallocateAll(t *testing.T) {
	r := newRig(t, 1)
	exec := func(text string) []byte { return sync(parse("", text), bindTo(""), wire.AppendExecute(nil)) }
	r.send(bytes.Join([][]byte{q("begin"), sync(parse("s1", "select 1"))}, nil))
	var p Plan
	r.client.Input(exec("deallocate all"), &p)
	r.deliver(&p)
	r.bound.b.Run()
	answer := r.bound.b.Output()
	for _, part := range [][]byte{answer[:10], answer[10:]} { // ParseComplete and BindComplete come first
		p.Reset()
		if n, _ := r.client.Input(exec("deallocate s1"), &p); n != 0 || !r.client.Settling() {
			t.Fatalf("used %d, settling %v", n, r.client.Settling())
		}
		for len(part) > 0 { // it stops where the client may go on
			p.Reset()
			n, _ := r.bound.s.Input(part, &p)
			part = part[n:]
		}
	}
	r.out = nil
	r.send(exec("deallocate s1"))
	if !bytes.Contains(r.out, []byte("26000")) {
		t.Errorf("got\n%s", wiretest.DumpBackend(r.out))
	}
}
