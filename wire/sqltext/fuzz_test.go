package sqltext

import (
	"bytes"
	"testing"
)

func FuzzClassify(f *testing.F) {
	for _, group := range shapes {
		for _, text := range group {
			f.Add([]byte(text))
		}
	}
	for _, text := range []string{
		"BEGIN ISOLATION LEVEL READ COMMITTED", "SET a.b TO 'c', d", `DEALLOCATE "x"`, "SELECT E'\x95\\'; SET a = 1; --'",
		"SELECT '\\' /* ' */", "CREATE FUNCTION f() BEGIN ATOMIC END", "DO $$ temp $$", "SELECT set_config('a', b, true)",
		"/* /* */", "$a$b$", "U&\"\\0061\"", "1e+_0x", "SET A=$$", "--\r;COMMIT", "SET search_path = a, -1, E'\\n'", "SELECT set_config('a', null, false) as x",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		st := Classify(text)
		if st != Classify(text) {
			t.Fatal("two answers")
		}
		st.Name(text)
		st.Value(text)
		st.Settings(text)
		Steps(text, 9)
		if st.Flags&PlainBegin != 0 && st.Kind != Begin || st.Flags&Multi != 0 && st.Kind != Other {
			t.Fatalf("%v [%v]", st.Kind, st.Flags)
		}
		checkTail(t, text, st)
		checkAppended(t, text, st)
	})
}

// checkTail compares a text with itself without its trailing comments.
func checkTail(t *testing.T, text []byte, st Statement) {
	start := len(text) - st.Comments()
	if start < 0 || start > len(text) {
		t.Fatalf("tail at %d of %d", start, len(text))
	}
	if cut := Classify(text[:start]); start < len(text) && cut != bare(st) {
		t.Fatalf("%v [%v], without the tail %v [%v]", st.Kind, st.Flags, cut.Kind, cut.Flags)
	}
	if start < len(text) && Fingerprint(text[:start]) != Fingerprint(text) {
		t.Fatal("the tail is part of the fingerprint")
	}
}

// bare is a statement without what is known of its comments.
func bare(st Statement) Statement {
	st.comments = 0
	return st
}

// checkAppended compares a complete text with itself and a comment.
func checkAppended(t *testing.T, text []byte, st Statement) {
	c := classifier{scanner: scanner{src: text}}
	c.run()
	if c.broken || c.ambiguous {
		return
	}
	longer := append(bytes.Clone(text), "\n/* ; COMMIT */"...)
	if got := Classify(longer); bare(got) != bare(st) {
		t.Fatalf("%v [%v], with a comment %v [%v]", st.Kind, st.Flags, got.Kind, got.Flags)
	}
	if Fingerprint(longer) != Fingerprint(text) {
		t.Fatal("a comment changes the fingerprint")
	}
	if Classify(longer).Comments() == 0 {
		t.Fatal("the comment is not seen as the tail")
	}
}
