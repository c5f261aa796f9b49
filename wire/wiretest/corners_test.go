package wiretest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/wire"
)

// TestCorners plays the conversations of testdata/corners against the fake and,
// if one is installed, against a real server. One line is one message:
//
//	Q text | P name text | B portal statement [param...] | D S|P name | E portal limit
//	C S|P name | S | H | F oid [int...] | d data | c | f reason | X
//	raw hex | wait | flushed | eof | half | cancel read|sleep | die read|sleep
//
// where _ stands for an empty name.
func TestCorners(t *testing.T) {
	var k *control
	if s, err := server(); err == nil {
		k = s.control(t, nil)
	} else if !errors.Is(err, errNoPostgres) {
		t.Fatal(err)
	}
	datadriven.RunTest(t, "testdata/corners", func(t *testing.T, d *datadriven.TestData) string {
		steps := parseSteps(t, d)
		w := &world{rnd: rand.New(rand.NewPCG(1, 1)), b: NewBackend(BackendOptions{}), p: NewPlayer(steps)}
		w.play(t, 0)
		w.b.EOF()
		w.b.Run()
		got := append(w.got, w.b.Output()...)
		if k != nil {
			compareCorner(t, d, k, steps, got)
		}
		return DumpBackend(got)
	})
}

func compareCorner(t *testing.T, d *datadriven.TestData, k *control, steps []Step, got []byte) {
	t.Helper()
	c, key, err := k.s.login()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k.key = key
	real := translateSteps(steps)
	want, err := playReal(c, NewPlayer(real), k.act)
	if err != nil {
		t.Errorf("%s: %v\n%s", d.Pos, err, DumpBackend(want))
	}
	if diff := cmp.Diff(comparable(want), comparable(got)); diff != "" {
		t.Errorf("%s: the fake differs (-real +fake)\n%s\nreal:\n%s", d.Pos, diff, DumpBackend(want))
	}
}

func translateSteps(steps []Step) []Step {
	out := make([]Step, len(steps))
	for i, s := range steps {
		s.Bytes = translate(s.Bytes)
		out[i] = s
	}
	return out
}

// parseSteps reads the lines of one conversation. Messages up to a wait are
// one write.
func parseSteps(t *testing.T, d *datadriven.TestData) []Step {
	t.Helper()
	var steps []Step
	var buf []byte
	step := func(ops ...Op) {
		if len(buf) > 0 {
			steps = append(steps, Step{Op: OpSend, Bytes: buf})
			buf = nil
		}
		for _, op := range ops {
			steps = append(steps, Step{Op: op})
		}
	}
	for line := range strings.SplitSeq(d.Input, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "wait":
			step(OpWaitReady)
		case "flushed":
			step(OpWaitFlush)
		case "eof":
			step(OpClose)
		case "half":
			step(OpHalfClose)
		case "cancel", "die":
			step(map[string]Op{"cancel": OpCancel, "die": opDie}[verb])
			if rest == "sleep" {
				steps[len(steps)-1].N = 1
			}
		default:
			var err error
			if buf, err = appendLine(buf, verb, rest); err != nil {
				d.Fatalf(t, "%s: %v", line, err)
			}
		}
	}
	step()
	return steps
}

func appendLine(buf []byte, verb, rest string) ([]byte, error) {
	f := strings.Fields(rest)
	name := func(i int) string {
		if i >= len(f) || f[i] == "_" {
			return ""
		}
		return f[i]
	}
	switch verb {
	case "Q":
		return wire.AppendQuery(buf, rest), nil
	case "P":
		n, text, _ := strings.Cut(rest, " ")
		return AppendParse(buf, strings.Trim(n, "_"), text), nil
	case "B":
		b := Bind{Portal: name(0), Statement: name(1)}
		for _, v := range f[2:] {
			b.Params = append(b.Params, []byte(v))
		}
		return AppendBind(buf, b), nil
	case "D":
		return wire.AppendDescribe(buf, f[0][0], name(1)), nil
	case "C":
		return wire.AppendClose(buf, f[0][0], name(1)), nil
	case "E":
		n, err := strconv.Atoi(f[1])
		return AppendExecute(buf, name(0), n), err
	case "F":
		return appendFunctionLine(buf, f)
	case "S", "H", "c", "X":
		return wire.AppendEmpty(buf, verb[0]), nil
	case "d":
		return wire.AppendMessage(buf, wire.MsgCopyData, []byte(rest+"\n")), nil
	case "f":
		return wire.AppendCopyFail(buf, rest), nil
	case "raw":
		b, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		return append(buf, b...), err
	}
	return nil, fmt.Errorf("unknown verb %q", verb)
}

func appendFunctionLine(buf []byte, f []string) ([]byte, error) {
	oid, err := strconv.Atoi(f[0])
	var args [][]byte
	for _, a := range f[1:] {
		n, err := strconv.Atoi(a)
		if err != nil {
			return nil, err
		}
		args = append(args, []byte{0, 0, 0, byte(n)})
	}
	return AppendFunctionCall(buf, uint32(oid), args...), err
}
