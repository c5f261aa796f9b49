package relay

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/pgweir/pgweir/wire/wiretest"
)

const traced = " /*traceparent='00-%032d-%016d-01',pgweir.class='sheddable'*/"

// parses returns the texts that a server was asked to prepare under a name.
func parses(sent []byte) (texts []string) {
	msgs, _ := wiretest.Messages(sent)
	for _, m := range msgs {
		if name, tail, ok := cstring(m.Body); m.Type == 'P' && ok && len(name) > 0 {
			texts = append(texts, string(textOf(tail)))
		}
	}
	return texts
}

// Texts that differ in their tags only are one statement on a server, and each client's
// stays its own.
func TestTagsMakeNoOtherStatement(t *testing.T) {
	r := newRig(t, 1)
	var sent []byte
	r.watch = func(b []byte) { sent = append(sent, b...) }
	var parts [][]byte
	for i := range 20 {
		name := fmt.Sprintf("s%d", i)
		parts = append(parts, sync(parse(name, "select 1"+fmt.Sprintf(traced, i, i)), bindTo(name), execute()))
	}
	parts = append(parts, sync(bindTo("s3"), execute()), sync(parse("bare", "select 1 "), bindTo("bare"), execute()))
	for _, part := range parts {
		r.send(part)
	}
	if got := parses(sent); len(got) != 1 || got[0] != "select 1 " {
		t.Errorf("prepared %q", got)
	}
	if want := direct(bytes.Join(parts, nil)); !bytes.Equal(r.out, want) {
		t.Errorf("got\n%s\nwant\n%s", dump(r.out), dump(want))
	}
	st := r.client.names.get([]byte("s7"))
	if want := "select 1" + fmt.Sprintf(traced, 7, 7); string(st.text()) != want {
		t.Errorf("the client's is %q, want %q", st.text(), want)
	}
}

// A text that a server has accepted is known to be good with other tags, too.
func TestTagsNeedNoOtherProof(t *testing.T) {
	r := newRig(t, 1)
	r.send(sync(parse("a", "select 1"+fmt.Sprintf(traced, 1, 1))))
	r.send(sync(parse("b", "select 1"+fmt.Sprintf(traced, 2, 2))))
	r.send(sync(parse("c", "select 1 ")))
	if r.grants != 1 {
		t.Errorf("%d servers were asked for", r.grants)
	}
	r.send(sync(parse("d", "select 2"+fmt.Sprintf(traced, 2, 2))))
	r.send(sync(parse("e", "select 1 /*+ hint */")))
	if r.grants != 3 {
		t.Errorf("%d servers were asked for; another text and a hint need one", r.grants)
	}
}

// Nothing is left of what nobody has any more, and a full table costs only the sharing.
func TestTagsAreForgotten(t *testing.T) {
	r := newRig(t, 1)
	table := r.shared.Statements
	for i := range 50 {
		name := fmt.Sprintf("s%d", i)
		r.send(sync(parse(name, fmt.Sprintf("select %d", i%7)+fmt.Sprintf(traced, i, i)), bindTo(name), execute()))
	}
	r.client.Free()
	r.servers[0].s.forgetPrepared()
	if table.Len() != 0 || table.Bytes() != 0 {
		t.Errorf("%d statements, %d bytes are left", table.Len(), table.Bytes())
	}

	r = newRig(t, 1)
	text := "select 1" + fmt.Sprintf(traced, 1, 1)
	r.shared.Statements.limit = len(text) + 3 + statementOverhead
	in := sync(parse("a", text), bindTo("a"), execute())
	r.send(in)
	if want := direct(in); !bytes.Equal(r.out, want) {
		t.Errorf("with a full table:\ngot\n%s\nwant\n%s", dump(r.out), dump(want))
	}
}

func BenchmarkKnown(b *testing.B) {
	table := NewStatements(1 << 20)
	for name, text := range map[string]string{
		"bare":   "SELECT abalance FROM pgbench_accounts WHERE aid = $1;",
		"tagged": "SELECT abalance FROM pgbench_accounts WHERE aid = $1" + fmt.Sprintf(traced, 1, 1),
	} {
		tail := []byte(text + "\x00\x00\x00")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				st := table.classify(tail)
				table.known(tail, int(st.comments), proof{})
			}
		})
	}
}

// A text is read once: what asks for a server says where its tags are.
func TestARequestSaysWhereItsCommentsAre(t *testing.T) {
	const comment = "/*pgweir.tenant='t1'*/;"
	prepared := sync(parse("s", "select 1 "+comment))
	for name, c := range map[string]struct {
		before, ask []byte
		want        string
	}{
		"query":          {nil, q("select 1 " + comment), comment},
		"none":           {nil, q("select 1"), ""},
		"line comment":   {nil, q("select 1 -- a"), ""},
		"parse":          {nil, sync(run("select 1 " + comment)), comment},
		"behind a BEGIN": {nil, sync(run("begin /*a*/"), run("select 1 "+comment)), comment},
		"first of two":   {nil, sync(run("select 1 /*a*/"), run("select 1 "+comment)), "/*a*/"},
		"prepared":       {prepared, sync(bindTo("s"), execute()), comment},
		"no text":        {q("select 1 " + comment), sync(bindTo("none"), execute()), ""},
	} {
		r := newRig(t, 1)
		if c.before != nil {
			r.send(c.before)
		}
		var p Plan
		if _, ev := r.client.Input(c.ask, &p); ev != Acquire {
			t.Fatalf("%s: %v", name, ev)
		}
		got := r.client.Request()
		if tail := string(got.Text[len(got.Text)-int(got.Comments):]); tail != c.want {
			t.Errorf("%s: %q in %q, want %q", name, tail, got.Text, c.want)
		}
	}
}
