package wiretest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/wire"
)

var (
	seedsFlag = flag.Uint64("wiretest.seeds", 150, "random conversations to compare with a real server")
	firstFlag = flag.Uint64("wiretest.first", 0, "first seed of them")
)

// compareWithReal plays the same steps against the fake and a real server.
func compareWithReal(t *testing.T, s *realServer, k *control, seed uint64, steps []Step) {
	t.Helper()
	real := translateSteps(steps)
	before, err := k.rows()
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := s.login()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want, err := playReal(c, NewPlayer(real), nil)
	if err != nil {
		t.Fatalf("seed %d: %v\n%s%s", seed, err, dumpSteps(real), DumpBackend(want))
	}
	effects := &Effects{}
	w := &world{rnd: rand.New(rand.NewPCG(seed, 2)), b: NewBackend(BackendOptions{Effects: effects}), p: NewPlayer(steps)}
	w.play(t, seed)
	w.b.EOF()
	w.b.Run()
	got := append(w.got, w.b.Output()...)
	if diff := cmp.Diff(comparable(want), comparable(got)); diff != "" {
		t.Fatalf("seed %d: the fake differs (-real +fake)\n%s\n%s\nreal:\n%s", seed, diff, dumpSteps(steps), DumpBackend(want))
	}
	after, err := k.rows()
	if n := committedRows(effects); err != nil || n != after-before {
		t.Fatalf("seed %d: %d rows committed, the fake says %d (%v)\n%s\n%s", seed, after-before, n, err,
			dumpSteps(steps), DumpBackend(want))
	}
}

// committedRows counts the rows of inserts and copies.
func committedRows(e *Effects) int {
	n := 0
	for _, x := range e.All() {
		if x.Value == "" && x.State == Committed {
			n += x.Rows
		}
	}
	return n
}

// hold takes the advisory locks that the fake says somebody else has.
func (k *control) hold(t *testing.T) {
	t.Helper()
	if _, err := k.ask(fmt.Sprintf("select count(pg_advisory_lock(n)) from generate_series(%d, %d) n", othersLock, othersLock+1)); err != nil {
		t.Fatal(err)
	}
}

func dumpSteps(steps []Step) string {
	out := ""
	for _, s := range steps {
		switch s.Op {
		case OpSend:
			out += DumpFrontend(s.Bytes)
		case OpWaitReady:
			out += "   (wait)\n"
		case OpWaitFlush:
			out += "   (wait for what was flushed)\n"
		case OpClose, OpHalfClose:
			out += "   (end of input)\n"
		}
	}
	return out
}

// TestScriptsAgainstPostgres plays random conversations against a real server:
// where the two differ, the fake is wrong.
func TestScriptsAgainstPostgres(t *testing.T) {
	s := requireServer(t)
	k := s.control(t, nil)
	k.hold(t)
	for seed := *firstFlag; seed < *firstFlag+*seedsFlag; seed++ {
		rnd := rand.New(rand.NewPCG(seed, 3))
		steps := Script(rnd, ScriptOptions{Client: "c1", Without: Cancels, SleepMS: 2})
		compareWithReal(t, s, k, seed, steps)
	}
}

// TestMangledScriptsAgainstPostgres drops, doubles and swaps messages, and
// sends the whole without ever waiting: no client does that, but what the
// backend makes of it is defined all the same.
func TestMangledScriptsAgainstPostgres(t *testing.T) {
	s := requireServer(t)
	k := s.control(t, nil)
	k.hold(t)
	for seed := *firstFlag; seed < *firstFlag+*seedsFlag; seed++ {
		rnd := rand.New(rand.NewPCG(seed, 4))
		o := ScriptOptions{Client: "c1", Without: Cancels | Malformed, SleepMS: 1, MaxRow: 100}
		var in []byte
		for _, step := range Script(rnd, o) {
			in = append(in, step.Bytes...)
		}
		steps := []Step{{Op: OpSend, Bytes: mangle(rnd, in)}, {Op: OpHalfClose}}
		compareWithReal(t, s, k, seed, steps)
	}
}

func mangle(rnd *rand.Rand, in []byte) []byte {
	msgs, rest := Messages(in)
	var out []byte
	rate := 4 + rnd.IntN(20)
	for i := 0; i < len(msgs); i++ {
		m := msgs[i]
		switch rnd.IntN(3 * rate) {
		case 0: // dropped
			continue
		case 1:
			out = wire.AppendMessage(out, m.Type, m.Body)
		case 2:
			if i+1 < len(msgs) {
				msgs[i], msgs[i+1] = msgs[i+1], m
				m = msgs[i]
			}
		}
		out = wire.AppendMessage(out, m.Type, m.Body)
	}
	return append(out, rest...)
}
