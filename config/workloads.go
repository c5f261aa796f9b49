package config

import (
	"slices"
	"strconv"
	"strings"
)

// countWorkloads makes room for all workloads, those of the file and those that are built
// in, and gives each its label.
func (d *decoder) countWorkloads(doc document) {
	heads := doc.heads(workloadKind)
	r := &d.workloads
	for i, s := range heads {
		name, _, ok := d.nameOf(s)
		if !ok && len(heads) == 1 {
			name, ok = defaultWorkload, true
		}
		last := i == len(heads)-1
		if last && name == defaultWorkload && !r.has(defaultWorkload) && !r.has(toolsWorkload) {
			d.addBuiltIn(toolsWorkload)
		}
		d.newLabel(r, name, ok, s.at)
		d.config.Workloads = append(d.config.Workloads, Workload{Name: name})
	}
	for _, name := range []string{toolsWorkload, defaultWorkload} {
		if !r.has(name) {
			d.addBuiltIn(name)
		}
	}
}

// has reports whether there is one of that name.
func (r *repeated) has(name string) bool {
	return slices.Contains(r.labels, dotted(r.kind, name))
}

// addBuiltIn adds a workload that is not in the file.
func (d *decoder) addBuiltIn(name string) {
	d.workloads.labels = append(d.workloads.labels, dotted(workloadKind, name))
	d.config.Workloads = append(d.config.Workloads, builtInWorkload(name))
}

// openWorkloads makes the keys of all workloads known.
func (d *decoder) openWorkloads() {
	for i := range d.config.Workloads {
		w := &d.config.Workloads[i]
		d.openSection(d.workloads.labels[i], w.fields())
		d.open[d.workloads.labels[i]+".match"] = matchFields(&w.Match)
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
	for _, i := range d.workloads.written {
		w, label := d.config.Workloads[i], d.workloads.labels[i]
		key := label + ".name"
		at, given := d.given[key]
		switch {
		case !d.fine(key):
		case !given && len(d.workloads.written) > 1:
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
		label := d.workloads.labels[i]
		_, named := d.given[label+".name"]
		switch {
		case !named && !w.BuiltIn && len(d.workloads.written) > 1: // which is said already
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

// checkDefault looks at the workload "default", by its index.
func (d *decoder) checkDefault(i int) {
	if keys := d.matchKeys(d.workloads.labels[i]); !d.config.Workloads[i].Match.Everybody() {
		d.complainAt(keys[0], d.placeOf(keys...), `the workload "default" is for all clients that are left, so it cannot choose`, "Give the workload another name, or leave match out.")
	}
	if i+1 < len(d.workloads.labels) && !d.config.Workloads[i+1].BuiltIn {
		next := d.workloads.labels[i+1]
		d.complainAt(next, d.given[next], `can never be reached: the workload "default" before it takes every client`, "Put it before.")
	}
}

// checkTwin looks for an earlier workload with the same match.
func (d *decoder) checkTwin(i int) {
	for j := range i {
		if d.config.Workloads[j].Match.equal(d.config.Workloads[i].Match) && !d.hasBad(d.workloads.labels[j]) {
			d.complainAt(d.workloads.labels[i], d.given[d.workloads.labels[i]], "can never be reached: "+d.workloads.labels[j]+" before it has the same match", "")
			return
		}
	}
}

// checkPatience gives the patient time to wait, and each class its own.
func (d *decoder) checkPatience() {
	for i := range d.config.Workloads {
		w := &d.config.Workloads[i]
		usual := Workload{Patient: w.Patient}
		defaults(slices.DeleteFunc(usual.fields(), func(f field) bool { return f.Name != "max_wait" }), "")
		if _, given := d.given[d.workloads.labels[i]+".max_wait"]; !given {
			w.MaxWait = usual.MaxWait
		}
		w.settleWaits(usual.MaxWait)
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
		key := d.workloads.labels[i] + ".share"
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
