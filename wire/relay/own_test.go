package relay

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// told lists the types of what the client was told, and forgets it.
func (r *rig) told() string {
	msgs, _ := wiretest.Messages(r.out)
	r.out = nil
	var types []byte
	for _, m := range msgs {
		types = append(types, m.Type)
	}
	return string(types)
}

// shown returns the value that the last SHOW has brought, and forgets what was told.
func (r *rig) shown(name string) string {
	r.t.Helper()
	r.out = nil
	r.send(q("show " + name))
	msgs, _ := wiretest.Messages(r.out)
	r.out = nil
	if len(msgs) != 4 || msgs[1].Type != wire.MsgDataRow {
		r.t.Fatalf("%d messages for SHOW %s", len(msgs), name)
	}
	return string(msgs[1].Body[6:])
}

func run(text string) []byte {
	return bytes.Join([][]byte{parse("", text), bindTo(""), wire.AppendDescribe(nil, 'P', ""), execute()}, nil)
}

// Whatever a client says about pgweir's own parameters, in whatever form, no server is needed.
func TestOwnParametersNeedNoServer(t *testing.T) {
	for _, c := range []struct {
		in   []byte
		told string
	}{
		{q("set pgweir.class = 'sheddable'"), "CZ"},
		{q(`SET SESSION "pgweir"."CLASS" TO critical /* c */;`), "CZ"},
		{q("set local pgweir.class = 'sheddable'"), "NCZ"},
		{q("reset pgweir.class"), "CZ"},
		{q("set pgweir.deadline_ms to default"), "CZ"},
		{q("show pgweir.tenant"), "TDCZ"},
		{q("set pgweir.nothing = 1"), "EZ"},
		{sync(run("set pgweir.class = 'sheddable'")), "12nCZ"},
		{sync(run("show pgweir.class")), "12TDCZ"},
		{sync(run("set pgweir.class = 1"), run("begin"), run("set local pgweir.tenant = 2"), run("commit")), "12nC12nC12nC12nCZ"},
		{sync(run("set pgweir.class = 1"), run("set pgweir.nothing = 1"), run("set pgweir.class = 1")), "12nC12nEZ"},
		{sync(parse("a", "show pgweir.class"), wire.AppendDescribe(nil, 'S', "a"), bindTo("a"), execute()), "1tT2DCZ"},
		{
			sync(parse("", "show pgweir.class"), wire.AppendDescribe(nil, 'S', ""), wire.AppendEmpty(nil, wire.MsgFlush),
				bindTo(""), wire.AppendEmpty(nil, wire.MsgFlush), execute()), "1tT2DCZ",
		},
	} {
		r := newRig(t, 1)
		r.send(c.in)
		if got := r.told(); got != c.told || r.grants != 0 {
			t.Errorf("%q: told %s, want %s; %d servers", c.in, got, c.told, r.grants)
		}
	}
}

func TestOwnParametersAreUndone(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     []string
		during string // at the end of the list
		after  string // behind a ROLLBACK
		kept   string // behind a COMMIT in its place
	}{
		{"set", []string{"begin", "set pgweir.tenant = b"}, "b", "a", "b"},
		{"set behind work", []string{"begin", "select 1", "set pgweir.tenant = b"}, "b", "a", "b"},
		{"local", []string{"begin", "set local pgweir.tenant = b"}, "b", "a", "a"},
		{"local behind work", []string{"begin", "select 1", "set local pgweir.tenant = b", "select 2"}, "b", "a", "a"},
		{"set over local", []string{"begin", "set local pgweir.tenant = b", "set pgweir.tenant = c"}, "c", "a", "c"},
		{"local over set", []string{"begin", "set pgweir.tenant = b", "set local pgweir.tenant = c"}, "c", "a", "b"},
		{"reset", []string{"begin", "reset pgweir.tenant"}, "", "a", ""},
		{"reset all", []string{"begin", "reset all"}, "", "a", ""},
		{"outside", []string{"set local pgweir.tenant = b"}, "a", "a", "a"},
		{"many in one", []string{"begin", "set pgweir.tenant = b", "savepoint s", "select 1"}, "b", "a", "b"},
	} {
		for _, end := range []string{"rollback", "commit"} {
			r := newRig(t, 2)
			r.send(q("set pgweir.tenant = a"))
			for _, text := range c.in {
				r.send(q(text))
			}
			if got := r.shown("pgweir.tenant"); got != c.during {
				t.Errorf("%s: %q inside", c.name, got)
			}
			r.send(q(end))
			want := c.after
			if end == "commit" {
				want = c.kept
			}
			if got := r.shown("pgweir.tenant"); got != want {
				t.Errorf("%s: %q after %s, want %q", c.name, got, end, want)
			}
		}
	}
}

// What a batch sets is undone when the batch fails, and DISCARD ALL undoes everything.
func TestOwnParametersOfABatch(t *testing.T) {
	r := newRig(t, 1)
	r.send(sync(run("set pgweir.tenant = a"), run("fail 22012")))
	if got := r.shown("pgweir.tenant"); got != "" {
		t.Errorf("%q after a batch that failed", got)
	}
	r.send(sync(run("select 1"), run("set pgweir.tenant = b"), run("show pgweir.tenant"), run("select 2")))
	if got := r.told(); got != "12TDC12nC12TDC12TDCZ" {
		t.Errorf("told %s", got)
	}
	if got := r.shown("pgweir.tenant"); got != "b" {
		t.Errorf("%q after a batch", got)
	}
	r.send(q("discard all"))
	if got := r.shown("pgweir.tenant"); got != "" {
		t.Errorf("%q after DISCARD ALL", got)
	}
}

// The server never hears of them, and the request that follows is asked for with them set.
func TestOwnParametersHoldForTheRestOfTheBatch(t *testing.T) {
	r := newRig(t, 1)
	in := sync(run("begin"), run("set local pgweir.deadline_ms = 250"), run("select 1 /*pgweir.class='sheddable'*/"))
	var p Plan
	for {
		n, ev := r.client.Input(in, &p)
		in = in[n:]
		if ev == Acquire {
			break
		}
		if n == 0 {
			t.Fatal("no server is asked for")
		}
	}
	if got := r.client.Own(sqltext.TagDeadline); got != "250" {
		t.Errorf("deadline %q", got)
	}
	if got := string(r.client.Request().Text); got != "select 1 /*pgweir.class='sheddable'*/" {
		t.Errorf("asks for %q", got)
	}
	p.Reset()
	r.client.Bind(r.servers[0].s, &p)
	r.client.Input(in, &p)
	if sent := bytes.Join(p.ToServer, nil); bytes.Contains(sent, []byte("deadline")) {
		t.Errorf("the server was sent %q", sent)
	}
}

func TestUnknownParameterFailsTheTransaction(t *testing.T) {
	for name, first := range map[string][][]byte{
		"unbound":  {q("begin")},
		"bound":    {q("begin"), q("select 1")},
		"extended": {q("begin"), sync(run("select 1"))},
	} {
		r := newRig(t, 1)
		for _, in := range first {
			r.send(in)
		}
		r.out = nil
		want := "EZ"
		if name == "extended" {
			r.send(sync(run("set pgweir.x = 1"), run("select 1")))
			want = "12nEZ"
		} else {
			r.send(q("set pgweir.x = 1"))
		}
		msgs, _ := wiretest.Messages(r.out)
		if e := wire.ErrorFields(msgs[len(msgs)-2].Body); e.Code != "42704" || r.out[len(r.out)-1] != wire.InFailed {
			t.Errorf("%s: %s, state %c", name, e.Code, r.out[len(r.out)-1])
		}
		if got := r.told(); got != want {
			t.Errorf("%s: told %s, want %s", name, got, want)
		}
		r.send(q("rollback"))
		if got := r.told(); got != "CZ" {
			t.Errorf("%s: ROLLBACK told %s", name, got)
		}
	}
}

func TestSplitOwn(t *testing.T) {
	own, rest, err := SplitOwn([]Param{{Name: "PGweir.Class", Value: "a"}, {Name: "DateStyle", Value: "x"}, {Name: "pgweir.class", Value: "b"}})
	if own[sqltext.TagClass] != "b" || !slices.Equal(rest, []Param{{Name: "DateStyle", Value: "x"}}) || err != nil {
		t.Errorf("%v %v %v", own, rest, err)
	}
	if _, _, err := SplitOwn([]Param{{Name: "pgweir.clas", Value: "a"}}); err == nil || err.Code != "42704" || err.Severity != "FATAL" {
		t.Errorf("%v", err)
	}
}

// RESET goes back to what a client has brought along.
func TestOwnParametersOfTheLogin(t *testing.T) {
	r := newRig(t, 1)
	var own Own
	own[sqltext.TagTenant] = "login"
	r.client.SetOwn(own)
	before := r.client.OwnVersion()
	for _, text := range []string{"reset pgweir.tenant", "set pgweir.tenant = default", "reset all", "discard all"} {
		r.send(q("set pgweir.tenant = other"))
		if r.client.OwnVersion() == before {
			t.Error("no new version")
		}
		r.send(q(text))
		if got := r.client.Own(sqltext.TagTenant); got != "login" {
			t.Errorf("%q after %s", got, text)
		}
	}
}

// A named portal and a limit of rows are answered as Postgres does.
func TestOwnParametersInPortals(t *testing.T) {
	r := newRig(t, 1)
	r.send(q("begin"))
	r.send(q("select 1"))
	r.out = nil
	bind := wiretest.AppendBind(nil, wiretest.Bind{Portal: "p", ResultFormats: []int16{1}})
	r.send(sync(parse("", "show pgweir.class"), bind, wire.AppendDescribe(nil, 'P', "p"),
		wiretest.AppendExecute(nil, "p", 1), wiretest.AppendExecute(nil, "p", 0), wire.AppendClose(nil, 'P', "p")))
	msgs, _ := wiretest.Messages(r.out)
	if format := msgs[2].Body[len(msgs[2].Body)-1]; format != 1 {
		t.Errorf("format %d", format)
	}
	if got := r.told(); got != "12TDsC3Z" {
		t.Errorf("told %s", got)
	}
	r.send(sync(wiretest.AppendExecute(nil, "p", 0)))
	if got := r.told(); got != "EZ" {
		t.Errorf("a closed portal: told %s", got)
	}
}
