package wiretest

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pgweir/pgweir/wire"
)

// say feeds bytes and returns what came back as text.
func say(b *Backend, p []byte) string {
	b.Feed(p)
	for b.Run() > 0 {
		b.Resume()
	}
	return DumpBackend(b.Output())
}

func TestWelcomeEndsALogin(t *testing.T) {
	b := NewBackend(BackendOptions{PID: 7, Secret: []byte("1234"), Params: map[string]string{
		"Application_Name": "app", "datestyle": "german", "work_mem": "1024kB",
	}})
	got := DumpBackend(b.Welcome())
	for _, want := range []string{
		`<- ParameterStatus application_name="app"`, `<- ParameterStatus DateStyle="German, DMY"`,
		"<- BackendKeyData pid=7\n<- ReadyForQuery I\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := b.Settings()["work_mem"]; got != "1MB" {
		t.Errorf("work_mem = %q", got)
	}
}

func TestResetReturnsToTheStartupPacket(t *testing.T) {
	b := NewBackend(BackendOptions{Params: map[string]string{"application_name": "app"}})
	got := say(b, wire.AppendQuery(nil, "set application_name = 'x'"))
	got += say(b, wire.AppendQuery(nil, "discard all"))
	if !strings.Contains(got, `"x"`) || !strings.HasSuffix(got, "ParameterStatus application_name=\"app\"\n<- ReadyForQuery I\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestRunSleepsOncePerStatement(t *testing.T) {
	b := NewBackend(BackendOptions{})
	b.Feed(wire.AppendQuery(nil, "sleep 3; sleep 4"))
	if ns := b.Run(); ns != 3*millisecond {
		t.Fatalf("Run = %d", ns)
	}
	if ns := b.Run(); ns != 0 {
		t.Fatalf("told twice: %d", ns)
	}
	if nap, asleep := b.Sleeping(); nap != 1 || !asleep || b.Idle() {
		t.Fatalf("nap %d asleep %v idle %v", nap, asleep, b.Idle())
	}
	b.Resume()
	if ns := b.Run(); ns != 4*millisecond {
		t.Fatalf("second Run = %d", ns)
	}
	b.Resume()
	if ns := b.Run(); ns != 0 || !b.Idle() {
		t.Fatalf("third Run = %d, idle %v", ns, b.Idle())
	}
}

func TestIdleNeedsNothingUnderWay(t *testing.T) {
	for _, c := range []struct {
		what string
		in   []byte
		idle bool
	}{
		{"nothing", nil, true},
		{"a query", wire.AppendQuery(nil, "select 1"), true},
		{"a transaction", wire.AppendQuery(nil, "begin"), false},
		{"an open batch", AppendParse(nil, "", "select 1"), false},
		{"a skipped batch", AppendExecute(nil, "no", 0), false},
		{"a partial message", []byte{'Q', 0}, false},
		{"a COPY", wire.AppendQuery(nil, "copy t from stdin"), false},
		{"Terminate", wire.AppendEmpty(nil, wire.MsgTerminate), false},
	} {
		b := NewBackend(BackendOptions{})
		say(b, c.in)
		if got := b.Idle(); got != c.idle {
			t.Errorf("%s: idle = %v", c.what, got)
		}
	}
}

func TestBeforeRefuses(t *testing.T) {
	refusal := &wire.Error{Severity: "ERROR", Code: "53300", Message: "no"}
	var seen []byte
	b := NewBackend(BackendOptions{Before: func(n int, m Message) *wire.Error {
		if n != len(seen) {
			t.Errorf("message %d is numbered %d", len(seen), n)
		}
		seen = append(seen, m.Type)
		if n == 1 || n == 6 {
			return refusal
		}
		return nil
	}})
	in := wire.AppendQuery(nil, "select 1")
	in = AppendParse(in, "", "select 2")
	in = AppendBind(in, Bind{})
	in = wire.AppendEmpty(in, wire.MsgSync)
	in = wire.AppendQuery(in, "copy t from stdin")
	in = wire.AppendEmpty(in, wire.MsgCopyDone)
	in = wire.AppendQuery(in, "insert 1")
	got := say(b, in)
	want := `<- RowDescription columns=1 first="?column?"
<- DataRow ["1"]
<- CommandComplete SELECT 1
<- ReadyForQuery I
<- ErrorResponse ERROR 53300 "no"
<- ReadyForQuery I
<- CopyInResponse
<- CommandComplete COPY 0
<- ReadyForQuery I
<- ErrorResponse ERROR 53300 "no"
<- ReadyForQuery I
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if string(seen) != "QPBSQcQ" {
		t.Errorf("saw %q", seen)
	}
}

func TestEffectsFollowTheTransaction(t *testing.T) {
	effects := &Effects{}
	b := NewBackend(BackendOptions{PID: 3, Effects: effects})
	for _, q := range []string{
		"insert 1 /*id=a*/", "begin; insert 2 /*id=b*/", "rollback",
		"begin; insert 3 /*id=c*/; savepoint s; insert 4 /*id=d*/; rollback to s; nonce /*id=e*/ x; commit",
		"insert 5 /*id=f*/; fail 22012", "begin; insert 6 /*id=g*/",
	} {
		say(b, wire.AppendQuery(nil, q))
	}
	state := func(id string) EffectState {
		i := slices.IndexFunc(effects.All(), func(e Effect) bool { return e.ID == id })
		return effects.All()[i].State
	}
	want := map[string]EffectState{
		"a": Committed, "b": RolledBack, "c": Committed, "d": RolledBack, "e": Committed,
		"f": RolledBack, "g": Open,
	}
	got := maps.Clone(want)
	for id := range want {
		got[id] = state(id)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	b.Crash()
	if state("g") != RolledBack || !b.Dead() {
		t.Error("a crash does not roll back")
	}
	if n, c := effects.Count("a"); n != 1 || c != 1 {
		t.Errorf("a ran %d times, committed %d", n, c)
	}
}

func TestAReaderThatStallsHoldsRows(t *testing.T) {
	outcomes := NewOutcomes()
	b := NewBackend(BackendOptions{Outcomes: outcomes, SendLimit: 1})
	b.Feed(wire.AppendQuery(nil, "rows /*id=big*/ 100 1000"))
	b.Run()
	first := b.Output()
	if len(first) != sendBuffer {
		t.Fatalf("%d bytes before the stall", len(first))
	}
	b.Cancel()
	b.Run() // bytes move again, and the request strikes
	if got := DumpBackend(append(first, b.Output()...)); !strings.HasSuffix(got, "57014 \"canceling statement due to user request\"\n<- ReadyForQuery I\n") {
		t.Errorf("got\n%s", got)
	}
	out, ok := outcomes.Lookup("big", 1)
	if !ok || out.Kind != Cancelled || out.At < 8 || out.At > 20 {
		t.Errorf("outcome %+v %v", out, ok)
	}
	b.Feed(wire.AppendQuery(nil, "rows /*id=big*/ 100 1000"))
	b.Run()
	b.Die() // stuck in the middle of sending: no last words
	if out, _ := outcomes.Lookup("big", 2); out.Kind != Crashed {
		t.Errorf("outcome %+v", out)
	}
	if _, rest := Messages(b.Output()); len(rest) == 0 {
		t.Error("the last message is whole")
	}
}

func TestImplicitPipelines(t *testing.T) {
	in := AppendParse(nil, "", "insert 1")
	in = AppendBind(in, Bind{})
	in = AppendExecute(in, "", 0)
	in = wire.AppendQuery(in, "set local datestyle = sql")
	in = wire.AppendEmpty(in, wire.MsgSync)
	got := say(NewBackend(BackendOptions{ImplicitPipelines: true}), in)
	want := `<- ParseComplete
<- BindComplete
<- CommandComplete INSERT 0 1
<- CommandComplete SET
<- ParameterStatus DateStyle="SQL, MDY"
<- ReadyForQuery T
<- ParameterStatus DateStyle="ISO, MDY"
<- ReadyForQuery I
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestChunksDoNotMatter feeds the same bytes whole and in pieces.
func TestChunksDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var in []byte
		for _, s := range Script(rnd, ScriptOptions{Client: "c"}) {
			in = append(in, s.Bytes...)
		}
		if rapid.Bool().Draw(t, "damaged") && len(in) > 0 {
			in[rnd.IntN(len(in))] ^= 1 << rnd.IntN(8)
		}
		whole, pieces := NewBackend(BackendOptions{}), NewBackend(BackendOptions{})
		want := say(whole, in)
		got := &bytes.Buffer{}
		for _, c := range Split(rnd, in) {
			pieces.Feed(c)
			for pieces.Run() > 0 {
				pieces.Resume()
			}
			got.Write(pieces.Output())
		}
		if got := DumpBackend(got.Bytes()); got != want {
			t.Fatal(cmp.Diff(want, got))
		}
		if whole.Dead() != pieces.Dead() || whole.TxState() != pieces.TxState() {
			t.Fatal("the states differ")
		}
	})
}

// FuzzBackend feeds arbitrary bytes: nothing may panic, and all that comes out
// is whole messages.
func FuzzBackend(f *testing.F) {
	for seed := range uint64(20) {
		var in []byte
		for _, s := range Script(rand.New(rand.NewPCG(seed, 5)), ScriptOptions{Client: "c"}) {
			in = append(in, s.Bytes...)
		}
		f.Add(in)
	}
	f.Add(wire.AppendQuery(nil, "set a.b = /* /* */ 'x''y', \"z\"; select set_config('a', $1, true)"))
	f.Fuzz(func(t *testing.T, in []byte) {
		b := NewBackend(BackendOptions{Effects: &Effects{}, Outcomes: NewOutcomes(), SendLimit: 1 << 16})
		var all []byte
		b.Feed(in)
		b.EOF()
		for range 10000 { // a text may hold many sleeps, and COPY OUT is as long as it likes
			if b.Run() == 0 {
				break
			}
			b.Cancel()
			b.Resume()
		}
		all = append(all, b.Output()...)
		if _, rest := Messages(all); len(rest) > 0 && len(all) < sendBuffer {
			t.Fatalf("a partial message: %q", rest)
		}
		_, _ = DumpFrontend(in), DumpBackend(all)
	})
}
