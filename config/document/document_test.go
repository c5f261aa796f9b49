package document

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// outline is a document without places.
func outline(doc Document) string {
	var b strings.Builder
	for _, s := range doc.Sections {
		fmt.Fprintf(&b, "%s %t", Dotted(s.Path...), s.Element)
		for _, e := range s.Entries {
			fmt.Fprintf(&b, "; %s = %s", Dotted(e.Path...), outlineOf(e.Value))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func outlineOf(n Node) string {
	text := fmt.Sprintf("%d %q", n.Kind, n.Text)
	for i, item := range n.Items {
		if n.Kind == Table {
			text += " " + n.Names[i].Text + ":"
		}
		text += " (" + outlineOf(item) + ")"
	}
	return text
}

// A table that is the value of a key is the same however it is written, and any other table
// is a section.
func TestThreeWaysOfATable(t *testing.T) {
	wait := TableKey{Section: "job", Key: "wait"}
	read := func(text string) Document {
		doc, problems := Read(&Source{Name: "x.toml", Text: text}, wait)
		if problems != nil || doc.Broken {
			t.Fatalf("%s: %v", text, problems)
		}
		return doc
	}
	want := outline(read("[[job]]\nwait = { a = 1, b = \"2\" }\n[[job]]\n"))
	for _, text := range []string{
		"[[job]]\nwait.a = 1\nwait.b = '2'\n[[job]]\n",
		"[[job]]\n[job.wait]\na = 1\nb = \"2\"\n[[job]]\n",
		"job = [{ wait = { a = 1, b = \"2\" } }, {}]",
		"job = [{ wait.a = 1, wait.b = \"2\" }, {}]",
	} {
		if got := outline(read(text)); got != want {
			t.Errorf("%s:\n%swant\n%s", text, got, want)
		}
	}
	if doc := read("[[job]]\nother = { a = 1 }\n"); len(doc.Sections) != 3 || !slices.Equal(doc.Sections[2].Path, []string{"job", "other"}) {
		t.Errorf("another table: %s", outline(doc))
	}
}

// What is typed keeps its place behind the name of the key.
func TestTyped(t *testing.T) {
	for text, want := range map[string]string{
		"5":          `2 "5" at 4-5`,
		"'a ''b'":    `1 "a 'b" at 4-8`, // as SQL quotes
		`"x"`:        `1 "x" at 4-7`,
		"plain text": `1 "plain text" at 4-14`,
		"[1, 2]":     `6 "" (2 "1") (2 "2") at 4-10`,
		"{ a = 1 }":  `7 "" a: (2 "1") at 4-13`,
		"1\ny = 2":   `1 "1\ny = 2" at 4-11`, // which would be two keys
	} {
		n := Typed(text, 4)
		if got := fmt.Sprintf("%s at %d-%d", outlineOf(n), n.At.From, n.At.To); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestKeyParts(t *testing.T) {
	for text, want := range map[string][]string{
		"a.b": {"a", "b"}, ` "a.b".c `: {"a.b", "c"}, "": nil, "a b": nil, "a =": nil, "[a]": nil, "a = 1\nb": nil,
	} {
		if got := KeyParts(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if want != nil && !slices.Equal(KeyParts(Dotted(want...)), want) {
			t.Errorf("%q is written %s", want, Dotted(want...))
		}
	}
}

func TestManySyntaxErrorsAreBounded(t *testing.T) {
	_, problems := Read(&Source{Name: "x.toml", Text: strings.Repeat("a b\n", 5000)})
	if len(problems) != maxSyntaxProblems {
		t.Errorf("%d problems, want %d", len(problems), maxSyntaxProblems)
	}
	_, problems = Read(&Source{Name: "x.toml", Text: "a = [\n" + strings.Repeat("\"b\"\n", 5000)})
	if len(problems) == 0 || len(problems) > maxSyntaxProblems {
		t.Errorf("%d problems", len(problems))
	}
}
