package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadMessage(t *testing.T) {
	body := strings.Repeat("abcde", 1000)
	in := bytes.NewReader(append(AppendMessage(nil, 'x', []byte(body)), "next"...))
	typ, got, err := ReadMessage(iotest.HalfReader(in), len(body), 'y', 'x')
	if err != nil || typ != 'x' || string(got) != body {
		t.Errorf("%q, %d bytes, %v", typ, len(got), err)
	}
	if rest, _ := io.ReadAll(in); string(rest) != "next" {
		t.Errorf("left %q of what follows", rest)
	}
}

func TestReadMessageBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		in    string
		limit int
		want  LengthError
	}{
		"length below its own": {"E\x00\x00\x00\x03", 100, LengthError{'E', 3, 100}},
		"one too many":         {"E\x00\x00\x00\x69", 100, LengthError{'E', 105, 100}},
		"all bits":             {"E\xff\xff\xff\xff", 1 << 30, LengthError{'E', 1<<32 - 1, 1 << 30}},
		"negative limit":       {"E\x00\x00\x00\x05x", -5, LengthError{'E', 5, 0}},
		"type":                 {"E\x00\x00\x00\x04", 100, LengthError{'E', 4, -1}},
	} {
		_, _, err := ReadMessage(strings.NewReader(tc.in), tc.limit, 'p')
		var e *LengthError
		if !errors.As(err, &e) || *e != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadMessageEnds(t *testing.T) {
	whole := AppendMessage(nil, 'x', bytes.Repeat([]byte("y"), chunk+7))
	for n := range whole {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, _, err := ReadMessage(bytes.NewReader(whole[:n]), 1<<20); err != want {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// endless counts what it is asked for and gives one byte less than n in all.
type endless struct{ left, largest int }

func (e *endless) Read(b []byte) (int, error) {
	e.largest = max(e.largest, len(b))
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), e.left)
	e.left -= n
	return n, nil
}

func TestAllocationFollowsWhatArrived(t *testing.T) {
	e := &endless{left: 3 * chunk}
	if _, err := readExact(e, 1<<30); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	if e.largest > 4*chunk {
		t.Errorf("a buffer of %d bytes for a peer that sent %d", e.largest, 3*chunk)
	}
}
