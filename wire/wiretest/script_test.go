package wiretest

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// world is one backend and one client, with the time between them.
type world struct {
	rnd    *rand.Rand
	b      *Backend
	p      *Player
	got    []byte
	sent   []byte
	closed bool
}

// play runs a script against a backend until nothing moves. Cancel requests
// and the ends of sleeps come at random.
func (w *world) play(t *testing.T, seed uint64) {
	t.Helper()
	for range 100000 {
		if w.turn() {
			continue
		}
		if nap, asleep := w.b.Sleeping(); asleep && nap > 0 {
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

// turn does something and says so.
func (w *world) turn() bool {
	moved := false
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
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		outcomes := NewOutcomes()
		w := &world{rnd: rnd, b: NewBackend(BackendOptions{
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
	}
}
