package wiretest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pgweir/pgweir/wire"
)

// world is one backend and one client, with the time between them.
type world struct {
	rnd    *rand.Rand
	b      *Backend
	p      *Player
	got    []byte
	sent   []byte
	closed bool
	cruel  bool // backends die
}

// play runs a script against a backend until nothing moves. Cancel requests
// and the ends of sleeps come at random.
func (w *world) play(t *testing.T, seed uint64) {
	t.Helper()
	for range 100000 {
		if tr := &w.p.Tracker; tr.Settled() && !tr.Ended() && !w.closed && (w.b.exec != nil || w.b.query != nil || len(w.b.net) > 0) {
			t.Fatalf("seed %d: the tracker thinks that all is answered\n%s%s", seed, DumpFrontend(w.sent), DumpBackend(w.got))
		}
		if w.turn() {
			continue
		}
		if _, asleep := w.b.Sleeping(); asleep {
			w.strike()
			w.b.Resume()
			w.b.Run()
			continue
		}
		if !w.p.Done() {
			t.Fatalf("seed %d: the client is stuck at %v\n%s%s", seed, w.p.Waiting(),
				DumpFrontend(w.sent), DumpBackend(w.got))
		}
		return
	}
	t.Fatalf("seed %d: no end", seed)
}

// strike ends a backend that runs a statement, now and then.
func (w *world) strike() {
	if !w.cruel || w.b.exec == nil || w.b.exec.key == "" || w.rnd.IntN(4) > 0 {
		return
	}
	if w.rnd.IntN(2) == 0 {
		w.b.Die()
	} else {
		w.b.Crash()
	}
}

// turn does something and says so.
func (w *world) turn() bool {
	moved := false
	if x := w.b.exec; x != nil && x.st.kind >= kCopyIn {
		w.strike()
	}
	if s, ok := w.p.Next(); ok && !w.closed {
		moved = true
		switch s.Op {
		case OpSend:
			w.sent = append(w.sent, s.Bytes...)
			for _, c := range Split(w.rnd, s.Bytes) {
				w.b.Feed(c)
				w.b.Run()
			}
		case OpCancel:
			w.b.Run()
			w.b.Cancel()
		case opDie:
			w.b.Run()
			w.b.Die()
		case OpClose, OpHalfClose:
			w.b.EOF()
		}
	}
	w.b.Run()
	if out := w.b.Output(); len(out) > 0 {
		w.got = append(w.got, out...)
		w.p.Received(out)
		moved = true
	}
	if w.b.Dead() && !w.closed {
		w.closed = true
		w.p.Closed()
	}
	return moved
}

// TestScriptsEndAndOraclesAgree plays scripts with cancels, deaths and slow
// readers, and feeds the same bytes to an oracle.
func TestScriptsEndAndOraclesAgree(t *testing.T) {
	kinds := map[OutcomeKind]int{}
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		outcomes := NewOutcomes()
		w := &world{rnd: rnd, cruel: rnd.IntN(4) == 0, b: NewBackend(BackendOptions{
			PID: 1, Outcomes: outcomes, Effects: &Effects{}, Busy: int64(rnd.IntN(2)) * 1000,
			SendLimit: rnd.IntN(2) * 3000,
		})}
		w.p = NewPlayer(Script(rnd, ScriptOptions{Client: "c1"}))
		w.play(t, seed)

		oracle := NewBackend(BackendOptions{Outcomes: outcomes, Oracle: true})
		for _, c := range Split(rnd, w.sent) {
			oracle.Feed(c)
			oracle.Run()
		}
		if w.closed {
			oracle.EOF()
			oracle.Run()
		}
		if want := oracle.Output(); !bytes.Equal(want, w.got) {
			t.Fatalf("seed %d: sent\n%sgot\n%soracle\n%s", seed, DumpFrontend(w.sent), DumpBackend(w.got), DumpBackend(want))
		}
		for _, o := range outcomes.seen {
			kinds[o.Kind]++
		}
	}
	if kinds[Cancelled] < 50 || kinds[Died] < 20 || kinds[Crashed] < 20 {
		t.Errorf("too little happened: %v", kinds)
	}
}

func TestSplitLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 9000).Draw(t, "bytes")
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		chunks := Split(rnd, b)
		if !bytes.Equal(bytes.Join(chunks, nil), b) {
			t.Fatal("bytes changed")
		}
		if slices.ContainsFunc(chunks, func(c []byte) bool { return len(c) == 0 }) {
			t.Fatal("an empty chunk")
		}
	})
}

// TestScriptsKeepTheirPromises checks what the simulation builds on: unique
// nonces, and features that stay off.
func TestScriptsKeepTheirPromises(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		o := ScriptOptions{Client: "c", Without: Feature(rnd.Uint32())}
		nonces := map[string]bool{}
		for _, step := range Script(rnd, o) {
			if step.Op == OpCancel && o.Without&Cancels != 0 {
				t.Fatalf("seed %d: cancels in spite of %x", seed, o.Without)
			}
			msgs, _ := Messages(step.Bytes)
			for _, m := range msgs {
				checkPromise(t, seed, o, m, nonces)
			}
		}
	}
}

func checkPromise(t *testing.T, seed uint64, o ScriptOptions, m Message, nonces map[string]bool) {
	t.Helper()
	banned := map[byte]Feature{'P': Extended, 'B': Extended, 'E': Extended, 'F': FunctionCalls, 'd': CopyIn}
	if o.Without&Malformed == 0 {
		banned = nil // it may send anything
	}
	if o.Without&banned[m.Type] != 0 {
		t.Fatalf("seed %d: %q in spite of %x", seed, m.Type, o.Without)
	}
	if m.Type != wire.MsgQuery {
		return
	}
	text := string(m.Body[:len(m.Body)-1])
	stmts, err := parse(text)
	if err != nil && o.Without&Errors != 0 {
		t.Fatalf("seed %d: %s: %v", seed, text, err)
	}
	for _, st := range stmts {
		if st.kind == kBegin && o.Without&Transactions != 0 {
			t.Fatalf("seed %d: %q in spite of %x", seed, text, o.Without)
		}
		if st.kind == kNonce && st.param == 0 {
			if nonces[st.value] {
				t.Fatalf("seed %d: nonce %s twice", seed, st.value)
			}
			nonces[st.value] = true
		}
	}
}
