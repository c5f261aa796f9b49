package document

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Kind is what a value is by its syntax.
type Kind int

// The kinds of values.
const (
	Nothing Kind = iota // none: the text was no value
	Text                // a string of any of the four sorts
	Integer             // a whole number
	Float
	Bool
	Moment // a date, a time, or both
	List   // an array
	Table  // an inline table, or what means the same
)

// Node is a value of the file.
type Node struct {
	Kind  Kind
	Text  string // of a string, decoded; of any other scalar as written
	Items []Node // of an array or a table
	Names []Name // of a table: the keys of items
	At    Span
	Plain bool // the text stands in the file letter by letter, from At.From+1
}

// Name is a key within a table.
type Name struct {
	Text string
	At   Span
}

// IsText reports whether n is a string.
func (n Node) IsText() bool { return n.Kind == Text }

// Entry is one key with its value. Dotted keys, headers and inline tables all end up as
// the same path.
type Entry struct {
	Path  []string
	Key   Span // the last part of the path
	Value Node
}

// Section is a table as the file opens it: by a header, or in an inline table.
type Section struct {
	Path    []string
	At      Span
	Element bool // one of [[several]]
	Entries []Entry
}

// Document is a file as a list of sections, the first of which is the top.
type Document struct {
	Sections []Section
	Broken   bool // parts could not be read, so what is missing may be there
}

// Bounds of the reading of a broken file: how many mistakes are shown, and how many lines
// are left out in the hope for a readable rest.
const (
	maxSyntaxProblems = 20
	maxLinesLeftOut   = 200
)

// Read splits the text of a TOML file. A line that is not TOML is reported and left out,
// so that the rest of the file is still looked at. tables are the keys whose value may
// be a table. All problems are returned, at most 20; the Document has what is left.
func Read(src *Source, tables ...TableKey) (Document, []Problem) {
	var problems []Problem
	text := []byte(src.Text)
	tail := -1 // the line up to which more mistakes belong to the last one
	for range maxLinesLeftOut {
		var values map[string]any
		err := toml.Unmarshal(text, &values)
		if err == nil {
			doc := parse(text, tables)
			doc.Broken = len(problems) > 0
			return doc, problems
		}
		place, message := syntaxError(text, err)
		line := lineOf(text, place.From)
		start := startOfExpression(text, place.From)
		switch {
		case line <= tail:
			tail = max(tail, line+1)
		default:
			problems = append(problems, src.Locate(Problem{Message: message, Fix: syntaxFix(message)}, place))
			if lineOf(text, start) < line || isOpen(text[start:lineEnd(text, start)]) {
				tail = line + 1
			}
		}
		if len(problems) >= maxSyntaxProblems || !leaveOut(text, start) {
			break
		}
	}
	return Document{Broken: true}, problems
}

// syntaxError tells the place and the message of a toml error.
func syntaxError(text []byte, err error) (Span, string) {
	var e *toml.DecodeError
	if !errors.As(err, &e) {
		return Span{0, min(1, len(text))}, "is not TOML: " + err.Error()
	}
	row, column := e.Position()
	from := 0
	for ; row > 1; row-- {
		from += bytes.IndexByte(text[from:], '\n') + 1
	}
	from = max(0, min(from+column-1, len(text)-1))
	return Span{from, min(from+1, len(text))}, strings.TrimPrefix(e.Error(), "toml: ")
}

// syntaxFix adds what people usually meant.
func syntaxFix(message string) string {
	switch {
	case strings.Contains(message, "start of value"), strings.Contains(message, "expected keyword"), strings.Contains(message, "must be quoted"):
		return `Text is written in quotes, and so are durations, sizes and addresses: key = "5s".`
	case strings.Contains(message, "already"), strings.Contains(message, "duplicate"):
		return "Keep one of the two."
	case strings.Contains(message, "expected '=' after key"):
		return "A setting is written as key = value, the head of a section as [section]."
	default:
		return ""
	}
}

// startOfExpression is the offset of the line where the expression begins that has the
// mistake at the given offset: an array that is never closed is noticed far below.
func startOfExpression(text []byte, mistake int) int {
	var p unstable.Parser
	p.Reset(text)
	end := 0
	for p.NextExpression() {
		end = endOf(p.Expression())
	}
	start := lineStart(text, mistake)
	if p.Error() == nil {
		return start // each expression is right; two of them contradict each other
	}
	at := 0
	if end > 0 {
		at = lineEnd(text, end)
	}
	for ; at < start; at = lineEnd(text, at) {
		line := bytes.TrimSpace(text[at:lineEnd(text, at)])
		if len(line) > 0 && line[0] != '#' {
			return at
		}
	}
	return start
}

// isOpen reports whether a line begins something that ends on a later one.
func isOpen(line []byte) bool {
	if bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
		return false
	}
	count := func(s string) int { return bytes.Count(line, []byte(s)) }
	return count("[") > count("]") || count("{") > count("}") || count(`"""`)%2 == 1 || count("'''")%2 == 1
}

// lineOf is the number of the line that offset is in, from 0.
func lineOf(text []byte, offset int) int { return bytes.Count(text[:offset], []byte("\n")) }

// endOf is the offset behind an expression.
func endOf(n *unstable.Node) int {
	if n.Kind == unstable.KeyValue {
		return int(n.Raw.Offset + n.Raw.Length)
	}
	end := 0
	for it := n.Key(); it.Next(); {
		end = int(it.Node().Raw.Offset + it.Node().Raw.Length)
	}
	return end
}

// lineStart is the offset of the line that offset is in.
func lineStart(text []byte, offset int) int {
	return bytes.LastIndexByte(text[:offset], '\n') + 1
}

// lineEnd is the offset of the line after the one that offset is in.
func lineEnd(text []byte, offset int) int {
	if n := bytes.IndexByte(text[offset:], '\n'); n >= 0 {
		return offset + n + 1
	}
	return len(text)
}

// leaveOut overwrites the line at start with spaces, and after the head of a section also
// all lines up to the next head, because their keys would go to the wrong section. It
// reports whether there was anything to overwrite.
func leaveOut(text []byte, start int) bool {
	end := lineEnd(text, start)
	if bytes.HasPrefix(bytes.TrimSpace(text[start:end]), []byte("[")) {
		for end < len(text) && !bytes.HasPrefix(bytes.TrimSpace(text[end:lineEnd(text, end)]), []byte("[")) {
			end = lineEnd(text, end)
		}
	}
	erased := false
	for i := start; i < end; i++ {
		if text[i] != '\n' && text[i] != ' ' {
			text[i], erased = ' ', true
		}
	}
	return erased
}
