package sqltext

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// vocabulary holds tokens by whether their letter case may change. None is a
// string that a string before it could continue in.
var vocabulary = struct{ words, exact []string }{
	words: strings.Fields(`begin start transaction work commit end rollback abort and no chain to isolation level
		read only write committed uncommitted repeatable serializable not deferrable discard all deallocate prepare
		set session local time zone names schema role default reset show select values table with explain analyze
		insert update delete merge into for key share create or replace temp temporary function procedure atomic
		declare cursor hold listen copy do set_config true false null pg_temp pg_advisory_lock pg_settings a b
		current_date in is case when then authorization characteristics constraints`),
	exact: []string{
		"1", "42", "1.5", "$1", "'a'", "'it''s'", `E'\''`, "$$ ; commit $$", "$t$ ' $t$", `"q"`, `"set_config"`, `"A;b"`,
		"U&'x'", ";", ";", "(", ")", ",", ".", "=", "<", "*", "-", "/", "+", "[", "]", "::", "'pg_temp'",
	},
}

type piece struct {
	text string
	word bool
}

func isString(p piece) bool { return strings.HasSuffix(p.text, "'") || strings.HasSuffix(p.text, "$") }

// sentences are whole statements, so that the grammars are met often.
var sentences = []string{
	"begin transaction isolation level repeatable read , read only", "start transaction read write", "commit and no chain",
	"rollback work to savepoint a", "prepare transaction 'a'", "deallocate prepare a", "discard all", "set a . b to 'a' , b",
	"set local time zone - 1", "set session transaction read only", "reset session authorization", "show transaction isolation level",
	"select 42", "select a from b for no key update", "explain ( analyze ) select 1", "create or replace temp table a ( b )",
	"create function a ( ) begin atomic select 1 ; end ; commit", "declare a cursor with hold for select 1",
	"select set_config ( 'a' , b , true )", "insert into a values ( 1 , - 2 ) , ( 3 , 4 )", "select a in ( 1 , 2 , 'a' )",
	"do $$ ; commit $$", `deallocate "A;b"`, "select 1 into temp a",
}

var pieces = rapid.Custom(func(t *rapid.T) []piece {
	word := rapid.Map(rapid.SampledFrom(vocabulary.words), func(s string) []piece { return []piece{{s, true}} })
	exact := rapid.Map(rapid.SampledFrom(vocabulary.exact), func(s string) []piece { return []piece{{s, false}} })
	sentence := rapid.Map(rapid.SampledFrom(sentences), cutSentence)
	var list []piece
	for _, part := range rapid.SliceOfN(rapid.OneOf(word, exact, sentence), 0, 6).Draw(t, "pieces") {
		list = append(list, part...)
	}
	for i := 1; i < len(list); i++ {
		if isString(list[i-1]) && isString(list[i]) {
			list[i] = piece{",", false}
		}
	}
	return list
})

// cutSentence splits a sentence into pieces; $$ and quotes hold no others.
func cutSentence(s string) []piece {
	if before, body, ok := strings.Cut(s, "$$"); ok {
		return append(cutSentence(before), piece{"$$" + body, false})
	}
	var list []piece
	for _, text := range strings.Fields(s) {
		list = append(list, piece{text, !strings.ContainsAny(text, `'"`)})
	}
	return list
}

var separators = rapid.SampledFrom([]string{
	" ", "\n", "\t\r\n", " /* ; ' commit */ ", " /* /* ' */ $$ */ ", " -- ' /* commit ;\n", "/**/ ", "\f", " -- \"\r",
})

func plain(list []piece) []byte {
	var b bytes.Buffer
	for _, p := range list {
		b.WriteString(p.text + " ")
	}
	return b.Bytes()
}

// decorate writes the same tokens with other white space, comments and case.
func decorate(t *rapid.T, list []piece) []byte {
	var b bytes.Buffer
	b.WriteString(separators.Draw(t, "lead"))
	for _, p := range list {
		text := p.text
		if p.word && rapid.Bool().Draw(t, "upper") {
			text = strings.ToUpper(text)
		}
		b.WriteString(text)
		b.WriteString(separators.Draw(t, "separator"))
	}
	return b.Bytes()
}

func TestCommentsCaseAndSpaceChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := pieces.Draw(t, "list")
		a, b := plain(list), decorate(t, list)
		x, y := Classify(a), Classify(b)
		if x.Kind != y.Kind || x.Flags != y.Flags {
			t.Fatalf("%q: %v [%v]\n%q: %v [%v]", a, x.Kind, x.Flags, b, y.Kind, y.Flags)
		}
		if x.Name(a) != y.Name(b) {
			t.Fatalf("%q: name %q\n%q: name %q", a, x.Name(a), b, y.Name(b))
		}
		if Fingerprint(a) != Fingerprint(b) {
			t.Fatalf("fingerprints of %q and %q differ", a, b)
		}
	})
}

func TestCuttingTheTailChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := decorate(t, pieces.Draw(t, "list"))
		x := Classify(text)
		cut := text[:len(text)-x.Comments()]
		y := Classify(cut)
		if y.Comments() > 0 {
			t.Fatalf("%q: cut to %q and again by %d", text, cut, y.Comments())
		}
		if bare(x) != y {
			t.Fatalf("%q: %v [%v]\n%q: %v [%v]", text, x.Kind, x.Flags, cut, y.Kind, y.Flags)
		}
		if Fingerprint(text) != Fingerprint(cut) {
			t.Fatalf("fingerprints of %q and %q differ", text, cut)
		}
	})
}

// What one text does, it does in front of and behind another.
func TestFlagsOfJoinedTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		balanced := func(list []piece) bool {
			depth := 0
			for _, p := range list {
				switch p.text {
				case "(":
					depth++
				case ")":
					depth--
				}
				if depth < 0 {
					return false
				}
			}
			return depth == 0
		}
		gen := pieces.Filter(balanced)
		a, b := plain(gen.Draw(t, "a")), plain(gen.Draw(t, "b"))
		x, y := Classify(a), Classify(b)
		text := append(append(bytes.Clone(a), "; "...), b...)
		st := Classify(text)
		const alone = PlainBegin
		if want := (x.Flags | y.Flags) &^ alone; st.Flags&want != want {
			t.Fatalf("%q: [%v], want [%v] and more", text, st.Flags, want)
		}
		switch {
		case x.Kind == Empty:
			if st.Kind != y.Kind {
				t.Fatalf("%q: %v, want %v", text, st.Kind, y.Kind)
			}
		case y.Kind == Empty:
			if st.Kind != x.Kind {
				t.Fatalf("%q: %v, want %v", text, st.Kind, x.Kind)
			}
		case st.Kind != Other || st.Flags&Multi == 0:
			t.Fatalf("%q: %v [%v], want several statements", text, st.Kind, st.Flags)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	texts := [][]byte{
		[]byte(pgbenchSelect), []byte("BEGIN"), []byte("SET x = 'y'"), []byte(`SELECT E'\x95\', '\' /* tag */`),
		[]byte("INSERT INTO t VALUES (1, 'a'), (2, $$b$$) -- tag"),
	}
	allocs := testing.AllocsPerRun(100, func() {
		for _, text := range texts {
			Classify(text)
			Fingerprint(text)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}
