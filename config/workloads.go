package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// isWorkload reports whether a path is that of a workload or of something in it.
func isWorkload(path []string) bool { return len(path) > 0 && path[0] == workloadKind }

// label is the full name of a table or key. That of a workload has the workload's name in
// it, because in the file they are only told apart by their order.
func (d *decoder) label(path []string) string {
	if !isWorkload(path) || d.begun == 0 {
		return dotted(path...)
	}
	label := d.labels[d.written[d.begun-1]]
	if len(path) == 1 {
		return label
	}
	return label + "." + dotted(path[1:]...)
}

// countWorkloads makes room for all workloads, those of the file and those that are built
// in, and gives each its label. One that has no name of its own is known by its number.
func (d *decoder) countWorkloads(doc document) {
	var heads []section
	for _, s := range doc.sections {
		if isHeadOfWorkload(s) {
			heads = append(heads, s)
		}
	}
	var found []string
	for i, s := range heads {
		name, ok := d.nameOf(s)
		if !ok && len(heads) == 1 {
			name, ok = defaultWorkload, true
		}
		label := workloadKind + ".#" + strconv.Itoa(i+1)
		if ok && !slices.Contains(found, name) {
			label = dotted(workloadKind, name)
			found = append(found, name)
		}
		if i == len(heads)-1 && name == defaultWorkload && !slices.Contains(found, toolsWorkload) {
			d.addBuiltIn(toolsWorkload)
			found = append(found, toolsWorkload)
		}
		d.given[label] = d.here(s.at)
		d.written = append(d.written, len(d.labels))
		d.labels = append(d.labels, label)
		d.config.Workloads = append(d.config.Workloads, Workload{Name: name})
	}
	for _, name := range []string{toolsWorkload, defaultWorkload} {
		if !slices.Contains(found, name) {
			d.addBuiltIn(name)
		}
	}
}

// addBuiltIn adds a workload that is not in the file.
func (d *decoder) addBuiltIn(name string) {
	d.labels = append(d.labels, dotted(workloadKind, name))
	d.config.Workloads = append(d.config.Workloads, builtInWorkload(name))
}

// isHeadOfWorkload reports whether a section begins a workload.
func isHeadOfWorkload(s section) bool {
	return len(s.path) == 1 && s.path[0] == workloadKind && s.element
}

// nameOf looks for the name of a workload before it is read. What is wrong with it is said
// later.
func (d *decoder) nameOf(s section) (string, bool) {
	for _, e := range s.entries {
		if len(e.path) != 1 || e.path[0] != "name" || e.value.kind != unstable.String {
			continue
		}
		text := e.value.text
		if variable, ok := variable(text); ok {
			text = d.getenv(variable)
		}
		return text, isName(text, 63)
	}
	return "", false
}

// openWorkloads makes the keys of all workloads known.
func (d *decoder) openWorkloads() {
	for i := range d.config.Workloads {
		w := &d.config.Workloads[i]
		d.openSection(d.labels[i], w.fields())
		d.open[d.labels[i]+".match"] = matchFields(&w.Match)
	}
}

// workload checks the head of a workload and of what is in it.
func (d *decoder) workload(s *section) {
	switch {
	case isHeadOfWorkload(*s):
		d.begun++
	case len(s.path) == 1:
		d.complainOnce(s, "there may be several workloads, so each begins with two brackets", "Write [[workload]].")
	case findsLater(workloadKind, s.path[1]):
		d.complainOnce(s, d.label(s.path)+" is "+notYet, "Leave it out.")
	case s.path[1] == "max_wait":
		d.complainOnce(s, "a max_wait for each class is "+notYet, `Write one: max_wait = "2s".`)
	case s.path[1] == "match" && len(s.path) == 2 && d.begun == 0:
		d.complainOnce(s, "there is no workload above it", "Write [[workload]] first.")
	case s.path[1] == "match" && len(s.path) == 2 && s.element:
		d.complainOnce(s, "a workload has one match", "Write [workload.match], or match = { ... }.")
	case s.path[1] == "match" && len(s.path) == 2:
		d.given[d.label(s.path)] = d.here(s.at)
	default:
		d.complainOnce(s, "[[workload]] has no sections within it but [workload.match]", "")
	}
}

// checkWorkloads looks at what workloads are to each other.
func (d *decoder) checkWorkloads() {
	d.checkNames()
	d.checkOrder()
	d.checkPatience()
	d.checkShares()
}

// checkNames sees to it that the workloads of a file can be told apart.
func (d *decoder) checkNames() {
	seen := map[string]bool{}
	for _, i := range d.written {
		w, label := d.config.Workloads[i], d.labels[i]
		key := label + ".name"
		at, given := d.given[key]
		switch {
		case !d.fine(key):
		case !given && len(d.written) > 1:
			d.complainAt(key, d.given[label], "is missing, and there is more than one workload", `Write name = "api".`)
		case seen[w.Name]:
			d.complainAt(key, at, strconv.Quote(w.Name)+" is the name of another workload", "")
		}
		seen[w.Name] = true
	}
}

// checkOrder looks for workloads that no client would ever come to: the first that matches
// is taken.
func (d *decoder) checkOrder() {
	for i, w := range d.config.Workloads {
		label := d.labels[i]
		_, named := d.given[label+".name"]
		switch {
		case !named && !w.BuiltIn && len(d.written) > 1: // which is said already
		case d.hasBad(label) || !d.fine(label+".name"):
		case w.Name == defaultWorkload:
			d.checkDefault(i)
		case w.Match.Everybody():
			d.complainAt(label, d.placeOf(append(d.matchKeys(label), label)...), `takes every client, so nobody would ever come to the workload "default"`,
				`Write match = { role = ["app"] }, or name = "default" if every client is meant.`)
		default:
			d.checkTwin(i)
		}
	}
}

// matchKeys are the full names of a workload's match and of all keys in it.
func (d *decoder) matchKeys(label string) []string {
	keys := []string{label + ".match"}
	for _, f := range matchFields(&Match{}) {
		keys = append(keys, label+".match."+f.Name)
	}
	return keys
}

// checkDefault looks at the workload "default", by its index.
func (d *decoder) checkDefault(i int) {
	if keys := d.matchKeys(d.labels[i]); !d.config.Workloads[i].Match.Everybody() {
		d.complainAt(keys[0], d.placeOf(keys...), `the workload "default" is for all clients that are left, so it cannot choose`, "Give the workload another name, or leave match out.")
	}
	if i+1 < len(d.labels) && !d.config.Workloads[i+1].BuiltIn {
		next := d.labels[i+1]
		d.complainAt(next, d.given[next], `can never be reached: the workload "default" before it takes every client`, "Put it before.")
	}
}

// checkTwin looks for an earlier workload with the same match.
func (d *decoder) checkTwin(i int) {
	for j := range i {
		if d.config.Workloads[j].Match.equal(d.config.Workloads[i].Match) && !d.hasBad(d.labels[j]) {
			d.complainAt(d.labels[i], d.given[d.labels[i]], "can never be reached: "+d.labels[j]+" before it has the same match", "")
			return
		}
	}
}

// hasBad reports whether a part of a workload's match was refused.
func (d *decoder) hasBad(label string) bool {
	return !d.fine(d.matchKeys(label)...) || d.said[label+".match"] || d.bad[label]
}

// checkPatience gives the patient time to wait.
func (d *decoder) checkPatience() {
	for i := range d.config.Workloads {
		w := &d.config.Workloads[i]
		if _, given := d.given[d.labels[i]+".max_wait"]; w.Patient && !given {
			defaults(slices.DeleteFunc(w.fields(), func(f field) bool { return f.Name != "max_wait" }), "")
		}
	}
}

// checkShares gives each workload its part, if they fit into the whole.
func (d *decoder) checkShares() {
	sum, last := Share(0), ""
	var keys, terms []string
	shrinks := func(w *Workload) bool {
		_, given := d.given[dotted(workloadKind, w.Name)+".share"]
		return w.BuiltIn && !given
	}
	for i := range d.config.Workloads {
		w := &d.config.Workloads[i]
		key := d.labels[i] + ".share"
		keys = append(keys, key)
		if w.Share.IsAuto() || shrinks(w) {
			continue
		}
		sum += w.Share
		last = key
		if terms = append(terms, w.Name+" "+w.Share.String()); len(terms) > 8 {
			terms = append(terms[:3], "...")
		}
	}
	switch {
	case !d.fine(keys...):
	case sum > whole:
		d.complainAt(last, d.given[last], "the shares add up to "+sum.String()+": "+strings.Join(terms, " + "), "Make them add up to 100% or less.")
	default:
		d.config.divideShares(shrinks)
	}
}
