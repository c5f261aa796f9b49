package decode

import (
	"slices"
	"strconv"

	"github.com/pgweir/pgweir/config/document"
	"github.com/pgweir/pgweir/config/schema"
	"github.com/pgweir/pgweir/config/values"
)

// repeated is the kind of section that a file has several of, in an order that matters.
// They are told apart by their name.
type repeated struct {
	kind    string
	labels  []string // the full names of all, also of those that no file has written
	written []int    // those of the file in its order, indices into labels
	begun   int      // how many of these have been begun to be read
}

// isRepeated reports whether a path is that of a section of which a file has several, or of
// something in it.
func isRepeated(path []string) bool {
	return len(path) > 0 && (path[0] == schema.WorkloadKind || path[0] == schema.RateKind)
}

// repeatedOf is the kind of a path, or nil.
func (d *Decoder) repeatedOf(path []string) *repeated {
	switch {
	case !isRepeated(path):
		return nil
	case path[0] == schema.WorkloadKind:
		return &d.workloads
	default:
		return &d.rates
	}
}

// label is the full name of a table or key. That of a section of which there are several
// has its name in it, because in the file they are only told apart by their order.
func (d *Decoder) label(path []string) string {
	r := d.repeatedOf(path)
	if r == nil || r.begun == 0 {
		return document.Dotted(path...)
	}
	label := r.labels[r.written[r.begun-1]]
	if len(path) == 1 {
		return label
	}
	return label + "." + document.Dotted(path[1:]...)
}

// isHead reports whether a section begins one of several of its kind.
func isHead(s document.Section) bool { return len(s.Path) == 1 && isRepeated(s.Path) && s.Element }

// heads are the sections that begin one of the kind.
func heads(doc document.Document, kind string) []document.Section {
	var list []document.Section
	for _, s := range doc.Sections {
		if isHead(s) && s.Path[0] == kind {
			list = append(list, s)
		}
	}
	return list
}

// newLabel is the label of the next one of the file, under its name if that is right and
// not taken, else under its number.
func (d *Decoder) newLabel(r *repeated, name string, ok bool, at document.Span) {
	label := document.Dotted(r.kind, name)
	if !ok || slices.Contains(r.labels, label) {
		label = r.kind + ".#" + strconv.Itoa(len(r.written)+1)
	}
	d.given[label] = d.here(at)
	r.written = append(r.written, len(r.labels))
	r.labels = append(r.labels, label)
}

// nameOf looks for the name of a section before it is read. What is wrong with it is said
// later.
func (d *Decoder) nameOf(s document.Section) (name string, given, ok bool) {
	for _, e := range s.Entries {
		if len(e.Path) != 1 || e.Path[0] != "name" {
			continue
		}
		text := e.Value.Text
		if variable, ok := variable(text); ok {
			text = d.getenv(variable)
		}
		return text, true, e.Value.IsText() && values.IsName(text, 63)
	}
	return "", false, false
}

// repeatedHead checks the head of one of several, and of what is in it.
func (d *Decoder) repeatedHead(s *document.Section, r *repeated) {
	isMatch := len(s.Path) == 2 && s.Path[1] == "match"
	switch {
	case isHead(*s):
		r.begun++
	case len(s.Path) == 1:
		d.complainOnce(s, "there may be several "+r.kind+"s, so each begins with two brackets", "Write [["+r.kind+"]].")
	case findsLater(r.kind, s.Path[1]):
		d.complainOnce(s, d.label(s.Path)+" is "+values.NotYet, "Leave it out.")
	case isMatch && r.begun == 0:
		d.complainOnce(s, "there is no "+r.kind+" above it", "Write [["+r.kind+"]] first.")
	case isMatch && s.Element:
		d.complainOnce(s, "a "+r.kind+" has one match", "Write ["+r.kind+".match], or match = { ... }.")
	case isMatch:
		d.given[d.label(s.Path)] = d.here(s.At)
	default:
		d.repeatedRest(s, r)
	}
}

// repeatedRest complains about any other table in one of several.
func (d *Decoder) repeatedRest(s *document.Section, r *repeated) {
	message := "[[" + r.kind + "]] has no sections within it but [" + r.kind + ".match]"
	if r.begun > 0 {
		for _, f := range d.open[d.label(s.Path[:1])] {
			if f.Name == s.Path[1] {
				full := d.label(s.Path[:2])
				d.bad[full] = true
				message = full + ": a table is not " + f.Type.Admits
			}
		}
	}
	d.complainOnce(s, message, "")
}

// matchKeys are the full names of a section's match and of all keys in it.
func (d *Decoder) matchKeys(label string) []string {
	keys := []string{label + ".match"}
	for _, f := range schema.RateMatchFields(&schema.Rate{}) { // which has all that others have
		keys = append(keys, label+".match."+f.Name)
	}
	return keys
}

// hasBad reports whether a part of a section's match was refused.
func (d *Decoder) hasBad(label string) bool {
	return !d.Fine(d.matchKeys(label)...) || d.said[label+".match"] || d.bad[label]
}
