package document

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// parse turns the text of a file that is TOML into sections.
func parse(text []byte, tables []TableKey) Document {
	var p unstable.Parser
	p.Reset(text)
	t := tree{text: text, tables: tables, doc: Document{Sections: []Section{{}}}}
	open := 0
	for p.NextExpression() {
		n := p.Expression()
		if n.Kind == unstable.KeyValue {
			t.keyValue(open, nil, n)
			continue
		}
		path, at := keyPath(n.Key())
		t.doc.Sections = append(t.doc.Sections, Section{Path: path, At: at, Element: n.Kind == unstable.ArrayTable})
		open = len(t.doc.Sections) - 1
	}
	for _, k := range tables {
		t.doc.gather(k)
	}
	return t.doc
}

// tree builds a document from the parser's expressions.
type tree struct {
	text   []byte
	tables []TableKey
	doc    Document
}

// keyPath reads a dotted key: its parts, and the place of the last or of all of them.
func keyPath(it unstable.Iterator) ([]string, Span) {
	var path []string
	var at Span
	for it.Next() {
		n := it.Node()
		path = append(path, string(n.Data))
		if len(path) == 1 {
			at.From = int(n.Raw.Offset)
		}
		at.To = int(n.Raw.Offset + n.Raw.Length)
	}
	return path, at
}

// Dotted writes the parts of a key as TOML does, in quotes where they need them.
func Dotted(parts ...string) string {
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteByte('.')
		}
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			part = strconv.Quote(part)
		}
		b.WriteString(part)
	}
	return b.String()
}

// keyValue adds a key to an open section, below a prefix.
func (t *tree) keyValue(open int, prefix []string, n *unstable.Node) {
	parts, key := keyPath(n.Key())
	path := slices.Concat(prefix, parts)
	value := n.Value()
	whole := Span{int(n.Raw.Offset), int(n.Raw.Offset + n.Raw.Length)}
	tables := inlineTables(value)
	switch {
	case value.Kind == unstable.InlineTable && !t.isTableValue(slices.Concat(t.doc.Sections[open].Path, path)):
		t.inline(Section{Path: slices.Concat(t.doc.Sections[open].Path, path), At: key}, value)
	case tables != nil:
		for _, table := range tables {
			t.inline(Section{Path: slices.Concat(t.doc.Sections[open].Path, path), At: key, Element: true}, table)
		}
	default:
		s := &t.doc.Sections[open]
		s.Entries = append(s.Entries, Entry{path, key, t.value(value, t.valueSpan(key, whole))})
	}
}

// inline adds an inline table as a section of its own.
func (t *tree) inline(s Section, table *unstable.Node) {
	t.doc.Sections = append(t.doc.Sections, s)
	open := len(t.doc.Sections) - 1
	for it := table.Children(); it.Next(); {
		t.keyValue(open, nil, it.Node())
	}
}

// inlineTables are the elements of an array of nothing but inline tables, else nil.
func inlineTables(array *unstable.Node) []*unstable.Node {
	if array.Kind != unstable.Array {
		return nil
	}
	var list []*unstable.Node
	for it := array.Children(); it.Next(); {
		if it.Node().Kind != unstable.InlineTable {
			return nil
		}
		list = append(list, it.Node())
	}
	return list
}

// valueSpan finds the value behind a key in the text of both.
func (t *tree) valueSpan(key, whole Span) Span {
	from := key.To
	for from < whole.To && (t.text[from] == ' ' || t.text[from] == '\t' || t.text[from] == '=') {
		from++
	}
	return Span{from, whole.To}
}

// kindOf is the kind of a value of the parser's.
func kindOf(kind unstable.Kind) Kind {
	switch kind {
	case unstable.String:
		return Text
	case unstable.Integer:
		return Integer
	case unstable.Float:
		return Float
	case unstable.Bool:
		return Bool
	case unstable.Array:
		return List
	case unstable.InlineTable:
		return Table
	case unstable.Invalid:
		return Nothing
	default:
		return Moment
	}
}

// value copies a value. at is its place where the parser keeps none.
func (t *tree) value(n *unstable.Node, at Span) Node {
	v := Node{Kind: kindOf(n.Kind), Text: string(n.Data), At: at}
	if n.Raw.Length > 0 && n.Kind != unstable.InlineTable { // of which it has the bracket
		v.At = Span{int(n.Raw.Offset), int(n.Raw.Offset + n.Raw.Length)}
	}
	v.Plain = n.Kind == unstable.String && v.At.To-v.At.From == len(v.Text)+2
	for it := n.Children(); it.Next(); {
		switch item := it.Node(); n.Kind {
		case unstable.Array:
			v.Items = append(v.Items, t.value(item, at))
		case unstable.InlineTable:
			path, key := keyPath(item.Key())
			whole := Span{int(item.Raw.Offset), int(item.Raw.Offset + item.Raw.Length)}
			v.Names = append(v.Names, Name{Dotted(path...), key})
			v.Items = append(v.Items, t.value(item.Value(), t.valueSpan(key, whole)))
		}
	}
	return v
}
