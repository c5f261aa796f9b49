package config

import (
	"slices"
	"strconv"
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
	return len(path) > 0 && (path[0] == workloadKind || path[0] == rateKind)
}

// repeatedOf is the kind of a path, or nil.
func (d *decoder) repeatedOf(path []string) *repeated {
	switch {
	case !isRepeated(path):
		return nil
	case path[0] == workloadKind:
		return &d.workloads
	default:
		return &d.rates
	}
}

// label is the full name of a table or key. That of a section of which there are several
// has its name in it, because in the file they are only told apart by their order.
func (d *decoder) label(path []string) string {
	r := d.repeatedOf(path)
	if r == nil || r.begun == 0 {
		return dotted(path...)
	}
	label := r.labels[r.written[r.begun-1]]
	if len(path) == 1 {
		return label
	}
	return label + "." + dotted(path[1:]...)
}

// isHead reports whether a section begins one of several of its kind.
func (s section) isHead() bool { return len(s.path) == 1 && isRepeated(s.path) && s.element }

// heads are the sections that begin one of the kind.
func (doc document) heads(kind string) []section {
	var list []section
	for _, s := range doc.sections {
		if s.isHead() && s.path[0] == kind {
			list = append(list, s)
		}
	}
	return list
}

// newLabel is the label of the next one of the file, under its name if that is right and
// not taken, else under its number.
func (d *decoder) newLabel(r *repeated, name string, ok bool, at span) {
	label := dotted(r.kind, name)
	if !ok || slices.Contains(r.labels, label) {
		label = r.kind + ".#" + strconv.Itoa(len(r.written)+1)
	}
	d.given[label] = d.here(at)
	r.written = append(r.written, len(r.labels))
	r.labels = append(r.labels, label)
}

// nameOf looks for the name of a section before it is read. What is wrong with it is said
// later.
func (d *decoder) nameOf(s section) (name string, given, ok bool) {
	for _, e := range s.entries {
		if len(e.path) != 1 || e.path[0] != "name" {
			continue
		}
		text := e.value.text
		if variable, ok := variable(text); ok {
			text = d.getenv(variable)
		}
		return text, true, e.value.isText() && isName(text, 63)
	}
	return "", false, false
}

// repeatedHead checks the head of one of several, and of what is in it.
func (d *decoder) repeatedHead(s *section, r *repeated) {
	isMatch := len(s.path) == 2 && s.path[1] == "match"
	switch {
	case s.isHead():
		r.begun++
	case len(s.path) == 1:
		d.complainOnce(s, "there may be several "+r.kind+"s, so each begins with two brackets", "Write [["+r.kind+"]].")
	case findsLater(r.kind, s.path[1]):
		d.complainOnce(s, d.label(s.path)+" is "+notYet, "Leave it out.")
	case isMatch && r.begun == 0:
		d.complainOnce(s, "there is no "+r.kind+" above it", "Write [["+r.kind+"]] first.")
	case isMatch && s.element:
		d.complainOnce(s, "a "+r.kind+" has one match", "Write ["+r.kind+".match], or match = { ... }.")
	case isMatch:
		d.given[d.label(s.path)] = d.here(s.at)
	default:
		d.repeatedRest(s, r)
	}
}

// repeatedRest complains about any other table in one of several.
func (d *decoder) repeatedRest(s *section, r *repeated) {
	message := "[[" + r.kind + "]] has no sections within it but [" + r.kind + ".match]"
	if r.begun > 0 {
		for _, f := range d.open[d.label(s.path[:1])] {
			if f.Name == s.path[1] {
				full := d.label(s.path[:2])
				d.bad[full] = true
				message = full + ": a table is not " + f.kind.admits
			}
		}
	}
	d.complainOnce(s, message, "")
}

// matchKeys are the full names of a section's match and of all keys in it.
func (d *decoder) matchKeys(label string) []string {
	keys := []string{label + ".match"}
	for _, f := range rateMatchFields(&Rate{}) { // which has all that others have
		keys = append(keys, label+".match."+f.Name)
	}
	return keys
}

// hasBad reports whether a part of a section's match was refused.
func (d *decoder) hasBad(label string) bool {
	return !d.fine(d.matchKeys(label)...) || d.said[label+".match"] || d.bad[label]
}
