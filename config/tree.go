package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// parse turns the text of a file that is TOML into sections.
func parse(text []byte) document {
	var p unstable.Parser
	p.Reset(text)
	t := tree{text: text, doc: document{sections: []section{{}}}}
	open := 0
	for p.NextExpression() {
		n := p.Expression()
		if n.Kind == unstable.KeyValue {
			t.keyValue(open, nil, n)
			continue
		}
		path, at := keyPath(n.Key())
		t.doc.sections = append(t.doc.sections, section{path: path, at: at, element: n.Kind == unstable.ArrayTable})
		open = len(t.doc.sections) - 1
	}
	return t.doc
}

// tree builds a document from the parser's expressions.
type tree struct {
	text []byte
	doc  document
}

// keyPath reads a dotted key: its parts, and the place of the last or of all of them.
func keyPath(it unstable.Iterator) ([]string, span) {
	var path []string
	var at span
	for it.Next() {
		n := it.Node()
		path = append(path, string(n.Data))
		if len(path) == 1 {
			at.from = int(n.Raw.Offset)
		}
		at.to = int(n.Raw.Offset + n.Raw.Length)
	}
	return path, at
}

// dotted writes the parts of a key as TOML does, in quotes where they need them.
func dotted(parts ...string) string {
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
	whole := span{int(n.Raw.Offset), int(n.Raw.Offset + n.Raw.Length)}
	tables := inlineTables(value)
	switch {
	case value.Kind == unstable.InlineTable && !isTableValue(slices.Concat(t.doc.sections[open].path, path)):
		t.inline(section{path: slices.Concat(t.doc.sections[open].path, path), at: key}, value)
	case tables != nil:
		for _, table := range tables {
			t.inline(section{path: slices.Concat(t.doc.sections[open].path, path), at: key, element: true}, table)
		}
	default:
		s := &t.doc.sections[open]
		s.entries = append(s.entries, entry{path, key, t.value(value, t.valueSpan(key, whole))})
	}
}

// inline adds an inline table as a section of its own.
func (t *tree) inline(s section, table *unstable.Node) {
	t.doc.sections = append(t.doc.sections, s)
	open := len(t.doc.sections) - 1
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
func (t *tree) valueSpan(key, whole span) span {
	from := key.to
	for from < whole.to && (t.text[from] == ' ' || t.text[from] == '\t' || t.text[from] == '=') {
		from++
	}
	return span{from, whole.to}
}

// value copies a value. at is its place where the parser keeps none.
func (t *tree) value(n *unstable.Node, at span) node {
	v := node{kind: n.Kind, text: string(n.Data), at: at}
	if n.Raw.Length > 0 && n.Kind != unstable.InlineTable { // of which it has the bracket
		v.at = span{int(n.Raw.Offset), int(n.Raw.Offset + n.Raw.Length)}
	}
	v.plain = n.Kind == unstable.String && v.at.to-v.at.from == len(v.text)+2
	for it := n.Children(); it.Next(); {
		switch item := it.Node(); n.Kind {
		case unstable.Array:
			v.items = append(v.items, t.value(item, at))
		case unstable.InlineTable:
			path, key := keyPath(item.Key())
			whole := span{int(item.Raw.Offset), int(item.Raw.Offset + item.Raw.Length)}
			v.names = append(v.names, nodeName{dotted(path...), key})
			v.items = append(v.items, t.value(item.Value(), t.valueSpan(key, whole)))
		}
	}
	return v
}
