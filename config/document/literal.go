package document

import (
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// literalKey is the key that [Literal] gives a value. No section is called so.
const literalKey = "x"

// Literal is a right-hand side as a value; of kind [Nothing] if it is none.
func Literal(text string) Node {
	doc := parse([]byte(literalKey+" = "+text), nil)
	if len(doc.Sections) != 1 || len(doc.Sections[0].Entries) != 1 {
		return Node{Kind: Nothing}
	}
	return doc.Sections[0].Entries[0].Value
}

// Typed is a value as a DBA types it: TOML, or else a text, in single quotes or bare. from is its
// place in the source, in bytes.
func Typed(text string, from int) Node {
	lost := len(literalKey + " = ") // which stands before it here
	var values map[string]any
	if err := toml.Unmarshal([]byte(literalKey+" = "+text), &values); err == nil && len(values) == 1 {
		if n := Literal(text); n.Kind != Nothing {
			return n.moved(from - lost)
		}
	}
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "'"); ok { // as SQL does, with '' for a quote within
		if inner, ok := strings.CutSuffix(inner, "'"); ok {
			text = strings.ReplaceAll(inner, "''", "'")
		}
	}
	return Node{Kind: Text, Text: text, At: Span{from, from + max(1, len(text))}}
}

// moved is a value at another place.
func (n Node) moved(by int) Node {
	n.At = Span{n.At.From + by, n.At.To + by}
	for i, item := range n.Items {
		n.Items[i] = item.moved(by)
	}
	for i := range n.Names {
		n.Names[i].At = Span{n.Names[i].At.From + by, n.Names[i].At.To + by}
	}
	return n
}

// KeyParts splits a dotted key; nil if it is none.
func KeyParts(text string) []string {
	var p unstable.Parser
	p.Reset([]byte(strings.TrimSpace(text) + " = 0"))
	if !p.NextExpression() || p.Expression().Kind != unstable.KeyValue {
		return nil
	}
	parts, _ := keyPath(p.Expression().Key())
	if p.NextExpression() || p.Error() != nil {
		return nil
	}
	return parts
}
