package decode

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// setSource is the name of the file of what was typed at the console.
const setSource = "SET"

// maxOverride bounds key and value of one SET together, in bytes.
const maxOverride = 64 << 10

// override puts what was typed at the console over what has been read.
func (d *Decoder) override(set map[string]string) {
	before := d.src
	defer func() { d.src = before }()
	by := map[string]string{} // the text that has set a key
	for _, text := range slices.Sorted(maps.Keys(set)) {
		src := &document.Source{Name: setSource, Alias: setSource, Text: text + " = " + set[text], Dir: before.Dir}
		d.src = src
		if len(src.Text) > maxOverride {
			src.Text = ""
			d.complain("", document.Span{}, fmt.Sprintf("has more than %d bytes", maxOverride), "")
			continue
		}
		at := document.Span{From: 0, To: len(text)}
		full, f, problem := d.settable(text)
		switch other := by[full]; {
		case problem != nil:
			d.complain(full, at, problem.Message, problem.Advice)
		case other != "":
			d.complain(full, at, "has been set already, as "+other, "Keep one of the two.")
		default:
			by[full] = text
			n := document.Typed(set[text], at.To+len(" = "))
			d.given[full] = d.here(n.At)
			delete(d.bad, full)
			d.set(full, f, n)
		}
	}
}

// settable finds the key that was meant, by its full name or by a part of it.
func (d *Decoder) settable(text string) (string, schema.Field, *values.Complaint) {
	var keys []string
	fields := map[string]schema.Field{}
	for label, list := range d.open {
		for _, f := range list {
			full := schema.Section{Label: label}.KeyOf(f.Name)
			keys = append(keys, full)
			fields[full] = f
		}
	}
	_, inFile := d.given[document.Dotted(schema.WorkloadKind, schema.ToolsWorkload)]
	full, problem := resolve(text, keys, !inFile)
	if problem == nil && fields[full].Name == "name" {
		problem = &values.Complaint{Message: "cannot be changed while pgweir runs: it is what the section is known by"}
	}
	return full, fields[full], problem
}
