package wiretest

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	seedsFlag = flag.Uint64("wiretest.seeds", 300, "random conversations to compare with a real server")
	firstFlag = flag.Uint64("wiretest.first", 0, "first seed of them")
)

// compareWithReal plays the same steps against the fake and a real server.
func compareWithReal(t *testing.T, seed uint64, steps []Step) {
	t.Helper()
	s := requireServer(t)
	real := slices.Clone(steps)
	for i := range real {
		real[i].Bytes = translate(real[i].Bytes)
	}
	c, _, err := s.login()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want, err := playReal(c, NewPlayer(real))
	if err != nil {
		t.Fatalf("seed %d: %v\n%s%s", seed, err, dumpSteps(real), DumpBackend(want))
	}
	w := &world{rnd: rand.New(rand.NewPCG(seed, 2)), b: NewBackend(BackendOptions{}), p: NewPlayer(steps)}
	w.play(t, seed)
	w.b.EOF()
	w.b.Run()
	got := append(w.got, w.b.Output()...)
	if diff := cmp.Diff(comparable(want), comparable(got)); diff != "" {
		t.Errorf("seed %d: the fake differs (-real +fake)\n%s\n%s\nreal:\n%s", seed, diff, dumpSteps(steps), DumpBackend(want))
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
	for seed := *firstFlag; seed < *firstFlag+*seedsFlag; seed++ {
		rnd := rand.New(rand.NewPCG(seed, 3))
		steps := Script(rnd, ScriptOptions{Client: "c1", Without: Cancels, SleepMS: 2})
		compareWithReal(t, seed, steps)
	}
}
