package parity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sequence is one conversation of the corpus.
type sequence struct {
	file  string
	line  int
	name  string
	traps []int // numbers of the traps that it is about
	steps []step

	alone   bool   // it writes to tables: nothing may run beside it
	whole   bool   // it is about what comes in one piece: the bytes are not cut
	servers int    // it needs so many servers, because clients hold them while others go on
	below   int    // only where PostgreSQL is of a major version below this; 0: everywhere
	only    string // the one pool mode in which it is played; empty: all
	never   string // a pool mode in which it is not
	prefix  string // why pgweir may stop answering earlier; empty: it may not
	// differences are those between pgweir and PostgreSQL, by pool mode; under "" for modes
	// without one of their own.
	differences map[string]*difference
	last        *difference // the one that is being read
}

// difference is how pgweir answers in another way than PostgreSQL.
type difference struct {
	reason string // why it does; empty: it does not
	want   []string
}

// differs returns what is expected in a pool mode.
func (s *sequence) differs(mode string) difference {
	if d := s.differences[mode]; d != nil {
		return *d
	}
	if d := s.differences[""]; d != nil {
		return *d
	}
	return difference{}
}

// clients is how many clients there are.
func (s *sequence) clients() int {
	names := make(map[string]bool)
	for _, st := range s.steps {
		if st.op != opAdmin {
			names[st.client] = true
		}
	}
	return len(names)
}

func (s *sequence) String() string { return fmt.Sprintf("%s:%d %s", s.file, s.line, s.name) }

// outside reports whether somebody acts on backends from outside, who could hit others.
func (s *sequence) outside() bool {
	return slices.ContainsFunc(s.steps, func(st step) bool {
		return st.op == opCancel || st.op == opAdmin || st.op == opAsleep
	})
}

// begins reports whether somebody asks for a transaction block.
func (s *sequence) begins() bool {
	return slices.ContainsFunc(s.steps, func(st step) bool {
		return st.op == opSend && beginning.Match(st.bytes)
	})
}

var beginning = regexp.MustCompile(`(?i)\b(begin|start transaction)\b`)

// op says what a step does.
type op uint8

const (
	opStart   op = iota // log in with the packet in bytes
	opSend              // send the bytes
	opWait              // until everything is answered
	opFlushed           // until everything is answered or CopyData is wanted
	opAsleep            // until a backend sleeps
	opByte              // until a request for encryption is answered
	opHalf              // end the sending side and read on
	opClose             // close without a word
	opClosed            // until the server has closed
	opCancel            // cancel the client's statement, once a backend sleeps in it
	opAdmin             // run SQL as a superuser, past pgweir
)

// step is one act of one client.
type step struct {
	line   int
	client string
	op     op
	bytes  []byte
	text   string
}

// loadCorpus reads all files of testdata.
func loadCorpus(t *testing.T) []*sequence {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []*sequence
	names := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, err := parseCorpus(filepath.Base(file), string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if names[s.name] {
				t.Fatalf("%v: there are two of this name", s)
			}
			names[s.name] = true
		}
		all = append(all, list...)
	}
	return all
}

// parseCorpus reads the sequences of one file.
func parseCorpus(file, text string) ([]*sequence, error) {
	var list []*sequence
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " ")
		name, starts := strings.CutPrefix(line, "== ")
		switch {
		case starts:
			list = append(list, &sequence{file: file, line: i + 1, name: name, servers: 1})
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case len(list) == 0:
			return nil, fmt.Errorf("%s:%d: a line before the first sequence", file, i+1)
		}
		s := list[len(list)-1]
		if err := s.add(line, i+1); err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", file, i+1, line, err)
		}
	}
	for _, s := range list {
		if len(s.steps) == 0 {
			return nil, fmt.Errorf("%v: no steps", s)
		}
	}
	return list, nil
}

// add takes one line of a sequence.
func (s *sequence) add(line string, n int) error {
	switch line[0] {
	case '%':
		return s.attribute(strings.TrimSpace(line[1:]))
	case '-', '+':
		if s.last == nil || s.last.reason == "" {
			return errors.New("a difference without a reason")
		}
		s.last.want = append(s.last.want, line)
		return nil
	}
	st, err := parseStep(line)
	if err != nil {
		return err
	}
	st.line = n
	if k := len(s.steps); k > 0 && st.op == opSend && s.steps[k-1].op == opSend && s.steps[k-1].client == st.client {
		s.steps[k-1].bytes = append(s.steps[k-1].bytes, st.bytes...) // one write
		return nil
	}
	s.steps = append(s.steps, st)
	return nil
}

// differ begins a difference; the lines that follow say what it is.
func (s *sequence) differ(mode, reason string) {
	if s.differences == nil {
		s.differences = make(map[string]*difference)
	}
	s.last = &difference{reason: reason}
	s.differences[mode] = s.last
}

func (s *sequence) attribute(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	var err error
	switch word {
	case "alone":
		s.alone = true
	case "whole":
		s.whole = true
	case "servers":
		s.servers, err = strconv.Atoi(rest)
	case "below":
		s.below, err = strconv.Atoi(rest)
	case "differs:":
		s.differ("", rest)
	case "session", "statement":
		what, reason, _ := strings.Cut(rest, " ")
		switch {
		case rest == "same":
			s.differ(word, "")
		case rest == "only":
			s.only = word
		case rest == "never":
			s.never = word
		case what == "differs:" && reason != "":
			s.differ(word, reason)
		default:
			err = fmt.Errorf("unknown words for %s mode", word)
		}
	case "prefix:":
		s.prefix = rest
	case "trap":
		for f := range strings.FieldsSeq(rest) {
			var n int
			if n, err = strconv.Atoi(f); err != nil {
				break
			}
			s.traps = append(s.traps, n)
		}
	default:
		err = fmt.Errorf("unknown attribute %q", word)
	}
	return err
}
