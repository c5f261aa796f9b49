package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// setSource is the name of the file of what was typed at the console.
const setSource = "SET"

// maxOverride bounds key and value of one SET together, in bytes.
const maxOverride = 64 << 10

// override puts what was typed at the console over what has been read.
func (d *decoder) override(set map[string]string) {
	before := d.src
	defer func() { d.src = before }()
	by := map[string]string{} // the text that has set a key
	for _, text := range slices.Sorted(maps.Keys(set)) {
		src := &source{name: setSource, text: text + " = " + set[text], dir: before.dir}
		d.src = src
		if len(src.text) > maxOverride {
			src.text = ""
			d.complain("", span{}, fmt.Sprintf("has more than %d bytes", maxOverride), "")
			continue
		}
		at := span{0, len(text)}
		full, f, problem := d.settable(text)
		switch other := by[full]; {
		case problem != nil:
			d.complain(full, at, problem.message, problem.advice)
		case other != "":
			d.complain(full, at, "has been set already, as "+other, "Keep one of the two.")
		default:
			by[full] = text
			n := typed(set[text], at.to+len(" = "))
			d.given[full] = d.here(n.at)
			delete(d.bad, full)
			d.set(full, f, n)
		}
	}
}

// typed is a value as a DBA types it: TOML, or else a text. from is its place in the source.
func typed(text string, from int) node {
	lost := len(literalKey + " = ") // which stands before it here
	var values map[string]any
	if err := toml.Unmarshal([]byte(literalKey+" = "+text), &values); err == nil && len(values) == 1 {
		if n := literal(text); n.kind != unstable.Invalid {
			return n.moved(from - lost)
		}
	}
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "'"); ok { // as SQL does, with '' for a quote within
		if inner, ok := strings.CutSuffix(inner, "'"); ok {
			text = strings.ReplaceAll(inner, "''", "'")
		}
	}
	return node{kind: unstable.String, text: text, at: span{from, from + max(1, len(text))}}
}

// moved is a value at another place.
func (n node) moved(by int) node {
	n.at = span{n.at.from + by, n.at.to + by}
	for i, item := range n.items {
		n.items[i] = item.moved(by)
	}
	for i := range n.names {
		n.names[i].at = span{n.names[i].at.from + by, n.names[i].at.to + by}
	}
	return n
}

// settable finds the key that was meant, by its full name or by a part of it.
func (d *decoder) settable(text string) (string, field, *complaint) {
	var keys []string
	fields := map[string]field{}
	for label, list := range d.open {
		for _, f := range list {
			full := sectionKeys{label: label}.keyOf(f.Name)
			keys = append(keys, full)
			fields[full] = f
		}
	}
	_, inFile := d.given[dotted(workloadKind, toolsWorkload)]
	full, problem := resolve(text, keys, !inFile)
	if problem == nil && fields[full].Name == "name" {
		problem = &complaint{message: "cannot be changed while pgweir runs: it is what the section is known by"}
	}
	return full, fields[full], problem
}

// Resolve finds the full name of a key, such as "workload.api.max_wait", from a part of it
// such as "max_wait" or "api.max_wait", if only one key fits. The built-in workload "tools"
// has to be named. The error is a [Problem].
func (c *Config) Resolve(key string) (string, error) {
	var keys []string
	tools := false
	for _, s := range c.sections() {
		for _, f := range s.fields {
			keys = append(keys, s.keyOf(f.Name))
		}
	}
	for _, w := range c.Workloads {
		tools = tools || w.BuiltIn && w.Name == toolsWorkload
	}
	full, problem := resolve(key, keys, tools)
	if problem != nil {
		return "", Problem{File: setSource, Key: full, Message: problem.message, Fix: problem.advice}
	}
	return full, nil
}

// resolve finds the one key whose parts end with the name and have the others of text in
// their order. tools tells that the workload of this name does not count unless named.
func resolve(text string, keys []string, tools bool) (string, *complaint) {
	want := keyParts(text)
	slices.Sort(keys)
	var fitting, names []string
	for _, key := range keys {
		parts := keyParts(key)
		names = append(names, parts[len(parts)-1])
		switch {
		case slices.Equal(parts, want):
			return key, nil
		case !isWithin(want, parts):
		case tools && len(parts) > 2 && parts[0] == workloadKind && parts[1] == toolsWorkload && !slices.Contains(want, toolsWorkload):
		default:
			fitting = append(fitting, key)
		}
	}
	switch {
	case len(fitting) == 1:
		return fitting[0], nil
	case len(fitting) > maxCandidates:
		return "", &complaint{message: fmt.Sprintf("could be %d keys", len(fitting)), advice: "Write the name of the section before it, as in " + fitting[0] + "."}
	case len(fitting) > 1:
		return "", &complaint{message: fmt.Sprintf("could be %d keys", len(fitting)), advice: "Write " + orList(fitting) + "."}
	}
	p := &complaint{message: "there is no such key"}
	last := ""
	if len(want) > 0 {
		last = want[len(want)-1]
	}
	switch near := Nearest(last, names); {
	case near != "" && near != last:
		p.advice = "Did you mean " + near + "?"
	case near != "":
		p.advice = "There is " + near + " in other sections: SHOW CONFIG has all keys."
	default:
		p.advice = "SHOW CONFIG has all keys."
		if fix := elsewhere(last); fix != "" {
			p.advice = fix
		}
	}
	return "", p
}

// maxCandidates is how many keys a problem lists.
const maxCandidates = 8

// orList joins words to a choice.
func orList(words []string) string {
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " or " + words[n]
}

// keyParts splits a dotted key; nil if it is none.
func keyParts(text string) []string {
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

// isWithin reports whether the words of part stand in whole in this order, the last of both
// being the same.
func isWithin(part, whole []string) bool {
	if len(part) == 0 || part[len(part)-1] != whole[len(whole)-1] {
		return false
	}
	i := 0
	for _, word := range whole {
		if i < len(part) && part[i] == word {
			i++
		}
	}
	return i == len(part)
}
